"""How far a value is beyond all that its series has been: the chance that the greatest distance so far is exceeded by so much.

Rarity compares surprises, which grow with the logarithm of a distance and are all alike from 41 nats on: a series that has had bursts is not
surprised by the next one, though it be a thousand times as large. If distances from the typical value have a power law for a tail, the greatest of
the next block is more than r times the greatest of N blocks with probability

    P = r^-a / (N + 1)

whatever share of the blocks has bursts. With a = 2 the variance of distances is just infinite, so few tails are heavier. Distances are kept as
grades, a byte each: grade g has those up to NEAREST e^(g WIDTH), which may be half as far again as the greatest one was.

It fails where one value was nonsense (a counter that wrapped): nothing is far beyond that any more.
"""

from __future__ import annotations

import math

import numpy as np

from models.core.arrays import Bytes, Floats

POWER = 2.0  # a
NEAREST = 1e-27  # lesser distances are none
LOG_NEAREST = math.log(NEAREST)
WIDTH = 0.4  # of a grade, in the logarithm of the distance
LAST = 255.0  # up to 2e17, beyond the largest value


def grades(distance: Floats) -> Bytes:
    """Grades of distances, any shape; 0 for none."""
    out = np.floor((np.log(np.maximum(distance, NEAREST)) - LOG_NEAREST) / WIDTH) + 1.0
    return np.where(distance > NEAREST, np.minimum(out, LAST), 0.0).astype(np.uint8)


def surprisal(distance: Floats, blocks: Floats, before: Bytes) -> Floats:
    """-ln P that a block has a value as far, nats, `(n,)`; 0 where the greatest distance before is not exceeded, or there was none.

    Parameters
    ----------
    distance
        Distances from the typical value, 0 and more, `(n,)`.
    blocks
        Blocks that have ended, `(n,)`.
    before
        Grades of the greatest distance in them, `(n,)`.
    """
    beyond = np.log(np.maximum(distance, NEAREST)) - (LOG_NEAREST + WIDTH * before)
    return np.where((before > 0) & (beyond > 0), np.log(blocks + 1.0) + POWER * beyond, 0.0)
