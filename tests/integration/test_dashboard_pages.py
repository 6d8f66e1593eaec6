"""Every page on a real Elasticsearch: it shows what was indexed."""

import getpass
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaConsumer, KafkaProducer
from streamlit.testing.v1 import AppTest
from support.markdown import CODE_SPAN, HOSTILE, MARKUP, as_read
from support.page_documents import CPU, Documents

from app.core.settings import KafkaSettings, Settings
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.runtime.dashboard import environment
from app.runtime.score_server import serving_scores
from app.search.mappings import drop_version
from dashboards import chrome
from dashboards.queries import (
    Connection,
    QueryError,
    Span,
    judged_until,
    labels,
    logs,
    overview,
    search,
    series,
    versions,
)
from dashboards.queries.overview import Overview
from models.core.series import quote

pytestmark = pytest.mark.stack

PAGE = Path(__file__).parents[2] / "dashboards" / "navigation.py"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Of the overview: the tables, in their order.
CHANGES, CLOSED = range(2)
CODE = "c0de"
ERRORS = "template/vm-1/web/error/00ff"


@pytest.fixture
def client(stack: Addresses) -> Iterator[Elasticsearch]:
    """A client as the pages have it."""
    assert stack.elasticsearch is not None
    with Connection(stack.elasticsearch).connect() as found:
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
    monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", "[]")
    chrome.listed_versions.clear()
    return AppTest.from_file(str(PAGE), default_timeout=60)


@pytest.fixture
def deployed(stack: Addresses, unique: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A deployment with topics of its own, and pages that were started by it."""
    own = Settings(home=tmp_path, version=version, kafka=KafkaSettings(bootstrap_servers=stack.kafka))
    own = own.model_copy(
        update={
            "topics": own.topics.model_copy(update={"prefix": f"{unique}.", "partitions": 1}),
            "elasticsearch": own.elasticsearch.model_copy(update={"url": stack.elasticsearch}),
        }
    )
    topics.create(own)
    for name, text in environment(own, CODE).items():
        if name.startswith("KAPPA_"):
            monkeypatch.setenv(name, text)
    return own


def opened(name: str, **query: str) -> AppTest:
    """A page of the pages, run at an address."""

    def script(first: str) -> None:
        from dashboards.navigation import run

        run(first)

    test = AppTest.from_function(script, default_timeout=60, kwargs={"first": name})
    for key, value in query.items():
        test.query_params[key] = value
    test.run()
    assert not test.exception
    return test


def words(test: AppTest) -> str:
    """All that is written on a page."""
    groups = (test.error, test.warning, test.info, test.success, test.caption, test.markdown, test.subheader)
    return as_read("\n".join(element.value for group in groups for element in group))


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
    return overview.overview(documents.client, documents.version, length, documents.now)


def test_overview_shows_what_was_indexed(client: Elasticsearch, version: str, served: AppTest) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = served.run()
    assert not test.exception
    assert not test.error
    assert not test.warning
    assert {m.label: m.value for m in test.metric} == {
        "Open incidents": "2",
        "Closed incidents": "1",
        "Novelties": "3",
        "Changes of state": "1",
        "Refused records": "3",
    }
    assert test.subheader[0].value == "Open incidents"
    assert links(test) == ["silence of score 60", "anomaly of score 20"]
    assert list(test.dataframe[CLOSED].value["score"]) == [33.0]
    assert list(test.dataframe[CHANGES].value[["host", "what"]].iloc[0]) == ["vm-4", "cpu"]
    assert len(test.get("vega_lite_chart")) == 1


def links(test: AppTest) -> list[str]:
    """What links on a page say."""
    return [as_read(link.proto.label) for link in test.get("page_link")]


@pytest.mark.usefixtures("served")
def test_longer_range_shows_what_is_longer_ago(client: Elasticsearch, version: str) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("overview", range="6h")
    assert list(test.dataframe[CLOSED].value["score"]) == [33.0, 99.0]


@pytest.mark.usefixtures("served")
def test_lanes_can_be_of_services(client: Elasticsearch, version: str) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("overview", lanes="service")
    assert "Novelties by service" in words(test)
    found = overview.overview(client, version, HOUR, datetime.now(tz=UTC), "service")
    assert (found.lanes.names, found.lanes.novelties) == (["web"], 3)


def story(documents: Documents) -> None:
    """An incident with a curve, a message that is new, and one of last week that is like it."""
    for minute in range(120):
        novel: dict[str, Any] = {"kind": "anomaly", "score": 30.0, "value": 9.0} if 10 <= minute < 30 else {}
        documents.score(minute, **novel)
        documents.score(minute, ERRORS, value=float(minute % 3))
    documents.incident(["vm-1"], "anomaly", "update", (30, 10), 30.0, "now", ["cpu", "lost"], omitted=3)
    documents.incident(["vm-1"], "anomaly", "close", (9_000, 8_990), 40.0, "before")
    documents.incident(["vm-7"], "anomaly", "close", (9_000, 8_990), 41.0, "other")
    expected: dict[str, Any] = {"value": 9.0, "typical": 4.0, "lower": 3.0, "upper": 6.0, "unit": "%"}
    documents.novelty("vm-1", "anomaly", "update", (30, 10), 30.0, "cpu", **expected)
    message: dict[str, Any] = {
        "series": ERRORS,
        "metric": None,
        "template": "lost <*> packets",
        "sample": "lost 17 packets",
    }
    documents.novelty("vm-1", "new", "open", (25, 20), 20.0, "lost", **message)
    documents.write()


@pytest.mark.usefixtures("served")
def test_incident_shows_why_and_what_was_like_it(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    story(documents)
    # On the same host and series, at the same time, of another incident: not on the page of this one.
    documents.novelty("vm-1", "anomaly", "update", (28, 12), 29.0, "another")
    other: dict[str, Any] = {"series": "template/vm-1/web/error/11ff", "metric": None, "template": "found <*> packets"}
    documents.novelty("vm-1", "new", "open", (24, 20), 25.0, "other", **other)
    documents.write()
    test = opened("incident", incident="now")
    text = words(test)
    assert "anomaly of score 30" in text
    assert ":red-badge[open]" in text
    assert "**100%** of the evidence" in text
    assert "Seen 9%, expected 3 to 6%, typically 4%" in text
    assert links(test) == ["cpu · vm-1 · web"]
    assert len(test.get("vega_lite_chart")) == 2
    members, messages, similar = (frame.value for frame in test.dataframe)
    assert members[["series", "kind", "score"]].to_numpy().tolist() == [
        ["cpu · vm-1 · web", "anomaly", 30.0],
        ["error template 00ff · vm-1 · web", "new", 20.0],
    ]
    assert "3 more episodes with less evidence" in text
    assert messages[["did", "template", "sample"]].to_numpy().tolist() == [
        ["appeared", "lost <*> packets", "lost 17 packets"]
    ]
    assert similar[["reason", "shared"]].to_numpy().tolist() == [["anomaly of score 40", "1 series, 1 host"]]


@pytest.mark.usefixtures("served")
def test_curves_that_are_drawn_later_stand_under_their_own_series(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    hosts = ["vm-1", "vm-2", "vm-3"]
    for minute in range(30):
        for number, host in enumerate(hosts):
            documents.score(minute, f"gauge/{host}/web/cpu", value=float(10 * number))
    documents.incident(hosts, "anomaly", "update", (30, 10), 30.0, "now")
    documents.write()
    test = opened("incident", incident="now")
    place = {  # a curve stands in a place of its own, the series' name in a column
        host: next(i for i, one in enumerate(shown_of(test)) if host in one and one.startswith("link"))
        for host in hosts
    }
    curves = [i for i, one in enumerate(shown_of(test)) if one == "curve"]
    assert len(curves) == 3
    assert place["vm-1"] < curves[0] < place["vm-2"] < curves[1] < place["vm-3"] < curves[2]


def shown_of(test: AppTest) -> list[str]:
    """Links and charts of the page, from its top to its bottom."""
    found = [one for one in test.main if one.type in ("page_link", "vega_lite_chart")]
    return [f"link {as_read(one.proto.label)}" if one.type == "page_link" else "curve" for one in found]


@pytest.mark.usefixtures("served")
def test_without_indexed_scores_curves_come_from_the_log(
    client: Elasticsearch, version: str, deployed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    documents.incident(["vm-1"], "anomaly", "update", (30, 10), 30.0, "now", ["cpu"])
    documents.novelty("vm-1", "anomaly", "update", (30, 10), 30.0, "cpu")
    documents.write()
    producer = KafkaProducer(bootstrap_servers=deployed.kafka.bootstrap_servers)
    for minute in range(180, -1, -1):
        at = int(documents.at(minute).timestamp() * 1000)
        score = {
            "record": "score",
            "series": CPU,
            "window_end": at,
            "score": 1.0,
            "value": float(minute),
            "kind": "normal",
        }
        producer.send(deployed.topic("scores"), key=CPU.encode(), value=json.dumps(score).encode())
    producer.close()
    with serving_scores(deployed) as scores:
        for name, text in scores.items():
            monkeypatch.setenv(f"KAPPA_DASHBOARD_{name}", text)
        test = opened("incident", incident="now")
        assert "There is no curve" not in words(test)
        assert len(test.get("vega_lite_chart")) == 2
        assert len(opened("series", series=CPU).get("vega_lite_chart")) == 2


@pytest.mark.usefixtures("served")
def test_incident_without_any_scores_says_how_to_have_curves(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    documents.incident(["vm-1"], "anomaly", "update", (30, 10), 30.0, "now", ["cpu"])
    documents.novelty("vm-1", "anomaly", "update", (30, 10), 30.0, "cpu")
    documents.write()
    test = opened("incident", incident="now")
    assert "index.scores = true" in words(test)
    assert len(test.get("vega_lite_chart")) == 1


@pytest.mark.usefixtures("served")
def test_page_incident_lists_what_is_open_where_its_address_names_none(client: Elasticsearch, version: str) -> None:
    empty = words(opened("incident"))
    assert "Nothing has been found" in empty
    assert "No incident is open" not in empty
    fill(Documents(client, version, datetime.now(tz=UTC)))
    assert [link.split(" (")[0] for link in links(opened("incident"))] == ["silence of score 60", "anomaly of score 20"]


@pytest.mark.usefixtures("served")
def test_incident_that_a_version_has_not_is_said(client: Elasticsearch, version: str) -> None:
    story(Documents(client, version, datetime.now(tz=UTC)))
    assert "has no incident `nowhere`" in opened("incident", incident="nowhere").warning[0].value
    assert links(opened("incident")) == ["anomaly of score 30 (vm-1)"]


@pytest.mark.usefixtures("served")
def test_label_is_in_the_log_with_all_that_is_known_of_the_incident(
    client: Elasticsearch, version: str, deployed: Settings
) -> None:
    story(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("incident", incident="now")
    assert not test.radio
    assert "Acknowledging it needs the role responder" in words(test)
    test.text_input[0].set_value(CODE).run()
    test.radio[0].set_value("false-alarm")
    next(box for box in test.text_input if box.label == "Comment").set_value("the backup")
    button = next(b for b in test.button if "Label" in b.label)
    button.click().run()
    assert not test.exception
    assert "It is in the log" in words(test)
    written = first_record(deployed, "labels")
    assert (written["label"], written["incident"], written["version"]) == ("false-alarm", "now", version)
    assert (written["series"], written["host"], written["end"]) == ([CPU, ERRORS], ["vm-1"], None)
    assert (written["comment"], written["author"]) == ("the backup", getpass.getuser())


@pytest.mark.usefixtures("served")
def test_label_of_an_incident_is_about_the_series_of_all_its_episodes(
    client: Elasticsearch, version: str, deployed: Settings
) -> None:
    """More than it shows: else hosts that were taken out together and labelled so would in part stay silent."""
    documents, hosts = Documents(client, version, datetime.now(tz=UTC)), [f"vm-{i}" for i in range(40)]
    for host in hosts:
        about: dict[str, Any] = {"series": f"host/{host}", "metric": None}
        documents.novelty(host, "silence", "open", (20, 1), 30, host, **about)
    documents.incident(hosts[:2], "silence", "open", (20, 1), 30, "wide", hosts, 7)
    documents.write()
    test = opened("incident", incident="wide")
    test.text_input[0].set_value(CODE).run()
    test.radio[0].set_value("expected-change")
    next(b for b in test.button if "Label" in b.label).click().run()
    assert not test.exception
    assert "does not reach the series of 7 episodes" in words(test)
    shown = [f"gauge/{host}/web/cpu" for host in hosts[:2]]
    assert first_record(deployed, "labels")["series"] == [*shown, *(f"host/{host}" for host in hosts)]


def first_record(of: Settings, kind: str) -> dict[str, Any]:
    """The first record of a topic."""
    consumer = KafkaConsumer(
        of.topic(kind),
        bootstrap_servers=of.kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    with closing(consumer):
        found: dict[str, Any] = json.loads(next(consumer).value)
        return found


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("what", ["mute", "maintenance"])
def test_who_mutes_an_incident_or_says_that_it_was_maintenance_has_it(
    client: Elasticsearch, version: str, deployed: Settings, what: str
) -> None:
    story(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("incident", incident="now")
    test.text_input[0].set_value(CODE).run()
    next(box for box in test.text_input if box.form_id == f"{what} now").set_value("a new disk")
    next(b for b in test.button if b.form_id == f"{what} now").click().run()
    assert not test.exception
    assert f"Written: {what} now 1" in words(test) and "You have the incident" in words(test)
    rule, answer = first_record(deployed, "rules"), first_record(deployed, "labels")
    assert (rule["incident"], rule["comment"], rule["author"]) == ("now", "a new disk", getpass.getuser())
    assert (answer["label"], answer["incident"], answer["version"]) == ("acknowledged", "now", version)
    assert (answer["series"], answer["author"]) == ([CPU], getpass.getuser())
    assert answer["comment"] == {"mute": "muted", "maintenance": "in maintenance"}[what] + ": a new disk"


@pytest.mark.usefixtures("served")
def test_who_has_an_incident_is_on_its_page_and_on_the_first_one_and_is_no_judgement(
    client: Elasticsearch, version: str
) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    story(documents)
    mine, month = f"{version}-mine", 30 * 24 * 60  # labels are those of all versions: these are of no other test's time
    documents.incident(["vm-9"], "anomaly", "open", (30, 1), 50.0, mine)
    documents.label(mine, "true", month + 1, "vm-9", (month, month - 1))
    documents.label(mine, "acknowledged", month, "vm-9", (month, month - 1), "muted: a new disk")
    for number in range(6):
        documents.incident([f"vm-{number}"], "anomaly", "open", (50 + number / 2, 1), 20.0, f"storm-{number}")
    documents.write()
    text = words(opened("incident", incident=mine))
    assert re.search(r"\*\*Ada\*\* has it, since \w+ \d+ \w+, [\d:]+: muted: a new disk", text)
    assert "True: this was worth knowing" in text
    first = opened("overview")
    assert "1 acknowledged, 7 not" in words(first)
    assert "Ada has it" in words(first)
    (storm,) = [one.label for one in first.expander if "began within" in one.label]
    assert "**6 incidents** began within 2 min" in storm


@pytest.mark.usefixtures("served")
def test_last_word_on_an_incident_is_on_its_page_however_long_ago(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    story(documents)
    month = 30 * 24 * 60
    documents.label("now", "true", month + 1, "vm-1", (month, None))
    documents.label("now", "false-alarm", month, "vm-1", (month, None), "the backup")
    documents.label("before", "expected-change", month, "vm-1", (month, month - 5))
    documents.write()
    test = opened("incident", incident="now")
    assert "False alarm: nothing was wrong or new**, says Ada" in words(test)
    assert "the backup" in words(test)
    assert "Nobody has labelled" not in words(test)
    assert "Nobody has acknowledged" not in words(test)
    first = words(opened("overview"))
    assert "Ada: false alarm" in first
    assert "0 acknowledged, 1 labelled" in first
    (similar,) = [frame.value for frame in test.dataframe if "label" in frame.value]
    assert "expected-change" in list(similar["label"])


@pytest.mark.usefixtures("served")
def test_who_was_notified_of_an_incident_is_on_its_page(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    story(documents)
    documents.write()
    assert "Who was notified" not in words(opened("incident", incident="now"))
    documents.delivery("now", "open", 5.0)
    documents.delivery("now", "update", 3.0, "failed", "403 <b>no</b>")
    documents.delivery("before", "open", 3.0)
    documents.write()
    test = opened("incident", incident="now")
    assert "Who was notified" in words(test)
    (shown,) = [frame.value for frame in test.dataframe if "channel" in frame.value]
    assert [list(row) for row in shown[["channel", "status", "outcome", "answer"]].to_numpy()] == [
        ["ops", "new", "delivered", "200"],
        ["ops", "worse", "failed", "403 <b>no</b>"],
    ]
    assert "version" not in shown


@pytest.mark.usefixtures("served")
def test_notifications_of_an_incident_that_went_on_in_another_version_say_of_which_they_are(
    client: Elasticsearch, version: str
) -> None:
    documents, identity = Documents(client, version, datetime.now(tz=UTC)), f"{version}-1"
    documents.score(0)
    documents.incident(["vm-1"], "anomaly", "update", (30, 1), 30.0, identity)
    documents.delivery(identity, "open", 9.0, version="before")  # it served then
    documents.delivery(identity, "update", 5.0)
    documents.delivery(f"{identity}-{version}", "close", 3.0)  # another one served by then, so its key names it
    documents.delivery(f"{identity}-third", "open", 2.0, version="third")
    documents.early(CPU, "confirmed", 31.0, incident=identity, seconds_won=27.4, version="before")
    documents.write()
    test = opened("incident", incident=identity)
    (shown,) = [frame.value for frame in test.dataframe if "channel" in frame.value]
    assert [list(row) for row in shown[["version", "status"]].to_numpy()] == [
        ["before", "new"],
        [version, "worse"],
        [version, "over"],
    ]
    assert "First seen early** in version `before`: " in words(test)


@pytest.mark.usefixtures("served")
def test_early_alarms_are_provisional_and_an_incident_says_when_it_was_first_seen(
    client: Elasticsearch, version: str
) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    story(documents)
    documents.write()
    assert "Early alarms" not in words(opened("overview")) and "First seen early" not in words(
        opened("incident", incident="now")
    )
    identity = f"now-{version}"
    documents.incident(["vm-1"], "anomaly", "open", (5.0, 1.0), 20.0, identity=identity)
    documents.early(CPU, "raised", 0.5)
    documents.early(CPU, "confirmed", 6.0, incident=identity, seconds_won=27.4)
    documents.early(CPU, "withdrawn", 20.0)
    documents.write()
    shown = words(opened("overview"))
    assert (
        "1 alarm raised in the last 1 h and not settled yet. Of 2 raised and settled in that time" in shown
        and "50% were confirmed, a median of 27 s before" in shown
    )
    assert ":orange-badge[provisional]" in shown and "0.97, above 0.9" in shown
    assert "27 s before this incident: cpu" in words(opened("incident", incident=identity))


@pytest.mark.usefixtures("served")
def test_series_has_its_curve_and_what_was_said_of_it(client: Elasticsearch, version: str) -> None:
    story(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("series", series=CPU)
    assert "cpu · vm-1 · web" in words(test)
    assert len(test.get("vega_lite_chart")) == 2
    rows = test.dataframe[0].value
    assert list(rows["how"]) == ["seen 9%, expected 3 to 6%, typically 4%"]
    assert rows["until"].isna().all(), "it is open"
    assert list(opened("series").dataframe[0].value["series"]) == [CPU, ERRORS]


def test_points_are_windows_and_of_a_long_span_their_means_and_extremes(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    for minute in range(120):
        documents.score(minute, value=float(minute), score=float(minute), kind="change" if minute == 7 else "normal")
    documents.write()
    short = series.points(client, version, [CPU, "gauge/vm-9/web/cpu"], Span(NOON - timedelta(minutes=9), NOON))
    assert list(short) == [CPU]
    assert list(short[CPU]["value"]) == [float(minute) for minute in range(9, -1, -1)]
    assert list(short[CPU]["kind"]).count("change") == 1
    assert short[CPU]["time"].iloc[-1] == NOON
    long = series.points(client, version, [CPU], Span(NOON - timedelta(days=30), NOON))[CPU]
    assert len(long) < 5
    assert (long["least"].min(), long["most"].max(), long["score"].max()) == (0.0, 119.0, 119.0)
    assert "change" in set(long["kind"])


def test_series_are_found_by_words_whatever_their_case(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    for number in range(60):
        documents.score(1, f"gauge/vm-{number}/web/cpu*", score=float(number))
    documents.novelty("vm-1", "anomaly", "open", (5, 4), 50.0)
    documents.write()
    span = Span(NOON - HOUR, NOON)
    found = series.matching(client, version, "WEB vm-59", span)
    assert list(found.rows["series"]) == ["gauge/vm-59/web/cpu*"]
    assert len(series.matching(client, version, "cpu", span).rows) == series.MAX_MATCHES
    assert len(series.matching(client, version, "u*", span).rows) == series.MAX_MATCHES
    assert series.matching(client, version, "c?u", span).total == 0
    assert list(series.matching(client, version, "", span).rows["series"]) == [CPU]


def test_a_series_is_found_by_what_began_before_the_span_and_goes_on(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(180, "gauge/vm-2/web/cpu", kind="anomaly", score=30.0)
    documents.novelty("vm-1", "anomaly", "open", (180, 170), 50.0)
    documents.novelty("vm-3", "anomaly", "close", (180, 170), 50.0)
    documents.write()
    span = Span(NOON - HOUR, NOON)
    assert list(series.matching(client, version, "", span).rows["series"]) == [CPU]
    assert list(series.matching(client, version, "cpu", span).rows["series"]) == [CPU]


@pytest.mark.usefixtures("served")
def test_logs_show_new_messages_first_and_how_often_they_come(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    frequent: dict[str, Any] = {"series": "template/vm-2/web/error/0a", "metric": None, "template": "frequent <*>"}
    documents.novelty("vm-2", "anomaly", "close", (30, 20), 90.0, **frequent)
    story(documents)
    test = opened("logs")
    text, rates = (frame.value for frame in test.dataframe)
    assert text[["kind", "template"]].to_numpy().tolist() == [["new", "lost <*> packets"], ["anomaly", "frequent <*>"]]
    assert rates[["text", "share", "most"]].to_numpy().tolist() == [["lost <*> packets", 1.0, 2.0]]
    assert len(rates["rate"].iloc[0]) >= 40
    assert max(rates["rate"].iloc[0]) == 2.0


def test_rates_of_messages_end_with_the_newest_line_and_not_in_a_fall_to_nothing(
    client: Elasticsearch, version: str
) -> None:
    documents = Documents(client, version, NOON)
    for minute in range(10, 60):
        documents.score(minute, ERRORS, value=2.0)
        documents.score(minute if minute > 30 else 30, ERRORS + "00", value=1.0)
    documents.write()
    found = logs.rates(client, version, Span(NOON - HOUR, NOON)).rows
    lasting, ended = found["rate"]
    assert 30 <= len(lasting) == len(ended) <= 36
    assert lasting[-1] == lasting[1] == 2.0
    assert ended[-1] == 0.0


@pytest.mark.usefixtures("served")
def test_pipeline_shows_what_was_refused_with_a_sample(client: Elasticsearch, version: str) -> None:
    fill(Documents(client, version, datetime.now(tz=UTC)))
    test = opened("pipeline")
    assert test.dataframe[0].value[["dataset", "reason", "count", "source_position", "sample"]].to_numpy().tolist() == [
        ["dead-letters", "not JSON", 2, "telemetry/1/17", "{broken"],
        ["late", "no reason given", 1, "telemetry/1/17", '{"value": 1}'],
    ]
    assert "dashboard.jobs" in words(test)
    assert "most frequent" not in words(test)


@pytest.mark.usefixtures("served")
def test_refused_records_are_all_counted_though_only_the_most_frequent_reasons_are_listed(
    client: Elasticsearch, version: str
) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    documents.score(0)
    for number in range(15):
        for _ in range(1 + (number < 3)):
            documents.refused("dead-letters", f"unknown {chr(ord('a') + number)}", 5, "{}")
    documents.refused("late", "late by 30 s", 5, "{}")
    documents.write()
    test = opened("pipeline")
    shown = test.dataframe[0].value
    assert list(shown["count"]) == [2, 2, 2, *[1] * 7, 1]
    assert "**1** too late · **18** unreadable" in words(test)
    assert "These are the most frequent reasons: those of 14 of 19 records." in words(test)


@pytest.mark.usefixtures("served")
def test_new_messages_are_all_counted_though_only_the_first_ones_are_listed(
    client: Elasticsearch, version: str
) -> None:
    documents = Documents(client, version, datetime.now(tz=UTC))
    documents.score(0)
    for number in range(logs.MAX_TEMPLATES + 7):
        own: dict[str, Any] = {
            "series": f"template/vm-1/web/error/{number:02x}",
            "metric": None,
            "template": f"t{number}",
        }
        documents.novelty("vm-1", "new", "close", (30, 20), 20.0, **own)
    rate: dict[str, Any] = {"series": "template/vm-2/web/error/ffff", "metric": None, "template": "frequent"}
    documents.novelty("vm-2", "anomaly", "close", (30, 20), 20.0, **rate)
    documents.write()
    test = opened("logs")
    assert len(test.dataframe[0].value) == logs.MAX_TEMPLATES
    assert f"{logs.MAX_TEMPLATES + 7} new messages, {logs.MAX_TEMPLATES + 8} in all" in words(test)


@pytest.mark.usefixtures("served")
def test_versions_show_what_only_one_has(client: Elasticsearch, version: str, unique: str) -> None:
    other, now = f"{unique}-b", datetime.now(tz=UTC)
    left, right = Documents(client, version, now), Documents(client, other, now)
    try:
        for documents in (left, right):
            documents.score(0)
            documents.incident([f"{unique}-1"], "anomaly", "close", (30, 20), 30.0, "both")
            documents.novelty("vm-1", "anomaly", "close", (30, 20), 30.0, "shared")
        left.novelty("vm-2", "new", "close", (20, 19), 15.0, "left")
        right.novelty("vm-3", "silence", "close", (10, 9), 16.0, "right")
        right.incident([f"{unique}-3"], "silence", "close", (10, 9), 16.0, "false")
        left.label("both", "true", 15, f"{unique}-1", (30, 20))
        left.label("false", "false-alarm", 5, f"{unique}-3", (10, 9))
        left.write()
        right.write()
        test = opened("versions", **{"with": other})
        assert {as_read(m.label): m.value for m in test.metric} == {
            "In both": "1",
            "Of another kind": "0",
            f"Only {version}": "1",
            f"Only {other}": "1",
        }
        mine, theirs, judged = (frame.value for frame in test.dataframe)
        assert (list(mine["host"]), list(theirs["host"])) == (["vm-2"], ["vm-3"])
        assert judged.to_numpy().tolist() == [
            [version, "1 of 1", "100%", "0 of 1"],
            [other, "1 of 1", "100%", "1 of 1"],
        ]
    finally:
        drop_version(client, other)


def test_versions_are_listed_by_their_aliases(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    documents.write()
    assert version in search.indexed_versions(client)


def test_what_is_cut_is_not_called_a_difference(client: Elasticsearch, version: str, unique: str) -> None:
    other = f"{unique}-b"
    left, right = Documents(client, version, NOON), Documents(client, other, NOON)
    try:
        for number in range(40):
            left.novelty("vm-1", "anomaly", "close", (50 - number, 1), 20.0, f"n{number}")
            if number < 39:
                right.novelty("vm-1", "anomaly", "close", (50 - number, 1), 20.0, f"n{number}")
        left.write()
        right.write()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(versions, "MAX_COMPARED", 10)
            found = versions.compare(client, version, other, HOUR, NOON)
        assert (list(found.only_left["id"]), list(found.only_right["id"])) == (["n39"], [])
        assert (found.both, found.compared_after) == (8, NOON - timedelta(minutes=20))
    finally:
        drop_version(client, other)


def test_of_novelties_that_begin_together_none_is_called_a_difference_where_a_listing_is_cut_among_them(
    client: Elasticsearch, version: str, unique: str
) -> None:
    other = f"{unique}-b"
    left, right = Documents(client, version, NOON), Documents(client, other, NOON)
    try:
        for documents, order in ((left, 1), (right, -1)):
            for number in range(20)[::order]:
                documents.novelty("vm-1", "anomaly", "close", (30, 1), 20.0, f"together{number}")
            documents.novelty("vm-1", "anomaly", "close", (10, 1), 20.0, "later")
        left.write()
        right.write()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(versions, "MAX_COMPARED", 10)
            found = versions.compare(client, version, other, HOUR, NOON)
        assert (list(found.only_left["id"]), list(found.only_right["id"])) == ([], [])
        assert (found.both, found.compared_after) == (1, NOON - timedelta(minutes=30))
    finally:
        drop_version(client, other)


@pytest.mark.usefixtures("served")
def test_labels_are_counted_only_where_all_incidents_are_known_and_the_page_says_since_when(
    client: Elasticsearch, version: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, host = f"{unique}-b", f"{unique}-1"
    # Labels are those of all versions: these are of no other test's time.
    now = datetime.now(tz=UTC).replace(microsecond=0) - timedelta(days=40)
    left, right = Documents(client, version, now), Documents(client, other, now)
    try:
        for documents in (left, right):
            documents.score(0)
            documents.novelty(host, "anomaly", "close", (5, 4), 20.0, "shared")
        left.incident([host], "anomaly", "close", (50, 20), 30.0, "lasting")
        for number in range(10):
            left.incident([host], "anomaly", "close", (15 - number, 14 - number), 30.0, f"short{number}")
        right.incident([host], "anomaly", "close", (50, 20), 30.0, "lasting")
        for identity, ago in (("early", (40, 38)), ("within", (25, 22)), ("last", (8, 7))):
            left.label(f"{unique}-{identity}", "true", 1, host, ago)
        left.write()
        right.write()
        assert judged_by_labels(other) == [[version, "3 of 3", "100%", "0 of 0"], [other, "2 of 3", "67%", "0 of 0"]]
        monkeypatch.setattr(versions, "MAX_INCIDENTS", 5)
        assert judged_by_labels(other) == [[version, "1 of 1", "100%", "0 of 0"], [other, "0 of 1", "0%", "0 of 0"]]
        text = words(opened("versions", **{"with": other}))
        assert "labels are those of incidents that began after" in text
        assert "too many labels" not in text
        monkeypatch.setattr(labels, "MAX_LABELS", 2)
        assert "counted are those that were given last" in words(opened("versions", **{"with": other}))
    finally:
        drop_version(client, other)


def judged_by_labels(other: str) -> list[list[Any]]:
    """The last table of the page that compares with this version."""
    rows: list[list[Any]] = opened("versions", **{"with": other}).dataframe[-1].value.to_numpy().tolist()
    return rows


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
    before = links(served.run())
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", nobody)
    after = served.run()
    assert not after.exception
    assert "does not answer" in after.error[0].value
    assert "what was known at" in words(after)
    assert links(after) == before


def test_lanes_are_of_the_hosts_with_the_highest_scores(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    for number in range(25):
        documents.novelty(f"vm-{number:02}", "anomaly", "close", (30, 20), 15.0)
        documents.novelty(f"vm-{number:02}", "anomaly", "close", (20, 10), 20.0 + number)
    documents.write()
    found = overview_of(documents)
    assert found.lanes.names == [f"vm-{number:02}" for number in range(24, 4, -1)]
    assert (found.lanes.novelties, found.lanes.complete, found.novelties.total) == (50, False, 40)
    assert set(found.novelties.rows["host"]) == set(found.lanes.names)


def test_listing_is_bounded_and_knows_how_many_there_are(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    for number in range(overview.MAX_INCIDENTS + 5):
        documents.incident(["vm-1"], "anomaly", "open", (30, 20), 20.0 + number)
    documents.write()
    found = overview_of(documents).open_incidents
    assert (len(found.rows), found.total) == (overview.MAX_INCIDENTS, overview.MAX_INCIDENTS + 5)
    assert found.rows["score"].iloc[0] == 20.0 + overview.MAX_INCIDENTS + 4


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
    found = overview.strongest(client, version, Span(NOON - HOUR, NOON))
    assert found.names == ["edge", "last", "within"]


def test_newest_event_is_that_of_the_last_window_of_any_kind(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(5)
    documents.novelty("vm-1", "anomaly", "update", (60, 2), 20.0)
    documents.write()
    assert judged_until(client, version) == NOON - timedelta(minutes=2)


def test_search_that_is_refused_is_a_sentence(client: Elasticsearch, version: str) -> None:
    documents = Documents(client, version, NOON)
    documents.score(0)
    documents.write()
    with pytest.raises(QueryError, match=r"answered with an error \(400"):
        search.search(client, [f"kappa-scores-{version}"], size=1, query={"no such query": {}})


def hostile_story(documents: Documents, text: str) -> None:
    """An open and a closed incident, novelties, a label and a refused record, all of whose texts are this one."""
    series = f"gauge/{quote(text)}/{quote(text)}/{quote(text)}"
    line = f"template/{quote(text)}/{quote(text)}/{quote(text)}/00ff"
    documents.score(0, series)
    for status, identity in (("update", "open"), ("close", "closed")):
        documents.incident([text, text], "anomaly", status, (30, 1), 20.0, identity, episodes=["e1"])
    texts = {"metric": text, "unit": text, "part": text, "value": 9.0, "lower": 1.0, "upper": 2.0, "certainty": 0.9}
    documents.novelty(text, "anomaly", "update", (30, 1), 20.0, "e1", series=series, **texts)
    documents.novelty(text, "new", "open", (20, 1), 30.0, "e2", series=line, template=text, sample=text)
    documents.novelty(text, "change", "close", (20, 1), 30.0, "e3", series=series, before=1.0, after=2.0, **texts)
    documents.refused("dead-letters", text, 5, text)
    documents.label("open", text, 3, text, (30, None), comment=text)
    documents.write()


def read_as_markdown(test: AppTest) -> list[str]:
    """Every text of a page that Streamlit reads as Markdown."""
    groups: list[Any] = [
        *(
            test.error,
            test.warning,
            test.info,
            test.success,
            test.caption,
            test.markdown,
            test.subheader,
            test.header,
            test.title,
        )
    ]
    found = [element.value for group in groups for element in group]
    found += [element.label for group in (test.metric, test.button, test.expander, test.radio) for element in group]
    return [*found, *(element.proto.label for element in test.get("page_link"))]


@pytest.mark.usefixtures("served")
def test_text_from_outside_is_shown_as_text_on_every_page(client: Elasticsearch, version: str) -> None:
    text = " ".join(HOSTILE)
    documents = Documents(client, version, datetime.now(tz=UTC), reason=text)
    hostile_story(documents, text)
    shown = {
        "overview": opened("overview"),
        "incident": opened("incident", incident="open"),
        "no incident": opened("incident", incident=text),
        "series": opened("series", series=f"gauge/{quote(text)}/{quote(text)}/{quote(text)}"),
        "no series": opened("series", series=text),
        "no version": opened("overview", version=text),
        "logs": opened("logs"),
        "pipeline": opened("pipeline"),
    }
    for page, test in shown.items():
        for written in read_as_markdown(test):
            assert not MARKUP.search(CODE_SPAN.sub("", written)), (page, written)
    for page in ("overview", "incident", "no incident", "series", "no series"):
        assert "evil-1 :red[evil]" in as_read("".join(read_as_markdown(shown[page]))), page
