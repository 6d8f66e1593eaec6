"""Tails and densities of Student's t against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models import student

EVEN = st.sampled_from([4, 6, 8, 10, 16, 20])


@given(EVEN, st.floats(0, 1e8))
def test_tail_of_even_degrees_of_freedom_is_that_of_scipy(df: int, t: float) -> None:
    ours = student.even_two_sided(np.array([t]), df)[0]
    assert ours == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9)


@given(EVEN, st.floats(0, 1e6))
def test_density_of_even_degrees_of_freedom_is_that_of_scipy(df: int, t: float) -> None:
    ours = student.even_density(np.array([t]), df)[0]
    assert ours == pytest.approx(stats.t.pdf(t, df), rel=1e-9)


@given(st.floats(0.5, 40), st.floats(0, 1e4))
def test_tail_uses_the_degrees_of_freedom_up_to_the_cap(df: float, t: float) -> None:
    ours = student.two_sided(np.array([t]), np.array([df]), 8)[0]
    assert ours == pytest.approx(2 * stats.t.sf(t, min(df, 8)), rel=1e-9)


@given(st.floats(8, 1e4), st.floats(1e-3, 1e3))
def test_capping_keeps_the_variance(df: float, scale: float) -> None:
    capped = student.capped_scale(np.array([scale]), np.array([df]), 8)[0]
    assert stats.t.var(8, scale=capped) == pytest.approx(stats.t.var(df, scale=scale), rel=1e-9)


def test_below_the_cap_the_scale_stays() -> None:
    assert student.capped_scale(np.array([3.0]), np.array([5.0]), 8)[0] == pytest.approx(3.0)


def test_quantile_is_the_inverse_of_the_tail() -> None:
    t = student.quantile(8, 1e-4)
    assert student.even_two_sided(np.array([t]), 8)[0] == pytest.approx(1e-4)
