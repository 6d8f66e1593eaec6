"""How far a value lies from what was expected, in widths of its interval.

    d = |x - t| / w         t: typical value, w: distance from t to that end of the interval which x lies beyond; 1 is the border

Surprise in nats saturates where there is little history; this does not, and compares series of all units. What a single window shows may
be one odd measurement, so a run of windows is as *strong* as its second largest distance: what it has reached twice.

It fails for an interval without width: a series that never moved has no measure, and any distance counts as the border.
"""

from __future__ import annotations

import math

BORDER = 1.0  # the distance of a value on the border of its interval
LARGEST = 1e12  # sums of it are still numbers


def distance_in_widths(value: float, typical: float, lower: float, upper: float) -> float:
    """Distance of a value from the typical one; NaN where something is not known."""
    if not (math.isfinite(value) and math.isfinite(typical) and math.isfinite(lower) and math.isfinite(upper)):
        return math.nan
    away = value - typical
    width = upper - typical if away > 0 else typical - lower
    if width > 0:
        return min(abs(away) / width, LARGEST)
    return BORDER if away != 0 else 0.0


def two_farthest(farthest: float, second: float, distance: float) -> tuple[float, float]:
    """Largest and second largest distance after another one, 0 where there was none; one that is not known changes nothing."""
    if math.isnan(distance):
        return farthest, second
    return max(farthest, distance), max(second, min(farthest, distance))
