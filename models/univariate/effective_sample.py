"""How many independent observations a row of a series is worth: its neighbours are like it.

With the lag-one correlation r of a first-order autoregressive process, n rows tell as much of the level as n (1 - r) / (1 + r) independent
ones (Bayley and Hammersley 1946, "The effective number of independent observations in an autocorrelated time series").
The correlation follows from two numbers that the model has anyway, the variance v of the values and the mean square of their steps:

    r = 1 - E[step^2] / (2 v)

It fails where the correlation falls more slowly than in such a process: for waves of many rows, it is too large.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.univariate.univariate_state import VALUE

SQUARE_OF_STEP = np.pi / 2  # mean square of normal steps, by the square of their mean size
MOST_CORRELATED = 0.9
LEAST = 1e-300


def weight_of_a_row(hot: Mapping[str, Array], rows: Ints) -> Floats:
    """Independent observations that one row of each series is worth, above 0 to 1, shape `(n,)`.

    Parameters
    ----------
    hot
        Hot columns of all series: see `univariate_state`.
    rows
        Places of the series in them, shape `(n,)`.
    """
    sums, weight = (hot[name][VALUE, rows].astype(np.float64) for name in ("robust_sums", "robust_weight"))
    step = hot["long_step"][0, rows] / np.maximum(hot["long_weight"][0, rows].astype(np.float64), LEAST)
    twice = 2 * sums / np.maximum(weight, LEAST)
    correlation = np.clip(1 - SQUARE_OF_STEP * step**2 / np.maximum(twice, LEAST), 0.0, MOST_CORRELATED)
    out: Floats = (1 - correlation) / (1 + correlation)
    return out
