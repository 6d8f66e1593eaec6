"""What is measured of windows with several points each, as of agents that report more often than windows are long."""

from __future__ import annotations

import numpy as np
import pytest

from models.univariate.model import Univariate, UnivariateScores
from models.univariate.parameters import UnivariateParameters

START, WINDOW = 1_767_571_200_000, 10_000
POINTS = 3


def play(u: Univariate, values: list[float], spread: float = 0.0, first: int = 0) -> list[UnivariateScores]:
    """Windows of one series with `POINTS` points around a value."""
    index, n, m2 = np.zeros(1, np.int64), np.full(1, POINTS), np.full(1, POINTS * spread**2)
    return [u.step(START + WINDOW * k, index, n, np.array([x]), m2) for k, x in enumerate(values, first)]


@pytest.fixture
def model() -> Univariate:
    made = Univariate(UnivariateParameters())
    made.state.grow(1)
    return made


@pytest.mark.parametrize("level", [0.0, 7.0, 1e-30, 1e12])
@pytest.mark.filterwarnings("error")
def test_points_that_are_all_the_same_are_known_like_any_others(model: Univariate, level: float) -> None:
    """Of zeros the spread is 0 and so is the least one in single precision: its logarithm was none."""
    events = play(model, [level] * 300)
    assert all(np.isfinite(array).all() for array in model.state.hot.values() if array.dtype.kind == "f")
    assert np.isfinite(events[-1].base).all()
    assert events[-1].base[0] < 3
    (after,) = play(model, [level + 5 * max(level, 1.0)], spread=1.0, first=300)
    assert after.base[0] > 10
    assert np.isfinite(after.surprise).all()
