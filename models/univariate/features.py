"""Features stage: what the univariate model measures of a window. `block_features` computes it; scoring follows in `predictive`.

With x the window's mean, dt the seconds since the last row, and EW_h a mean with half-life h (never less than so many rows):

    log level   sign(x) ln(1 + 50 |x| / EW_days |x|)      step        x - x'; after a gap, over the rows that are missing
    fast mean   EW_20min x                                roughness   ln(1 + 1000 EW_1h |step| / EW_days |step|)
    rhythm      x minus the mean of the hour of the day, and what the week adds (`week`)
    local       asinh((x - fast mean before) / recent roughness)
    spread within   ln of the standard deviation in the window, NaN where it holds one point

Nonsense, of whatever size, hides little: a row that is d spreads off makes the spread of n rows about sqrt(1 + d^2 / n) times as wide. So features
see x at most MOST_WIDER sqrt(n + LEAST_KNOWN) spreads of the rhythm from what is usual at the hour, and of those that grow with x itself (step,
fast mean, rhythm) a row is learnt at most MOST_LEARNT sqrt(n + LEAST_KNOWN) of their spreads from their mean: it makes them 1.4 times as wide
at most. What stays there is known after some rows. There is no bound while a series is warming up, or before it has moved twice.

Recent roughness is that of the rows before. `local` finds a small step in an hour with little noise; a logarithm keeps bursts from
filling its memory. Their surprises do not depend on the unit of x. No spread is less than what rounding, or half the least step between
values, can make of the feature.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Floats
from models.univariate.parameters import UnivariateParameters

MS, HOUR, DAY = 1000.0, 3600.0, 86400.0
LEAST = 1e-30
ARITHMETIC = 1e-9  # of a series' usual size: smaller differences are those of arithmetic
OF_LOGARITHMS = 1e-5
GAP = 1.5  # times the usual interval: more is a gap
INTERVAL_ROWS = 50.0
LONGER = 3.0  # times the usual interval: a gap counts as no more
# Of a series: those before one that is `LONGER` times as short were pauses, and it is the usual interval.
FIRST_GAPS = 4.0
LONG_STEP = 1e-3  # of the mean long-run step: the least roughness
OF_SPREAD = ("long_size", "long_weight", "quantum")
OF_ROUGHNESS = ("long_step", "long_size", "long_weight")
OF_GRAIN = ("long_step", "long_weight")
# How far off a value is seen, and a feature is learnt, in spreads times the root of the rows that are known and LEAST_KNOWN more.
MOST_WIDER, MOST_LEARNT, LEAST_KNOWN = 3.0, 1.0, 1000.0
FINER = 5  # binary digits: how much finer the levels of hours are than a step
Hot = dict[str, Array]


def tiny(long_size: Floats) -> Floats:
    """Largest difference between values of this size that rounding can make, in their unit."""
    return ARITHMETIC * long_size + LEAST


def least_spread(s: Hot) -> Floats:
    """Least spread of values, in their unit, `(n,)`: that of rounding and half a quantum; `s` has the columns `OF_SPREAD`."""
    return tiny(s["long_size"] / s["long_weight"]) + np.maximum(s["quantum"], 0.0) / 2


def grain(s: Hot) -> Floats:
    """Powers of two that levels of hours are multiples of, `(n,)`: a 32nd of the mean long-run step or less; 0 where there was none.

    What is left of a level has few digits, so it is stored in few bytes. `s` has the columns `OF_GRAIN`.
    """
    step = s["long_step"].astype(np.float64) / s["long_weight"]
    return np.where(step > 0, np.ldexp(1.0, np.frexp(step)[1] - 1 - FINER), 0.0)


def rounded(level: Array, grains: Floats) -> Floats:
    """Levels as multiples of their grains, to even halfway; as they are where a grain is 0. Powers of two make it exact."""
    unit = np.where(grains > 0, grains, 1.0)
    return np.where(grains > 0, np.rint(level / unit) * unit, level)


def offset(long_size: Floats) -> Floats:
    """Offset of the log level for values of this mean size, in their unit."""
    return np.maximum(0.02 * long_size, LEAST)


def log_level(x: Floats, least: Floats) -> Floats:
    """Signed logarithm of values in units of `least`."""
    out: Floats = np.sign(x) * np.log1p(np.abs(x) / least)
    return out


def least_rough(s: Hot) -> Floats:
    """Unit in which roughness is taken before its logarithm, `(n,)`; `s` has the columns `OF_ROUGHNESS`."""
    long_step, long_size = s["long_step"] / s["long_weight"], s["long_size"] / s["long_weight"]
    return LONG_STEP * long_step + tiny(long_size)


def fast_before(fast: Floats, weight: Floats, x: Floats) -> Floats:
    """The fast means of series before they learnt their last values `x`, which are those values in series of one row; `(n,)`."""
    gain = 1.0 / weight
    learnt = gain < 1.0
    out: Floats = np.where(learnt, (fast - gain * x) / np.where(learnt, 1.0 - gain, 1.0), x)
    return out


def usual_at_hour(mean: Floats, weight: Floats, overall: Floats, p: UnivariateParameters) -> Floats:
    """Usual value at an hour of the day whose level has this mean and weight, `(n,)`; all levels relative to the first value."""
    out: Floats = (weight * mean + p.rhythm_prior * overall) / (weight + p.rhythm_prior)
    return out
