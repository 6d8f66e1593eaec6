"""Simulated curves are always the same, and their labels say where they differ from curves without events."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import kinds
from benchmarks.by_kind import measures
from benchmarks.cases import SIMULATED, cases_of

ROWS = np.arange(kinds.DAYS * kinds.DAY_ROWS)
DRAWN_AS_OFTEN = sorted(set(kinds.KINDS) - {"bursts"})  # how often a Poisson number is drawn for depends on its mean


@pytest.mark.parametrize("kind", DRAWN_AS_OFTEN)
def test_events_move_the_rows_of_their_labels_and_no_others(kind: str) -> None:
    sizes, label = kinds.events(np.random.default_rng(3), len(ROWS))
    made = kinds.KINDS[kind]
    with_events, there = made(np.random.default_rng(4), ROWS, sizes)
    without, _ = made(np.random.default_rng(4), ROWS, np.zeros(len(ROWS)))
    assert np.array_equal(with_events[~label], without[~label])
    assert np.mean(with_events[label & there] != without[label & there]) > 0.9


def test_events_begin_when_a_rhythm_can_be_known_and_stand_apart() -> None:
    for seed in range(20):
        sizes, label = kinds.events(np.random.default_rng(seed), len(ROWS))
        edges = np.flatnonzero(np.diff(label.astype(int)))
        begins, ends = edges[0::2] + 1, edges[1::2] + 1
        assert begins[0] >= kinds.FIRST_EVENT_DAY * kinds.DAY_ROWS
        assert ((ends - begins >= kinds.SHORTEST) & (ends - begins <= kinds.LONGEST)).all()
        assert (begins[1:] - ends[:-1] >= kinds.APART).all()
        assert np.array_equal(sizes != 0, label)


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_a_curve_is_the_same_each_time_and_of_its_seed(kind: str) -> None:
    one, again, other = kinds.curve(kind, 0), kinds.curve(kind, 0), kinds.curve(kind, 1)
    assert np.array_equal(one.series.values, again.series.values)
    assert np.array_equal(one.label, again.label)
    assert len(one.series.values) == len(one.series.times) == len(one.label)
    assert (np.diff(one.series.times) > 0).all()
    assert not np.array_equal(one.series.values, other.series.values)
    assert kinds.parsed(one.series.name) == (kind, 0)


def test_every_curve_is_a_case_that_is_judged_whole() -> None:
    cases, curves = cases_of(SIMULATED), kinds.curves()
    assert [case.name for case in cases] == [one.series.name for one in curves]
    assert all(case.judged == (0, len(one.label)) for case, one in zip(cases, curves, strict=True))


def test_measures_of_counts() -> None:
    found = measures(np.array([[4, 3, 1], [6, 3, 1]]))
    assert found == pytest.approx({"precision": 0.75, "recall": 0.6, "f1": 2 * 6 / 18, "false_per_week": 2 / 6})
    assert measures(np.array([[2, 0, 0]]))["precision"] == 0
