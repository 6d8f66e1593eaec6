"""What Kibana would ask, asked of a real Elasticsearch: every panel and every saved search, and what each answers.

Panels are values: what Lens gets and what is queried here come from the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

from app.embedded.stack_state import Addresses
from app.search.mappings import PROPERTIES, drop_version, ensure_templates
from dashboards.kibana import contents
from dashboards.kibana.fields import fields_of
from dashboards.kibana.panels import OverTime, Panel, Search

pytestmark = pytest.mark.stack

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def at(minutes: float) -> datetime:
    """So many minutes before noon."""
    return NOON - timedelta(minutes=minutes)


def episode(kind: str, status: str, minutes: float, score: float, **own: Any) -> dict[str, Any]:
    """What novelties and incidents have in common."""
    start = at(minutes).isoformat()
    fields = {"version": "x", "kind": kind, "status": status, "score": score, "window_end": at(minutes - 1).isoformat()}
    return {
        "@timestamp": start,
        "event": {"kind": "alert", "start": start, "reason": f"{kind} {score:g}"},
        "novelty": {**fields, **own},
    }


def novelty(host: str, kind: str, minutes: float, score: float) -> tuple[str, dict[str, Any]]:
    """An episode of a metric."""
    document = episode(kind, "close", minutes, score, series=f"gauge/{host}/web/cpu", metric="cpu")
    return "novelties", {**document, "host": {"name": host}, "service": {"name": "web"}}


def incident(hosts: list[str], status: str, minutes: float, score: float) -> tuple[str, dict[str, Any]]:
    """An incident of several hosts."""
    return "incidents", {**episode("anomaly", status, minutes, score), "host": {"name": hosts}}


def refused(dataset: str, reason: str, minutes: float, offset: int) -> tuple[str, dict[str, Any]]:
    """A record that was refused."""
    source_position = {"topic": "telemetry", "partition": 1, "offset": offset, "stage": "extract", "length": 7}
    event = {"kind": "pipeline_error", "dataset": f"kappa.{dataset}", "reason": reason}
    return "pipeline", {
        "@timestamp": at(minutes).isoformat(),
        "event": event,
        "message": "{broken",
        "pipeline": source_position,
    }


DOCUMENTS = [
    novelty("vm-1", "anomaly", 10, 20.0),
    novelty("vm-1", "change", 70, 50.0),
    novelty("vm-1", "anomaly", 75, 15.0),
    novelty("vm-2", "anomaly", 12, 30.0),
    novelty("vm-3", "silence", 3 * 1440, 99.0),  # before the day that is looked at
    incident(["vm-1"], "close", 40, 60.0),
    incident(["vm-1", "vm-2"], "update", 30, 40.0),
    incident(["vm-3"], "open", 3 * 1440, 80.0),
    refused("dead-letters", "not JSON", 5, 1),
    refused("dead-letters", "not JSON", 65, 2),
    refused("dead-letters", "no host", 6, 3),
    refused("late", "late by 30 s", 5, 4),
]


@pytest.fixture(scope="module")
def client(stack: Addresses) -> Iterator[Elasticsearch]:
    """A client of the embedded node."""
    with Elasticsearch(stack.elasticsearch or "") as found:
        yield found


@pytest.fixture(scope="module")
def version(client: Elasticsearch) -> Iterator[str]:
    """A version with the documents; the mapping refuses a field that `index` would not write."""
    name = "kibana-queries"
    ensure_templates(client, name, live=False)
    actions = [
        {"_index": f"kappa-{kind}-{name}-{document['@timestamp'][:10].replace('-', '.')}", "_source": document}
        for kind, document in DOCUMENTS
    ]
    bulk(client, actions, refresh=True)
    yield name
    drop_version(client, name)


def asked(client: Elasticsearch, version: str, shown: Panel | Search, since: timedelta = DAY) -> dict[str, Any]:
    """The answer to what is behind a panel or a search."""
    span = NOON - since, NOON
    body = shown.request(*span, interval="1h") if isinstance(shown, Panel) else shown.request(*span, size=100)
    return dict(client.search(index=f"kappa-{shown.kind}-{version}", **body))


def groups(shown: Panel, answer: dict[str, Any]) -> dict[tuple[str, ...], tuple[float, ...]]:
    """The measures of each innermost group by the names of the groups around it; an hour is named `11:00`."""

    def within(aggs: dict[str, Any], level: int, names: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
        for bucket in aggs[shown.group_id(level)]["buckets"]:
            time = isinstance(shown.groups[level], OverTime)
            name = f"{datetime.fromtimestamp(bucket['key'] / 1000, tz=UTC):%H:%M}" if time else bucket["key"]
            if level + 1 < len(shown.groups):
                yield from within(bucket, level + 1, (*names, name))
            else:
                ids = [shown.measure_id(i) for i in range(len(shown.measures))]
                yield (*names, name), tuple(bucket[i]["value"] if i in bucket else bucket["doc_count"] for i in ids)

    return dict(within(answer["aggregations"], 0, ()))


def columns(shown: Search, answer: dict[str, Any]) -> list[list[Any]]:
    """The rows of a table: each field's values."""
    return [[hit["fields"].get(name) for name in shown.columns] for hit in answer["hits"]["hits"]]


PANELS: dict[str, dict[tuple[str, ...], tuple[float, ...]]] = {
    "kappa-swim-lanes": {("vm-1", "10:00"): (50.0,), ("vm-1", "11:00"): (20.0,), ("vm-2", "11:00"): (30.0,)},
    "kappa-score-over-time": {
        ("change", "10:00"): (50.0,),
        ("anomaly", "10:00"): (15.0,),
        ("anomaly", "11:00"): (30.0,),
    },
    "kappa-top-hosts": {("vm-1",): (50.0, 3), ("vm-2",): (30.0, 1)},
    "kappa-dead-letters-by-reason": {
        ("not JSON", "10:00"): (1,),
        ("not JSON", "11:00"): (1,),
        ("no host", "11:00"): (1,),
    },
}


def test_every_panel_and_search_is_asked_here() -> None:
    assert {panel.id for panel in contents.PANELS} == set(PANELS)
    assert {search.id for search in contents.SEARCHES} == set(SEARCHES)


@pytest.mark.parametrize("panel", contents.PANELS, ids=lambda panel: panel.id)
def test_panel_shows_what_was_indexed(client: Elasticsearch, version: str, panel: Panel) -> None:
    found = groups(panel, asked(client, version, panel))
    assert found == PANELS[panel.id]
    # The strangest or the most frequent first: a table and a legend show them in this order.
    outer = list(dict.fromkeys(names[0] for names in found))
    assert outer == list(dict.fromkeys(names[0] for names in PANELS[panel.id]))


SEARCHES: dict[str, list[list[Any]]] = {
    "kappa-open-incidents": [
        [[80.0], ["anomaly"], ["vm-3"], ["anomaly 80"]],
        [[40.0], ["anomaly"], ["vm-1", "vm-2"], ["anomaly 40"]],
    ],
    "kappa-latest-novelties": [
        [["anomaly"], ["close"], [score], [host], ["web"], [f"anomaly {score:g}"]]
        for score, host in ((20.0, "vm-1"), (30.0, "vm-2"))
    ]
    + [
        [["change"], ["close"], [50.0], ["vm-1"], ["web"], ["change 50"]],
        [["anomaly"], ["close"], [15.0], ["vm-1"], ["web"], ["anomaly 15"]],
    ],
    "kappa-changes-of-state": [[["vm-1"], ["web"], ["cpu"], ["change 50"], [50.0]]],
    "kappa-dead-letters": [
        [[reason], ["{broken"], ["telemetry"], [1], [offset], ["extract"]]
        for reason, offset in (("not JSON", 1), ("no host", 3), ("not JSON", 2))
    ],
}


@pytest.mark.parametrize("search", contents.SEARCHES, ids=lambda search: search.id)
def test_search_shows_what_was_indexed(client: Elasticsearch, version: str, search: Search) -> None:
    since = DAY if search.since is None else timedelta(days=int(search.since.removeprefix("now-").removesuffix("d")))
    rows = columns(search, asked(client, version, search, since))
    wanted = SEARCHES[search.id]
    assert [row[: len(wanted[0])] for row in rows] == wanted


@pytest.mark.parametrize("kind", contents.DATA_VIEWS)
def test_server_says_of_each_field_what_the_code_takes_it_for(client: Elasticsearch, version: str, kind: str) -> None:
    """Kibana goes by the server's own list of fields (`_field_caps`), which a data view does not hold."""
    if kind not in {name for name, _ in DOCUMENTS}:
        ensure_templates(client, version, live=False)
        client.indices.create(index=f"kappa-{kind}-{version}-2026.11.21")
    answer = client.field_caps(index=f"kappa-{kind}-{version}", fields="*")["fields"]
    for name, field in fields_of(PROPERTIES[kind]).items():
        (caps,) = answer[name].values()
        found = (caps["type"], caps["searchable"], caps["aggregatable"])
        # The server also groups by what has no index, from its columns: slower, and never asked for here.
        assert found[0] == field.type
        assert found[1] or not field.searchable
        assert found[2] == field.aggregatable
