"""How far a value, or a level that lasts, is beyond all that its series has been: the chance that the farthest so far is exceeded by so much.

Rarity compares surprises, which grow with the logarithm of a distance and are all alike from 41 nats on: a series that has had bursts is not
surprised by the next one, though it be a thousand times as large. If distances from the typical value have a power law for a tail, the greatest of
the next block is more than r times the greatest of N blocks with probability

    P = r^-a / (N + 1)

whatever share of the blocks has bursts. With a = 2 the variance of distances is just infinite, so few tails are heavier. Distances are kept as
grades, a byte each: grade g has those up to NEAREST e^(g WIDTH), which may be half as far again as the greatest one was.

It fails where one value was nonsense (a counter that wrapped): nothing is far beyond that any more.

Single values, however far, are no precedent for a level that lasts. A level has lasted if three rows in a row were beyond it: `up` is the
highest one above which they ever were, `down` the lowest one below which they were. If rows are independent and each has such a tail,
three have one of index 3 a = 6; if they are not, records are as rare: of N blocks about ln N have one, whatever their law. With the
typical value t, a level y above has the probability

    P = (r / FARTHER)^-6 / (N + 1)          r = (y - t) / max(up - t, (up - down) / 2)

where r is above FARTHER, so that a series that grows slowly, whose every level is new, has none; below alike. The second term of the maximum is for a
typical value that has come near to the end of what was usual.
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
LASTING_POWER = 6.0  # of levels that last
FARTHER = 1.5  # times as far as any level before: from there on a level counts
NOTHING = np.array([[np.inf], [-np.inf]])  # the lowest and the highest level of a series in which none has lasted


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


def lasting_surprisal(times: Floats, blocks: Floats) -> Floats:
    """-ln P that a block has a level that lasts and is so many `times` as far as any one before, nats, `(n,)`; 0 up to `FARTHER`.

    `blocks` are those that have ended, `(n,)`.
    """
    nats = np.log(blocks + 1.0) + LASTING_POWER * np.log(np.maximum(times, FARTHER) / FARTHER)
    return np.where(times > FARTHER, nats, 0.0)
