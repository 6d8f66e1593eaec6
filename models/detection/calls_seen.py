"""The calls between services that the series of a shard tell."""

from __future__ import annotations

from models.core.calls import Call, calls_of
from models.core.series import unquote
from models.core.store import SeriesTable
from models.records.records import CALL_BYTES, MOST_CALLS, CallSeen, fitting


class CallsSeen:
    """What the names of the metrics in a table say of calls. A call is forgotten when its last series is.

    The answer follows from the set of names alone. Names are read once: new ones stand behind those that are known.
    """

    def __init__(self, metrics: SeriesTable) -> None:
        self._metrics = metrics
        self._read = 0
        self._calls: set[Call] = set()
        self._listed: list[CallSeen] = []

    def forget(self) -> None:
        """Read all names anew: rows of the table have gone."""
        self._read = 0
        self._calls.clear()
        self._listed = []

    @property
    def listed(self) -> list[CallSeen]:
        """The calls in order of names, as many as one record may hold."""
        names = self._metrics.names
        if self._read == len(names):
            return self._listed
        before = len(self._calls) if self._read else -1
        for name in names[self._read :]:
            self._calls.update(calls_of(unquote(name.split("/", 3)[3])))
        self._read = len(names)
        if len(self._calls) != before:
            first = [CallSeen(caller, callee) for caller, callee in sorted(self._calls)[:MOST_CALLS]]
            self._listed = fitting(first, CALL_BYTES)
        return self._listed
