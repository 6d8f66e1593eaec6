"""A candidate regime: a level that stands is told from a ramp and from a passing spell."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.regime import Candidate, log_t_density

LEVEL, SCALE = 30.0, 1.0


def stands_after(values: Iterable[float], minutes: float = 10) -> int | None:
    """The window after which the candidate stands."""
    candidate = Candidate(0, SCALE**2)
    for k, x in enumerate(values, 1):
        old = log_t_density((x - LEVEL) / SCALE, 8)
        candidate.step(x, 10_000 * (k - 1), 10.0, old)
        if candidate.stands(10_000 * k, LEVEL, 60 * minutes):
            return k
    return None


@given(st.floats(-1e3, 1e3), st.floats(0.5, 100))
def test_log_density_is_that_of_scipy(t: float, df: float) -> None:
    assert log_t_density(t, df) == pytest.approx(stats.t.logpdf(t, df), rel=1e-9, abs=1e-9)


def test_a_level_stands_after_the_persistence() -> None:
    noise = np.random.default_rng(0).normal(0, SCALE, 120)
    found = stands_after(55 + noise)
    assert found is not None
    assert 60 <= found <= 90


def test_a_ramp_does_not_stand() -> None:
    noise = np.random.default_rng(1).normal(0, SCALE, 90)
    assert stands_after(LEVEL + 10 + 0.5 * np.arange(90) + noise) is None


def test_values_of_the_old_regime_start_the_candidate_afresh() -> None:
    rng = np.random.default_rng(2)
    candidate = Candidate(0, SCALE**2)
    for k, x in enumerate([*(55 + rng.normal(0, SCALE, 20)), *(LEVEL + rng.normal(0, SCALE, 60))], 1):
        candidate.step(x, 10_000 * k, 10.0, log_t_density((x - LEVEL) / SCALE, 8))
    assert candidate.log_factor < 5
    assert candidate.since > 200_000


def test_mean_and_sum_are_the_discounted_ones() -> None:
    values = [3.0, 5.0, 4.0, 9.0]
    candidate = Candidate(0, 1.0)
    for x in values:
        candidate.learn(x, 180.0)
    weights = 0.5 ** np.arange(4)[::-1]
    mean = np.average(values, weights=weights)
    assert candidate.mean == pytest.approx(mean)
    assert candidate.sum == pytest.approx((weights * (np.array(values) - mean) ** 2).sum())
