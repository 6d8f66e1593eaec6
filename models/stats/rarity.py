"""Rarity: how often has a surprise of about this size occurred in this series, ever and at this hour of the day?

A Dirichlet process over the greatest surprise of a block (an hour or so, since neighbours are not independent), whose
base measure is a power law, with a decayed memory; its posterior predictive tail is

    P(s) = (a (1 + s)^-q + #{blocks with at least s / tolerance}) / (a + #{blocks})

in bins of a quarter of ln(1 + s). The tolerance is what makes it work: an event has been seen if one nearly as large has.
The same for the last days at this hour of the day; the two tails are averaged. Upward and downward surprises of features
that have a direction are counted apart.

    table           a feature, or one direction of it
    counts          (tables, BINS, n) uint16: blocks whose maximum lay in the bin or above; halved when they are of two half-lives
    ring            (HOURS, tables, DAYS, n) uint8: grades of the maxima of the last days' visits to each hour of the day, EMPTY if none
    lookup          (tables, BINS + 1, n) float32: both tails without their prior, ready to be read; not stored, as it
                    follows from the others. The prior's share stands beside it.

It fails where the rate of events itself changes: after a year without events only the first of a burst is surprising.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models.core.arrays import Bools, Bytes, Counts, Floats, Ints, Singles

BINS, PER_UNIT = 16, 4.0  # bins in all, and in a unit of ln(1 + s): the last one begins at s = 41
HOURS, DAYS = 24, 4
EMPTY = 255
# The bins that grades of visits begin with. A grade is narrower than the usual tolerance; the first ends at 1.7 nats, which one row in six has.
GRADES = np.array([0, 4, 6, 8, 10, 12, 14, 15])
GRADE_OF_BIN = (np.searchsorted(GRADES, np.arange(BINS), side="right") - 1).astype(np.uint8)
# Blocks of a half-life: halves of few are coarse, and twice as many must fit into a uint16.
LEAST_HELD, MOST_HELD = 12.0, 30_000.0
EVENT = 9  # the bin from which on blocks in a row are one event, where that is asked for: 1 in 5,000, 8.5 nats
LASTING = 24  # blocks: with each of so many that an event lasts it counts once more, so that a level which stays for good becomes usual


@dataclass(frozen=True)
class Weighing:
    """How surprises are compared: `tolerance` is a factor of 1 + surprise up to which two are alike, `power` that of the prior's tail."""

    tolerance: float
    power: float


def bins(surprise: Floats) -> Bytes:
    """The bin of a surprise, any shape."""
    return np.minimum(PER_UNIT * np.log1p(surprise), BINS - 1).astype(np.uint8)


def add_block(
    counts: Counts, most: Bytes, chosen: Ints, number: Ints, held: Floats, before: Bytes | None = None
) -> None:
    """Count the greatest surprises of blocks that have ended, in place in `counts`.

    Parameters
    ----------
    counts
        Counts of all series, shape `(tables, BINS, n)`.
    most
        Bins of the greatest surprises, shape `(tables, chosen)`.
    chosen
        Rows of the series, shape `(chosen,)`.
    number
        Numbers of their blocks, shape `(chosen,)`.
    held
        Such blocks in a half-life of the memory, shape `(chosen,)`. Counts of twice as many are halved, so they hold 1.5 half-lives on average, as
        exponential decay does (1.44), and stay whole numbers.
    before
        `greatest` bins before these blocks, like `most`. If given, an `EVENT` counts as one when it is over, with the greatest surprise
        that it had, and with one in `LASTING` blocks that it goes on. If it counted as one with each, it would lower its own rarity.
    """
    part = counts[:, :, chosen]
    level = np.arange(BINS)[None, :, None]
    counted = most[:, None, :] >= level
    if before is not None:
        goes_on = ((before >= EVENT) & (most >= EVENT) & (number % LASTING == 0))[:, None, :]
        event = np.where((most < EVENT)[:, None, :], before[:, None, :] >= level, counted & goes_on)
        counted = np.where(level < EVENT, counted, event)
    part += counted
    full = np.flatnonzero(part[0, 0] >= 2 * np.clip(held, LEAST_HELD, MOST_HELD))
    if len(full):
        whole = part[:, :, full]
        part[:, :, full] = (whole + (whole >> 1 & 1)) >> 1  # to even, where it is not whole
    counts[:, :, chosen] = part


def greatest(before: Bytes, most: Bytes) -> Bytes:
    """Bins of the greatest surprises of the events that go on, or else of the last blocks, from those before and the `most` of the last blocks."""
    out: Bytes = np.where(most >= EVENT, np.maximum(before, most), most)
    return out


def add_visit(ring: Bytes, most: Bytes, chosen: Ints, hour: Ints) -> None:
    """Note the grades of the maxima `most`, `(tables, chosen)`, of a visit to `hour`, `(chosen,)`, newest first, in place."""
    before = ring[hour, :, :-1, chosen]  # (chosen, tables, DAYS - 1)
    ring[hour, :, 1:, chosen] = before
    ring[hour, :, 0, chosen] = GRADE_OF_BIN[most].T


def lookup(counts: Counts, ring: Bytes, prior: tuple[float, float], share: float) -> tuple[Singles, Singles]:
    """Tails by bin, ready to be read. Within a grade visits are spread as blocks are, or evenly where there has been none.

    Parameters
    ----------
    counts
        Counts of blocks, shape `(tables, BINS, n)`.
    ring
        Visits to the hour of the day that is now, shape `(tables, DAYS, n)`.
    prior
        Blocks, and visits, that the prior counts as.
    share
        Weight of the hour of the day, 0 to 1.

    Returns
    -------
    Tails without the prior, shape `(tables, BINS + 1, n)`, and the weight of the prior, shape `(n,)`.
    """
    filled = ring[0] != EMPTY
    visits = filled.sum(axis=0).astype(np.float32)
    of_hour = np.where(visits > 0, np.float32(share), np.float32(0))
    blocks = counts[0, 0].astype(np.float32)
    ever, hour = (1 - of_hour) / (np.float32(prior[0]) + blocks), of_hour / (np.float32(prior[1]) + visits)
    out = np.zeros((len(counts), BINS + 1, counts.shape[-1]), np.float32)
    np.multiply(counts, ever, out=out[:, :BINS], casting="unsafe")
    if visits.any():
        out += hour * _visits(counts, ring, filled)
    return out, np.float32(prior[0]) * ever + np.float32(prior[1]) * hour


def _visits(counts: Counts, ring: Bytes, filled: Bools) -> Singles:
    """Visits by bin, in it or above, `(tables, BINS + 1, n)`: see `lookup`."""
    out = np.zeros((len(counts), BINS + 1, counts.shape[-1]), np.float32)
    blocks = out.copy()
    blocks[:, :BINS] = counts
    edges = [*GRADES.tolist(), BINS]
    for grade, begin in enumerate(edges[:-1]):
        out[:, begin] = ((ring >= grade) & filled).sum(axis=1)
    for begin, end in pairwise(edges):
        of_grade = blocks[:, begin] - blocks[:, end]
        for bin_ in range(begin + 1, end):
            evenly = np.float32((end - bin_) / (end - begin))
            share = np.where(of_grade > 0, (blocks[:, bin_] - blocks[:, end]) / np.maximum(of_grade, 1), evenly)
            out[:, bin_] = out[:, end] + share * (out[:, begin] - out[:, end])
    return out


def rarity(table: Singles, prior: Singles, surprise: Floats, at: tuple[Ints, Ints], p: Weighing) -> Floats:
    """Rarities of surprises: -ln of the averaged tails.

    Parameters
    ----------
    table, prior
        As of `lookup`, for all series.
    surprise
        Surprises of some series, nats, shape `(features, n)`.
    at
        The features' tables, `(features, 1)` or `(features, n)`, and the rows of the series, `(n,)`.
    p
        How surprises are compared.

    Returns
    -------
    Nats, `(features, n)`.
    """
    which, rows = at
    wide = np.log1p(surprise)
    y = np.maximum(PER_UNIT * (wide - np.log(p.tolerance)), 0.0)
    low = np.minimum(y, BINS - 1).astype(np.int64)
    part = np.where(y > BINS - 1, 0.0, y - low)
    width = table.shape[-1]
    flat, low = table.ravel(), low * width + rows
    place = low + which * (BINS + 1) * width
    tail = (1 - part) * flat[place] + part * flat[place + width] + prior[rows] * np.exp(-p.power * wide)
    rare: Floats = -np.log(np.minimum(tail, 1.0))
    return rare


def pack_nibbles(values: Bytes) -> Bytes:
    """Two values of four bits a byte, `(k, n)` to `(ceil(k / 2), n)`."""
    even = values[0::2].copy()
    even[: len(values) // 2] |= values[1::2] << 4
    return even


def unpack_nibbles(packed: Bytes, k: int) -> Bytes:
    """The inverse of `pack_nibbles`, of `k` values: `(ceil(k / 2), n)` to `(k, n)`."""
    out = np.empty((k, packed.shape[1]), np.uint8)
    out[0::2], out[1::2] = packed & 15, packed[: k // 2] >> 4
    return out


def pack(ring: Bytes) -> Bytes:
    """Two hours a byte, `(tables * DAYS * HOURS / 2, n)`: what is alike side by side. Which places are empty follows from `visits`."""
    pairs = (ring[0::2] & np.uint8(15)) | (ring[1::2] << np.uint8(4))
    tables, series = ring.shape[1], ring.shape[-1]
    return pairs.transpose(1, 2, 0, 3).reshape(tables * DAYS * HOURS // 2, series)


def unpack(packed: Bytes, tables: int, visits: Bytes) -> Bytes:
    """The inverse of `pack`; `visits`, `(HOURS, n)`, is the number of filled places of each hour."""
    pairs = packed.reshape(tables, DAYS, HOURS // 2, packed.shape[-1]).transpose(2, 0, 1, 3)
    ring = np.empty((HOURS, *pairs.shape[1:]), np.uint8)
    ring[0::2], ring[1::2] = pairs & 15, pairs >> 4
    empty = np.arange(DAYS)[None, :, None] >= visits[:, None, :]
    ring[np.broadcast_to(empty[:, None], ring.shape)] = EMPTY
    return ring
