"""The first page on a real Elasticsearch: it shows what was indexed."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk
from streamlit.testing.v1 import AppTest

from app.elasticsearch_schema import drop_version, ensure_templates
from app.stack import Addresses
from dashboards import queries
from dashboards.queries import Overview, Span

pytestmark = pytest.mark.stack

PAGE = Path(__file__).parents[2] / "dashboards" / "overview.py"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Of the page: the tables, in their order.
OPEN, CLOSED, CHANGES, REFUSED = range(4)


# When something began and what was last heard of it, in minutes before.
Ago = tuple[float, float]


class Documents:
    """Documents as `index` writes them, at times before `now`."""

    def __init__(self, client: Elasticsearch, version: str, now: datetime) -> None:
        self.client, self.version, self.now = client, version, now
        self._actions: list[dict[str, Any]] = []

    def at(self, minutes: float) -> datetime:
        """So many minutes ago."""
        return self.now - timedelta(minutes=minutes)

    def add(self, kind: str, minutes: float, document: dict[str, Any]) -> None:
        """A document of this kind that stands under this time."""
        time = self.at(minutes)
        name = f"{kind}-{self.version}-{time:%Y.%m.%d}"
        self._actions.append({"_index": name, "_source": {"@timestamp": time.isoformat(), **document}})

    def score(self, minutes: float) -> None:
        """What a series scored."""
        self.add("scores", minutes, {"host": {"name": "vm-1"}, "novelty": {"version": self.version, "score": 0.5}})

    def statement(self, status: str, kind: str, ago: Ago, score: float, **own: Any) -> dict[str, Any]:
        """What novelties and incidents have in common."""
        start, heard = (self.at(minutes).isoformat() for minutes in ago)
        end = {"end": heard} if status == "close" else {}
        reason = f"{kind} of score {score:g}"
        shared = {"version": self.version, "kind": kind, "status": status, "score": score}
        return {
            "event": {"kind": "alert", "start": start, "reason": reason, **end},
            "novelty": {**shared, "window_end": heard, **own},
        }

    def novelty(self, host: str, kind: str, status: str, ago: Ago, score: float) -> None:
        """An episode of a metric."""
        own = {"series": f"gauge/{host}/web/cpu", "metric": "cpu"}
        said = self.statement(status, kind, ago, score, **own)
        self.add("novelties", ago[0], {"host": {"name": host}, "service": {"name": "web"}, **said})

    def incident(self, hosts: list[str], kind: str, status: str, ago: Ago, score: float) -> None:
        """An incident to which each host contributes a series."""
        shares = [{"series": f"gauge/{host}/web/cpu", "share": 1 / len(hosts)} for host in hosts]
        said = self.statement(status, kind, ago, score, novelties=len(hosts), contributions=shares)
        self.add("incidents", ago[0], {"host": {"name": hosts}, **said})

    def refused(self, dataset: str, reason: str | None, minutes: float, sample: str) -> None:
        """A record that was refused."""
        event = {"kind": "pipeline_error", "dataset": f"kappa.{dataset}"} | ({"reason": reason} if reason else {})
        whence = {"topic": "telemetry", "partition": 1, "offset": 17, "stage": "extract"}
        self.add("pipeline", minutes, {"event": event, "message": sample, "pipeline": whence})

    def write(self) -> None:
        """All of them, searchable at once; the mapping refuses a field that `index` would not write."""
        ensure_templates(self.client, self.version, live=False)
        bulk(self.client, self._actions, refresh=True)


@pytest.fixture
def client(stack: Addresses) -> Iterator[Elasticsearch]:
    """A client as the pages have it."""
    assert stack.elasticsearch is not None
    with queries.Connection(stack.elasticsearch).connect() as found:
        yield found


@pytest.fixture
def version(client: Elasticsearch, unique: str) -> Iterator[str]:
    """A version of the test's own, dropped after it."""
    yield unique
    drop_version(client, unique)


@pytest.fixture
def served(stack: Addresses, version: str, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page of this version, not yet run."""
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", stack.elasticsearch or "")
    monkeypatch.setenv("KAPPA_DASHBOARD_VERSION", version)
    return AppTest.from_file(str(PAGE), default_timeout=60)


def fill(documents: Documents) -> None:
    """Two open incidents, a closed one and one closed long ago; novelties, refused records, a fresh score."""
    documents.score(0)
    documents.incident(["vm-1"], "anomaly", "update", (30, 1), 20.0)
    documents.incident(["vm-2", "vm-3"], "silence", "open", (200, 190), 60.0)
    documents.incident(["vm-1", "vm-4"], "change", "close", (50, 40), 33.0)
    documents.incident(["vm-5"], "anomaly", "close", (300, 290), 99.0)
    documents.novelty("vm-1", "anomaly", "update", (30, 1), 20.0)
    documents.novelty("vm-2", "silence", "open", (200, 190), 60.0)
    documents.novelty("vm-4", "change", "close", (50, 40), 33.0)
    documents.novelty("vm-5", "anomaly", "close", (300, 290), 99.0)
    documents.refused("dead-letters", "not JSON", 20, "an older one")
    documents.refused("dead-letters", "not JSON", 10, "{broken")
    documents.refused("late", None, 5, '{"value": 1}')
    documents.write()


def overview_of(documents: Documents, length: timedelta = HOUR) -> Overview:
    """What the page would read."""
    return queries.overview(documents.client, documents.version, length, documents.now)


def test_page_shows_what_was_indexed(client: Elasticsearch, version: str, served: AppTest) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = served.run()
    assert not test.exception
    assert not test.error
    assert not test.warning
    assert version in test.markdown[0].value
    assert {m.label: m.value for m in test.metric} == {
        "Open incidents": "2",
        "Closed incidents": "1",
        "Novelties": "3",
        "Changes of state": "1",
        "Refused records": "3",
    }
    assert [h.value for h in test.subheader][:2] == ["Open incidents", "Closed incidents"]
    opened = test.dataframe[OPEN].value
    assert [list(hosts) for hosts in opened["hosts"]] == [["vm-2", "vm-3"], ["vm-1"]]
    assert list(opened["series"]) == [2, 1]
    assert list(opened["reason"]) == ["silence of score 60", "anomaly of score 20"]
    assert list(test.dataframe[CLOSED].value["score"]) == [33.0]
    assert list(test.dataframe[CHANGES].value[["host", "what"]].iloc[0]) == ["vm-4", "cpu"]
    refused = test.dataframe[REFUSED].value
    assert refused[["dataset", "reason", "count", "whence", "sample"]].to_numpy().tolist() == [
        ["dead-letters", "not JSON", 2, "telemetry/1/17", "{broken"],
        ["late", "no reason given", 1, "telemetry/1/17", '{"value": 1}'],
    ]
    assert len(test.get("vega_lite_chart")) == 1


def test_longer_range_shows_what_is_longer_ago(client: Elasticsearch, version: str, served: AppTest) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = served.run()
    test.radio(key="range").set_value("6h").run()
    assert not test.exception
    assert list(test.dataframe[CLOSED].value["score"]) == [33.0, 99.0]


def test_version_that_was_never_written_is_explained(served: AppTest) -> None:
    test = served.run()
    assert not test.exception
    assert not test.error
    assert "Nothing has been found" in test.info[0].value
    assert not test.dataframe


def test_version_of_old_events_shows_their_last_hour_and_says_so(
    client: Elasticsearch, version: str, served: AppTest
) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC) - timedelta(days=3)))
    test = served.run()
    assert not test.exception
    assert "3 days old" in test.warning[0].value
    assert list(test.dataframe[CLOSED].value["score"]) == [33.0]


def test_page_goes_on_showing_what_it_knew_when_the_server_goes(
    client: Elasticsearch, version: str, served: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    before = served.run().dataframe[OPEN].value
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", nobody)
    after = served.run()
    assert not after.exception
    assert "does not answer" in after.error[0].value
    assert "what was known at" in after.caption[0].value
    assert after.dataframe[OPEN].value.equals(before)


def test_lanes_are_of_the_hosts_with_the_highest_scores(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    for number in range(25):
        documents.novelty(f"vm-{number:02}", "anomaly", "close", (30, 20), 15.0)
        documents.novelty(f"vm-{number:02}", "anomaly", "close", (20, 10), 20.0 + number)
    documents.write()
    found = overview_of(documents)
    assert found.hosts.names == [f"vm-{number:02}" for number in range(24, 4, -1)]
    assert (found.hosts.novelties, found.hosts.complete, found.novelties.total) == (50, False, 40)
    assert set(found.novelties.rows["host"]) == set(found.hosts.names)


def test_listing_is_bounded_and_knows_how_many_there_are(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    for number in range(queries.MAX_INCIDENTS + 5):
        documents.incident(["vm-1"], "anomaly", "open", (30, 20), 20.0 + number)
    documents.write()
    found = overview_of(documents).open_incidents
    assert (len(found.rows), found.total) == (queries.MAX_INCIDENTS, queries.MAX_INCIDENTS + 5)
    assert found.rows["score"].iloc[0] == 20.0 + queries.MAX_INCIDENTS + 4


def test_only_what_lasts_is_shown_until_it_is_closed(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    for host, kind in (("vm-1", "anomaly"), ("vm-2", "silence"), ("vm-3", "new"), ("vm-4", "change")):
        documents.novelty(host, kind, "open", (500, 490), 20.0)
    documents.write()
    assert set(overview_of(documents).novelties.rows["host"]) == {"vm-1", "vm-2"}


def test_what_is_not_after_the_span_nor_before_it_is_shown_edges_included(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    for host, begins, ends in (
        ("early", 90, 61),
        ("edge", 90, 60),
        ("within", 40, 30),
        ("last", 0, -5),
        ("late", -1, -5),
    ):
        documents.novelty(host, "anomaly", "close", (begins, ends), 20.0)
    documents.write()
    found = queries.strongest_hosts(client, version, Span(NOON - HOUR, NOON))
    assert found.names == ["edge", "last", "within"]


def test_newest_event_is_that_of_the_last_window_of_any_kind(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(5)
    documents.novelty("vm-1", "anomaly", "update", (60, 2), 20.0)
    documents.write()
    assert queries.newest_event(client, version) == NOON - timedelta(minutes=2)


def test_search_that_is_refused_is_a_sentence(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    documents.write()
    with pytest.raises(queries.QueryError, match=r"answered with an error \(400"):
        queries.search(client, [f"scores-{version}"], size=1, query={"no such query": {}})
