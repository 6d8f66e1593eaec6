"""Is a model off? A check of each series, on line, that its probabilities have a mean of one half.

Where scores are probabilities, p = e^-score is uniform. Its mean m over a block of an hour or so is held against 1/2, in both
directions, by Page's sums of log likelihood ratios, nats:

    G = max(0, G + 2 k / v (d - k))             d = 1/2 - m, too sure, or m - 1/2, too wary

which drift down by as much as they would drift up where the mean is 2 k off. v is the variance of such means in this very series, learnt on line
from a prior of 1 / (12 OBSERVATIONS_PER_BLOCK), never more than 1/12: that of a single p. So rows that depend on one another within an hour are
allowed for. A model is off from `OFF_NATS` on, which chance makes about once in e^14 blocks, 130 years; a mean that is off by less than k
is not looked for. The sums are bounded, so that a model that is good again is said to be so within hours.

It fails where p-values of neighbouring hours depend on one another strongly: there it speaks too soon. State: 10 bytes a series.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats, Halves

ALLOWED = 0.1  # a mean that is off by less is good enough: k
OFF_NATS = 14.0
MOST_NATS = 16.0
MOST_A_BLOCK = 6.0  # nats: one hour, however strange, does not make a model off
OBSERVATIONS_PER_BLOCK = 3.0  # independent observations that an hour's rows are taken for
PRIOR_BLOCKS, MOST_BLOCKS = 12.0, 168.0  # what the prior of the variance is worth, and how many blocks are remembered
LARGEST = 1 / 12
LEAST = 1e-3  # variance
PRIOR = LARGEST / OBSERVATIONS_PER_BLOCK
SURE, WARY, VARIANCE = range(3)


def begin(n: int) -> Halves:
    """Nothing is known of `n` series, `(3, n)`: sums that a model is too sure, or too wary, and the variance of means."""
    return np.repeat(np.array([[0.0], [0.0], [PRIOR]], np.float16), n, axis=1)


def check(state: Halves, mean: Floats, blocks: Floats) -> Halves:
    """The state after a block whose p-values had this mean, `(n,)`; `blocks` have ended before."""
    sums, variance = state[:VARIANCE].astype(np.float64), state[VARIANCE].astype(np.float64)
    away = np.stack([0.5 - mean, mean - 0.5])
    gain = 2 * ALLOWED / np.clip(variance, LEAST, LARGEST) * (away - ALLOWED)
    sums = np.clip(sums + np.clip(gain, -MOST_A_BLOCK, MOST_A_BLOCK), 0.0, MOST_NATS)
    variance += (away[SURE] ** 2 - variance) / np.clip(blocks + PRIOR_BLOCKS, 0.0, MOST_BLOCKS)
    return np.concatenate([sums, variance[None]]).astype(np.float16)


def is_off(state: Halves) -> Bools:
    """Which models are off, `(n,)`."""
    out: Bools = state[:VARIANCE].max(axis=0) >= OFF_NATS
    return out
