"""What a row of a series is worth as evidence, against the theory of autoregressive noise."""

import numpy as np
import pytest
from scipy import signal

from models.univariate.effective_sample import weight_of_a_row
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters

START, STEP = 1_767_571_200_000, 10_000


def weights(x: np.ndarray) -> np.ndarray:
    """Of series `(rows, series)`, by a model that has seen them."""
    model, rows = Univariate(UnivariateParameters()), np.arange(x.shape[1])
    model.state.grow(x.shape[1])
    ones = np.ones(x.shape[1], np.int64)
    for k, values in enumerate(x):
        model.step(START + STEP * k, rows, ones, values, np.zeros(x.shape[1]))
    return weight_of_a_row(model.state.hot, rows)


def noise(memory: float, rows: int = 2500, series: int = 20) -> np.ndarray:
    """First-order autoregressive noise of unit variance."""
    shocks = np.random.default_rng(13).normal(0, np.sqrt(1 - memory**2), (rows, series))
    return np.asarray(signal.lfilter([1.0], [1.0, -memory], shocks, axis=0))


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_a_row_is_worth_what_the_correlation_of_neighbours_leaves(memory: float) -> None:
    found = weights(10 + noise(memory))
    assert np.median(found) == pytest.approx((1 - memory) / (1 + memory), rel=0.2)


def test_the_unit_of_a_series_has_no_effect() -> None:
    x = noise(0.8, rows=300)
    assert weights(1e6 * x) == pytest.approx(weights(x), rel=1e-3)


def test_a_row_of_a_constant_series_is_worth_something() -> None:
    found = weights(np.full((50, 1), 7.0))
    assert 0 < found[0] <= 1
