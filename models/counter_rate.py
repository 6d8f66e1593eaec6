"""Cumulative counters -> rates per second.

    rate = (last - previous) / (now - then)        if last >= previous
         = last / (now - then)                     else: the counter was reset and has counted `last` since

After a reset the rate is a lower bound, as the moment of the reset is not known. The first row of a counter has none.
"""

from __future__ import annotations

import numpy as np

from models.windows import Floats


def rates(last: Floats, previous: Floats, seconds: Floats) -> Floats:
    """Rates per second, `(n,)`; NaN where `previous` is NaN. `seconds` > 0 since the previous row."""
    grown = last - previous
    out: Floats = np.where(grown >= 0, grown, last) / seconds
    out[np.isnan(previous)] = np.nan
    return out
