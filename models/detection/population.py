"""The population: how many hosts there are, and how many with each service, which could do the same as one of them.

A silent host still counts for a day, or until its silence is given up if that is later, so all hosts of an outage are in its population.
That holds for a host that had reported for a day before it fell silent. It also holds for one that reported for the grace period or
longer and began in the grace period of its shard: how old such a host really is, nobody knows.

A younger host counts for a tenth of the time that it reported, or for three times the mean distance of its windows if that is longer. So
a service of five pods that live for minutes under names of their own has a population of five or six, not of the thousands that are
remembered for `forget_days`. A host counts with a service for a day, or the same longer time, after the last report of that service.

It is decided host by host, so it does not matter which hosts a shard has. It fails where hosts that live for a day or longer are
replaced by others of new names: those before them count for a day.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import unquote
from models.detection.shard_state import DAY_MS, HOUR_MS, ShardState
from models.records.records import largest_services

MINUTE_MS = 60_000
SHARE = 0.1  # of the time that a young host was there
GAPS = 3.0


class Population:
    """Counts the hosts of a shard as of its last window."""

    def __init__(self, state: ShardState, p: DetectorParameters) -> None:
        self._state, self._p = state, p
        self._grace = MINUTE_MS * p.grace_minutes
        self._named: tuple[list[str], int] = [], 0  # names of contexts, and of how many of them the services are known
        self._services: list[str] = []
        self._service: Ints = np.zeros(0, dtype=np.int64)
        self._counted: Bools = np.zeros(0, dtype=bool)
        self._by_service: tuple[dict[str, int], int] = {}, 0

    def count_hosts(self) -> tuple[Bools, dict[str, int], int]:
        """Which hosts count, `(n_hosts,)`, the number of those with each service, and of services that are left out."""
        # an hour more: in the window in which a silence is given up its host still counts
        longest = HOUR_MS + self._state.silence_patience(max(DAY_MS, HOUR_MS * self._p.silence_patience_hours), self._p)
        hosts, contexts, named = self._hosts(longest), self._state.contexts, self._named
        if named[0] is not contexts.names or named[1] != len(contexts):
            found = [unquote(name.split("/", 1)[1]) for name in contexts.names]
            places = {name: at for at, name in enumerate(dict.fromkeys(found))}
            self._services, self._named = list(places), (contexts.names, len(contexts))
            self._service = np.array([places[name] for name in found], dtype=np.int64)
            self._counted = np.zeros(0, dtype=bool)
        counted = hosts[contexts.owner[0]]
        counted &= self._state.last - self._state.context_column("seen") <= longest[contexts.owner[0]]
        if not np.array_equal(counted, self._counted):
            sizes = np.bincount(self._service[counted], minlength=len(self._services)).tolist()
            pairs = zip(self._services, sizes, strict=True)
            self._counted, self._by_service = counted, largest_services({name: size for name, size in pairs if size})
        return hosts, *self._by_service

    def _hosts(self, longest: Floats) -> Bools:
        """Which hosts count, those that are known for a silence of so many ms at most, `(n_hosts,)`."""
        state = self._state
        first, seen, windows = (state.host_column(name) for name in ("first", "seen", "windows"))
        lived = np.maximum(seen - first, 0.0)
        known = (lived >= DAY_MS) | ((first - state.first <= self._grace) & (lived >= self._grace))
        young = np.maximum(SHARE * lived, GAPS * lived / np.maximum(windows - 1.0, 1.0))
        counts: Bools = state.last - seen <= np.where(known, longest, np.minimum(young, longest))
        return counts
