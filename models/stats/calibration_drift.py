"""Calibration drift: a check of each series, on line, that its p-values have a mean of one half.

Where scores are surprisals, p = e^-score is uniform. Its mean m over a block of an hour or so is compared with 1/2 in both directions by
Page's cumulative sums of log likelihood ratios, nats (Page 1954, "Continuous Inspection Schemes"):

    G = max(0, G + 2 k / v (d - k))             d = 1/2 - m (p-values too small), or m - 1/2 (too large)

which fall on average while the mean is right, and rise as fast where it is 2 k off. v is the variance of such means in this series, learnt on line
from a prior of 1 / (12 OBSERVATIONS_PER_BLOCK), never more than 1/12: that of a single p. So dependence of rows within an hour is
allowed for. The calibration has drifted from `OFF_NATS` on, which chance reaches about once in e^14 blocks, 130 years. A mean that is
off by less than k is accepted. The sums are bounded, so that a recovery is seen within hours.

It fails where p-values of neighbouring hours are strongly dependent: there it is raised too early. State: 10 bytes a series.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats, Halves

ALLOWED = 0.1  # k: a mean that is off by less is accepted
OFF_NATS = 14.0
MOST_NATS = 16.0
MOST_A_BLOCK = 6.0  # nats that one block adds at most: one hour is never enough
OBSERVATIONS_PER_BLOCK = 3.0  # independent observations that an hour's rows are taken for
PRIOR_BLOCKS, MOST_BLOCKS = (
    12.0,
    168.0,
)  # blocks that the prior of the variance counts as, and memory of the variance in blocks
LARGEST = 1 / 12
LEAST = 1e-3  # variance
PRIOR = LARGEST / OBSERVATIONS_PER_BLOCK
SURE, WARY, VARIANCE = range(3)


def begin(n: int) -> Halves:
    """State of `n` new series, `(3, n)`: Page's sums for means below and above one half, nats, and the variance of means."""
    return np.repeat(np.array([[0.0], [0.0], [PRIOR]], np.float16), n, axis=1)


def check(state: Halves, mean: Floats, blocks: Floats) -> Halves:
    """Update the check of each series with a block that has ended.

    Parameters
    ----------
    state
        As of `begin`, shape `(3, n)`.
    mean
        Mean p-value of the block's rows, 0 to 1, shape `(n,)`.
    blocks
        Blocks that have ended before, shape `(n,)`.

    Returns
    -------
    The new state, shape `(3, n)`.
    """
    sums, variance = state[:VARIANCE].astype(np.float64), state[VARIANCE].astype(np.float64)
    away = np.stack([0.5 - mean, mean - 0.5])
    gain = 2 * ALLOWED / np.clip(variance, LEAST, LARGEST) * (away - ALLOWED)
    sums = np.clip(sums + np.clip(gain, -MOST_A_BLOCK, MOST_A_BLOCK), 0.0, MOST_NATS)
    variance += (away[SURE] ** 2 - variance) / np.clip(blocks + PRIOR_BLOCKS, 0.0, MOST_BLOCKS)
    return np.concatenate([sums, variance[None]]).astype(np.float16)


def is_off(state: Halves) -> Bools:
    """In which series the calibration has drifted, `(n,)`."""
    out: Bools = state[:VARIANCE].max(axis=0) >= OFF_NATS
    return out
