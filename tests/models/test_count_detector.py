"""Stories of logs that nothing is heard or learnt of for hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from support.fleet_story import DetectorRun, Row, words

from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.records.records import EpisodeEvent
from models.rules.rule import Rule

P = DetectorParameters()
QUICK = replace(
    ControlledParameters(),
    warm_up_minutes=5,
    count_half_life_hours=1 / 12,
    spread_half_life_hours=0.5,
    habit_half_life_hours=0.5,
)
RATES = (5, 20, 60)
SERIES = {f"logs/h-{rate}/web/info" for rate in RATES}
HOUR = 360  # windows


class Logs:
    """Poisson numbers of lines of hosts that write so many in a window."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def windows(self, count: int, times: float = 1.0, rates: tuple[int, ...] = RATES) -> Iterator[dict[str, Row]]:
        for _ in range(count):
            yield {f"logs/h-{rate}/web/info": int(self._rng.poisson(rate * times)) for rate in rates}


def opened(events: list[EpisodeEvent]) -> set[str]:
    return {series for series, status, _ in words(events) if status == "open"}


@pytest.fixture(scope="module")
def known() -> tuple[dict[str, bytes], int]:
    """A detector that has known the logs for more than an hour without a word, and when that was."""
    run = DetectorRun(ShardDetector(P))
    assert run.play(Logs().windows(400)) == []
    return run.detector.dump(), run.now


@pytest.fixture
def run(known: tuple[dict[str, bytes], int]) -> DetectorRun:
    return DetectorRun(ShardDetector.load(known[0], P), known[1])


@pytest.mark.parametrize("hours", [1, 12, 24, 240])
def test_after_a_gap_the_usual_rate_is_no_news_and_ten_times_as_much_is(run: DetectorRun, hours: int) -> None:
    logs = Logs(1)
    run.gap(hours * HOUR)
    assert run.play(logs.windows(90)) == []
    assert opened(run.play(logs.windows(12, times=10))) == SERIES


@pytest.mark.parametrize("hours", [1, 12, 24, 240])
def test_a_rate_that_has_changed_during_a_gap_is_reported_and_adopted(run: DetectorRun, hours: int) -> None:
    run.gap(hours * HOUR)
    events = run.play(Logs(2).windows(75, times=10))
    assert opened(events) == SERIES
    assert {series for series, status, kind in words(events) if (status, kind) == ("update", "change")} == SERIES


@pytest.mark.parametrize("seconds", [60, 3600])
def test_in_long_windows_a_rate_must_last_as_many_of_them_to_be_adopted(seconds: int) -> None:
    p, logs = replace(P, window_seconds=seconds), Logs(4)
    run = DetectorRun(ShardDetector(p), window=1000 * seconds)
    assert run.play(logs.windows(150)) == []
    events = run.play(logs.windows(70, times=10))
    assert opened(events) == SERIES
    adopted = [event for event in events if (event.status, event.kind) == ("update", "change")]
    assert [event.window_end - event.start for event in adopted] == [
        1000 * p.adoption_seconds(p.persistence_minutes)
    ] * 3
    assert run.play(logs.windows(60, times=10)) == []


def test_a_host_that_was_off_while_others_were_not_comes_back_with_its_usual_rates() -> None:
    run, logs = DetectorRun(ShardDetector(QUICK)), Logs()
    run.play(logs.windows(200))
    run.play(logs.windows(HOUR, rates=(5,)))
    events = run.play(logs.windows(60))
    assert opened(events) == set()
    assert opened(run.play(logs.windows(12, times=10))) == SERIES


@pytest.fixture(scope="module")
def untaught() -> tuple[DetectorRun, Logs]:
    """Two hours under a rule that nothing is learnt, which are 24 half-lives of the rate, and its last two minutes."""
    run, logs = DetectorRun(ShardDetector(QUICK)), Logs()
    run.play(logs.windows(200))
    since, until = (
        datetime.fromtimestamp(run.now / 1000 + hours * 3600, UTC).isoformat() for hours in (0.0, 2.0 + 1 / 30)
    )
    rule = Rule(dont_learn=True, since=since, until=until)
    run.detector = ShardDetector.load(run.detector.dump(), replace(QUICK, rules=(rule,)))
    run.play(logs.windows(2 * HOUR))
    return run, logs


def test_where_nothing_is_learnt_for_hours_usual_rates_are_no_news_then_nor_afterwards(
    untaught: tuple[DetectorRun, Logs],
) -> None:
    run, logs = DetectorRun(untaught[0].detector), Logs(3)
    assert untaught[0].events == []
    run = DetectorRun(ShardDetector.load(untaught[0].detector.dump(), QUICK), untaught[0].now)
    assert run.play(logs.windows(90)) == []


def test_where_nothing_is_learnt_for_hours_ten_times_the_usual_rate_is_reported_still(
    untaught: tuple[DetectorRun, Logs],
) -> None:
    run, logs = untaught
    assert opened(run.play(logs.windows(12, times=10))) == SERIES
