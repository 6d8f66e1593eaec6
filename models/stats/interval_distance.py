"""How far a value lies from what was expected, in widths of its interval.

    d = |x - t| / w         t: typical value, w: distance from t to that end of the interval which x lies beyond; 1 is the border

Surprise in nats saturates where there is little history; this does not, and compares series of all units. What a single window shows may
be one odd measurement, so a run of windows is as *strong* as its second largest distance: what it has reached twice.

It fails for an interval without width: a series that never moved has no measure, and any distance counts as the border.
"""

from __future__ import annotations

import math

import numpy as np

from models.core.arrays import Floats

BORDER = 1.0  # the distance of a value on the border of its interval
LARGEST = 1e12  # sums of it are still numbers


def in_widths(value: Floats, typical: Floats, lower: Floats, upper: Floats) -> Floats:
    """Distance of each value from the typical one, `(n,)`; NaN where something is not known."""
    away = value - typical
    width = np.where(away > 0, upper - typical, typical - lower)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.minimum(np.abs(away) / width, LARGEST)
    known = np.isfinite(value) & np.isfinite(typical) & np.isfinite(lower) & np.isfinite(upper)
    out: Floats = np.where(width > 0, distance, np.where(away != 0, BORDER, 0.0))
    return np.where(known, out, np.nan)


def in_widths_of_one(value: float, typical: float, lower: float, upper: float) -> float:
    """The same of one value, to the bit: arrays of one number take 20 times as long, and in an outage of a fleet each series has an episode."""
    if not (math.isfinite(value) and math.isfinite(typical) and math.isfinite(lower) and math.isfinite(upper)):
        return math.nan
    away = value - typical
    width = upper - typical if away > 0 else typical - lower
    if width > 0:
        return min(abs(away) / width, LARGEST)
    return BORDER if away != 0 else 0.0


def two_farthest(farthest: Floats, second: Floats, distance: Floats) -> tuple[Floats, Floats]:
    """Largest and second largest distance after another one, `(n,)` each, 0 where there was none; one that is not known changes nothing."""
    distance = np.nan_to_num(distance)
    return np.maximum(farthest, distance), np.maximum(second, np.minimum(farthest, distance))


def two_farthest_of_one(farthest: float, second: float, distance: float) -> tuple[float, float]:
    """The same of one series, to the bit."""
    if math.isnan(distance):
        return farthest, second
    return max(farthest, distance), max(second, min(farthest, distance))
