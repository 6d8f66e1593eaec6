"""What Elasticsearch refuses: who we are, or what we may do, with the privilege that is missing."""

from __future__ import annotations

import pytest
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import ApiError

from app.search.mappings import unavailable_error
from dashboards.queries.search import sentence
from pipelines.elasticsearch.refusals import describe_refusal

MISSING = (
    "action [indices:admin/index_template/put] is unauthorized for user [kappa] with effective roles [kappa], this action is "
    "granted by the cluster privileges [manage_index_templates,manage,all]"
)


def error(status: int, reason: str) -> ApiError:
    """What the client raises."""
    meta = ApiResponseMeta(status, "1.1", HttpHeaders({}), 0.1, NodeConfig("https", "search", 9200))
    return ApiError("security_exception", meta, {"error": {"type": "security_exception", "reason": reason}})


@pytest.mark.parametrize(
    ("status", "reason", "words", "other"),
    [
        (401, "unable to authenticate user", ["does not know us (401)", "api_key"], "privilege"),
        (
            403,
            MISSING,
            ["does not permit it (403", "one of the cluster privileges manage_index_templates,manage"],
            "password",
        ),
        (403, "no", ["does not permit it (403: no)", "docs/security.md"], "password"),
        (429, "too\nmany", ["answers 429 (too many)"], "privilege"),
    ],
)
def test_wrong_credentials_and_a_missing_privilege_are_told_apart(
    status: int, reason: str, words: list[str], other: str
) -> None:
    found = error(status, reason)
    for line in (describe_refusal(found), str(unavailable_error("put the index templates", "live", found))):
        assert all(word in line for word in words) and other not in line and "\n" not in line


def test_pages_tell_them_apart() -> None:
    assert "does not know us" in sentence(error(401, "no"))
    assert "privileges read and view_index_metadata on kappa-*" in sentence(error(403, MISSING))
