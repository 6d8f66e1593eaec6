"""Bounds of single records: by the model's own step, written when they move, and none for what cannot alarm anew."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.core.windows import Windows
from models.detection.alarm_bounds import MOST, MOST_BEFORE, AlarmBounds, EarlyParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.detection.value_bounds import CLOSE, ENOUGH, TRIALS, find_distances
from models.records.records import Bound
from models.rules.rule import Rule

WINDOW, START = 10_000, 1_767_571_200_000
EARLY = EarlyParameters(1.0, 1)
P = ControlledParameters(warm_up_minutes=10)


def windows(values: dict[str, Any], *, n: int = 1, spread: float = 0.0) -> Windows:
    """A window in which each series has a value, as mean and total, of `n` points that stray so far."""
    names = sorted(values)
    x = np.array([values[name] for name in names], dtype=np.float64)
    none = np.full(len(names), None, dtype=object)
    far = spread if n > 1 else 0.0
    return Windows(
        np.array(names, dtype=object), np.full(len(names), n), x, np.full(len(names), n * far**2), x - far, x + far, x, none, none
    )  # fmt: skip


class NoisySeries:
    """Series of normal noise, step by step, and the last bound of each."""

    def __init__(self, names: list[str], parameters: ControlledParameters = P, seed: int = 1, **points: Any) -> None:
        self.names, self.points, self.rng = names, points, np.random.default_rng(seed)
        self.detector = ShardDetector(parameters, early=EARLY)
        self.now, self.known, self.written = START, dict[str, Bound](), 0

    def step(self, **other: float) -> None:
        """A window of 100 and normal noise of 5, but for `other`."""
        self.now += WINDOW
        values = {name: 100 + 5 * self.rng.standard_normal() for name in self.names}
        self.detector.step(self.now, windows(values | other, **self.points))
        self.written += len(self.detector.bounds)
        self.known |= {bound.series: bound for bound in self.detector.bounds}

    def run(self, steps: int) -> NoisySeries:
        for _ in range(steps):
            self.step()
        return self


GAUGE = "gauge/h//x"


def test_beyond_a_bound_the_next_window_alarms_and_well_within_it_does_not() -> None:
    fleet = NoisySeries([GAUGE]).run(400)
    bound = fleet.known[GAUGE]
    assert 30 < bound.lower < 80 < bound.typical < 120 < bound.upper < 200
    for value, alarms in ((bound.upper, True), (bound.lower, True), (bound.typical, False)):
        copy = ShardDetector.load(fleet.detector.dump(), P)
        scores, _ = copy.step(fleet.now + WINDOW, windows({GAUGE: value}))
        found = copy._state.gauges.matrix[8, 0] > 0  # the run above the alert threshold
        assert found == alarms and (scores.score[0] > 8) == alarms


def test_chance_divides_the_false_alarms_of_a_day_by_its_records_and_sides() -> None:
    fleet = NoisySeries([f"gauge/h//x{i}" for i in range(10)]).run(200)
    assert fleet.known["gauge/h//x3"].chance == pytest.approx(1 / (2 * 10 * 8640), rel=0.3)


def test_a_bound_is_written_when_it_moves_and_not_with_each_window() -> None:
    fleet = NoisySeries([GAUGE]).run(400)
    before = fleet.written
    fleet.run(300)
    assert 1 <= fleet.written - before <= 12


def test_while_warming_up_there_is_no_bound() -> None:
    assert NoisySeries([GAUGE]).run(55).known == {}


def test_a_series_with_an_episode_has_no_bound_until_it_is_over() -> None:
    fleet = NoisySeries([GAUGE]).run(300)
    for _ in range(8):
        fleet.step(**{GAUGE: 300.0})
    gone = fleet.known[GAUGE]
    assert math.isnan(gone.lower) and math.isnan(gone.upper) and gone.known is None
    assert gone.window_end == START + 301 * WINDOW  # with the first window of it


def largest(fleet: NoisySeries) -> float:
    """The largest value of the series that came to nothing, of this day and the day before."""
    bounds = fleet.detector._alarm_bounds
    assert isinstance(bounds, AlarmBounds)
    return float(np.fmax(bounds._s[MOST, 0], bounds._s[MOST_BEFORE, 0]))


def test_what_came_to_nothing_is_no_news_for_a_day_and_what_an_episode_was_of_is() -> None:
    jumped, broken = NoisySeries([GAUGE]).run(250), NoisySeries([GAUGE]).run(250)
    jumped.step(**{GAUGE: 260.0})
    assert largest(jumped) < 150  # it may become an episode
    assert largest(jumped.run(60)) == 260
    assert jumped.known[GAUGE].upper > 100 + 1.3 * 160
    for _ in range(8):
        broken.step(**{GAUGE: 260.0})
    assert largest(broken.run(100)) < 150
    jumped.now += 2 * 86_400_000
    assert largest(jumped.run(2)) == 260
    jumped.now += 86_400_000
    assert largest(jumped.run(2)) < 150


def test_a_series_that_has_never_varied_has_none() -> None:
    fleet = NoisySeries([GAUGE])
    for _ in range(300):
        fleet.step(**{"gauge/h//errors": 0.0, "gauge/h//size": 1234.5})
    assert fleet.known.keys() == {GAUGE}


def test_what_rules_mute_has_no_bound_and_a_direction_has_one_side() -> None:
    rules = (Rule(host="m", mute=True), Rule(host="u", direction="up"), Rule(host="d", least_deviation=90.0))
    found = NoisySeries(["gauge/m//x", "gauge/u//x", "gauge/d//x"], dataclasses.replace(P, rules=rules)).run(300).known
    assert found.keys() == {"gauge/u//x", "gauge/d//x"}
    assert math.isnan(found["gauge/u//x"].lower) and found["gauge/u//x"].upper < 260
    assert found["gauge/d//x"].upper > 185


def test_of_several_points_in_a_window_the_spread_within_it_counts() -> None:
    alone, several = (
        NoisySeries([GAUGE]).run(300).known[GAUGE],
        NoisySeries([GAUGE], n=5, spread=20.0).run(300).known[GAUGE],
    )
    assert several.upper > alone.upper + 100 and alone.lower > 20
    assert math.isnan(several.lower)  # it would be below 0, where the series has never been


def test_after_a_restart_all_bounds_are_written_once_more() -> None:
    fleet = NoisySeries([f"gauge/h//x{i}" for i in range(5)]).run(300)
    fleet.detector = ShardDetector.load(fleet.detector.dump(), P, early=EARLY)
    fleet.step()
    assert len(fleet.detector.bounds) == 5


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(1e-2, 1000.0),
            st.one_of(st.just(0.0), st.just(math.inf), st.floats(1e-3, 1e4)),
            st.sampled_from([0.05, 0.5, 1.0, 2.0]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_a_distance_is_found_outwards_to_a_factor_from_wherever_it_was_before(
    cases: list[tuple[float, float, float]],
) -> None:
    begins, before, slope = np.array(cases).T.copy()
    centre, tried = np.full(len(cases), 100.0), Counter[int]()

    def excess(chosen: Any, values: Any) -> Any:
        tried.update(chosen.tolist())
        return (np.abs(values - 100.0) / begins[chosen]) ** slope[chosen]

    found = find_distances(excess, np.arange(len(cases)), centre, -1.0, before, np.full(len(cases), 8.0))
    assert (found >= begins * (1 - 1e-9)).all()
    near = (before < 100 * begins) & (before > begins / 100) | (before == 0) | np.isinf(before)
    near &= begins > 0.1
    exact = (found <= CLOSE * begins * (1 + 1e-9)) | ((found / begins) ** slope <= ENOUGH)
    assert exact[near].all()
    assert max(tried.values()) <= TRIALS + 1


def test_a_distance_that_has_hardly_moved_takes_a_trial_or_two_and_none_takes_one() -> None:
    trials: list[int] = []

    def excess(chosen: Any, values: Any) -> Any:
        trials.append(len(chosen))
        return np.where(chosen < 5, np.abs(values) / np.where(chosen < 3, 10.3, 10.6), 0.5)

    before = np.array([10.5] * 5 + [0.0] * 4)
    found = find_distances(excess, np.arange(9), np.zeros(9), 1.0, before, np.ones(9))
    assert found[:3].tolist() == [10.5] * 3 and (np.abs(found[3:5] - 10.95) < 0.5).all()
    assert found[5:].tolist() == [math.inf] * 4 and trials == [4, 5, 2, 2]
