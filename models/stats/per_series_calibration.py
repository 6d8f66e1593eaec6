"""How rare is an answer in its own series? The law of a series' answers, learnt on line, with a fitted tail.

Its body are the levels q_j, nats, that an answer b exceeds with the probabilities p_j of `CHANCES` (Robbins and Monro 1951):

    q_j += g_j ([b > q_j] - p_j) / p_j          g_j = min(max(2 / (rows + 2 r), least gain f_j), step p_j)

f_j = min(1, sqrt(p_j / 0.3)): a rarer level has fewer rows above it to learn from. With a gain that does not vanish the share of answers
above q_j is p_j in the long run whatever the series does (Gibbs and Candes 2021, "Adaptive Conformal Inference Under Distribution Shift"), but for
answers that are `STRANGE` and where levels meet each other or 0.

-ln P(B > b) is -ln p_j at q_j and linear in between. Its tail are the excesses e = b - q beyond the last level, peaks over a threshold,
taken as exponential with a rate that has a conjugate prior, Gamma(a, a / h): the law of normal data at large, where a nat of `base` is
worth h. The predictive tail is a generalised Pareto's (Lomax),

    P(B > q + e) = p (S / (S + e))^A            A = a + #excesses        S = a / h + sum of excesses

(Coles 2001, "An Introduction to Statistical Modeling of Extreme Values", section 4). A young series is unsure of its tail, so the tail is
heavy; with evidence it becomes the exponential that fits. What is further out than `STRANGE` is only known to be so: it counts in S, and
not in A (a censored observation). Neighbours are not independent: an excess counts 1 / sqrt(1 + c), c being those of its hour and half of
those of the hours before: an hour of outage in rows of ten seconds is as much evidence as some 40 excesses. What they
count is a choice between two ends: as 3, series with long wild hours stay four times too sure of their tails; by each row, or with what is further
out than `STRANGE` known, an outage of hours makes the next one hardly a surprise (docs/accuracy.md).

It fails where the tail is another than exponential beyond `STRANGE`: there it is extrapolated. State: 41 bytes a series.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bytes, Floats, Singles

CHANCES = np.array([0.9, 0.75, 0.6, 0.45, 0.3, 0.18, 0.08, 0.02])
NATS = -np.log(CHANCES)
# Nats at the level below an answer, and how much more at the one above; the tail is apart.
BODY = np.concatenate([[0.0], NATS])
RISE = np.append(np.diff(BODY), 0.0)
UP = ((1 - CHANCES) / CHANCES).astype(np.float32)  # steps up in steps down
SLOWER = np.minimum(np.sqrt(CHANCES / 0.3), 1.0)
PRIOR_ROWS = 50.0  # rows that the law at large is worth, for the levels
PRIOR_EXCESSES = 60.0  # excesses that it is worth, for the tail
PRIOR_RATE = 0.6  # nats of a series in a nat of `base`, far out: simulated series have 1, measured ones 0.5 to 1
STEP_NATS = 0.5  # the most that a level moves at once
GAIN = 2.0  # of a level: more than 1 forgets sooner what was learnt of a younger model
OFF_GAIN = (
    5e-3  # at least, while the model is off: more than the usual gain where rows are less than four minutes apart
)
LONGER = 75.0  # times the memory of the levels is that of the tail, whose rows are few
LEAST_GAP = 5e-4  # between two levels, nats
STEEPEST = 2.0  # the largest rate of a tail
STRANGE = 5.0  # so many nats above the last level an answer is no normal one, and teaches levels nothing
MOST_COUNTED = 200


def begin(n: int) -> tuple[Singles, Singles]:
    """Levels `(chances, n)` and tails `(2, n)`, excesses and their sum, of series about which nothing is known."""
    return np.repeat(NATS[:, None], n, axis=1).astype(np.float32), np.zeros((2, n), np.float32)


def surprisal(base: Floats, levels: Floats, tail: Floats) -> Floats:
    """-ln P(B > `base`) in these series, `(n,)`; `levels` are `(chances, n)`, `tail` is `(2, n)`."""
    series, below = np.arange(len(base)), (base > levels).sum(axis=0)  # NaN is above none
    edges = np.concatenate([np.zeros((1, len(base))), levels, np.full((1, len(base)), np.inf)])
    left = edges[below, series]
    share = (base - left) / np.maximum(edges[below + 1, series] - left, LEAST_GAP)
    inside = BODY[below] + RISE[below] * np.minimum(share, 1.0)
    shape, scale = PRIOR_EXCESSES + tail[0], PRIOR_EXCESSES / PRIOR_RATE + tail[1]
    scale = np.maximum(scale, shape / STEEPEST)
    out: Floats = inside + shape * np.log1p(np.maximum(base - levels[-1], 0.0) / scale)
    return out


def learn(
    levels: Singles, tail: Singles, counted: Bytes, base: Floats, rows: Floats, least_gain: Floats
) -> tuple[Singles, Singles, Bytes]:
    """Levels, tails, and excesses of the hour after another answer of each series; NaN teaches nothing.

    `counted` is `(n,)`; `rows` is how many are behind a series, `least_gain` what a row counts at least, both `(n,)`.
    """
    excess = base - levels[-1]
    beyond = excess > 0  # false for NaN
    gain = np.maximum(GAIN / (rows + GAIN * PRIOR_ROWS), least_gain * SLOWER[:, None])
    down = np.minimum(gain, STEP_NATS * CHANCES[:, None]).astype(np.float32)
    step = np.where(base > levels, down * UP[:, None], -down)
    moved = np.maximum(levels + np.where(excess < STRANGE, step, np.float32(0.0)), np.float32(0.0))
    weight = beyond / np.sqrt(1.0 + counted)
    seen = np.stack([weight * (excess <= STRANGE), weight * np.minimum(np.where(beyond, excess, 0.0), STRANGE)])
    tails = tail * (1 - least_gain / LONGER) + seen
    more = np.minimum(counted, MOST_COUNTED - 1) + beyond
    return np.maximum.accumulate(moved, axis=0), tails.astype(np.float32), more.astype(np.uint8)
