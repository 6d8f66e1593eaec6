"""Storms, escalations, and whether the chain is well: stories with a clock that is passed in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_records import incident
from support.recording_server import server_that

from app.core.errors import SettingsError
from app.core.settings import load
from app.notify.chain import (
    ALIVE,
    BEHIND,
    LIMITS,
    LOOKS,
    QUARANTINE,
    UNHEALTHY,
    VIOLATION,
    ChainAlerts,
    ChainState,
    ChainVerdict,
)
from app.notify.chain_watch import MOST_BACK, begin_at
from app.notify.escalation import Escalation
from app.notify.incident import LogPlace
from app.notify.incidents_reader import labelled_incident
from app.notify.notification import Notification
from app.notify.routes import Routes
from app.notify.storm import StormFilter
from app.runtime.served_health import health_at
from models.records.records import Delivery

MINUTE = 60_000
PLACE = LogPlace("incidents", 0, 7)


# --- storms


def opens(storm: StormFilter, key: str, severity: str, now: int, ago: int = 0) -> tuple[bool, Notification | None]:
    """An incident opens whose window has ended so long ago."""
    return storm.on_opening(key, severity, now - ago, now)


def test_a_storm_is_one_notification_when_it_begins_and_one_when_it_is_over() -> None:
    storm = StormFilter("chat", 3, 5.0)
    sent = [opens(storm, f"i{n}", "major", n * 1_000) for n in range(6)]
    assert [held for held, _ in sent] == [False, False, False, True, True, True]
    (begins,) = [note for _, note in sent if note is not None]
    assert begins.status == "open" and "More than 3 incidents have opened within 5 minutes" in begins.text
    assert storm.on_follow_up("i4", "close", "major") and not storm.is_held("i4"), "nobody knows that it began"
    assert storm.end_if_over(MINUTE) is None
    assert storm.end_if_over(5 * MINUTE + 4_999) is None, "five minutes after the last of too many"
    over = storm.end_if_over(5 * MINUTE + 5_000)
    assert over is not None and (over.key, over.status) == (begins.key, "close") and "2 major" in over.text
    assert storm.end_if_over(6 * MINUTE) is None
    assert not storm.on_follow_up("i5", "update", "major"), "from now on it may be sent"
    assert opens(storm, "i9", "minor", 20 * MINUTE) == (False, None)


def test_while_a_storm_lasts_nothing_of_what_it_held_is_sent_and_the_rest_is() -> None:
    storm = StormFilter("chat", 1, 5.0)
    assert opens(storm, "a", "major", 0) == (False, None)
    assert opens(storm, "b", "major", 1)[0]
    assert storm.on_follow_up("b", "update", "major")
    assert not storm.on_follow_up("a", "update", "major") and not storm.on_follow_up("a", "close", "major")


def test_critical_incidents_are_sent_in_a_storm_up_to_its_limit() -> None:
    storm = StormFilter("chat", 2, 5.0)
    for key in "ab":
        assert opens(storm, key, "major", 0) == (False, None)
    held, begins = opens(storm, "c", "critical", 1)
    assert not held and begins is not None and "only critical ones" in begins.text
    assert opens(storm, "d", "major", 2) == (True, None)
    assert storm.on_follow_up("d", "update", "major") and not storm.on_follow_up("d", "update", "critical"), (
        "it has become critical"
    )
    assert not storm.is_held("d") and not storm.on_follow_up("d", "close", "critical"), "it was sent, and so is its end"
    assert opens(storm, "e", "critical", 3) == (True, None), "two have been sent"


def test_without_a_limit_there_is_no_storm_and_nothing_is_counted() -> None:
    storm = StormFilter("chat", 0, 5.0)
    assert not any(opens(storm, f"i{n}", "major", n)[0] for n in range(1_000))
    assert not storm._opened


def test_incidents_that_are_read_at_once_after_an_outage_are_no_storm_where_they_opened_one_after_the_other() -> None:
    storm, now = StormFilter("chat", 3, 5.0), 48 * 60 * MINUTE
    assert [opens(storm, f"i{n}", "major", now, ago)[0] for n, ago in enumerate(range(0, 40 * MINUTE, 2 * MINUTE))] == [
        False
    ] * 20


@given(st.permutations([*range(0, 120 * MINUTE, 20 * MINUTE), *range(60 * MINUTE, 60 * MINUTE + 12)]))
def test_a_storm_of_the_past_holds_its_own_incidents_alone_in_whatever_order_they_are_read(ago: list[int]) -> None:
    storm, now = StormFilter("chat", 4, 5.0), 48 * 60 * MINUTE
    held = [one for n, one in enumerate(ago) if opens(storm, f"i{n}", "major", now, one)[0]]
    assert len(held) == 9 and all(60 * MINUTE <= one < 61 * MINUTE for one in held)
    assert storm.end_if_over(now + 5 * MINUTE - 1) is None and storm.end_if_over(now + 5 * MINUTE) is not None


def test_early_alarms_that_were_held_back_before_a_restart_are_no_open_incidents() -> None:
    storm = StormFilter("chat", 2, 5.0)
    held = [delivery("a", "open", 0, "held"), replace(delivery("b", "open", 1, "held", "info"), topic="kappa-early")]
    storm.remember([*held, delivery("storm-chat-2", "open", 2)], 3, "kappa-early")
    over = storm.end_if_over(5 * MINUTE + 3)
    assert over is not None and "still open: 1 major." in over.text


def delivery(key: str, status: str, at: int, outcome: str = "delivered", severity: str = "major") -> Delivery:
    own: dict[str, Any] = {"channel": "chat", "severity": severity, "topic": "incidents"}
    return Delivery(incident=key, status=status, outcome=outcome, at=at, **own)


@pytest.mark.parametrize("since", ["", "x", "\u00b2", "9" * 5_000, "99999999999999", "+1"])
def test_a_storm_since_what_is_no_time_is_none(since: str) -> None:
    storm = StormFilter("chat", 2, 5.0)
    storm.remember([delivery(f"storm-chat-{since}", "open", 2)], 3, "early")
    assert opens(storm, "d", "major", 4) == (False, None)


def test_a_storm_goes_on_after_a_restart() -> None:
    storm = StormFilter("chat", 2, 5.0)
    lines = [delivery("a", "open", 0), delivery("b", "open", 1), delivery("c", "open", 2, "held")]
    storm.remember([*lines, delivery("storm-chat-2", "open", 2)], 3, "early")
    assert storm.key == "storm-chat-2" and storm.is_held("c") and not storm.is_held("a")
    assert opens(storm, "d", "major", 4) == (True, None), "it has begun before"


@pytest.mark.parametrize("restarts", [False, True])
def test_no_more_critical_ones_pass_in_a_storm_where_it_goes_on_after_a_restart(restarts: bool) -> None:
    storm, sent = StormFilter("chat", 2, 5.0), list[Delivery]()
    for now, key in enumerate("abcdefg"):
        if restarts and key == "e":
            storm = StormFilter("chat", 2, 5.0)
            storm.remember([*sent, delivery("storm-chat-2", "open", 2)], now, "early")
        held, _ = opens(storm, key, "critical", now)
        assert held == (key in "efg"), key
        sent.append(delivery(key, "open", now, "held" if held else "delivered", "critical"))


def test_critical_ones_that_were_sent_before_a_storm_do_not_count_in_it_after_a_restart() -> None:
    storm = StormFilter("chat", 2, 5.0)
    before = [delivery(key, "open", now, severity="critical") for now, key in enumerate("abc")]
    storm.remember([*before, delivery("storm-chat-2", "open", 2)], 3, "early")
    assert [opens(storm, key, "critical", 4)[0] for key in "def"] == [False, True, True], (
        "one of the two was sent in it"
    )


@given(st.lists(st.integers(1, 4 * MINUTE), min_size=1, max_size=60))
def test_a_storm_that_begins_ends_and_no_more_notifications_pass_than_the_limit(pauses: list[int]) -> None:
    storm, now, passed, begun, ended = StormFilter("chat", 3, 5.0), 0, list[int](), 0, 0
    for n, pause in enumerate(pauses):
        now += pause
        ended += storm.end_if_over(now) is not None
        held, note = opens(storm, str(n), "major", now)
        begun += note is not None
        if not held:
            passed.append(now)
        assert len([at for at in passed if at > now - 5 * MINUTE]) <= 3
    ended += storm.end_if_over(now + 5 * MINUTE) is not None
    assert begun == ended


@pytest.mark.parametrize("back", [2 * MINUTE, 24 * 60 * MINUTE])
def test_a_storm_before_the_clock_was_set_back_is_over(back: int) -> None:
    storm, begun = StormFilter("chat", 2, 5.0), 48 * 60 * MINUTE
    assert [opens(storm, f"i{n}", "major", begun + n)[0] for n in range(4)] == [False, False, True, True]
    assert storm.end_if_over(begun - back) is not None
    assert storm.on_opening("later", "major", begun + 6 * MINUTE, begun - back) == (False, None)


# --- escalation


def escalation() -> Escalation:
    channels = {name: {"kind": "webhook", "url": "http://127.0.0.1:1"} for name in ("a", "b")}
    route = {"channels": ["a"], "escalate_minutes": 30, "escalate_to": ["b"]}
    return Escalation(Routes(load(notify={"channels": channels, "routes": [route]}).notify))


def test_what_nobody_acknowledges_goes_further_once() -> None:
    own = escalation()
    own.on_notified("k", incident(1), PLACE, "route 1", 0)
    own.on_notified("k", incident(1), PLACE, "route 1", 10 * MINUTE)
    assert own.take_due(30 * MINUTE - 1) == []
    (due,) = own.take_due(30 * MINUTE)
    assert (due.channels, due.key, due.place) == (("b",), "k", PLACE) and "within 30 minutes" in due.why
    assert own.take_due(60 * MINUTE) == []


def test_what_is_escalated_is_the_incident_as_it_is_by_then_at_the_time_that_was_set_first() -> None:
    own, later = escalation(), LogPlace("incidents", 0, 9)
    own.on_notified("k", incident(1, severity="major"), PLACE, "route 1", 0)
    own.update_incident("k", incident(1, "update", severity="critical"), later)
    own.update_incident("other", incident(2), later)
    (due,) = own.take_due(30 * MINUTE)
    assert (due.incident.severity, due.place) == ("critical", later)


def test_what_is_labelled_or_over_or_of_another_route_goes_no_further() -> None:
    own = escalation()
    labelled, over, default, earlier = map(incident, range(1, 5))
    own.on_notified(labelled.id, labelled, PLACE, "route 1", 0)
    own.on_notified(over.id, over, PLACE, "route 1", 0)
    own.on_notified(default.id, default, PLACE, "default", 0)
    own.on_acknowledged(labelled.id)
    own.on_closed(over.id)
    own.on_acknowledged(earlier.id)
    own.on_notified(earlier.id, earlier, PLACE, "route 1", 0)
    assert own.take_due(60 * MINUTE) == []


def test_a_label_answers_the_incident_in_all_versions_before_and_after_it_opens_there() -> None:
    own = escalation()
    one = incident(1)
    own.on_notified(one.id, one, PLACE, "route 1", 0)
    own.on_notified(f"{one.id}-other", incident(1, version="other"), PLACE, "route 1", 0)
    own.on_notified(f"{incident(2).id}-other", incident(2, version="other"), PLACE, "route 1", 0)
    own.on_acknowledged(one.id)
    own.on_notified(f"{one.id}-third", incident(1, version="third"), PLACE, "route 1", 0)
    assert [due.key for due in own.take_due(60 * MINUTE)] == [f"{incident(2).id}-other"]


def test_escalation_needs_a_time_and_a_channel() -> None:
    with pytest.raises(SettingsError, match="escalate_minutes and escalate_to belong together"):
        load(notify={"routes": [{"escalate_minutes": 5}]})


def label_of(**changes: Any) -> bytes:
    return json.dumps({"label": "acknowledged", "incident": "ab", "series": ["gauge/web-1//load"]} | changes).encode()


@pytest.mark.parametrize(
    ("value", "incident_id"),
    [
        (label_of(), "ab"),
        (
            label_of(
                record="label", label="true", series=["host/a", "service/a/", "logs/a//info", "template/a//info/1"]
            ),
            "ab",
        ),
        (label_of().replace(b"label", rb"l\u0061bel"), "ab"),
        (b"\xef\xbb\xbf" + label_of(), "ab"),
        (b'{"record": "heartbeat"}', ""),
        (label_of(label="nonsense"), ""),
        (label_of(incident=7), ""),
        (b'["label"]', ""),
        (b'{"label"', ""),
        (None, ""),
    ],
)
def test_any_label_acknowledges(value: bytes | None, incident_id: str) -> None:
    assert labelled_incident(value) == incident_id


NO_SERIES: tuple[Any, ...] = (
    *([], None, "host/a", {}, [None], [7]),
    *(["host"], ["rule/0/1"], ["host/a\n"], ["host/a"] * 1_001),
)


@pytest.mark.parametrize(
    "value",
    [
        b'{"label": "acknowledged", "incident": "ab"}',
        *(label_of(series=series) for series in NO_SERIES),
        label_of(series=["gauge/a//" + "m" * 2_048]),
        label_of(record="heartbeat"),
        label_of(comment="x" * 262_144),
        label_of()[:-1] + b', "incident": "cd"}',
        label_of(label=["true"]),
        label_of().replace(b"gauge", b"\xff"),
        b'{"label": ' + b"[" * 100_000,
    ],
)
def test_what_extract_refuses_acknowledges_nothing(value: bytes) -> None:
    assert labelled_incident(value) == ""


@pytest.mark.parametrize("back", [2 * MINUTE, 24 * 60 * MINUTE])
def test_an_escalation_waits_no_longer_where_the_clock_is_set_back(back: int) -> None:
    own, begun = escalation(), 48 * 60 * MINUTE
    own.on_notified("k", incident(1), PLACE, "route 1", begun)
    assert own.take_due(begun - 1_000) == []
    assert len(own.take_due(begun - back)) == 1


# --- the chain

JOBS: dict[str, Any] = {"jobs": {"detect": {"healthy": True}}, "quarantined": 0}


def looked(alerts: ChainAlerts, state: ChainState, times: int = LOOKS, now: int = 0) -> set[str]:
    return set(judged(alerts, state, times, now).holds)


def judged(alerts: ChainAlerts, state: ChainState, times: int = LOOKS, now: int = 0) -> ChainVerdict:
    return [alerts.update(state, now) for _ in range(times)][-1]


def test_the_alert_that_all_is_well_holds_only_while_it_is() -> None:
    alerts, well = ChainAlerts(300.0), ChainState(20.0, [JOBS])
    assert looked(alerts, well, LOOKS - 1) == set()
    assert looked(alerts, well, 1) == {ALIVE}
    assert looked(alerts, ChainState(301.0, [JOBS]), 1) == {ALIVE}, "once is not enough"
    assert looked(alerts, ChainState(301.0, [JOBS])) == {BEHIND}
    assert looked(alerts, well) == {ALIVE}
    assert looked(alerts, ChainState(20.0, (), silent=["correlate"])) == {UNHEALTHY}


@pytest.mark.parametrize(
    ("recent", "first", "end", "found"),
    [(70, 3, 90, 70), (None, 3, 90, 3), (None, 3, 50_000, 50_000 - MOST_BACK), (None, 7, 7, 7)],
)
def test_the_last_watermark_is_read_however_old_it_is(recent: int | None, first: int, end: int, found: int) -> None:
    assert begin_at(recent, first, end) == found


def test_nothing_has_passed_before_it_was_looked_for_as_often_as_it_takes_to_hold() -> None:
    alerts, well = ChainAlerts(300.0), ChainState(20.0, [JOBS])
    assert judged(alerts, well, LOOKS - 1) == ChainVerdict({}, frozenset())
    assert judged(alerts, well, 1).passed == {BEHIND, UNHEALTHY, QUARANTINE, LIMITS, VIOLATION}
    assert judged(alerts, ChainState(301.0, [JOBS]), LOOKS - 1).passed == {UNHEALTHY, QUARANTINE, LIMITS, VIOLATION}


@pytest.mark.parametrize("health", [[], [{"jobs": {}, "quarantined": 0, "violations": {"count": 0}}]])
def test_what_the_jobs_alone_know_has_not_passed_while_none_of_them_runs(health: list[dict[str, Any]]) -> None:
    alerts, away = ChainAlerts(300.0), ChainState(20.0, health)
    broken = ChainState(20.0, [JOBS | {"quarantined": 2, "violations": {"count": 1}}])
    assert judged(alerts, away, 2 * LOOKS).passed == {BEHIND, UNHEALTHY, LIMITS}
    assert looked(alerts, broken) == looked(alerts, away, 2 * LOOKS) == {QUARANTINE, VIOLATION}
    assert looked(alerts, ChainState(20.0, [JOBS])) == {ALIVE}


@pytest.mark.parametrize(
    ("health", "found"),
    [
        ({"jobs": {"detect": {"healthy": False}, "index": {"healthy": True}}}, {UNHEALTHY}),
        ({"jobs": {"detect": {}}}, {UNHEALTHY}),
        ({**JOBS, "quarantined": 2}, {QUARANTINE, ALIVE}),
        ({**JOBS, "violations": {"count": 1, "accepted": 0}}, {VIOLATION}),
        ({**JOBS, "violations": {"count": 1, "accepted": 1}}, {ALIVE}),
        ({**JOBS, "quarantined": "x", "limits": 7, "violations": None}, {ALIVE}),
        ({**JOBS, "quarantined": 10**400, "limits": {"left_out": 5}, "violations": {"count": math.nan}}, {ALIVE}),
        ({**JOBS, "quarantined": math.inf, "limits": {"left_out": [[1]]}, "violations": []}, {ALIVE}),
    ],
)
def test_what_the_jobs_say_becomes_alerts(health: dict[str, Any], found: set[str]) -> None:
    assert looked(ChainAlerts(300.0), ChainState(1.0, [health])) == found


def test_an_alert_does_not_speak_of_a_window_that_nobody_has_seen() -> None:
    """Where none is known `behind_seconds` is the age of the process that looks."""
    (text,) = judged(ChainAlerts(300.0), ChainState(7_200.0)).holds.values()
    assert text == "no window of the last 2 h is scored: incidents come late"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jobs":1}', b'{"a":' * 100_000, b"[" * 100_000], ids=len)
def test_what_answers_instead_of_the_jobs_says_nothing(body: bytes) -> None:
    with server_that(200, body) as (address, _):
        assert health_at(address) is None


def test_a_limit_is_an_alert_for_ten_minutes_after_it_left_something_out() -> None:
    alerts = ChainAlerts(300.0)

    def state(count: int) -> ChainState:
        return ChainState(1.0, [JOBS | {"limits": {"left_out": {"metrics": count, "hosts": 1}}}])

    assert looked(alerts, state(5)) == {ALIVE}, "what was left out before is known"
    assert looked(alerts, state(6), now=1_000) == {ALIVE, LIMITS}
    assert looked(alerts, state(6), now=590_000) == {ALIVE, LIMITS}
    assert looked(alerts, state(6), now=700_000) == {ALIVE}
    assert looked(alerts, state(7), now=10**9) == {ALIVE, LIMITS}
    assert looked(alerts, state(7), now=1_000_000) == {ALIVE}, "the clock was set back"
