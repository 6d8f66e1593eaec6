"""Predictive stage, compiled: surprises of the features of a block under both memories, which then learn them. See `predictive`."""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats
from models.core.compiled import inlined
from models.stats.elementary import exp, log1p, two_sided
from models.stats.normal_gamma import KNOWN, MOST_NATS, TINY, WIDE
from models.univariate import block as b
from models.univariate.block import Scratch
from models.univariate.features import DAY, LEAST_KNOWN, MOST_LEARNT
from models.univariate.predictive import LARGEST_SUM, ONE_YESTERDAY, ROBUST_FROM
from models.univariate.settings_vector import FLOOR, LEAST_WEIGHT, OUTLIER_BOUND, PRIOR_ROWS, REACH
from models.univariate.univariate_state import FAST, LOG_LEVEL, N_FEATURES, N_ROBUST, RHYTHM, STEP, VALUE, WITHIN

FEW = KNOWN - 0.5
F = np.float32


@inlined
def regular(tau: float, nu: float, bound: float) -> float:
    """Posterior probability that a value is no outlier: see `normal_gamma.regular`."""
    square = tau * tau / nu
    odds = log1p(square) - log1p(square / (WIDE * WIDE))
    return 1.0 / (1.0 + exp((nu + 1.0) / 2.0 * odds - bound))


@inlined
def scale_of(sums: float, nu: float, rows: float, prior: float, least: float) -> float:
    """Predictive scale, before that of the mean's own uncertainty."""
    scale = np.sqrt((sums + rows * prior * prior) / nu)
    return scale if scale > least else least


@inlined
def surprisal(tau: float, nu: float) -> float:
    """Surprisal under Student's t, nats: see `normal_gamma.surprisal`."""
    z = np.sqrt(nu * log1p(tau * tau / nu)) * ((8.0 * nu + 1.0) / (8.0 * nu + 3.0))
    out = two_sided(z if z < 20.0 else 20.0)
    out = out if out > 0.0 else 0.0
    return out if out < MOST_NATS else MOST_NATS


@inlined
def wider(w: Scratch, m: int) -> None:
    """Factor by which the rhythm residual is wider: see `predictive.second_day`."""
    for j in range(m):
        days = w[b.ROWS, j] * w[b.INTERVAL, j] / DAY
        more = 1.0 + (ONE_YESTERDAY - 1.0) * (2.0 - days if days < 2.0 else 0.0)
        w[b.WIDER, j] = 1.0 if days < 1.0 else more


@inlined
def step_ever(w: Scratch, m: int, q: Floats) -> None:
    """Surprises under the memory that learns everything, and what it learns."""
    rows, relative = q[PRIOR_ROWS], q[FLOOR]
    wider(w, m)
    for f in range(N_FEATURES):
        of_weight = b.WITHIN_WEIGHT if f == WITHIN else b.WEIGHT
        floor = 0.0 if f == LOG_LEVEL else relative
        spreads = MOST_LEARNT if (f == STEP) | (f == FAST) | (f == RHYTHM) else np.inf
        for j in range(m):
            mean, sums, weight = w[b.MEAN + f, j], w[b.SUMS + f, j], w[of_weight, j]
            value = w[b.VALUES + f, j]
            known = ~np.isnan(value)
            deviation = value - mean if known else 0.0
            nu = weight + rows
            scale = scale_of(sums, nu, rows, floor * abs(mean), w[b.LEASTS + f, j])
            tau = abs(deviation) / (scale * np.sqrt(1.0 + 1.0 / (weight if weight > TINY else TINY)))
            tau = tau / (w[b.WIDER, j] if f == RHYTHM else 1.0)
            w[b.SURPRISES + f, j] = 0.0 if weight < FEW else surprisal(tau, nu)
            w[b.DEVIATIONS + f, j] = deviation
            learnt = w[b.TRUST, j] if (f != WITHIN) | known else 0.0
            before = weight * w[b.KEEP, j]
            after = before + learnt
            gain = learnt / (after if after > TINY else TINY)
            most = spreads * np.sqrt(weight + LEAST_KNOWN) * scale
            most = np.inf if w[b.WARMING, j] > 0 else most
            deviation = most if deviation > most else deviation
            deviation = -most if deviation < -most else deviation
            total = sums * w[b.KEEP, j] + gain * before * deviation * deviation
            w[b.SUMS + f, j] = F(total if total < LARGEST_SUM else LARGEST_SUM)
            mean = mean + gain * deviation
            w[b.MEAN + f, j] = mean if (f == LOG_LEVEL) | (f == FAST) else F(mean)
            w[b.TAILS + f, j] = after
    for j in range(m):
        w[b.WEIGHT, j] = F(w[b.TAILS, j])
        w[b.WITHIN_WEIGHT, j] = F(w[b.TAILS + WITHIN, j])


@inlined
def interval(w: Scratch, m: int, q: Floats) -> None:
    """Typical value and half of the width of the interval, by the robust memory before it learns."""
    rows, relative, reach = q[PRIOR_ROWS], q[FLOOR], q[REACH]
    for j in range(m):
        mean = w[b.ROBUST_MEAN + VALUE, j]
        spread, least = relative * mean, w[b.LEASTS + STEP, j]
        scale = np.sqrt(
            (w[b.ROBUST_SUMS + VALUE, j] + rows * (spread * spread)) / (w[b.ROBUST_WEIGHT + VALUE, j] + rows)
        )
        w[b.TYPICAL, j] = mean
        w[b.REACH, j] = (scale if scale > least else least) * reach


@inlined
def step_robust(w: Scratch, m: int, q: Floats) -> None:
    """Surprises under the robust memory, and what it learns."""
    rows, relative, least_weight, bound = q[PRIOR_ROWS], q[FLOOR], q[LEAST_WEIGHT], q[OUTLIER_BOUND]
    for f in range(N_ROBUST + 1):
        of_value, of_least = (b.X, b.LEASTS + STEP) if f == VALUE else (b.VALUES + f, b.LEASTS + f)
        for j in range(m):
            w[b.ROBUST_MEAN + f, j] = w[of_value, j] if w[b.ROWS, j] == 0 else w[b.ROBUST_MEAN + f, j]
        if f == VALUE:
            interval(w, m, q)
        floor = 0.0 if f == LOG_LEVEL else relative
        for j in range(m):
            mean, sums, weight = w[b.ROBUST_MEAN + f, j], w[b.ROBUST_SUMS + f, j], w[b.ROBUST_WEIGHT + f, j]
            deviation = w[of_value, j] - mean
            nu = weight + rows
            scale = scale_of(sums, nu, rows, floor * abs(mean), w[of_least, j])
            tau = abs(deviation) / (scale * np.sqrt(1.0 + 1.0 / (weight if weight > TINY else TINY)))
            learnt = least_weight + (1.0 - least_weight) * regular(tau, nu, bound)
            learnt = 1.0 if w[b.ROWS, j] < ROBUST_FROM else learnt
            before = weight * w[b.KEEP_ROBUST, j]
            after = before + learnt
            gain = learnt / (after if after > TINY else TINY)
            total = sums * w[b.KEEP_ROBUST, j] + gain * before * deviation * deviation
            w[b.ROBUST_SUMS + f, j] = F(total if total < LARGEST_SUM else LARGEST_SUM)
            mean = mean + gain * deviation
            w[b.ROBUST_MEAN + f, j] = mean if (f == LOG_LEVEL) | (f >= VALUE) | (f == FAST) else F(mean)
            w[b.ROBUST_WEIGHT + f, j] = F(after)
            w[b.TAILS, j], w[b.TAILS + 1, j] = tau, nu
        if f != VALUE:
            for j in range(m):
                found = surprisal(w[b.TAILS, j], w[b.TAILS + 1, j])
                w[b.ROBUST_SURPRISES + f, j] = 0.0 if w[b.ROWS, j] < KNOWN else found
