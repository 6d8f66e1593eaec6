"""Predictive stage: how surprising the features of a window are, by the two memories of each series, and what these learn from it.
`block_predictive` computes it.

Both memories are discounted Normal-Gamma posteriors (`models.stats.normal_gamma`) of features. *Ever* has all features and learns every
row, of a young series outliers less. *Robust* has those of `ROBUST_FEATURES` and the value itself; it hardly learns outliers, so it stays with what
is healthy. They differ in their priors and in the weights with which they learn, and share everything else.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats
from models.stats import normal_gamma
from models.univariate.parameters import UnivariateParameters

ONE_YESTERDAY = 2**0.5  # a residual against a single day is so much wider: that day was as far off
ROBUST_FROM = 20  # rows from which the robust memory gives weights
DEGREES = 8  # of the interval
LARGEST_SUM = 3e38  # sums of squares are kept in single precision


def reach_of(p: UnivariateParameters) -> float:
    """Half of the interval's width, in scales."""
    return normal_gamma.t_quantile(DEGREES, p.interval_probability)


def spread_of(mean: Floats, sums: Floats, weight: Floats, least: Floats, p: UnivariateParameters) -> Floats:
    """Predictive scale of the value, in its unit, `(n,)`."""
    found = np.sqrt((sums + p.prior_rows * (p.relative_floor * mean) ** 2) / (weight + p.prior_rows))
    return np.maximum(found, least)
