"""What is measured of windows with several points each, as of agents that report more often than windows are long."""

from __future__ import annotations

import numpy as np
import pytest

from models.univariate import features
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


def test_levels_of_hours_are_known_to_a_fraction_of_a_step_and_not_better(model: Univariate) -> None:
    """A day and a half in windows of ten minutes: the levels of the hours that are over are multiples of a power of two."""
    rng, index, one = np.random.default_rng(3), np.zeros(1, np.int64), np.ones(1, np.int64)
    for k in range(216):
        model.step(START + 600_000 * k, index, one, 50 + rng.normal(size=1), np.zeros(1))
    (grain,) = features.grain({name: model.state.hot[name][0] for name in features.OF_GRAIN})
    step = float(model.state.hot["long_step"][0, 0] / model.state.hot["long_weight"][0, 0])
    assert step / 64 < grain <= step / 32
    levels = model.state.cold["rhythm"][:, 0].astype(float) / (grain / 2)  # a step may have been half of what it is
    assert np.unique(levels).size > 10
    assert (levels == np.rint(levels)).all()


def test_rounding_is_exact_and_leaves_alone_what_never_moves() -> None:
    level = np.array([2.5, 3.5, -2.5, 0.1, 1e30, 3.0])
    grains = np.array([1.0, 1.0, 1.0, 0.0, 2.0**-120, 2.0])
    assert features.rounded(level, grains).tolist() == [2.0, 4.0, -2.0, 0.1, 1e30, 4.0]
    still = {"long_step": np.zeros(1, np.float32), "long_weight": np.ones(1, np.float32)}
    assert features.grain(still).tolist() == [0.0]
