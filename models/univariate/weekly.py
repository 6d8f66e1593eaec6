"""Weekly rhythm: how the level of an hour on this day of the week differs from the usual one at this hour of the day.

A week has 28 slots of six hours. Each time a slot is over, the mean v of its hours' residuals against the daily rhythm is held against
what the slot had in the weeks before, o, and then learnt:

    F0 = d F0 + v^2        F1 = d F1 + (v - o)^2        n = d n + 1        o += a (v - o)        d = 2^(-1 / 112), four weeks

F1 / F0 is the share of the residuals' variance that is left by predictions made a week ahead. The offset o is shrunk by

    g = max(0, 1 - (1 + p / n) F1 / F0)

an out-of-sample coefficient of determination: it is 0 before a whole week has been predicted, a series
without a weekly rhythm has g = 0, and one whose weeks are alike comes close to 1 from its third week on. Between the middles of slots
the offset g o goes in a straight line. So that one event makes no rhythm, v is bounded by three times the root of F0 / n. It fails for what comes
back every other week, or on a day of the month.

    week            (SLOTS, n) uint16: o, the upper half of a single's bits (8 bits of mantissa), UNSEEN where there has been no visit
    week_fit        (3, n) float32: F0, F1, n
    week_now        (2, n) float32: sum and number of the residuals of the slot that is now
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Array, Floats, Ints, Singles
from models.univariate import features

HOURS_A_WEEK, HOURS_A_SLOT = 168, 6
SLOTS = HOURS_A_WEEK // HOURS_A_SLOT
UNSEEN = 0x7FC0  # not a number
GAIN = 0.3  # of a slot: the last three weeks or so
KEPT = 2.0 ** (-1 / (4 * SLOTS))
PRIOR_VISITS = 7.0
LEAST_VISITS = 25.0  # what is left of a week's 28 when it is over
BOUND, BOUND_FROM = 3.0, 7.0  # roots of F0 / n, from so many visits on

Cold = Mapping[str, Array]


def to_halves(values: Floats) -> NDArray[np.uint16]:
    """Numbers as the upper half of a single's bits, rounded."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return np.where(np.isnan(values), UNSEEN, (bits + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)


def from_halves(halved: NDArray[np.uint16]) -> Floats:
    """The inverse of `to_halves`, NaN for `UNSEEN`."""
    return (halved.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def learn(cold: Cold, rows: Ints, residual: Floats, grains: Floats, hours: tuple[Ints, Ints]) -> None:
    """Learn the hours of some series that are over, in place in `cold`.

    Parameters
    ----------
    cold
        Cold columns of all series: see `univariate_state`.
    rows
        The series, shape `(rows,)`.
    residual
        Mean residual of each hour against the daily rhythm, in the unit of the series; NaN where unknown.
    grains
        What offsets are multiples of, see `features.grain`, shape `(rows,)`.
    hours
        The hours that are over, and those that begin, since 1970.
    """
    was, now = hours
    there = np.isfinite(residual)
    added = np.stack([np.where(there, residual, 0.0), there])
    cold["week_now"][:, rows] = cold["week_now"][:, rows] + added.astype(np.float32)
    over = np.flatnonzero((was // HOURS_A_SLOT != now // HOURS_A_SLOT) & (cold["week_now"][1, rows] > 0))
    if not len(over):
        return
    at, slot = rows[over], was[over] % HOURS_A_WEEK // HOURS_A_SLOT
    total, number = cold["week_now"][:, at].astype(np.float64)
    cold["week_now"][:, at] = 0.0
    plain, _, visits = cold["week_fit"][:, at].astype(np.float64)
    bound = np.where(visits >= BOUND_FROM, BOUND * np.sqrt(plain / np.maximum(visits, 1.0)), np.inf)
    visit = np.clip(total / number, -bound, bound)
    before = from_halves(cold["week"][slot, at])
    known = ~np.isnan(before)
    error = np.where(known, visit - before, 0.0)
    seen = np.stack([np.where(known, visit, 0.0) ** 2, error**2, known])
    cold["week_fit"][:, at] = (cold["week_fit"][:, at] * np.where(known, KEPT, 1.0) + seen).astype(np.float32)
    cold["week"][slot, at] = to_halves(features.rounded(np.where(known, before + GAIN * error, visit), grains[over]))


def squares(cold: Cold, rows: Ints) -> tuple[Floats, Floats]:
    """Sum of the squared mean residuals of the slots that are over, and their number, fading alike, `(rows,)` each.

    Of the first visit to a slot, which `week_fit` does not have, the offset as it is now stands for the residual.
    """
    plain, _, visits = cold["week_fit"][:, rows].astype(np.float64)
    first = from_halves(cold["week"][:, rows])
    seen = ~np.isnan(first)
    return plain + np.where(seen, first**2, 0.0).sum(axis=0), visits + seen.sum(axis=0)


def share(fit: Singles) -> Floats:
    """Factor by which the week's offsets are shrunk, 0 to 1, `(n,)`; `fit` is `week_fit`, `(3, n)`."""
    plain, fitted, visits = fit.astype(np.float64)
    left = np.divide(fitted, plain, out=np.ones_like(plain), where=plain > 0)
    out: Floats = np.maximum(1 - (1 + PRIOR_VISITS / np.maximum(visits, 1e-9)) * left, 0.0)
    return np.where(visits > LEAST_VISITS, out, 0.0)


def offsets(cold: Cold, rows: Ints, hour: Ints) -> Floats:
    """Offsets of the level of series `rows` in `hour` (hours since 1970), in their unit, `(rows,)`."""
    out = share(cold["week_fit"][:, rows])
    some = np.flatnonzero(out > 0)
    if len(some):
        place = ((hour[some] % HOURS_A_WEEK + 0.5) / HOURS_A_SLOT - 0.5) % SLOTS
        first = place.astype(np.int64)
        before, after = (np.nan_to_num(from_halves(cold["week"][at % SLOTS, rows[some]])) for at in (first, first + 1))
        out[some] *= before + (place - first) * (after - before)
    return out
