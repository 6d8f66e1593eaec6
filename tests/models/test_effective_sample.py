"""Independent observations in smoothed features, and their prior widths, against simulation."""

import numpy as np
import pytest
from scipy import signal

from models.univariate import effective_sample


def means_of_noise(memory: float, gain: float, rows: int = 400_000) -> tuple[np.ndarray, np.ndarray]:
    """First-order autoregressive noise of unit variance, and its mean that learns each value with a gain."""
    shocks = np.random.default_rng(0).normal(0, np.sqrt(1 - memory**2), rows)
    x = signal.lfilter([1.0], [1.0, -memory], shocks)
    return x, signal.lfilter([gain], [1.0, gain - 1.0], x)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.95, 0.99])
@pytest.mark.parametrize("gain", [0.3, 0.05, 0.01])
def test_the_width_is_that_of_a_mean_of_autoregressive_noise(memory: float, gain: float) -> None:
    x, mean = means_of_noise(memory, gain)
    found = effective_sample.width(np.array([x.var()]), np.array([np.abs(np.diff(x)).mean()]), np.array([gain]))
    assert found[0] == pytest.approx(mean[5000:].std(), rel=0.12)


@pytest.mark.parametrize("gain", [0.3, 0.05, 0.01])
def test_the_error_of_an_average_of_means_follows_from_their_independent_observations(gain: float) -> None:
    _, mean = means_of_noise(0.0, gain)
    rows = 20_000
    averages = mean[5000 : 5000 + rows * 19].reshape(19, rows).mean(axis=1)
    observations = rows / effective_sample.rows_per_observation(np.array([gain]))[0]
    assert averages.std() == pytest.approx(mean.std() / np.sqrt(observations), rel=0.45)


def test_a_gain_goes_by_time_and_never_beyond_a_number_of_rows() -> None:
    seconds = np.array([10.0, 300.0, 1e6])
    assert effective_sample.gain(seconds, 1200.0, 4.0) == pytest.approx(
        [1 - 2 ** (-1 / 120), 1 - 2**-0.25, 1 - 2**-0.25]
    )


def test_a_constant_series_has_no_width() -> None:
    assert effective_sample.width(np.zeros(1), np.zeros(1), np.array([0.01]))[0] == 0.0
