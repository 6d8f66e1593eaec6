"""What a row of a series is worth as evidence, against the theory of autoregressive noise."""

import numpy as np
import pytest
from scipy import signal

from models.univariate.effective_sample import row_weight, share_between_hours
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import UnivariateState

START, STEP = 1_767_571_200_000, 10_000


def seen(x: np.ndarray, step: int = STEP) -> tuple[UnivariateState, np.ndarray]:
    """The state of a model that has seen series `(rows, series)`, and the places of the series in it."""
    model, rows = Univariate(UnivariateParameters()), np.arange(x.shape[1])
    model.state.grow(x.shape[1])
    ones = np.ones(x.shape[1], np.int64)
    for k, values in enumerate(x):
        model.step(START + step * k, rows, ones, values, np.zeros(x.shape[1]))
    return model.state, rows


def weights(x: np.ndarray) -> np.ndarray:
    state, rows = seen(x)
    return row_weight(state.hot, rows, UnivariateParameters())


def shares(x: np.ndarray) -> np.ndarray:
    """Of series with a row every five minutes."""
    state, rows = seen(x, 300_000)
    return share_between_hours(state.hot, state.cold, rows)


def noise(memory: float, rows: int = 2500, series: int = 20) -> np.ndarray:
    """First-order autoregressive noise of unit variance."""
    shocks = np.random.default_rng(13).normal(0, np.sqrt(1 - memory**2), (rows, series))
    return np.asarray(signal.lfilter([1.0], [1.0, -memory], shocks, axis=0))


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_a_row_is_worth_what_the_correlation_of_neighbours_leaves(memory: float) -> None:
    found = weights(10 + noise(memory))
    assert 0.6 < np.median(found) / ((1 - memory) / (1 + memory)) < 1.2  # a fast mean that is young varies more


def test_rows_of_a_long_wave_are_worth_less_than_their_neighbours_let_expect() -> None:
    """Noise of unit variance around a wave of 3,000 rows: neighbours correlate by 0.8, as in noise whose rows are worth a tenth."""
    wave = 2 * np.sqrt(2) * np.sin(2 * np.pi * np.arange(6000) / 3000)[:, None]
    independent = np.random.default_rng(13).normal(size=(6000, 20))
    found, beside = np.median(weights(10 + wave + independent)), np.median(weights(10 + noise(0.8, 6000)))
    half_life = 60 * UnivariateParameters().fast_half_life_minutes / (STEP / 1000)
    variance_of_mean = 4 + np.log(2) / (2 * half_life)  # nearly all of the wave's 4 is left in the fast mean
    assert found == pytest.approx(5 / variance_of_mean * np.log(2) / (2 * half_life), rel=0.3)
    assert found < beside / 10


def test_the_unit_of_a_series_has_no_effect() -> None:
    x = noise(0.8, rows=300)
    assert weights(1e6 * x) == pytest.approx(weights(x), rel=1e-3)


def test_a_row_of_a_constant_series_is_worth_something() -> None:
    found = weights(np.full((50, 1), 7.0))
    assert 0 < found[0] <= 1


@pytest.mark.parametrize(("size", "wanted"), [(0.0, 0.0), (1.0, 1 / 3), (2.0, 2 / 3)])
def test_the_share_of_hours_is_that_of_the_wave_of_a_day(size: float, wanted: float) -> None:
    wave = size * np.sin(2 * np.pi * np.arange(3 * 288) / 288)[:, None]
    independent = np.random.default_rng(13).normal(size=(3 * 288, 20))
    assert np.median(shares(10 + wave + independent)) == pytest.approx(wanted, abs=0.08)


def test_rows_of_a_series_that_wanders_for_days_have_a_share_in_common() -> None:
    """Half of the variance is noise, half of it a walk that half forgets in half a day, which no hour of the day knows of."""
    both = np.sqrt(0.5) * (noise(2 ** (-1 / 144), 8 * 288) + noise(0.0, 8 * 288))
    assert 0.25 < np.median(shares(10 + both)) < 0.75
    assert np.median(shares(10 + noise(0.0, 8 * 288))) < 0.03


def test_a_series_of_one_hour_has_no_share_of_hours() -> None:
    assert shares(noise(0.9, 12)).tolist() == [0.0] * 20
