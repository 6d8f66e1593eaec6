"""Answers to bulk requests that no Elasticsearch gives: a proxy, or a release to come, may give any."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from support.recording_server import server_that

from pipelines.elasticsearch.bulk import BulkParameters, Elastic, Outcome, send

ONCE = BulkParameters(patience_seconds=0.0)
PRODUCT = {"X_Elastic_Product": "Elasticsearch"}
JSON = "application/vnd.elasticsearch+json; compatible-with=9"


def outcome_of(answer: bytes, content_type: str = JSON) -> Outcome:
    """What becomes of two documents."""
    lines = [b'{"create":{}}\n{"a":1}\n', b'{"create":{}}\n{"a":2}\n']
    batch = pa.RecordBatch.from_pydict(
        {
            "line": pa.array(lines, pa.large_binary()),
            "problem": pa.array([None, None], pa.string()),
            "topic": ["t", "t"],
            "partition": pa.array([0, 0], pa.int32()),
            "offset": [1, 2],
            "timestamp": [3, 3],
        }
    )
    with server_that(200, answer, Content_Type=content_type, **PRODUCT) as (url, _), Elastic(url).connect() as client:
        return send(batch, client, ONCE)


def item(**about: Any) -> dict[str, Any]:
    return {"create": about}


@pytest.mark.parametrize(
    "answer",
    [
        *({}, {"errors": None}, {"errors": True}, {"errors": "no"}, {"errors": True, "items": {}}),
        *({"errors": True, "items": [item(status=201)]}, {"errors": True, "items": [None, 1]}),
        *({"errors": True, "items": [{}, {}]}, {"errors": True, "items": [item(status="201"), item(status=201)]}),
        *({"errors": True, "items": [item(), item()]}, {"errors": True, "items": [item(status=True)] * 2}),
        *([], [1], "text", 1, None),
    ],
    ids=str,
)
def test_what_is_no_answer_settles_nothing_and_is_asked_for_again(answer: Any) -> None:
    found = outcome_of(json.dumps(answer).encode())
    assert (found.written, found.settled, found.refused) == (0, 0, []) and found.unfinished


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000, b'{"errors":' + b"1" * 5_000 + b"}"], ids=len)
@pytest.mark.parametrize("content_type", [JSON, "application/json", "text/html", "application/x-ndjson", "a/b", ""])
def test_garbage_settles_nothing_and_is_asked_for_again(body: bytes, content_type: str) -> None:
    found = outcome_of(body, content_type)
    assert (found.written, found.settled, found.refused) == (0, 0, []) and found.unfinished


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"type": "a", "reason": "b", "caused_by": {"reason": "c"}}, "400 a: b (c)"),
        ({"type": "a", "reason": "b", "caused_by": None}, "400 a: b"),
        ({"type": ["a"], "reason": {"b": 1}, "caused_by": "c"}, "400 ['a']: {'b': 1}"),
        ("words", "400 : words"),
        (None, "400 : "),
    ],
)
def test_an_error_of_any_form_refuses_its_document_alone(error: Any, reason: str) -> None:
    answer = {"errors": True, "items": [item(status=400, error=error), item(status=201)]}
    found = outcome_of(json.dumps(answer).encode())
    assert (found.written, [(one.offset, one.reason) for one in found.refused]) == (1, [(1, reason)])
