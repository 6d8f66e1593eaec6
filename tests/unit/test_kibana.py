"""Kibana's saved objects hang together, name only fields that there are, and go to a Kibana in one request."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from email import message_from_bytes
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.recording_server import Asked, server_that
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import PROJECT, ElasticsearchSettings
from app.search import kibana
from app.search.mappings import PROPERTIES
from dashboards.kibana import contents
from dashboards.kibana.fields import fields_of
from dashboards.kibana.saved_objects import ndjson, saved_objects
from models.records.index_names import INDEX_KINDS, alias_of
from pipelines.errors import InputError, ServiceUnavailable

FILE = PROJECT / "dashboards" / "kibana.ndjson"
OBJECTS = saved_objects(PROPERTIES)
# Of the oldest Kibana 9; a newer form would be refused by it.
NEWEST_FORM = {"index-pattern": "8.0.0", "search": "10.5.0", "lens": "8.9.0", "dashboard": "10.2.0"}


def of_type(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["type"] == kind]


def texts_within(value: Any) -> Iterator[tuple[str, Any]]:
    """Whatever is kept as JSON inside an object: Kibana parses it only when a page needs it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str) and (name.endswith("JSON") or name in ("fieldAttrs", "fieldFormatMap", "fields")):
                yield name, json.loads(inner)
            yield from texts_within(inner)


def test_committed_file_is_what_the_code_makes() -> None:
    assert FILE.read_text() == ndjson(PROPERTIES), "kappa kibana export --out dashboards/kibana.ndjson"


def test_export_writes_the_same_to_stdout_and_into_a_file(tmp_path: Path) -> None:
    out = tmp_path / "objects.ndjson"
    assert CliRunner().invoke(app, ["kibana", "export", "--out", str(out)]).exit_code == 0
    assert CliRunner().invoke(app, ["kibana", "export"]).stdout == out.read_text() == FILE.read_text()


def test_every_object_says_a_form_that_every_kibana_9_takes() -> None:
    assert {each["type"] for each in OBJECTS} == set(NEWEST_FORM)
    for each in OBJECTS:
        assert (each["typeMigrationVersion"], each["coreMigrationVersion"]) == (NEWEST_FORM[each["type"]], "8.8.0")
    ids = [(each["type"], each["id"]) for each in OBJECTS]
    assert len(set(ids)) == len(ids)


def test_every_reference_leads_to_an_object_that_stands_before_it() -> None:
    seen: set[tuple[str, str]] = set()
    for each in OBJECTS:
        for reference in each["references"]:
            assert (reference["type"], reference["id"]) in seen, each["id"]
        seen.add((each["type"], each["id"]))


def test_every_name_of_a_reference_is_resolved() -> None:
    for each in OBJECTS:
        names = {reference["name"] for reference in each["references"]}
        inner = dict(texts_within(each["attributes"]))
        if each["type"] == "search":
            assert inner["searchSourceJSON"]["indexRefName"] in names
        if each["type"] == "lens":
            layers = each["attributes"]["state"]["datasourceStates"]["formBased"]["layers"]
            assert names == {f"indexpattern-datasource-layer-{layer}" for layer in layers}
        if each["type"] == "dashboard":
            assert names == {f"{p['panelIndex']}:{p['panelRefName']}" for p in inner["panelsJSON"]}


def test_there_is_a_data_view_for_each_kind_of_documents_under_its_alias() -> None:
    assert {each["attributes"]["title"] for each in of_type("index-pattern")} == {
        alias_of(kind) for kind in INDEX_KINDS
    }


GRID_COLUMNS = 48  # of every dashboard of Kibana


def test_panels_do_not_overlap_and_stay_within_the_dashboard() -> None:
    for place in contents.DASHBOARD:
        assert place.x >= 0
        assert place.x + place.w <= GRID_COLUMNS
    for one, other in combinations(contents.DASHBOARD, 2):
        beside = one.x + one.w <= other.x or other.x + other.w <= one.x
        above = one.y + one.h <= other.y or other.y + other.h <= one.y
        assert beside or above, (one.shown.id, other.shown.id)


def test_everything_that_is_made_can_be_reached_from_the_dashboard_or_is_a_search_of_its_own() -> None:
    shown = {place.shown.id for place in contents.DASHBOARD}
    assert {panel.id for panel in contents.PANELS} <= shown
    assert shown <= {each.id for each in (*contents.PANELS, *contents.SEARCHES)}


@pytest.mark.parametrize("each", of_type("lens"), ids=lambda each: each["id"])
def test_every_accessor_of_a_chart_is_a_column_that_is_asked(each: dict[str, Any]) -> None:
    state = each["attributes"]["state"]
    (layer,) = state["datasourceStates"]["formBased"]["layers"].values()
    assert sorted(layer["columnOrder"]) == sorted(layer["columns"])

    def accessors(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in ("xAccessor", "yAccessor", "valueAccessor", "splitAccessor", "accessor", "columnId"):
                    yield inner
                elif name == "accessors":
                    yield from inner
                else:
                    yield from accessors(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from accessors(inner)

    named = set(accessors(state["visualization"]))
    assert named == set(layer["columns"])
    for column in layer["columns"].values():
        order = column["params"].get("orderBy")
        assert order is None or order["columnId"] in layer["columns"]


def test_every_field_of_a_lens_column_is_in_the_mapping_of_its_data_view_and_can_be_grouped_by() -> None:
    for each in of_type("lens"):
        kind = each["references"][0]["id"].removeprefix("kappa-")
        fields = fields_of(PROPERTIES[kind])
        (layer,) = each["attributes"]["state"]["datasourceStates"]["formBased"]["layers"].values()
        for column in layer["columns"].values():
            if column["operationType"] == "count":
                continue
            field = fields[column["sourceField"]]
            assert field.aggregatable
            assert (field.type == "keyword") == (column["operationType"] == "terms")


@pytest.mark.parametrize(
    ("kind", "field", "instead"),
    [
        ("novelties", "host", None),
        ("novelties", "novelty", {"score": {"type": "text"}}),
        ("novelties", "novelty", {"kind": {"type": "keyword", "doc_values": False}}),
        ("incidents", "novelty", {"status": {"type": "keyword", "index": False}}),
    ],
)
def test_mapping_without_a_field_that_is_shown_is_refused(
    kind: str, field: str, instead: dict[str, Any] | None
) -> None:
    changed = deepcopy(PROPERTIES)
    if instead is None:
        del changed[kind][field]
    else:
        changed[kind][field]["properties"] |= instead
    with pytest.raises(ValueError, match="in the mapping of the documents"):
        ndjson(changed)


# A Kibana cannot be had where tests run: these stand for its answers, and keep what they were asked.


def kibana_that(status: int, answer: Any) -> AbstractContextManager[tuple[str, list[Asked]]]:
    """A server that answers every request so; its address, and what it was asked."""
    return server_that(status, answer if isinstance(answer, bytes) else json.dumps(answer).encode())


TAKEN = {"success": True, "successCount": 2, "successResults": [{"type": "lens"}, {"type": "search"}]}


def test_import_sends_the_file_as_a_form_with_who_asks() -> None:
    own = ElasticsearchSettings(username="elastic", password="päss")  # type: ignore[arg-type]
    with kibana_that(200, TAKEN) as (url, asked):
        made = kibana.put(f"{url}/s/ops/", own)
    assert made == {"url": f"{url}/s/ops", "objects": 2, "by_type": {"lens": 1, "search": 1}}
    ((path, headers, body),) = asked
    assert path == "/s/ops/api/saved_objects/_import?overwrite=true"
    assert headers["kbn-xsrf"]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == "elastic:päss"
    parsed: Any = message_from_bytes(f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body)
    (part,) = parsed.get_payload()
    assert part.get_filename().endswith(".ndjson")  # Kibana refuses a file that is called otherwise
    assert part.get_param("name", header="Content-Disposition") == "file"
    assert part.get_payload(decode=True).decode().strip() == FILE.read_text().strip()


def test_key_wins_over_name_and_password() -> None:
    own = ElasticsearchSettings(username="a", password="b", api_key="c")  # type: ignore[arg-type]
    assert kibana.credentials(own) == {"Authorization": "ApiKey c"}
    assert kibana.credentials(ElasticsearchSettings()) == {}


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, {"message": "unable to authenticate"}, r"answers 401, unable to authenticate: check elasticsearch"),
        (403, {"message": "no"}, "may not write saved objects"),
        (503, b"Kibana server is not ready yet", "not ready yet: it is starting"),
        (500, b"", "500, without a message: see Kibana's log"),
        (200, b"<html>", "is not Kibana"),
        (200, {"hello": 1}, "is not Kibana"),
        (
            200,
            {"success": False, "errors": [{"type": "lens", "id": "x", "error": {"type": "missing_references"}}, {}]},
            r"did not take everything: lens x: missing_references \(and 1 more\)",
        ),
    ],
)
def test_refusal_is_one_line_that_says_what_to_do(status: int, answer: Any, words: str) -> None:
    with kibana_that(status, answer) as (url, _), pytest.raises(ServiceUnavailable, match=words) as caught:
        kibana.put(url, ElasticsearchSettings())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_as_the_password_would_go_there(status: int) -> None:
    own = ElasticsearchSettings(username="elastic", password="secret")  # type: ignore[arg-type]
    with kibana_that(200, TAKEN) as (elsewhere, asked), server_that(status, b"", Location=elsewhere) as (url, _):
        with pytest.raises(ServiceUnavailable, match=rf"answers {status}, it is elsewhere"):
            kibana.put(url, own)
        assert asked == []


def test_nobody_at_the_address_is_one_line() -> None:
    with kibana_that(200, TAKEN) as (url, _):
        pass
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        kibana.put(url, ElasticsearchSettings())


@pytest.mark.parametrize(
    "url",
    ["k:5601", "ftp://kibana", "http://", "http://a:b@kibana:5601", "http://k?x=1", "http://[::1", "http://k:port"],
)
def test_what_is_no_address_is_refused_and_its_password_not_shown(url: str) -> None:
    with pytest.raises(InputError) as caught:
        kibana.put(url, ElasticsearchSettings())
    assert "a:b" not in str(caught.value)
