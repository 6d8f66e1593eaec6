"""Hosts and logs that are away at the same hours each day are no news then, and are news at any other time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
from support.fleet_story import START, DetectorRun, Row

from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.detection.usual_hours import WEEK_HOURS, usually_away
from models.records.records import EpisodeEvent

P = DetectorParameters(window_seconds=300)
HOUR_MS = 3_600_000
At = Callable[[int, float], bool]  # whether something is there, by day and hour of the day


def week(at: At, days: int = 7, hour: int = 0) -> bool:
    """Whether something is usually away at an hour of the day after so many days, the first of which is a Monday."""
    rng = range(24 * days + hour - WEEK_HOURS, 24 * days + hour)
    grid = np.array([[past >= 0 and not at(past // 24, past % 24)] for past in rng])
    return bool(usually_away(grid, np.array([24.0 * days + hour]))[0])


def office(day: int, hour: float) -> bool:
    return day % 7 < 5 and 8 <= hour < 18


def fleet(days: int, on: Mapping[str, At], logs: Mapping[str, At] | None = None) -> Iterator[Mapping[str, Row]]:
    """Windows of hosts that are there at some times, and of logs that have lines at some times."""
    rng = np.random.default_rng(4)
    for window in range(288 * days):
        day, hour = window // 288, window % 288 / 12
        rows: dict[str, Row] = {f"gauge/{host}//cpu": rng.normal(10, 1) for host, at in on.items() if at(day, hour)}
        yield rows | {f"logs/{host}/job/info": 5 for host, at in (logs or {}).items() if at(day, hour)}


def always(_: int, __: float) -> bool:
    return True


def begun(events: list[EpisodeEvent], series: str) -> list[tuple[int, int]]:
    """Days and hours of the day at which the silences of a series begin."""
    opened = [event for event in events if event.status == "open" and event.kind == "silence"]
    found = [event.start - START for event in opened if event.series == series]
    return [(start // HOUR_MS // 24, start // HOUR_MS % 24) for start in found]


@pytest.mark.parametrize(
    ("days", "hour", "usual"),
    [(1, 19, False), (2, 19, True), (3, 12, False), (4, 17, True), (4, 15, False), (4, 8, True)],
)
def test_hours_away_on_two_days_and_most_of_those_that_count_are_usual(days: int, hour: int, usual: bool) -> None:
    assert week(office, days, hour) == usual


def test_days_on_which_nothing_came_do_not_count() -> None:
    assert not week(office, days=7, hour=12) and week(office, days=7, hour=20)
    assert not week(lambda day, hour: day not in (3, 4, 5), days=7, hour=12)


def test_of_a_short_time_of_use_no_hour_is_hidden() -> None:
    for hour in range(24):
        assert week(lambda _, hour: 9 <= hour < 13, 5, hour) == (not 10 <= hour < 12)
        assert week(lambda _, hour: 9 <= hour < 12, 5, hour) == (not 9 <= hour < 11)


def test_a_machine_that_is_off_at_night_is_news_on_two_evenings_and_when_it_does_not_come_on() -> None:
    run = DetectorRun(ShardDetector(P), window=300_000)
    events = run.play(fleet(15, {"pc": office, "srv": always}))
    assert begun(events, "host/pc") == [(0, 18), (1, 18), (5, 10)]
    first_weekend = [event for event in events if event.series == "host/pc" and event.start - START > 100 * HOUR_MS]
    assert first_weekend[0].reason.startswith("host pc silent for 16.")


def test_what_dies_at_noon_or_is_no_such_machine_is_news() -> None:
    def dies(day: int, hour: float) -> bool:
        return office(day, hour) and not (day == 8 and hour >= 12)

    def server(day: int, hour: float) -> bool:
        return not (day == 8 and hour >= 22)

    run = DetectorRun(ShardDetector(P), window=300_000)
    events = run.play(fleet(10, {"pc": dies, "srv-1": server, "srv-2": always}))
    assert begun(events, "host/pc")[-1] == (8, 12) and begun(events, "host/srv-1") == [(8, 22)]


def test_what_is_off_for_minutes_each_day_is_as_before() -> None:
    run = DetectorRun(ShardDetector(P), window=300_000)
    run.play(fleet(6, {"a": lambda _, hour: not 4 <= hour < 4.8, "srv": always}))
    assert not run.detector._state.host_column("away_0").any()


def test_a_log_of_a_nightly_job_alone_is_news_for_two_days_and_when_the_job_does_not_run() -> None:
    def nightly(day: int, hour: float) -> bool:
        return 1 <= hour < 5 and day != 9

    run = DetectorRun(ShardDetector(P), window=300_000)
    events = run.play(fleet(11, {"db": always}, {"db": nightly}))
    assert begun(events, "logs/db//") == [(0, 5), (1, 5), (9, 2)] and begun(events, "logs/db/job/info") == []


def test_the_log_of_a_host_that_is_off_or_whose_collector_is_stopped_says_nothing() -> None:
    def busy(day: int, hour: float) -> bool:
        return not (day == 8 and 9 <= hour < 15)

    def off(day: int, hour: float) -> bool:
        return not (day == 8 and 1 <= hour < 5)

    run = DetectorRun(ShardDetector(P), window=300_000)
    hosts = {"db": off, "web": always, "srv": always}
    events = run.play(fleet(10, hosts, {"db": lambda d, h: off(d, h) and 2 <= h < 4, "web": busy}))
    assert begun(events, "logs/db/job/info") == begun(events, "logs/web/job/info") == []
    assert begun(events, "host/db") == [(8, 1)] and begun(events, "logs/web//") == [(8, 9)]


def test_a_detector_that_was_dumped_knows_the_hours() -> None:
    rows = list(fleet(6, {"pc": office, "srv": always}))
    whole, first = (DetectorRun(ShardDetector(P), window=300_000) for _ in range(2))
    whole.play(rows)
    first.play(rows[:600])
    second = DetectorRun(ShardDetector.load(first.detector.dump(), P), first.now, window=300_000)
    second.play(rows[600:])
    assert list(map(repr, first.events + second.events)) == list(map(repr, whole.events))
    assert second.detector.dump() == whole.detector.dump()
