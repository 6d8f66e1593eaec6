"""Counters become rates."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.detection.counter_rate import rates


@given(st.floats(0, 1e12), st.floats(0, 1e9), st.floats(1, 1e4))
def test_rate_is_growth_over_time(previous: float, grown: float, seconds: float) -> None:
    last = previous + grown
    assert rates(np.array([last]), np.array([previous]), np.array([seconds]))[0] == (last - previous) / seconds


def test_a_reset_and_a_first_row_have_no_rate() -> None:
    found = rates(np.array([5.0, 100.0]), np.array([100.0, np.nan]), np.array([10.0, 10.0]))
    assert np.isnan(found).all()
