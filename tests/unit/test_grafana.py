"""The dashboard for Grafana: in Grafana's own schema, and it asks only for metrics and fields that there are."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.distribution_programs import program
from support.exposed_metrics import metrics, named

from app.search.mappings import PROPERTIES
from dashboards import grafana
from dashboards.kibana.fields import fields_of
from models.records.records import SEVERITIES

OURS = grafana.dashboard()
PANELS = [panel for panel in OURS["panels"] if panel["type"] != "row"]


def of(source: str) -> list[dict[str, Any]]:
    return [target for panel in PANELS if panel["datasource"]["type"] == source for target in panel["targets"]]


def lost(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """What of a value another one does not have, by its place."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            known = isinstance(theirs, dict) and key in theirs
            yield from lost(value, theirs[key], f"{where}.{key}") if known else [f"{where}.{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {ours!r}, not {theirs!r}"


def through_grafanas_types(value: Any) -> Any:
    """A dashboard read into the types that Grafana Labs generates from its schema, and written again: what they do not know is lost."""
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins", reason="make setup installs it")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    plugins.register_default_plugins()
    return json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(value)))


def test_committed_file_is_what_the_code_makes() -> None:
    assert grafana.FILE.read_text() == grafana.text(), "make docs"


def test_grafanas_own_types_know_every_field_of_it() -> None:
    assert list(lost(OURS, through_grafanas_types(OURS))) == []
    wrong = {**OURS, "panels": [{**PANELS[0], "targest": []}]}
    assert list(lost(wrong, through_grafanas_types(wrong))) == [".panels[0].targest"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in OURS["panels"]}) == len(OURS["panels"])
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in OURS["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < grafana.WIDTH


def test_queries_name_only_metrics_and_labels_that_there_are() -> None:
    known = metrics()
    for target in of(grafana.PROMETHEUS):
        (name,) = named(target["expr"])
        legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        grouped = (
            set(re.findall(r"by \(([^)]*)\)", target["expr"])[0].split(", ")) if "by (" in target["expr"] else set()
        )
        assert name in known and grouped <= known[name] and legend <= grouped, target["expr"]
    asked = {name for target in of(grafana.PROMETHEUS) for name in named(target["expr"])}
    (instance,) = (one for one in OURS["templating"]["list"] if one["type"] == "query")
    assert named(instance["query"]) <= known.keys() and len(asked) >= 12


def test_fields_are_those_of_documents_of_incidents() -> None:
    known = set(fields_of(PROPERTIES["incidents"]))
    for target in of(grafana.ELASTICSEARCH):
        assert {target["timeField"], *(by["field"] for by in target["bucketAggs"])} <= known
    assert set(grafana.INCIDENT_FIELDS) <= known


def test_each_severity_has_a_colour() -> None:
    assert set(grafana.COLOURS) == set(SEVERITIES)
    coloured = [panel for panel in PANELS if panel["fieldConfig"]["overrides"]]
    assert [panel["title"] for panel in coloured] == ["Open incidents", "Incidents that began"]
    for panel in coloured:
        assert [one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]] == list(grafana.COLOURS)


def test_promtool_can_read_every_query() -> None:
    for target in of(grafana.PROMETHEUS):
        expression = target["expr"].replace("$__rate_interval", "5m").replace("$instance", "a")
        rules = {"groups": [{"name": "one", "rules": [{"record": "one:one", "expr": expression}]}]}
        command = [str(program("promtool").path), "check", "rules", "/dev/stdin"]
        done = subprocess.run(command, input=json.dumps(rules), text=True, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, (expression, done.stdout, done.stderr)
