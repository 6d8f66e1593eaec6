"""Churn: metrics of a service of a host that end and begin all day, as those of pods that live for minutes do.

Metrics end *together* if their last rows came within five minutes, which is an *occasion*. Where at least half as many ended together on three
other occasions of the last day, one that ends is no news, and neither is one that begins: that a whole service ends or begins with it is. It is
counted from the last rows of the metrics that are remembered, so nothing more is stored.

It fails for what ends once a day, and for a service whose metrics fail one after the other: after the first three that is churn as well.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats
from models.detection import gauge_columns as col
from models.detection.population import GAPS
from models.detection.shard_state import DAY_MS, ShardState

TOGETHER = 300_000  # ms
LEAST_OCCASIONS = 3


class Churn:
    """Knows when metrics of a shard ended, as of a window."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._now = -1
        self._found: dict[int, Floats] = {}

    def ended(self, context: int, now: int) -> Floats:
        """When the metrics of a context that are missing at `now` had their last rows, of the last day, ms, `(n,)`."""
        if now != self._now:
            self._now, self._found = now, {}
        if context not in self._found:
            gauges, univariate = self._state.gauges, self._state.univariate
            own = np.flatnonzero(gauges.owner[1, : univariate.series] == context)
            seen = gauges.matrix[col.SEEN, own]
            quiet = now - seen
            missing = (quiet <= DAY_MS) & (quiet > GAPS * 1000.0 * univariate.hot["interval"][0, own])
            self._found[context] = seen[missing]
        return self._found[context]

    def is_usual_end(self, context: int, seen: float, now: int) -> bool:
        """Whether it is no news that a metric is missing whose last row came at `seen`, ms."""
        times = self.ended(context, now)
        together = np.abs(times - seen) <= TOGETHER
        return _often(times[~together], int(together.sum()))

    def is_usual_beginning(self, context: int, together: int, now: int) -> bool:
        """Whether it is no news that so many metrics begin together."""
        return _often(self.ended(context, now), together)


def _often(times: Floats, together: int) -> bool:
    """Whether at least half as many as `together` ended on enough occasions; `times` are those of the others, ms, `(n,)`."""
    _, sizes = np.unique(times // TOGETHER, return_counts=True)
    return int(np.count_nonzero(2 * sizes >= together)) >= LEAST_OCCASIONS
