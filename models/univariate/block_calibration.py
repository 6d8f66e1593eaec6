"""Calibration stage, compiled: nats of the joined scores of a block, and what each series learns of its scores.

See `models.stats.reference_distribution` and `models.stats.per_series_calibration`.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Ints
from models.core.compiled import inlined
from models.stats import per_series_calibration as psc
from models.stats import reference_distribution as ref
from models.stats.elementary import exp, log1p
from models.univariate import block as b
from models.univariate.block import HotColumns, Scratch
from models.univariate.block_features import share_left
from models.univariate.features import DAY

CALIBRATION_DAYS, CALIBRATION_ROWS = 0.4, 100.0  # half-life of the per-series calibration, and its least one in rows
F = np.float32
SCORES, NATS = np.array(ref.QUANTILES), np.array(ref.SURPRISALS)
SLOPES = np.append(np.diff(NATS) / np.diff(SCORES), (NATS[-1] - NATS[-2]) / (SCORES[-1] - SCORES[-2]))
CHANCES = len(psc.CHANCES)
BODY, RISE, UP, SLOWER = psc.BODY, psc.RISE, psc.UP, psc.SLOWER
MOST_DOWN = psc.STEP_NATS * psc.CHANCES
YOUTH, YOUNG, LONG_SECONDS = ref.YOUTH, ref.YOUNG, ref.LONG_SECONDS
PRIOR_EXCESSES, PRIOR_SUM, STEEPEST = psc.PRIOR_EXCESSES, psc.PRIOR_EXCESSES / psc.PRIOR_RATE, psc.STEEPEST
LEAST_GAP, STRANGE, LONGER, GAIN, PRIOR_ROWS = psc.LEAST_GAP, psc.STRANGE, psc.LONGER, psc.GAIN, psc.PRIOR_ROWS
OFF_GAIN, MOST_COUNTED = psc.OFF_GAIN, psc.MOST_COUNTED


@inlined
def by_reference(w: Scratch, m: int) -> None:
    """Surprisal of the joined scores under the reference distribution, or what a step counts in any case; NaN while warming up."""
    for j in range(m):
        w[b.SPARE, j] = SCORES[0]
        w[b.TAILS, j] = NATS[0]
        w[b.TAILS + 1, j] = SLOPES[0]
    for k in range(1, len(SCORES)):
        score, nats, slope = SCORES[k], NATS[k], SLOPES[k]
        for j in range(m):
            beyond = w[b.JOINED, j] >= score
            w[b.SPARE, j] = score if beyond else w[b.SPARE, j]
            w[b.TAILS, j] = nats if beyond else w[b.TAILS, j]
            w[b.TAILS + 1, j] = slope if beyond else w[b.TAILS + 1, j]
    for j in range(m):
        out = w[b.TAILS + 1, j] * (w[b.JOINED, j] - w[b.SPARE, j]) + w[b.TAILS, j]
        out = out if out > w[b.OF_STEP, j] else w[b.OF_STEP, j]
        long, age = w[b.INTERVAL, j] / LONG_SECONDS, w[b.BLOCKS, j] / YOUNG
        youth = YOUTH * (long if long < 1.0 else 1.0)
        out = out / (1.0 + youth * exp(-(age * age)))
        warming = w[b.WARMING, j] > 0
        out = out if out > w[b.FAR, j] else w[b.FAR, j]
        w[b.BASE, j] = np.nan if warming else out
        w[b.JOINED_ROBUST, j] = np.nan if warming else w[b.JOINED_ROBUST, j]


@inlined
def by_series(w: Scratch, m: int) -> None:
    """Surprisal of those in each series: see `per_series_calibration.surprisal`."""
    for j in range(m):
        w[b.TAILS, j], w[b.TAILS + 1, j] = 0.0, w[b.QUANTILES, j]
        w[b.TAILS + 2, j], w[b.TAILS + 3, j] = BODY[0], RISE[0]
    for k in range(CHANCES):
        body, rise = BODY[k + 1], RISE[k + 1]
        following = b.QUANTILES + min(k + 1, CHANCES - 1)
        for j in range(m):
            above = w[b.BASE, j] > w[b.QUANTILES + k, j]
            w[b.TAILS, j] = w[b.QUANTILES + k, j] if above else w[b.TAILS, j]
            w[b.TAILS + 1, j] = w[following, j] if above else w[b.TAILS + 1, j]
            w[b.TAILS + 2, j] = body if above else w[b.TAILS + 2, j]
            w[b.TAILS + 3, j] = rise if above else w[b.TAILS + 3, j]
    for j in range(m):
        base, left = w[b.BASE, j], w[b.TAILS, j]
        width = w[b.TAILS + 1, j] - left
        share = (base - left) / (width if width > LEAST_GAP else LEAST_GAP)
        share = 1.0 if share > 1.0 else share
        inside = w[b.TAILS + 2, j] + w[b.TAILS + 3, j] * share
        shape, scale = PRIOR_EXCESSES + w[b.TAIL, j], PRIOR_SUM + w[b.TAIL + 1, j]
        least = shape / STEEPEST
        excess = base - w[b.QUANTILES + CHANCES - 1, j]
        out = inside + shape * log1p((excess if excess > 0.0 else 0.0) / (scale if scale > least else least))
        w[b.SCORE, j] = out if ~(out < w[b.FAR, j]) else w[b.FAR, j]  # NaN stays


@inlined
def learn(w: Scratch, m: int, series: Ints, hot: HotColumns) -> None:
    """Learn the scores: see `per_series_calibration.learn`."""
    last = b.QUANTILES + CHANCES - 1
    for j in range(m):
        blocks = w[b.BLOCKS, j]
        share = blocks / (blocks + 1.0)
        rows = w[b.ROWS, j] * (share * share)  # scores are others before the first blocks have ended
        forgotten = 1.0 - share_left(w[b.SECONDS, j], DAY * CALIBRATION_DAYS, CALIBRATION_ROWS)
        least = OFF_GAIN * w[b.OFF, j]
        w[b.TAILS, j] = forgotten if forgotten > least else least
        w[b.TAILS + 1, j] = GAIN / (rows + GAIN * PRIOR_ROWS)
        w[b.TAILS + 2, j] = w[b.BASE, j] - w[last, j]  # the excess
    for k in range(CHANCES):
        slower, most, up = SLOWER[k], MOST_DOWN[k], UP[k]
        at, before = b.QUANTILES + k, b.QUANTILES + max(k - 1, 0)
        for j in range(m):
            gain, least = w[b.TAILS + 1, j], w[b.TAILS, j] * slower
            gain = gain if gain > least else least
            down = F(gain if gain < most else most)
            step = down * up if w[b.BASE, j] > w[at, j] else -down
            moved = F(w[at, j]) + (step if w[b.TAILS + 2, j] < STRANGE else F(0.0))
            moved = moved if moved > F(0.0) else F(0.0)
            least_now = F(w[before, j]) if k > 0 else F(0.0)
            w[at, j] = moved if moved > least_now else least_now
    for j in range(m):
        excess, counted = w[b.TAILS + 2, j], w[b.EXCESSES, j]
        beyond = excess > 0.0
        weight = 1.0 / np.sqrt(1.0 + counted)
        keep = 1.0 - w[b.TAILS, j] / LONGER
        bounded = excess if excess < STRANGE else STRANGE
        w[b.TAIL, j] = F(w[b.TAIL, j] * keep + (weight if beyond & (excess <= STRANGE) else 0.0))
        w[b.TAIL + 1, j] = F(w[b.TAIL + 1, j] * keep + (weight * bounded if beyond else 0.0))
        most = counted if counted < MOST_COUNTED - 1 else MOST_COUNTED - 1
        w[b.EXCESSES, j] = most + (1.0 if beyond else 0.0)
        score = w[b.SCORE, j]
        chance = exp(-score) if ~np.isnan(score) else 0.5
        w[b.BLOCK_CHANCE, j] = F(w[b.BLOCK_CHANCE, j] + chance)
        w[b.ROWS, j] += 1.0
        w[b.BLOCK_ROWS, j] = (w[b.BLOCK_ROWS, j] if w[b.BLOCK_ROWS, j] < 60_000.0 else 60_000.0) + 1.0
    for j in range(m):
        hot.excesses[0, series[j]] = np.uint8(w[b.EXCESSES, j])
