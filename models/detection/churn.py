"""Churn: metrics of a service of a host that end and begin all day, as those of pods that live for minutes do, and hosts that do so.

Metrics end *together* if their last rows came within five minutes, which is an *occasion*. Where at least half as many ended together on three
other occasions of the last day, one that ends is no news, and neither is one that begins: that a whole service ends or begins with it is. It is
counted from the last rows of the metrics that are remembered, so nothing more is stored.

Hosts are *alike* if their metrics are of the same services, or all of none. A host is *passing* if it began after the grace period of its shard
and lived for less than a day; one that a rule has reset is none. That a host ends is no news if passing ones like it ended on three other
occasions of the last week, at least half as many as end with it. If it is no passing host itself, those must have lived at least half as long as
it has. So a host of an ordinary fleet that dies is news, as those that died before it were no passing ones, and one that has lived for two days is
so in any case. That one begins is no news by the same count, of passing hosts that had metrics of all services that it has metrics of so far.

A shard may have one host of a service: that most of a service ends at once is seen by the correlator, to which a usual end is an episode without
surprise of its own.

It fails for what ends once a day, and for a service whose metrics fail one after the other: after the first three that is churn as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import unquote
from models.detection import gauge_columns as col
from models.detection.population import GAPS
from models.detection.recurrence import LEAST_OCCASIONS, TOGETHER, WEEK
from models.detection.shard_state import DAY_MS, ShardState


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


class HostChurn:
    """Knows which hosts of a shard ended in the last week, as of a window."""

    def __init__(self, state: ShardState, p: DetectorParameters) -> None:
        self._state, self._grace, self._window = state, 60_000 * p.grace_minutes, 1000.0 * p.window_seconds
        self._named: tuple[list[str], list[int]] = [], []  # names of contexts, and a number for the service of each
        self._now = -1
        self._measured: Ints = np.zeros((2, 0), dtype=np.int64)  # of contexts with metrics: hosts, and those numbers
        self._kinds: Floats = np.zeros(0)
        self._seen: Floats = self._kinds
        self._lived: Floats = self._kinds
        self._gone: Bools = np.zeros(0, dtype=bool)
        self._passing = self._gone

    def is_usual_end(self, row: int, now: int) -> bool:
        """Whether it is no news that a host, a row of the table, is missing."""
        self._look(now)
        seen, alike = self._seen[row], self._gone & (self._kinds == self._kinds[row])
        together = alike & (np.abs(self._seen - seen) <= TOGETHER)
        others = alike & ~together & self._passing
        if not self._passing[row]:
            others &= 2 * self._lived >= self._lived[row]
        return _often(self._seen[others], int(together.sum()))

    def is_usual_beginning(self, services: Iterable[str], together: int, now: int) -> bool:
        """Whether it is no news that so many hosts begin together, of which there are metrics of these services so far."""
        self._look(now)
        alike, (owner, numbers) = self._gone & self._passing, self._measured
        for number in map(_number, services):
            alike &= np.bincount(owner[numbers == number], minlength=len(alike)) > 0
        return _often(self._seen[alike], together)

    def _look(self, now: int) -> None:
        """Find out who is gone at `now`, once for each window: of each host services, last row, life, and whether it is passing."""
        if now == self._now:
            return
        self._now, state, contexts = now, self._state, self._state.contexts
        first, seen, windows = (state.host_column(name) for name in ("first", "seen", "windows"))
        self._seen, self._lived = seen.copy(), seen - first
        quiet, interval = now - seen, self._lived / np.maximum(windows - 1.0, 1.0)
        self._gone = (quiet <= WEEK) & (quiet > GAPS * np.maximum(interval, self._window))
        was_reset = (windows - 2.0) * self._window >= self._lived  # more windows than its life has room for
        self._passing = (first - state.first > self._grace) & (self._lived < DAY_MS) & ~was_reset
        if self._named[0] is not contexts.names:
            self._named = contexts.names, []
        numbers = self._named[1]
        numbers += [_number(unquote(name.split("/", 1)[1])) for name in contexts.names[len(numbers) :]]
        measured = np.zeros(len(numbers), dtype=bool)
        measured[state.gauges.owner[1]] = True
        self._measured = np.array([contexts.owner[0], numbers], dtype=np.int64)[:, measured]
        self._kinds = np.bincount(self._measured[0], self._measured[1], len(seen)).astype(np.float64)


def _number(service: str) -> int:
    """A number for a service, 0 for none: hosts with the same services have the same sum of them."""
    return crc32(service.encode())


def _often(times: Floats, together: int) -> bool:
    """Whether at least half as many as `together` ended on enough occasions; `times` are those of the others, ms, `(n,)`."""
    _, sizes = np.unique(times // TOGETHER, return_counts=True)
    return int(np.count_nonzero(2 * sizes >= together)) >= LEAST_OCCASIONS
