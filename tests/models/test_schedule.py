"""Lines that come by a schedule are overdue when they do not come; what comes otherwise never is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from scipy import stats
from support.fleet_story import START, DetectorRun, Row, words

from models.core.arrays import Bools, Floats
from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.rules.rule import Rule
from models.stats import schedule

P = DetectorParameters(window_seconds=60)
MINUTE, HOUR, DAY = 1.0, 60.0, 1_440.0
TEMPLATE = "template/db-1/cron/info/0123456789abcdef"
LINES = {"logs/db-1/cron/info", TEMPLATE}


def overdue(
    comings: Sequence[Sequence[float] | Floats], minutes: float, away: tuple[float, float] = (0, 0)
) -> list[list[int]]:
    """Minutes in whose windows lines are overdue, of series that come at these minutes; nothing is observed from `away` to its end."""
    count = int(minutes)
    there: Bools = np.zeros((count + 1, len(comings)), dtype=bool)
    for at, own in enumerate(comings):
        there[[int(one) for one in own if one < count], at] = True
    s, last, seen = np.zeros((len(schedule.COLUMNS), len(comings))), np.zeros(len(comings)), -1
    found: list[list[int]] = [[] for _ in comings]
    for minute in range(count):
        if away[0] <= minute < away[1]:
            continue
        lines, quiet = there[minute], 60.0 * (minute - last)
        unobserved = np.full(len(comings), 60.0 * (minute - seen))
        nats = schedule.step(s, lines, quiet, unobserved, START + 60_000 * minute, 60.0, P.zero_nats)
        last, seen = np.where(lines, minute, last), minute
        for at in np.flatnonzero(nats >= P.zero_nats).tolist():
            found[at].append(minute)
    return found


def every(minutes: float, number: int, jitter: float = 0.0, first: float = 0.0, seed: int = 1) -> Floats:
    """Minutes at which something comes so often, each up to `jitter` minutes late."""
    rng = np.random.default_rng(seed)
    out: Floats = first + minutes * np.arange(number) + rng.uniform(0, jitter, number)
    return out


@pytest.mark.parametrize(
    ("interval", "number", "soonest", "latest"),
    [(HOUR, 26, 3, 5), (4 * HOUR, 8, 65, 70), (DAY, 8, 65, 70), (7 * DAY, 8, 65, 420)],
)
def test_what_comes_regularly_is_overdue_soon_after_it_should_have_come(
    interval: float, number: int, soonest: float, latest: float
) -> None:
    (found,) = overdue([every(interval, number, jitter=2)], interval * number + 2 * interval)
    last = interval * (number - 1)
    assert soonest <= found[0] - last - interval <= latest
    assert found[-1] > last + 2 * interval


def test_it_is_held_to_its_schedule_after_six_regular_comings_and_a_day() -> None:
    assert overdue([every(DAY, 6)], 10 * DAY) == [[]] and overdue([every(DAY, 7)], 10 * DAY) != [[]]
    assert overdue([every(HOUR, 24)], 3 * DAY) == [[]] and overdue([every(HOUR, 25)], 3 * DAY) != [[]]


def test_lines_that_go_on_for_hours_come_once() -> None:
    nightly = np.concatenate([every(MINUTE, 150, first=DAY * day) for day in range(8)])
    (found,) = overdue([nightly], 9 * DAY)
    assert 8 * DAY + 60 < found[0] < 8 * DAY + 75


def test_what_comes_at_random_is_hardly_ever_overdue() -> None:
    rng = np.random.default_rng(3)
    comings = [np.cumsum(rng.exponential(scale, 600)) for scale in (20, 40, 80, 160) for _ in range(250)]
    assert sum(map(bool, overdue(comings, 8 * DAY))) == 0


def test_what_comes_in_working_hours_or_on_working_days_is_never_overdue() -> None:
    at_work = [DAY * day + HOUR * hour for day in range(14) for hour in range(9, 18)]
    nights = [DAY * day + 120 for day in range(28) if day % 7 < 5]
    with_saturdays = [DAY * day + 120 for day in range(28) if day % 7 < 6]
    assert overdue([at_work, nights, with_saturdays], 28 * DAY) == [[], [], []]


def test_a_timer_begins_anew_as_its_process_does() -> None:
    first, second = every(30, 100), every(30, 100, first=100 * 30 - 18)
    assert overdue([np.concatenate([first, second])], 199 * 30 - 18) == [[]]


def test_clocks_that_are_set_back_make_nothing_overdue() -> None:
    before, after = every(DAY, 12, jitter=3), every(DAY, 5, jitter=3, first=12 * DAY + HOUR)
    assert overdue([np.concatenate([before, after])], 16 * DAY) == [[]]


def test_one_that_is_missing_is_reported_until_the_next_one_and_so_is_another() -> None:
    comings = np.delete(every(DAY, 16, jitter=3), [8, 11])
    (found,) = overdue([comings], 15 * DAY)
    days = sorted({minute // int(DAY) for minute in found})
    assert {8, 11} <= set(days) <= {8, 9, 11, 12} and max(m for m in found if m < 10 * DAY) < 9 * DAY + 3


def test_a_job_that_leaves_out_times_now_and_then_is_reported_three_times_and_then_when_more_are_missing_than_chance_leaves_out() -> (
    None
):
    rng = np.random.default_rng(8)
    left_out = 30 + np.flatnonzero(rng.random(30 * 24 - 40) < 0.02)
    (found,) = overdue([np.delete(every(HOUR, 30 * 24, jitter=1), left_out)], 32 * DAY)
    reported = sorted({int(minute // HOUR) for minute in found})
    assert len(left_out) > 9 and reported[:3] == left_out[:3].tolist()
    assert reported[3:][0] == 30 * 24 + 3


def test_a_nightly_job_that_failed_twice_in_a_month_is_reported_the_third_time() -> None:
    (found,) = overdue([np.delete(every(DAY, 40, jitter=1), [10, 20, 38])], 40 * DAY)
    assert sorted({int(minute // DAY) for minute in found}) == [10, 20, 38]


def test_what_was_not_observed_is_not_overdue_until_it_has_come_again() -> None:
    comings = every(HOUR, 60, jitter=1)
    hidden = [40 * HOUR - 10, 40 * HOUR + 20]
    (found,) = overdue([comings], 60 * HOUR, away=(hidden[0], hidden[1]))
    assert found == []
    (found,) = overdue([np.delete(comings, 45)], 60 * HOUR, away=(hidden[0], hidden[1]))
    assert 45 * HOUR < found[0] < 45 * HOUR + 6


def test_evidence_is_the_bayes_factor_of_a_normal_against_an_exponential_distribution() -> None:
    x = np.random.default_rng(5).normal(3_600, 300, 10)
    s = np.zeros((len(schedule.COLUMNS), 1))
    s[schedule.INTERVALS], s[schedule.INTERVAL] = len(x), x.mean()
    s[schedule.SQUARES] = ((x - x.mean()) ** 2).sum()
    expected = stats.norm.logpdf(x, x.mean(), x.std()).sum() - stats.expon.logpdf(x, scale=x.mean()).sum()
    assert schedule.evidence(s)[0] == pytest.approx(expected, abs=0.2)
    assert schedule.spread(s)[0] == pytest.approx(x.std(), rel=0.02)


def backups(hours: int, missing: tuple[int, ...] = ()) -> Iterator[Mapping[str, Row]]:
    """A host whose backup writes a line at a quarter past each hour, which is `missing` in some."""
    rng = np.random.default_rng(2)
    for minute in range(60 * hours):
        own: dict[str, Row] = {"gauge/db-1//cpu": float(rng.normal(10, 1)), "logs/db-1/db/info": int(rng.poisson(20))}
        if minute % 60 == 15 and minute // 60 not in missing:
            own |= {"logs/db-1/cron/info": 1, TEMPLATE: (1, "backup of <*> ok")}
        yield own


def test_a_backup_that_does_not_run_is_an_incident_until_the_next_one_runs() -> None:
    run, correlator = DetectorRun(ShardDetector(P), window=60_000), Correlator(CorrelationParameters())
    found = []
    for rows in backups(36, missing=(30,)):
        found += correlator.step(run.now + 60_000, run.play([rows]), run.detector.watched)
    begun, *_, over = [event for event in found if event.status in ("open", "close")]
    minute = (begun.window_end - START) / 60_000 - 30 * 60
    assert 16 <= minute <= 22 and begun.start == START + 60_000 * (30 * 60 + 16)
    assert (begun.kind, begun.hosts) == ("silence", ["db-1"])
    assert over.status == "close" and len({event.id for event in found}) == 1
    opened = [event for event in run.events if event.status == "open" and event.series in LINES]
    assert {event.reason for event in opened} == {
        "cron: no INFO lines for 62 min, they come every 60 min",
        "cron: no lines of 'backup of <*> ok' for 62 min, they come every 60 min",
    }


def test_backups_that_end_for_good_are_a_change_after_two_more_are_missing() -> None:
    run = DetectorRun(ShardDetector(P), window=60_000)
    events = [event for event in run.play(backups(40, missing=tuple(range(30, 40)))) if event.series == TEMPLATE]
    assert words(events) == [
        (TEMPLATE, "open", "silence"),
        (TEMPLATE, "update", "change"),
        (TEMPLATE, "close", "change"),
    ]
    assert events[1].reason == "cron: lines of 'backup of <*> ok' no longer come every 60 min"
    assert (events[1].window_end - events[0].start) / 60_000 == 120


def test_a_detector_that_was_dumped_knows_the_schedule() -> None:
    rows = list(backups(36, missing=(30,)))
    whole, first = (DetectorRun(ShardDetector(P), window=60_000) for _ in range(2))
    whole.play(rows)
    first.play(rows[: 29 * 60])
    second = DetectorRun(ShardDetector.load(first.detector.dump(), P), first.now, window=60_000)
    second.play(rows[29 * 60 :])
    assert first.events + second.events == whole.events and any(e.series == TEMPLATE for e in whole.events)
    assert second.detector.dump() == whole.detector.dump()


def test_where_a_rule_counts_what_is_too_high_alone_nothing_is_overdue() -> None:
    rule = Rule(service="cron", direction="up")
    run = DetectorRun(ShardDetector(ControlledParameters(window_seconds=60, rules=(rule,))), window=60_000)
    assert LINES.isdisjoint(event.series for event in run.play(backups(34, missing=(30, 31))))
