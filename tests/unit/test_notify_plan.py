"""Which notifications are due for an incident: stories of records, without a clock and without Kafka."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from structlog.testing import capture_logs
from support.incident_records import incident

from app.core.errors import SettingsError
from app.core.notify_settings import NotifySettings
from app.core.settings import load
from app.notify.deliveries import MOST_BYTES, DeliveryHistory, parse_record
from app.notify.escalation import Escalation
from app.notify.incident import LogPlace, ReadIncident
from app.notify.incidents_reader import is_news
from app.notify.links import Links
from app.notify.notification import LONGEST_TEXT, LONGEST_TITLE, incident_notification, neutralize
from app.notify.plan import NotificationPlan
from app.notify.positions import Positions, RecordedPositions
from app.notify.routes import MOST_CHANGES, RoutedChannel, Routes
from app.versions.serving import Serving
from models.records.records import SEVERITIES, DeliveriesUntil, Delivery
from models.records.schema import plain

DAY = 86_400.0
HOOK = {"kind": "webhook", "url": "http://127.0.0.1:1/hook"}


def notify(*routes: dict[str, Any], **more: Any) -> NotifySettings:
    return load(notify={"channels": {"a": HOOK, "b": HOOK}, "routes": list(routes), **more}).notify


def routes(*given: dict[str, Any], **more: Any) -> Routes:
    return Routes(notify(*given, **more))


def notified(plan: NotificationPlan, *incidents: ReadIncident) -> list[tuple[str, str]]:
    return [(step.channel, step.status) for one in incidents for step in plan.steps(one, one.id)]


# --- routes


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ({"kinds": ["silence"]}, "kind is anomaly, wanted silence"),
        ({"severity": "critical"}, "severity is major, wanted critical at least"),
        ({"host": "db-*"}, "no host matches"),
        ({"service": "re:sho"}, "no service matches"),
        ({"labels": {"zone": "b"}}, "no labels.zone matches"),
        ({"labels": {"rack": "*"}}, "no labels.rack matches"),
        ({"days": ["sat"]}, "the time of its last window is outside of since, until, days and hours"),
        ({"hours": "18:00-19:00"}, "the time of its last window is outside of since, until, days and hours"),
        ({"kinds": ["anomaly", "silence"], "severity": "major", "host": "web-?", "service": "shop"}, ""),
        ({"labels": {"zone": "[ab]"}, "days": ["mon"], "hours": "10:00-18:00", "zone": "Europe/Berlin"}, ""),
    ],
)
def test_a_route_matches_where_all_holds_that_it_names(route: dict[str, Any], why: str) -> None:
    monday = int(datetime(2026, 1, 5, 9, 30, tzinfo=UTC).timestamp() * 1000)
    (own,) = routes(route | {"channels": ["a"]}).verdicts(incident(window_end=monday))
    assert own.mismatch == why


def test_the_first_route_counts_or_all_and_without_any_the_default() -> None:
    first, second = {"severity": "major", "channels": ["a"]}, {"host": "web-*", "channels": ["a", "b"], "name": "web"}
    names = [one.channel for one in routes(first, second).routed(incident())]
    both = [(one.channel, one.why) for one in routes(first, second, match="all").routed(incident())]
    assert names == ["a"] and both == [("a", "route 1"), ("b", "route web")]
    assert [one.channel for one in routes(first).routed(incident(severity="info"))] == ["a", "b"]
    assert routes(first, default=[]).routed(incident(severity="info")) == []
    assert routes({"host": "web-*"}).routed(incident()) == [], "a route without channels tells nobody"


def test_routes_name_channels_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"routes\.0\.channels names channel 'c'; there are a, b"):
        notify({"channels": ["c"]})


# --- routes of the log: what is written counts from the window on in which it was appended

WINDOW, NOON = 10_000, 1_767_614_400_000


def written(own: Routes, second: int, name: str, **keys: Any) -> None:
    """Take in a record that was appended so many seconds after noon."""
    since, text = NOON + 1000 * second // WINDOW * WINDOW, json.dumps({"record": "rule", "name": name, **keys})
    own.take([(second, since, name, text)], WINDOW)


def led(own: Routes, second: int, **more: Any) -> list[tuple[str, str]]:
    """Where an incident goes whose last window ends then."""
    return [(one.channel, one.why) for one in own.routed(incident(window_end=NOON + 1000 * second, **more))]


def test_routes_of_the_log_are_in_the_order_of_their_names() -> None:
    own = routes(default=["b"])
    written(own, 0, "20 rest", channels=["b"])
    written(own, 1, "10 shop", service="shop", channels=["a"])
    written(own, 30, "20 rest", channels=["b"], severity="info")
    assert [[one.title for one in own.at(NOON + at)] for at in (10_000, 40_000)] == [
        ["rule 10 shop", "rule 20 rest"]
    ] * 2


def test_a_route_of_the_log_counts_before_those_of_the_settings_from_its_window_on() -> None:
    own = routes({"name": "web", "host": "web-*", "channels": ["a"]})
    written(own, 105, "shop", service="shop", kinds=["anomaly"], channels=["b"])
    written(own, 106, "zz", channels=["a"])
    written(own, 107, "quiet", host="*", mute=True)
    assert (led(own, 100), led(own, 110)) == ([("a", "route web")], [("b", "rule shop")])
    assert led(own, 110, kind="silence") == [("a", "rule zz")]
    written(own, 250, "shop", service="other", channels=["b"])
    written(own, 305, "zz", removed=True)
    assert [led(own, at) for at in (240, 250, 260, 310)] == [
        *([("b", "rule shop")],) * 2,
        *([("a", "rule zz")], [("a", "route web")]),
    ]
    late = own.verdicts(incident(window_end=NOON + 100_000))
    assert [(one.title, one.mismatch[:14]) for one in late] == [("route web", ""), ("rule shop", "it was written")]


def test_a_route_of_the_settings_is_replaced_and_ended_by_its_name() -> None:
    own = routes({"name": "web", "host": "web-*", "channels": ["a"]}, default=["b"])
    written(own, 0, "web", host="db-*", channels=["a"], until="2026-01-05T12:01:00Z")
    assert (led(own, 0), led(own, 10)) == ([("a", "route web")], [("b", "default")])
    written(own, 7200, "other", host="db-*", channels=["a"])
    assert led(own, 7210) == [("b", "default")], "what has ended does not come back"
    written(own, 7300, "web", removed=True)
    assert led(own, 7310) == [("b", "default")]


def test_a_route_of_the_log_holds_at_its_times_alone() -> None:
    own = routes(default=["b"])
    written(own, 0, "night", hours="12:01-12:02", until="2026-01-05T12:01:30Z", channels=["a"])
    found = [led(own, at)[0][0] for at in (50, 70, 80, 90, 100)]
    assert found == ["b", "a", "a", "a", "b"]


def test_a_route_that_names_no_channel_that_there_is_leaves_the_incident_to_the_next() -> None:
    own = routes({"name": "web", "channels": ["a"]})
    with capture_logs() as lines:
        written(own, 0, "gone", channels=["pager"])
    assert [(one["log_level"], one["rule"], one["channel"]) for one in lines] == [("warning", "gone", "pager")]
    (verdict, _) = own.verdicts(incident(window_end=NOON + 10_000))
    assert verdict.mismatch == "the settings have no channel pager" and led(own, 10) == [("a", "route web")]
    written(own, 10, "gone", channels=["pager", "b"])
    assert led(own, 20) == [("b", "rule gone")]
    written(own, 20, "gone", channels=[])
    assert led(own, 30) == [], "a route without channels notifies nobody"


BAD_RECORDS = [
    '{"record":"rule","name":"x","channels":3}',
    "{",
    "[]",
    '{"record":"rule","name":"x","channels":["a"],"mute":true}',
]


def test_hostile_records_change_no_route_and_end_nothing() -> None:
    own = routes()
    written(own, 0, "ours", channels=["a"])
    own.take([(9 + i, NOON, "x", text) for i, text in enumerate(BAD_RECORDS)], WINDOW)
    own.take(
        [
            (100 + i, NOON, f"z{i}", json.dumps({"record": "rule", "name": f"z{i}", "channels": ["b"]}))
            for i in range(2_000)
        ],
        WINDOW,
    )
    assert led(own, 10) == [("a", "rule ours")] and len(own.at(NOON + 10_000)) == 256


def test_changes_are_remembered_up_to_a_bound_and_repeats_are_none() -> None:
    own = routes()
    for i in range(MOST_CHANGES + 50):
        written(own, 10 * i, "ours", channels=["ab"[i % 2]])
        written(own, 10 * i + 1, "ours", channels=["ab"[i % 2]])
    assert len(own._changes) == len(own._since) == MOST_CHANGES
    last = 10 * (MOST_CHANGES + 49)
    assert (led(own, last + 10), led(own, last)) == ([("b", "rule ours")], [("a", "rule ours")])
    assert led(own, 400) == [("a", "default"), ("b", "default")], "what was before is forgotten"


def test_a_route_of_the_log_escalates_to_channels_that_there_are() -> None:
    own = routes()
    assert not own.escalates
    written(own, 0, "ours", channels=["a"], escalate_minutes=5, escalate_to=["pager", "b"])
    one, escalation = incident(window_end=NOON + 10_000), Escalation(own)
    escalation.on_notified("k", one, LogPlace("incidents", 0, 1), "rule ours", 0)
    (due,) = escalation.take_due(300_000)
    assert own.escalates and due.channels == ("b",) and due.why.startswith("rule ours: nobody acknowledged")
    assert own.escalated(one) == [RoutedChannel("b", "rule ours, 5 minutes later unless somebody labels it")]
    assert own.escalated(incident(window_end=NOON)) == [], "before it was written"


# --- what is notified


def test_it_is_told_once_that_an_incident_opens_gets_worse_and_is_over() -> None:
    story = [
        *(incident(1, "open", severity="minor"), incident(1, "open", severity="minor")),
        *(incident(1, "update", severity="minor"), incident(1, "update", severity="critical")),
        *(incident(1, "update", severity="critical"), incident(1, "close"), incident(1, "close"), incident(1)),
    ]
    assert notified(NotificationPlan(routes(default=["a"])), *story) == [("a", "open"), ("a", "update"), ("a", "close")]


def test_who_is_routed_later_is_told_that_it_opens_and_who_was_told_that_it_is_over() -> None:
    plan = NotificationPlan(routes({"severity": "critical", "channels": ["b"]}, default=["a"]))
    assert notified(plan, incident(1)) == [("a", "open")]
    assert set(notified(plan, incident(1, "update", severity="critical"))) == {("a", "update"), ("b", "open")}
    assert set(notified(plan, incident(1, "close", severity="minor"))) == {("a", "close"), ("b", "close")}


def test_people_are_notified_by_what_a_version_publishes_while_it_serves_or_where_it_is_named() -> None:
    served = Serving().then("v2", 1_000)

    def news(version: str, at: int, **more: Any) -> bool:
        return is_news(notify(**more), served, incident(version=version, window_end=at))

    assert [news(version, at) for version in ("live", "v2") for at in (1_000, 1_001)] == [True, False, False, True]
    assert news("live", 1_001, versions=["live"])
    assert not news("v3", 5)


def test_one_of_which_nobody_was_told_is_not_told_when_it_is_over() -> None:
    assert notified(NotificationPlan(routes()), incident(1, "close")) == []


def delivery(status: str, severity: str = "major", **more: Any) -> Delivery:
    fields: dict[str, Any] = {
        "channel": "a",
        "incident": f"{1:024x}",
        "version": "live",
        "outcome": "delivered",
        "at": 1,
    }
    return Delivery(status=status, severity=severity, **fields | more)


@pytest.mark.parametrize(
    ("last", "then"),
    [
        (delivery("open"), []),
        (delivery("open", "minor"), [("a", "update")]),
        (delivery("open", outcome="failed"), [("a", "open")]),
        (delivery("close"), []),
        (delivery("update", "minor", outcome="failed"), [("a", "update")]),
    ],
)
def test_what_an_earlier_process_told_is_known(last: Delivery, then: list[tuple[str, str]]) -> None:
    plan, remembered = NotificationPlan(routes(default=["a"])), DeliveryHistory()
    remembered.add(last)
    plan.remember(remembered.last)
    assert notified(plan, incident(1)) == then


@given(
    st.lists(st.tuples(st.sampled_from(["open", "update", "close"]), st.sampled_from(SEVERITIES)), max_size=20),
    st.integers(0, 20),
)
def test_wherever_a_process_ends_the_story_is_told_without_a_gap_and_without_a_repeat(
    story: list[tuple[str, str]], cut: int
) -> None:
    records = [incident(1, status, severity=severity) for status, severity in story]
    plan, last = plan_of(), DeliveryHistory()
    before = [step for one in records[:cut] for step in note(plan, one, last)]
    again = plan_of()
    again.remember(last.last)
    # It reads what it has read before once more.
    after = [step for one in records for step in note(again, one, last)]
    once = plan_of()
    expected = [step for one in records for step in note(once, one, DeliveryHistory())]
    assert before == expected[: len(before)]
    assert not set(before) & set(after)
    statuses = [status for status, _ in before + after]
    assert statuses.count("open") <= 1 and statuses.count("close") <= 1
    assert [status for status, _ in expected] == [] or statuses[0] == "open"


def plan_of() -> NotificationPlan:
    return NotificationPlan(routes(default=["a"]))


def note(plan: NotificationPlan, one: ReadIncident, last: DeliveryHistory) -> list[tuple[str, str]]:
    """The steps of a record, as deliveries that are recorded."""
    steps = list(plan.steps(one, one.id))
    for step in steps:
        last.add(delivery(step.status, one.severity, channel=step.channel))
    return [(step.status, one.severity) for step in steps]


# --- positions


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True), st.data())
def test_a_position_is_never_behind_what_waits(offsets: list[int], data: st.DataObject) -> None:
    at, positions, waiting = TopicPartition("t", 0), Positions(), defaultdict[int, int](int)
    for offset in sorted(offsets):
        for _ in range(data.draw(st.integers(0, 3))):
            positions.wait_for(LogPlace("t", 0, offset))
            waiting[offset] += 1
        positions.read(at, offset + 1)
        for settled in data.draw(st.lists(st.sampled_from(sorted(waiting)), max_size=3)) if waiting else ():
            if waiting[settled]:
                positions.settle([LogPlace("t", 0, settled)])
                waiting[settled] -= 1
        left = [place for place, count in waiting.items() if count]
        assert positions.until() == {at: min(left, default=offset + 1)}


def test_positions_are_recorded_where_they_change_and_all_of_them_each_day_also_where_restarts_are_more_often() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    own = RecordedPositions({a: 7, b: 3}, DAY)
    assert own.due({}, 0.0) == {}
    assert own.due({a: 7, b: 3}, 1.0) == {a: 7, b: 3}, "at the start"
    assert own.due({a: 7, b: 3}, 1.5) == {a: 7, b: 3}, "they could not be recorded"
    own.written({a: 7, b: 3}, 2.0)
    assert own.due({a: 8, b: 3}, 3.0) == {}, "not at once again"
    assert own.due({a: 8, b: 3}, 7.0) == {a: 8}
    own.written({a: 8}, 7.0)
    assert own.due({a: 8, b: 3}, DAY + 1.0) == {}
    assert own.due({a: 8, b: 3}, DAY + 2.0) == {a: 8, b: 3}


# --- hostile records and texts


@given(st.binary(max_size=300))
def test_any_bytes_are_read(raw: bytes) -> None:
    assert parse_record(raw) is None


def test_bytes_beyond_what_a_record_may_have_are_not_looked_at() -> None:
    assert parse_record(b'{"record": "position", "topic": "t", "partition": 0, "offset": 1}') == DeliveriesUntil(
        topic="t", partition=0, offset=1
    )
    assert (
        parse_record(b" " * MOST_BYTES + b'{"record": "position", "topic": "t", "partition": 0, "offset": 1}') is None
    )


@pytest.mark.parametrize(
    "forged",
    [{"at": -1}, {"at": 2**62}, {"topic": "no topic"}, {"topic": "t" * 250}, {"partition": -1}, {"offset": -1}],
)
def test_a_delivery_that_could_not_be_is_not_believed(forged: dict[str, Any]) -> None:
    sound = plain(delivery("open", topic="incidents"))
    assert parse_record(json.dumps(sound).encode()) == delivery("open", topic="incidents")
    assert parse_record(json.dumps(sound | forged).encode()) is None


HOSTILE = "<!channel> @here *b* [x](http://evil) `c` ~d~ |e| #f <b>\r\nBcc: a@b \u202e\u200b \\"


@given(st.text(max_size=200))
def test_no_text_of_an_incident_can_mean_anything_to_a_channel(text: str) -> None:
    shown = neutralize(text)
    assert not set(shown) & set("@<>`*~|#\\\r\u202e\u200b\x00")
    assert "://" not in shown and "](" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see http://x.y/a", "see http[:]//x.y/a"),
        ("HTTPS://x", "HTTPS[:]//x"),
        ("WWW.x.y/ www.x", "WWW[.]x.y/ www[.]x"),
        ("mailto:a MailTo:b tel:1", "mailto[:]a MailTo[:]b tel[:]1"),
        ("[x](mailto:(a)", "[x] (mailto[:] (a)"),
        ("web-1.example.net:9100: cpu 97 %, 12:30:00, hotel:5", "web-1.example.net:9100: cpu 97 %, 12:30:00, hotel:5"),
    ],
)
def test_an_address_in_a_text_becomes_no_link_and_other_text_is_as_it_was(text: str, shown: str) -> None:
    assert neutralize(text) == shown


def test_a_message_is_bounded_and_has_no_line_that_is_not_ours() -> None:
    hosts = [f"h{n}" + HOSTILE * 5 for n in range(900)]
    one = incident(reason=HOSTILE * 500, hosts=hosts, services=hosts)
    note = incident_notification(one, "open", one.id, Links("https://kappa.example.net/"))
    assert len(note.title) <= LONGEST_TITLE and len(note.text) <= LONGEST_TEXT
    assert "\n" not in note.title and len(note.text.splitlines()) <= 5
    assert note.link == f"https://kappa.example.net/incident?incident={one.id}&version=live"


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as within:
        within.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_times_are_those_of_where_notifications_come_from() -> None:
    begun = int(datetime(2026, 7, 5, 10, tzinfo=UTC).timestamp() * 1000)
    text = incident_notification(incident(start=begun), "open", "k", Links()).text
    assert "since 2026-07-05 12:00:00 CEST" in text.splitlines()
