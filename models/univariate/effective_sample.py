"""What a row of a series is worth as evidence: less than one, where neighbours depend on each other.

The mean of R independent rows has a variance of v / R. What the fast mean of a healthy series really varies by, w, says how
many rows an independent one takes, slow waves included, up to the length of that mean:

    worth = (v / R) / w                                     at most 1

A young series has shown few such means, n / R of them. Until it has, w is mostly what follows from its steps, as if it were
first-order autoregressive noise (`smoothed`), which is worth a number of looks. It fails for waves that are much longer than the
series is old.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.univariate import smoothed_features
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FAST, HEALTHY, WELL

LEAST = 1e-3
TINY = 1e-300
EULER = 0.5772


def worth(hot: Mapping[str, Array], rows: Ints, p: UnivariateParameters) -> Floats:
    """What a row of each of these series is worth, `(n,)`, of the hot columns of all."""
    variance = _variance(hot, WELL, rows)
    step = hot["long_step"][0, rows] / np.maximum(hot["long_weight"][0, rows], TINY)
    interval = np.maximum(hot["interval"][0, rows].astype(np.float64), TINY)
    gain = smoothed_features.gain(interval, 60 * p.fast_half_life_minutes, p.fast_rows)
    length, seen = (
        smoothed_features.rows_a_look(gain),
        np.maximum(hot["well_weight"][WELL, rows].astype(np.float64), 1.0),
    )
    # A mean of the first rows is one of few: over n rows its variance is v / 1, v / 2, ..., v / R, v / R, ...
    least = variance * (np.log(np.minimum(seen, length)) + EULER + np.maximum(seen - length, 0) / length) / seen
    expected = least * smoothed_features.width(variance, step, gain) ** 2 / np.maximum(variance / length, TINY)
    looks = seen / length
    found = (p.mean_prior_looks * expected + looks * _variance(hot, HEALTHY.index(FAST), rows)) / (
        p.mean_prior_looks + looks
    )
    out: Floats = np.clip(least / np.maximum(found, TINY), LEAST, 1.0)
    return out


def _variance(hot: Mapping[str, Array], member: int, rows: Ints) -> Floats:
    sums, weight = (hot[name][member, rows].astype(np.float64) for name in ("well_sums", "well_weight"))
    out: Floats = np.maximum(sums / np.maximum(weight, TINY), TINY)
    return out
