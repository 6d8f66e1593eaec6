"""Bounds of Student's t against scipy."""

import pytest
from scipy import stats

from models.stats import student_t


@pytest.mark.parametrize("df", [4, 8, 20])
def test_quantile_is_the_inverse_of_the_tail(df: int) -> None:
    t = student_t.quantile(df, 1e-4)
    assert 2 * stats.t.sf(t, df) == pytest.approx(1e-4)
