"""What becomes of early alarms: each is settled once, by the log alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_records import value as incident_value

from app.early.early_log import incident_of
from app.early.service import Movement
from app.early.settlement import IncidentSeen, Settlement, patience_ms
from app.kafka.early_records import parse_alarm
from models.core.parameters import DetectorParameters
from models.records.records import EarlyAlarm, early_id
from models.records.schema import plain

WINDOW, PATIENCE = 10_000, 120_000
CPU, OTHER, ELSEWHERE = "gauge/web-1//cpu", "gauge/web-1//memory", "gauge/web-2//cpu"


def alarm(series: str = CPU, window: int = 10) -> EarlyAlarm:
    end = window * WINDOW
    return EarlyAlarm(
        id=early_id(series, end),
        version="live",
        series=series,
        window_end=end,
        status="raised",
        event_time=end - 3_000,
        value=0.97,
        upper=0.9,
        bound_window_end=end - 3 * WINDOW,
    )


def seen(number: int = 1, status: str = "open", window: int = 12, **more: Any) -> IncidentSeen:
    own: dict[str, Any] = {
        "series": frozenset([CPU]),
        "hosts": frozenset(["web-1"]),
        "appended": window * WINDOW + 17_000,
    }
    end = (window - 1) * WINDOW if status == "close" else None
    return IncidentSeen(f"{number:020x}", status, (window - 2) * WINDOW, end, window * WINDOW, **own | more)


def settled(*taken: EarlyAlarm | IncidentSeen | int) -> list[EarlyAlarm]:
    """What is settled of alarms, incidents and windows judged, taken in their order; alarms are appended 2 s before their window ends."""
    own, found = Settlement(PATIENCE), []
    for one in taken:
        if isinstance(one, EarlyAlarm):
            own.take_alarm(one, one.window_end - 2_000)
        elif isinstance(one, IncidentSeen):
            own.take_incident(one)
        else:
            own.take_judged(one * WINDOW)
        found += own.decide()
    return found


def test_an_incident_of_the_series_confirms_and_says_how_much_was_won() -> None:
    (found,) = settled(alarm(), 11, seen())
    assert (found.status, found.incident, found.settled_at) == ("confirmed", seen().id, 11 * WINDOW)
    assert found.seconds_won == (12 * WINDOW + 17_000 - (10 * WINDOW - 2_000)) / 1000
    assert replace(found, status="raised", incident="", seconds_won=float("nan"), settled_at=None).id == alarm().id


def test_an_incident_of_the_series_goes_before_one_of_the_host_and_the_first_of_these_counts() -> None:
    of_host = seen(1, series=frozenset())
    assert settled(of_host, seen(2), alarm())[0].incident == seen(2).id
    later = replace(seen(3, series=frozenset()), appended=of_host.appended + 1)
    assert settled(later, of_host, alarm(OTHER))[0].incident == of_host.id


@pytest.mark.parametrize(
    "incident",
    [
        seen(hosts=frozenset(["web-2"]), series=frozenset([ELSEWHERE])),
        seen(window=9),
        seen(status="close", window=10),
        seen(status="update", window=9),
    ],
    ids=["elsewhere", "before", "over before", "not of that window"],
)
def test_without_an_incident_from_its_window_on_it_is_withdrawn_when_all_is_judged(incident: IncidentSeen) -> None:
    assert settled(incident, alarm(), 21) == []
    (found,) = settled(incident, alarm(), 21, 22)
    assert (found.status, found.incident, found.settled_at) == ("withdrawn", "", 22 * WINDOW)


def test_nothing_is_won_where_the_incident_was_published_first_or_its_beginning_was_not_read() -> None:
    before = seen(status="open", window=5, appended=60_000)
    for first in ([before, seen(status="update")], [seen(status="update")]):
        (found,) = settled(*first, alarm())
        assert found.status == "confirmed" and found.seconds_won != found.seconds_won


def test_what_is_settled_in_the_log_is_not_settled_again() -> None:
    withdrawn = replace(alarm(), status="withdrawn", settled_at=22 * WINDOW)
    assert settled(alarm(), withdrawn, seen(), 40) == []
    assert len(settled(alarm(), alarm(), seen(), seen(2), 40)) == 1


def test_a_series_is_quiet_while_its_alarm_waits_and_while_its_incident_is_open() -> None:
    own = Settlement(PATIENCE)
    own.take_alarm(alarm(), 0)
    own.take_alarm(alarm(ELSEWHERE), 0)
    assert own.quiet == {CPU, ELSEWHERE}
    own.take_incident(seen())
    own.decide()
    assert own.quiet == {CPU, ELSEWHERE}
    own.take_judged(22 * WINDOW)
    own.decide()
    assert own.quiet == {CPU}
    own.take_incident(seen(status="close", window=30))
    assert own.quiet == set()


@given(st.permutations([alarm(), alarm(OTHER), alarm(ELSEWHERE, 11), seen(), seen(2, "update", 13), 15, 30, 60]))
def test_every_alarm_is_settled_exactly_once_in_whatever_order_records_are_read(order: list[Any]) -> None:
    found = settled(*order, 60)
    assert sorted(one.id for one in found) == sorted(one.id for one in order if isinstance(one, EarlyAlarm))
    assert {one.status for one in found} <= {"confirmed", "withdrawn"}


def test_the_time_that_confirmation_takes_follows_from_the_settings() -> None:
    assert patience_ms(DetectorParameters(confirm_seconds=40.0), 10.0) == 240_000
    assert patience_ms(DetectorParameters(confirm_seconds=40.0), 60.0) == 340_000


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"record": "late"},
            {"status": "open"},
            {"series": "cpu"},
            {"series": "gauge/\ud800//cpu"},
            {"window_end": -1},
        ),
        *(
            {"window_end": "x"},
            {"event_time": -1},
            {"event_time": 2**62},
            {"id": None},
            {"id": "a\r\nX: y"},
            {"id": "\u00e9"},
        ),
    ],
)
def test_nothing_is_believed_of_what_is_no_early_alarm(change: dict[str, Any]) -> None:
    good = plain(alarm())
    assert parse_alarm(json.dumps(good).encode()) == parse_alarm(json.dumps(good).encode()) is not None
    assert parse_alarm(json.dumps(good | change).encode()) is None
    assert parse_alarm(None) is parse_alarm(b"[") is parse_alarm(b"[]") is parse_alarm(b"{" + b" " * 100_000) is None


def test_what_matters_of_an_incident_is_read_from_its_record() -> None:
    found = incident_of(incident_value(1), 7)
    assert found is not None and found.hosts == {"web-1"} and found.series == {"gauge/web-1/shop/cpu{zone=a}"}
    assert (found.status, found.appended) == ("open", 7)
    assert incident_of(incident_value(1, hosts=None), 7) is None


def test_the_lane_hangs_where_the_jobs_go_on_and_no_record_flows() -> None:
    own = Movement()
    assert own.moves(0, 0) and own.moves(0, 0), "nothing happens at all: the jobs are away as well"
    assert own.moves(5, 10)
    assert not own.moves(5, 20) and not own.moves(5, 30)
    assert own.moves(6, 30)
