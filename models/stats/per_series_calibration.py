"""Per-series calibration: the distribution of scores in one series, learnt on line, with a fitted tail.

The reference distribution holds for an average series; this one corrects it for each. Its body are quantiles q_j, nats, that a score b
exceeds with the probabilities p_j of `CHANCES`, learnt by stochastic approximation (Robbins and Monro 1951):

    q_j += g_j ([b > q_j] - p_j) / p_j          g_j = min(max(2 / (rows + 2 r), least gain f_j), step p_j)

f_j = min(1, sqrt(p_j / 0.3)): a rarer quantile has fewer rows above it to learn from. With a gain that does not vanish the share of scores
above q_j is p_j in the long run whatever the series does (Gibbs and Candes 2021, "Adaptive Conformal Inference Under Distribution Shift"). Exceptions
are scores that are `STRANGE`, and quantiles that meet each other or 0.

-ln P(B > b) is -ln p_j at q_j and linear in between. The tail is fitted to the excesses e = b - q over the last quantile (peaks over a
threshold), taken as exponential with a conjugate prior of the rate, Gamma(a, a / h): that of the reference distribution, of which one
nat counts as h nats of the series. The predictive tail is a generalised Pareto distribution (Lomax),

    P(B > q + e) = p (S / (S + e))^A            A = a + #excesses        S = a / h + sum of excesses

(Coles 2001, "An Introduction to Statistical Modeling of Extreme Values", section 4). With few excesses the tail is heavy; with more it becomes
the exponential that fits. Excesses beyond `STRANGE` are censored: they count in S with `STRANGE`, and not in A.

Neighbouring excesses are dependent: one counts 1 / sqrt(1 + c), c being the excesses of this hour and half of those of the hours before. An
hour of outage in rows of ten seconds counts as about 40 excesses. This weight trades the tail's calibration error against sensitivity to the next
outage: at 3 an hour, series with long volatile hours underestimate their tails fourfold; with every row counted, or excesses beyond `STRANGE`
not censored, an outage of hours makes the next one hardly surprising (docs/decisions/0020-scores-are-probabilities.md).

It fails where the tail beyond `STRANGE` is not exponential: there it is extrapolated. State: 41 bytes a series.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bytes, Floats, Singles

CHANCES = np.array([0.9, 0.75, 0.6, 0.45, 0.3, 0.18, 0.08, 0.02])
NATS = -np.log(CHANCES)
# Nats at the quantile below a score, and how much more at the one above; the tail is apart.
BODY = np.concatenate([[0.0], NATS])
RISE = np.append(np.diff(BODY), 0.0)
UP = ((1 - CHANCES) / CHANCES).astype(np.float32)  # steps up in steps down
SLOWER = np.minimum(np.sqrt(CHANCES / 0.3), 1.0)
PRIOR_ROWS = 50.0  # rows that the reference distribution counts as, for the quantiles
PRIOR_EXCESSES = 60.0  # excesses that it counts as, for the tail
PRIOR_RATE = 0.6  # nats of a series in a nat of `base`, far out: simulated series have 1, measured ones 0.5 to 1
STEP_NATS = 0.5  # the most that a quantile moves at once
GAIN = 2.0  # of a quantile: more than 1 forgets sooner what was learnt of a younger model
OFF_GAIN = 5e-3  # at least, while the calibration has drifted: more than the usual gain where rows are less than four minutes apart
LONGER = 75.0  # memory of the tail, whose rows are few, in memories of the quantiles
LEAST_GAP = 5e-4  # between two quantiles, nats
STEEPEST = 2.0  # the largest rate of a tail
STRANGE = 5.0  # so many nats above the last quantile a score is not normal, and moves no quantile
MOST_COUNTED = 200


def begin(n: int) -> tuple[Singles, Singles]:
    """Quantiles `(chances, n)`, and tails `(2, n)`: number of excesses and their sum, of `n` new series.

    They are those of the reference distribution, whose scores are exponential.
    """
    return np.repeat(NATS[:, None], n, axis=1).astype(np.float32), np.zeros((2, n), np.float32)


def surprisal(score: Floats, quantiles: Floats, tail: Floats) -> Floats:
    """Surprisal of `score` under each series' calibrated distribution, -ln P(B > score).

    Parameters
    ----------
    score
        Surprisals under the reference distribution, nats, shape `(n,)`; NaN where unknown.
    quantiles
        Scores that a series exceeds with the probabilities `CHANCES`, nats, shape `(chances, n)`.
    tail
        Effective number of excesses over the last quantile, and their sum in nats, shape `(2, n)`.

    Returns
    -------
    Nats, shape `(n,)`; NaN where `score` is.
    """
    series, below = np.arange(len(score)), (score > quantiles).sum(axis=0)  # NaN is above none
    edges = np.concatenate([np.zeros((1, len(score))), quantiles, np.full((1, len(score)), np.inf)])
    left = edges[below, series]
    share = (score - left) / np.maximum(edges[below + 1, series] - left, LEAST_GAP)
    inside = BODY[below] + RISE[below] * np.minimum(share, 1.0)
    shape, scale = PRIOR_EXCESSES + tail[0], PRIOR_EXCESSES / PRIOR_RATE + tail[1]
    scale = np.maximum(scale, shape / STEEPEST)
    out: Floats = inside + shape * np.log1p(np.maximum(score - quantiles[-1], 0.0) / scale)
    return out


def learn(
    quantiles: Singles, tail: Singles, counted: Bytes, score: Floats, rows: Floats, least_gain: Floats
) -> tuple[Singles, Singles, Bytes]:
    """Learn one score of each series.

    Parameters
    ----------
    quantiles, tail
        As for `surprisal`, in single precision.
    counted
        Excesses of this hour and half of those of the hours before, shape `(n,)`.
    score
        Surprisals under the reference distribution, nats, shape `(n,)`; NaN teaches nothing.
    rows
        Rows that each series has had, shape `(n,)`.
    least_gain
        Least gain of a quantile: raising it forgets sooner, shape `(n,)`.

    Returns
    -------
    The new `quantiles`, `tail` and `counted`.
    """
    excess = score - quantiles[-1]
    beyond = excess > 0  # false for NaN
    gain = np.maximum(GAIN / (rows + GAIN * PRIOR_ROWS), least_gain * SLOWER[:, None])
    down = np.minimum(gain, STEP_NATS * CHANCES[:, None]).astype(np.float32)
    step = np.where(score > quantiles, down * UP[:, None], -down)
    moved = np.maximum(quantiles + np.where(excess < STRANGE, step, np.float32(0.0)), np.float32(0.0))
    weight = beyond / np.sqrt(1.0 + counted)
    seen = np.stack([weight * (excess <= STRANGE), weight * np.minimum(np.where(beyond, excess, 0.0), STRANGE)])
    tails = tail * (1 - least_gain / LONGER) + seen
    more = np.minimum(counted, MOST_COUNTED - 1) + beyond
    return np.maximum.accumulate(moved, axis=0), tails.astype(np.float32), more.astype(np.uint8)
