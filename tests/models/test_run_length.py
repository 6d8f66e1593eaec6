"""Lengths of runs against the Beta-binomial of scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.stats import run_length

COUNTS = st.integers(0, 500)


def one(*values: float) -> list[np.ndarray]:
    return [np.array([float(value)]) for value in values]


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.integers(1, 60))
def test_run_is_a_bernoulli_and_a_beta_binomial(trials: int, begun: int, asked: int, stayed: int, length: int) -> None:
    begun, stayed = min(begun, trials), min(stayed, asked)
    ours = run_length.run_surprise(*one(trials, begun, asked, stayed, length))[0]
    alpha = run_length.STAY_STRENGTH * run_length.STAY_MEAN + stayed
    beta = run_length.STAY_STRENGTH * (1 - run_length.STAY_MEAN) + asked - stayed
    all_stay = stats.betabinom.logpmf(length - 1, length - 1, alpha, beta) if length > 1 else 0.0
    assert ours == pytest.approx(-math.log((begun + 0.5) / (trials + 1)) - all_stay, abs=1e-6)


@given(COUNTS, st.integers(1, 30))
def test_windows_of_a_run_add_up_to_the_run(asked: int, length: int) -> None:
    columns = one(300, 2, asked, asked // 2)
    whole = run_length.run_surprise(*one(300, 2, asked, asked // 2, length))[0]
    evidence, inside = np.zeros(1), np.array([True])
    for _ in range(length):
        after = run_length.score_run(columns, evidence, inside, np.array([False]))
        run_length.learn_run(columns, evidence, inside)
        evidence = after
    assert evidence[0] == pytest.approx(whole, abs=1e-6)


def test_a_gap_is_learnt_as_the_windows_that_it_had() -> None:
    by_gap, by_window = one(10, 1, 4, 2), one(10, 1, 4, 2)
    run_length.learn_gap(by_gap, np.array([3.0]))
    evidence = np.zeros(1)
    for inside in (True, True, True, False):
        after = run_length.score_run(by_window, evidence, np.array([inside]), np.array([False]))
        run_length.learn_run(by_window, evidence, np.array([inside]))
        evidence = after
    assert [c[0] for c in by_gap] == [c[0] for c in by_window]


def test_the_share_outside_of_runs_counts_windows() -> None:
    columns = one(0, 0, 0, 0)
    for gap in (0, 0, 3, 0, 1):  # five windows of one state, four of the other
        run_length.learn_gap(columns, np.array([float(gap)]))
    assert run_length.share_outside(*columns)[0] == pytest.approx(5 / 9)
    assert run_length.share_outside(*one(0, 0, 0, 0))[0] == 1.0


def test_a_run_that_began_in_the_warm_up_gathers_nothing() -> None:
    columns, evidence, yes = one(0, 0, 0, 0), np.zeros(1), np.array([True])
    for window in range(50):
        after = run_length.score_run(columns, evidence, yes, np.array([window < 10]))
        run_length.learn_run(columns, evidence, yes)
        evidence = after
    assert 0 < evidence[0] < 1e-6


def test_scoring_a_run_changes_nothing() -> None:
    columns = one(5, 1, 2, 1)
    run_length.score_run(columns, np.array([1.0]), np.array([True]), np.array([False]))
    assert [c[0] for c in columns] == [5, 1, 2, 1]


def test_one_that_reports_now_and_then_needs_a_longer_absence() -> None:
    regular, rare = one(1000, 0, 0, 0, 20), one(200, 200, 1000, 800, 20)
    assert run_length.run_surprise(*regular)[0] > 15
    assert run_length.run_surprise(*rare)[0] < 5
