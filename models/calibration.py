"""A joined score as a probability: by the law of joined scores in normal data at large, and by that of the series itself.

In normal data at large a joined score exceeds u_1 < u_2 < ... with probabilities S(u_j): -ln S is `NATS` at `LAW`. Between
two levels it is linear, beyond the last one it goes on with the last slope. The law is the median over 16 kinds of simulated
series; one that is often strange is louder than it says. Episodes go by it all the same: on labelled data, a series that
raises its own bar found less.

What is published is the probability in this very series. Its law is learnt as the levels q_j, nats, that the first answer
exceeds with the probabilities p_j of `CHANCES` (Robbins and Monro 1951):

    q_j += g_j ([b > q_j] - p_j) / p_j          g_j = min(1 / (rows + r), p_j / 2), never below a least gain

-ln P(B > b) is -ln p_j at q_j, linear in between, and goes on with the last slope: an exponential tail, fitted. It fails for a series that is younger
than a thousand rows, where the tail is that of normal data at large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.windows import Floats

# joined scores of simulated normal series of 16 kinds, rows 5 min and 10 s apart, and -ln P(> score): medians over kinds
NATS = (0.0, 0.69, 1.2, 1.61, 2.3, 3.0, 3.91, 4.61, 5.81, 6.91, 8.11, 9.21, 10.4)
LAW = (0.0, 0.14, 0.32, 0.43, 0.64, 0.88, 1.22, 1.47, 1.9, 2.35, 2.8, 3.25, 3.8)

CHANCES = np.array([0.75, 0.4, 0.1, 0.01, 0.001])
OWN_NATS = -np.log(CHANCES)
PRIOR_ROWS = 50.0  # rows that the law at large is worth
STEP_NATS = 0.5  # the most that a level moves at once
LEAST_GAIN = 1e-4
LEAST_GAP = 0.02  # between two levels, nats
STEEPEST = 2.0  # slope of the tail, nats of a series in nats of the law at large, or its inverse
OFF = 0.2  # a mean probability further from 1/2 says that the model is off
STRANGE = 5.0  # so many nats above the last level an answer is no normal one, and teaches nothing


def nats(score: Floats) -> Floats:
    """-ln P(joined score > `score`), nats, any shape; NaN where it is not known."""
    slope = (NATS[-1] - NATS[-2]) / (LAW[-1] - LAW[-2])
    out: Floats = np.interp(score, LAW, NATS) + slope * np.maximum(score - LAW[-1], 0.0)
    return out


def joined(nats: Floats) -> Floats:
    """The inverse of `nats`: the joined score that is as rare."""
    slope = (LAW[-1] - LAW[-2]) / (NATS[-1] - NATS[-2])
    out: Floats = np.interp(nats, NATS, LAW) + slope * np.maximum(nats - NATS[-1], 0.0)
    return out


def own(base: Floats, levels: Floats) -> Floats:
    """-ln P(B > `base`) in these series, `(n,)`, whose `levels` are `(chances, n)`."""
    edges = np.concatenate([np.zeros((1, len(base))), levels])
    wanted = np.concatenate([[0.0], OWN_NATS])
    width = np.maximum(np.diff(edges, axis=0), LEAST_GAP)
    share = np.clip((base - edges[:-1]) / width, 0.0, 1.0)
    inside = (np.diff(wanted)[:, None] * share).sum(axis=0)
    slope = np.clip((wanted[-1] - wanted[-2]) / width[-1], 1 / STEEPEST, STEEPEST)
    out: Floats = inside + slope * np.maximum(base - edges[-1], 0.0)
    return out


def learn(levels: NDArray[np.float32], base: Floats, rows: Floats) -> NDArray[np.float32]:
    """The levels after another answer of each series; `rows` have been learnt before. What is strange or NaN teaches nothing."""
    gain = np.maximum(1 / (rows + PRIOR_ROWS), LEAST_GAIN)
    chance = CHANCES[:, None]
    step = np.minimum(gain, STEP_NATS * chance) * ((base > levels) - chance) / chance
    moved = np.maximum(levels + np.where(base < levels[-1] + STRANGE, step, 0.0), 0.0)  # false for NaN
    return np.maximum.accumulate(moved, axis=0).astype(np.float32)


def average(mean: NDArray[np.float32], score: Floats, keep: Floats, rows: Floats) -> NDArray[np.float32]:
    """The mean of exp(-score) over the last day, which is 1/2 where scores are probabilities; NaN teaches nothing."""
    gain = np.maximum(1 - keep, 1 / (rows + PRIOR_ROWS))
    out = np.where(np.isnan(score), mean, mean + gain * (np.exp(-score) - mean))
    return out.astype(np.float32)
