"""Templates never seen before."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.stats.pitman_yor import DISCOUNT, MOST_PER_RETURN_NATS, THETA, new_surprise, return_surprise


@given(st.integers(0, 10**6), st.integers(0, 10**4))
def test_surprise_is_that_of_a_pitman_yor_process(lines: int, kinds: int) -> None:
    assert math.exp(-new_surprise(lines, kinds)) == pytest.approx((THETA + DISCOUNT * kinds) / (THETA + lines))


def test_the_hundredth_template_of_a_chatty_service_is_no_news() -> None:
    assert new_surprise(1000, 100) < 4
    assert new_surprise(1000, 3) > 6


@given(st.integers(1, 5), st.integers(1, 60), st.integers(1, 10**5))
def test_returns_are_held_against_a_negative_binomial(returns: int, windows: int, exposure: int) -> None:
    """A Gamma(1, T) rate over e windows gives a geometric number of returns."""
    nats = return_surprise(returns, windows, exposure)
    exact = -stats.geom(exposure / (exposure + windows)).logsf(returns)
    assert nats == pytest.approx(min(exact, returns * MOST_PER_RETURN_NATS), rel=1e-6)
