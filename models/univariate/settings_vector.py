"""The settings of the univariate model as the compiled step takes them: numbers in a row, ratios and logarithms worked out."""

from __future__ import annotations

import math

import numpy as np

from models.core.arrays import Floats
from models.stats.normal_gamma import WIDE
from models.univariate import predictive
from models.univariate.features import DAY
from models.univariate.parameters import UnivariateParameters

(
    FAST_SECONDS,
    FAST_ROWS,
    ROUGH_SECONDS,
    ROUGH_ROWS,
    SCALE_SECONDS,
    SCALE_ROWS,
    HOURLY_SECONDS,
    HOURLY_ROWS,
    LEVEL_ROWS,
    RHYTHM_PRIOR,
    PRIOR_ROWS,
    FIRST_SECONDS,
    FLOOR,
    STEADY,
    OUTLIER_BOUND,
    TRUST_SECONDS,
    LEAST_WEIGHT,
    LOG_TOLERANCE,
    PRIOR_POWER,
    NORM,
    WARM_UP_ROWS,
    REACH,
    STEP_SHARE,
    RECURRING_SHARE,
) = range(24)


def settings_vector(p: UnivariateParameters) -> Floats:
    """The numbers by their places above: half-lives in seconds, the logarithm of the odds of an outlier, half of the interval in scales."""
    bound = math.log((1 - p.outlier_share) / p.outlier_share * WIDE)
    found = {
        FAST_SECONDS: 60 * p.fast_half_life_minutes,
        FAST_ROWS: p.fast_rows,
        ROUGH_SECONDS: 60 * p.rough_half_life_minutes,
        ROUGH_ROWS: p.rough_rows,
        SCALE_SECONDS: DAY * p.scale_half_life_days,
        SCALE_ROWS: p.scale_rows,
        HOURLY_SECONDS: 0.6 * DAY * p.level_half_life_days,
        HOURLY_ROWS: 0.6 * p.level_rows,
        LEVEL_ROWS: p.level_rows,
        RHYTHM_PRIOR: p.rhythm_prior,
        PRIOR_ROWS: p.prior_rows,
        FIRST_SECONDS: 60 * p.first_minutes,
        FLOOR: p.relative_floor,
        STEADY: p.steady_share,
        OUTLIER_BOUND: bound,
        TRUST_SECONDS: DAY * p.trust_days,
        LEAST_WEIGHT: p.least_weight,
        LOG_TOLERANCE: math.log(p.tolerance),
        PRIOR_POWER: p.prior_power,
        NORM: p.norm,
        WARM_UP_ROWS: p.warm_up_rows,
        REACH: predictive.reach_of(p),
        STEP_SHARE: p.step_share,
        RECURRING_SHARE: p.recurring_share,
    }
    return np.array([float(found[place]) for place in range(len(found))])
