"""Cumulative counters -> rates per second.

    rate = (last - previous) / (now - then)        if last >= previous, else the counter was reset

A row with a reset has no rate, nor has the first one: how long the counter has counted is not known. The one after it
has. A counter that is reset in every window therefore says nothing.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats


def rates(last: Floats, previous: Floats, seconds: Floats) -> Floats:
    """Rates per second, `(n,)`; NaN where `previous` is NaN or more than `last`. `seconds` > 0 since the previous row."""
    grown = last - previous
    out: Floats = np.where(grown >= 0, grown, np.nan) / seconds
    return out
