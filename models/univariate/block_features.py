"""Features stage, compiled: what is measured of the windows of a block. See `features` for the formulas.

What a state keeps in single precision is rounded to it at once, as are sums and quotients of such numbers alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.core.arrays import Floats
from models.core.compiled import inlined
from models.stats.elementary import asinh, exp2, log, log1p
from models.stats.normal_gamma import TINY
from models.univariate import block as b
from models.univariate.block import Scratch
from models.univariate.block_predictive import regular, scale_of
from models.univariate.features import (
    ARITHMETIC,
    FIRST_GAPS,
    GAP,
    INTERVAL_ROWS,
    LEAST,
    LEAST_KNOWN,
    LONG_STEP,
    LONGER,
    MOST_WIDER,
    MS,
    OF_LOGARITHMS,
)
from models.univariate.settings_vector import (
    FAST_ROWS,
    FAST_SECONDS,
    FLOOR,
    HOURLY_ROWS,
    HOURLY_SECONDS,
    LEAST_WEIGHT,
    OUTLIER_BOUND,
    PRIOR_ROWS,
    RHYTHM_PRIOR,
    ROUGH_ROWS,
    ROUGH_SECONDS,
    SCALE_ROWS,
    SCALE_SECONDS,
    STEADY,
    TRUST_SECONDS,
    WARM_UP_ROWS,
)
from models.univariate.univariate_state import FAST, LOCAL, LOG_LEVEL, RHYTHM, ROUGH, STEP, VALUE, WITHIN

SLOWEST = 1 - 2 ** (-1 / INTERVAL_ROWS)
ROBUST_FROM = 20.0
F = np.float32
ARITHMETIC_F, LEAST_F, LONG_STEP_F, ZERO, TINY_F, OFFSET_F = (
    F(ARITHMETIC),
    F(LEAST),
    F(LONG_STEP),
    F(0.0),
    F(TINY),
    F(0.02),
)


@inlined
def tiny(size: Any) -> Any:
    """Largest difference between values of this size that rounding can make, in single precision."""
    return ARITHMETIC_F * size + LEAST_F


@inlined
def share_left(seconds: float, half_life: float, rows: float) -> float:
    """Share of a memory that is left."""
    share = seconds / half_life
    most = 1.0 / rows
    return exp2(-(share if share < most else most))


@inlined
def begin_rows(w: Scratch, m: int, q: Floats) -> None:
    """Which series are warming up, and the weight with which each row is learnt by the memory that learns everything."""
    least_weight, days, floor, prior = q[LEAST_WEIGHT], q[TRUST_SECONDS], q[FLOOR], q[PRIOR_ROWS]
    warm_up_rows, young = q[WARM_UP_ROWS], 0
    for j in range(m):
        rows = w[b.ROWS, j]
        age = rows * w[b.INTERVAL, j]
        few = (rows < warm_up_rows) | (age < 60 * w[b.WARM_UP_MINUTES, j])
        w[b.WARMING, j] = 1.0 if few else 0.0
        share = age / days
        share = share if share > least_weight else least_weight
        share = share if (share < 1.0) & (rows >= ROBUST_FROM) else 1.0
        w[b.TRUST, j] = share
        young += share < 1.0
    if young == 0:
        return
    for j in range(m):
        share, mean = w[b.TRUST, j], w[b.ROBUST_MEAN + VALUE, j]
        weight = F(w[b.ROBUST_WEIGHT + VALUE, j])
        size = F(w[b.LONG_SIZE, j]) / F(w[b.LONG_WEIGHT, j])
        quantum = F(w[b.QUANTUM, j])
        least = tiny(size) + (quantum if quantum > ZERO else ZERO) / F(2.0)
        spread = floor * abs(mean)
        nu = weight + F(prior)
        scale = np.sqrt((w[b.ROBUST_SUMS + VALUE, j] + prior * spread * spread) / nu)
        scale = scale if scale > least else np.float64(least)
        rest = weight if weight > TINY_F else TINY_F
        tau = abs(w[b.X, j] - mean) / (scale * np.sqrt(F(1.0) + F(1.0) / rest))
        more = share + (1 - share) * regular(tau, np.float64(nu), q[OUTLIER_BOUND])
        w[b.TRUST, j] = more if share < 1.0 else 1.0


@inlined
def usual_at_hour(mean: float, weight: float, overall: float, prior: float) -> float:
    """See `features.usual_at_hour`."""
    return (weight * mean + prior * overall) / (weight + prior)


@inlined
def limit_values(w: Scratch, m: int, q: Floats) -> None:
    """Bring values to within reach of what is usual at this hour of the day and the week: see `features`."""
    prior, hour = q[PRIOR_ROWS], q[RHYTHM_PRIOR]
    for j in range(m):
        quantum, weight = w[b.QUANTUM, j], w[b.WEIGHT, j]
        scale = scale_of(w[b.SUMS + RHYTHM, j], weight + prior, 0.0, 0.0, quantum)
        first = w[b.FIRST_VALUE, j]
        at_hour = usual_at_hour(w[b.HOUR_MEAN, j], w[b.HOUR_WEIGHT, j], w[b.OVERALL, j] - first, hour)
        usual = first + at_hour + w[b.OF_WEEK, j]
        off = MOST_WIDER * np.sqrt(weight + LEAST_KNOWN) * scale
        off = off if (quantum > 0) & (w[b.WARMING, j] == 0) else np.inf
        low, high = usual - off, usual + off
        value = high if w[b.X, j] > high else w[b.X, j]
        w[b.X, j] = low if value < low else value


@inlined
def rhythm(w: Scratch, m: int, q: Floats) -> None:
    """The value minus what is usual at this hour of the day and the week; then the level of the hour is learnt."""
    prior, half_life, least = q[RHYTHM_PRIOR], q[HOURLY_SECONDS], q[HOURLY_ROWS]
    for j in range(m):
        trust, x, first = w[b.TRUST, j], w[b.X, j], w[b.FIRST_VALUE, j]
        weight, mean, overall = w[b.HOUR_WEIGHT, j], w[b.HOUR_MEAN, j], w[b.OVERALL, j]
        moved = x - first
        usual = usual_at_hour(mean, weight, overall - first, prior)
        before = w[b.OVERALL_WEIGHT, j]
        w[b.RESIDUAL, j] = 0.0 if before == 0 else moved - usual - w[b.OF_WEEK, j]
        total = before * share_left(w[b.SECONDS, j], half_life, least) + trust
        w[b.OVERALL, j] = overall + trust * (x - overall) / total
        w[b.OVERALL_WEIGHT, j] = F(total)
        weight += trust
        w[b.HOUR_MEAN, j] = F(mean + trust * (moved - mean) / weight)
        w[b.HOUR_WEIGHT, j] = F(weight)


@inlined
def steps(w: Scratch, m: int) -> None:
    """Time and difference since the last row, the usual interval and the quantum."""
    for j in range(m):
        x, rows = w[b.X, j], w[b.ROWS, j]
        new = rows == 0
        passed = w[b.NOW, j] - w[b.TIME, j]
        seconds = 0.0 if new else (passed if passed > 0 else 0.0) / MS
        step = 0.0 if new else x - w[b.PREVIOUS, j]
        usual = w[b.INTERVAL, j]
        usual = seconds if (rows == 1) | ((rows <= FIRST_GAPS) & (LONGER * seconds < usual)) else usual
        missing = seconds / (usual if usual > LEAST else LEAST)
        gain = 1.0 / (rows if rows > 1.0 else 1.0)
        gain = gain if gain > SLOWEST else SLOWEST
        bounded = seconds if seconds < LONGER * usual else LONGER * usual
        w[b.INTERVAL, j] = F(0.0 if new else usual + gain * (bounded - usual))
        w[b.SECONDS, j] = seconds
        w[b.VALUES + STEP, j] = step / missing if seconds > GAP * usual else step
        moves, known = abs(step), abs(w[b.QUANTUM, j])
        least = (moves if moves < known else known) if known > 0 else -moves
        w[b.QUANTUM, j] = F(least if moves > 0 else w[b.QUANTUM, j])


@inlined
def sums(w: Scratch, m: int, q: Floats) -> None:
    """The fast mean, the recent roughness and the long-run sizes of steps and values; the scale of `local` with them."""
    fast, fast_rows, rough, rough_rows = q[FAST_SECONDS], q[FAST_ROWS], q[ROUGH_SECONDS], q[ROUGH_ROWS]
    scale_seconds, scale_rows, steady = q[SCALE_SECONDS], q[SCALE_ROWS], q[STEADY]
    for j in range(m):
        keep = share_left(w[b.SECONDS, j], fast, fast_rows)
        x = w[b.X, j]
        before = x if w[b.ROWS, j] == 0 else w[b.FAST_MEAN, j]
        weight = F(w[b.FAST_WEIGHT, j] * keep + 1.0)
        w[b.FAST_WEIGHT, j] = weight
        w[b.FAST_MEAN, j] = before + (x - before) / weight
        w[b.SPARE, j] = x - before
    for j in range(m):
        size, keep = abs(w[b.VALUES + STEP, j]), share_left(w[b.SECONDS, j], rough, rough_rows)
        weight = F(w[b.ROUGH_WEIGHT, j])
        before = F(w[b.ROUGH_SUM, j]) / (weight if weight > LEAST_F else LEAST_F)
        w[b.SCALE, j] = F(1 - steady) * (ZERO if w[b.ROWS, j] == 0 else before)
        w[b.ROUGH_SUM, j] = F(w[b.ROUGH_SUM, j] * keep + size)
        w[b.ROUGH_WEIGHT, j] = F(w[b.ROUGH_WEIGHT, j] * keep + 1.0)
    for j in range(m):
        size, keep = abs(w[b.VALUES + STEP, j]), share_left(w[b.SECONDS, j], scale_seconds, scale_rows)
        long_step = F(w[b.LONG_STEP, j] * keep + size)
        long_size = F(w[b.LONG_SIZE, j] * keep + abs(w[b.X, j]))
        weight = F(w[b.LONG_WEIGHT, j] * keep + 1.0)
        w[b.LONG_STEP, j], w[b.LONG_SIZE, j], w[b.LONG_WEIGHT, j] = long_step, long_size, weight
        mean_step, mean_size = long_step / weight, long_size / weight
        w[b.LONG_STEP_NOW, j], w[b.LONG_SIZE_NOW, j] = mean_step, mean_size
        w[b.SCALE, j] = np.float64(F(w[b.SCALE, j]) + F(steady) * mean_step) + np.float64(tiny(mean_size))


@inlined
def values(w: Scratch, m: int) -> None:
    """The features and their least spreads, of what `steps`, `rhythm` and `sums` have made."""
    for j in range(m):
        x, size = w[b.X, j], F(w[b.LONG_SIZE_NOW, j])
        quantum = w[b.QUANTUM, j] if w[b.QUANTUM, j] > 0 else 0.0
        value, mean = quantum / 2, quantum / 8
        offset = OFFSET_F * size
        offset = offset if offset > LEAST_F else LEAST_F
        level = log1p(abs(x) / offset)
        w[b.VALUES + LOG_LEVEL, j] = -level if x < 0 else level
        w[b.LEASTS + LOG_LEVEL, j] = OF_LOGARITHMS + value / ((abs(x) + offset) + value)
        least = np.float64(tiny(size))
        w[b.LEASTS + STEP, j] = w[b.LEASTS + RHYTHM, j] = least + value
        w[b.VALUES + FAST, j], w[b.LEASTS + FAST, j] = w[b.FAST_MEAN, j], least + mean
        w[b.VALUES + RHYTHM, j] = w[b.RESIDUAL, j]
    for j in range(m):
        long_step = F(w[b.LONG_STEP_NOW, j])
        floor = LONG_STEP_F * long_step + tiny(F(w[b.LONG_SIZE_NOW, j]))
        rough = F(w[b.ROUGH_SUM, j]) / F(w[b.ROUGH_WEIGHT, j]) / floor
        w[b.VALUES + ROUGH, j] = F(log1p(np.float64(rough)))
        more = log1p(w[b.LEASTS + FAST, j] / floor) - F(log1p(np.float64(long_step / floor)))
        w[b.LEASTS + ROUGH, j] = OF_LOGARITHMS + (more if more > 0 else 0.0)
    for j in range(m):
        scale, least = w[b.SCALE, j], w[b.LEASTS + STEP, j]
        w[b.VALUES + LOCAL, j] = asinh(w[b.SPARE, j] / scale)
        w[b.LEASTS + LOCAL, j] = OF_LOGARITHMS + least / (scale + least)
    for j in range(m):
        step, least = LONG_STEP_F * F(w[b.LONG_STEP_NOW, j]), np.float64(tiny(F(w[b.LONG_SIZE_NOW, j])))
        spread = log(w[b.SQUARES, j] / w[b.POINTS, j] + step * step + least * least) / 2
        w[b.VALUES + WITHIN, j] = spread if w[b.POINTS, j] > 1 else np.nan
        w[b.LEASTS + WITHIN, j] = OF_LOGARITHMS
        w[b.LAST_VALUE, j] = w[b.PREVIOUS, j]
        w[b.PREVIOUS, j], w[b.TIME, j] = w[b.X, j], w[b.NOW, j]
