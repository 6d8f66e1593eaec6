"""How many independent observations are in correlated rows: of a smoothed feature, and of the value itself.

**Smoothed features.** An exponentially weighted mean with gain a averages about R = (2 - a) / a rows, and consecutive means are
nearly equal: k rows hold k / R independent observations. The fast mean (20 minutes) has two in forty minutes, however many rows
those have. The prior width of such a mean follows from the values: first-order autoregressive noise of variance v and lag-one
correlation r, smoothed, has the variance

    v / R (1 + r (1 - a)) / (1 - r (1 - a))          r = 1 - E[step^2] / (2 v)

which counts as `mean_prior_observations` prior observations. So the mean of slowly varying values may move as far as they do, that
of alternating ones may not. This holds for the first days of a series; later the observed variance of its means replaces it.
It fails for a wave that is much longer than the series is old and much higher than its noise.

**Values** (`weight_of_a_row`). The mean of R independent rows has the variance v / R. The observed variance w of the fast mean of the
robust memory gives how many rows make an independent observation, slow waves included, up to the length of that mean:

    weight = (v / R) / w                                     at most 1

A young series has shown few such means, n / R of them. Until then w is mostly the prior width above. It fails for waves much longer than the
series is old.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FAST, ROBUST_FEATURES, VALUE

STEP_OF_MEAN = float(np.sqrt(np.pi / 2))  # root of the mean square of normal steps, in mean absolute steps
LEAST_WEIGHT = 1e-3
LEAST = 1e-300
EULER = 0.5772


def gain(interval: Floats, half_life: float, rows: float) -> Floats:
    """Gain of an exponentially weighted mean for its next row.

    Parameters
    ----------
    interval
        Seconds between rows, shape `(n,)`.
    half_life
        Half-life of the mean, seconds.
    rows
        Least half-life, rows: it applies where rows are far apart.

    Returns
    -------
    Gains in (0, 1), shape `(n,)`.
    """
    out: Floats = -np.expm1(-np.log(2) * np.minimum(interval / half_life, 1 / rows))
    return np.maximum(out, 1e-12)


def rows_per_observation(gains: Floats) -> Floats:
    """Rows that make one independent observation of means with these gains, any shape."""
    return (2 - gains) / gains


def width(variance: Floats, mean_step: Floats, gains: Floats) -> Floats:
    """Standard deviation of an exponentially weighted mean of first-order autoregressive noise.

    Parameters
    ----------
    variance
        Variance of the values, shape `(n,)`.
    mean_step
        Their mean absolute step from row to row, shape `(n,)`.
    gains
        Gains of the mean, shape `(n,)`.

    Returns
    -------
    Standard deviations in the unit of the values, shape `(n,)`.
    """
    square = (STEP_OF_MEAN * mean_step) ** 2
    kept = (1 - square / np.maximum(np.maximum(2 * variance, square), LEAST)) * (1 - gains)
    out: Floats = np.sqrt(variance / rows_per_observation(gains) * (1 + kept) / (1 - kept))
    return out


def weight_of_a_row(hot: Mapping[str, Array], rows: Ints, p: UnivariateParameters) -> Floats:
    """Independent observations that one row of each series is worth.

    Parameters
    ----------
    hot
        Hot columns of all series: see `univariate_state`.
    rows
        Places of the series in them, shape `(n,)`.
    p
        Parameters of the univariate model.

    Returns
    -------
    Weights from `LEAST_WEIGHT` to 1, shape `(n,)`.
    """
    variance = _variance(hot, VALUE, rows)
    step = hot["long_step"][0, rows] / np.maximum(hot["long_weight"][0, rows], LEAST)
    interval = np.maximum(hot["interval"][0, rows].astype(np.float64), LEAST)
    gains = gain(interval, 60 * p.fast_half_life_minutes, p.fast_rows)
    length, seen = rows_per_observation(gains), np.maximum(hot["robust_weight"][VALUE, rows].astype(np.float64), 1.0)
    # A mean of the first rows is one of few: over n rows its variance is v / 1, v / 2, ..., v / R, v / R, ...
    least = variance * (np.log(np.minimum(seen, length)) + EULER + np.maximum(seen - length, 0) / length) / seen
    expected = least * width(variance, step, gains) ** 2 / np.maximum(variance / length, LEAST)
    observations, prior = seen / length, p.mean_prior_observations
    of_mean = _variance(hot, ROBUST_FEATURES.index(FAST), rows)
    found = (prior * expected + observations * of_mean) / (prior + observations)
    out: Floats = np.clip(least / np.maximum(found, LEAST), LEAST_WEIGHT, 1.0)
    return out


def _variance(hot: Mapping[str, Array], place: int, rows: Ints) -> Floats:
    """Variance of what the robust memory has at `place`, shape `(n,)`."""
    sums, weight = (hot[name][place, rows].astype(np.float64) for name in ("robust_sums", "robust_weight"))
    out: Floats = np.maximum(sums / np.maximum(weight, LEAST), LEAST)
    return out
