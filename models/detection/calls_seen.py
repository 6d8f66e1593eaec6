"""The calls between services that the series of a shard tell."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from models.core.calls import Call, calls_of
from models.core.series import unquote
from models.core.store import SeriesTable
from models.detection.limits import name_hash
from models.records.records import CALL_BYTES, MOST_CALLS, CallSeen, bytes_in_list

LEAST_BYTES = CALL_BYTES // MOST_CALLS  # that a call counts as, so that those that fit are no more than MOST_CALLS


class CallsSeen:
    """What the names of the metrics in a table say of calls. A call is forgotten when its last series is.

    The answer follows from the set of names alone. Names are read once: new ones stand behind those that are known.
    """

    def __init__(self, metrics: SeriesTable) -> None:
        self._metrics = metrics
        self._read = 0
        self._calls: dict[str, set[Call]] = {}  # by the host that tells them
        self._listed: list[CallSeen] = []

    def forget(self) -> None:
        """Read all names anew: rows of the table have gone."""
        self._read = 0
        self._calls.clear()
        self._listed = []

    @property
    def list_calls(self) -> list[CallSeen]:
        """The calls in order of names, as many as one record may hold."""
        names = self._metrics.names
        if self._read == len(names):
            return self._listed
        before = self._calls_in_names if self._read else -1
        for name in names[self._read :]:
            _, host, _, metric = name.split("/", 3)
            calls = calls_of(unquote(metric))
            if calls:
                self._calls.setdefault(host, set()).update(calls)
        self._read = len(names)
        if self._calls_in_names != before:
            self._listed = [CallSeen(*call) for call in sorted(share_fairly(self._calls))]
        return self._listed

    @property
    def _calls_in_names(self) -> int:
        return sum(map(len, self._calls.values()))


def share_fairly(by_host: Mapping[str, set[Call]]) -> list[Call]:
    """The calls that fit into one record: where not all do, each host has the same room at most (max-min fairness).

    Of a host those with the least hashes have room. A call that several hosts tell takes it once.
    """
    bytes_of = {call: max(bytes_in_list(CallSeen(*call)), LEAST_BYTES) for calls in by_host.values() for call in calls}
    if sum(bytes_of.values()) <= CALL_BYTES:
        return list(bytes_of)
    order = {call: (name_hash("\0".join(call)), call) for call in bytes_of}
    needed: dict[Call, int] = {}  # room of a host with which it has the call
    for calls in by_host.values():
        own = sorted(calls, key=order.__getitem__)
        for call, room in zip(own, accumulate(map(bytes_of.__getitem__, own)), strict=True):
            needed[call] = min(room, needed.get(call, room))
    first = sorted(needed, key=lambda call: (needed[call], order[call]))
    return [
        call
        for call, until in zip(first, accumulate(map(bytes_of.__getitem__, first)), strict=True)
        if until <= CALL_BYTES
    ]
