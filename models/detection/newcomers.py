"""Hosts that are born into a known role: they are judged sooner, and what leads them to their peers is no anomaly.

A host is *born* if its shard is older than the grace period when it is first seen, as then a new host is news. Its role is known once a
gauge of it has been compared with peers (`peer_detector`). Series that come in its first `warm_up_minutes` need a third of that time to be
judged, and 30 windows; its new templates a third of `grace_minutes`. In a window in which the host has an age of A minutes, where W are
asked for,

    needed = A - W, but W / 3 at least and W at most

which is W / 3 for a series that came with the host, and W for one that comes W minutes later. All other hosts and series need W.

A new host often idles for minutes before it serves. When its work begins, nearly all of its series change their level at once, and their
own past, which is the idling, calls each of them improbable. Its peers know better. In its first W minutes it *joins* its role in a window
in which more than a third of its metrics exceed the alert threshold, a gauge that has peers among them which is nearer to the median of its
peers than its typical value is, and none that is farther from the median and beyond the spread of the peers. Then all that is known of the
host's series is forgotten: they warm up again, at work. Work that began was seen in half of the metrics of a simulated host, faults that
lead a latency towards the median in a fifth at most.

It fails for hosts that idle for longer than W, whose work is an anomaly, as that of all hosts is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.detection.peer_law import SPREADS
from models.detection.shard_state import ShardState
from models.records.records import EpisodeEvent

SHARE, LEAST_WINDOWS = 1 / 3, 30
WIDE = 1 / 3  # share of a host's metrics that change at once when its work begins, at least
MINUTE = 60_000.0  # ms
NONE: Ints = np.zeros(0, dtype=np.int64)


class Newcomers:
    """Knows the hosts that are born into a known role, how soon they are judged, and when they begin again."""

    def __init__(self, state: ShardState, p: DetectorParameters) -> None:
        self._state, self._p = state, p

    def needed_minutes(self, minutes: float) -> Floats | None:
        """For how long what is new on each host must have been known where `minutes` are asked for, `(n_hosts,)`; None if for these on all."""
        least = max(minutes * SHARE, LEAST_WINDOWS * self._p.window_seconds / 60.0)
        young = None if least >= minutes else self._young(2 * minutes)
        if young is None:
            return None
        age = (self._state.last - self._state.host_column("first")) / MINUTE
        found: Floats = np.where(young, np.clip(age - minutes, least, minutes), minutes)
        return found

    def _young(self, minutes: float) -> Bools | None:
        """Which hosts were born into a known role less than so many minutes ago, `(n_hosts,)`; None where none was."""
        state, first = self._state, self._state.host_column("first")
        if not len(first) or state.last - first.max() >= MINUTE * minutes:
            return None
        young: Bools = state.last - first < MINUTE * minutes
        young &= first - state.first >= MINUTE * self._p.grace_minutes
        if young.any():
            with_role = np.zeros(len(first), dtype=bool)
            with_role[state.gauges.owner[0, state.peers.rows]] = True
            young &= with_role
        return young if young.any() else None

    def find_joined(self, gauges: Ints, above: Bools, value: Floats, typical: Floats) -> Ints:
        """Rows of the hosts that join their role in a window.

        Parameters
        ----------
        gauges
            Rows of its metrics in the table, `(n,)`.
        above
            Whether each exceeds its alert threshold, `(n,)`.
        value, typical
            Their value and typical value, as in `GaugeScores`, `(n,)`.
        """
        young = self._young(self._p.warm_up_minutes)
        if young is None or not len(at := np.flatnonzero(above)):
            return NONE
        owners, n = self._state.gauges.owner[0, gauges], len(young)
        young &= np.bincount(owners[at], minlength=n) > WIDE * np.bincount(owners, minlength=n)
        at = at[young[owners[at]] & np.isin(gauges[at], self._state.peers.rows)]
        if not len(at):
            return NONE
        peers = self._state.peers.read(self._state.peers.find_or_add(gauges[at]))
        now, before, median = value[at], typical[at], peers["median"]
        nearer = _distance(now, median) < _distance(before, median)
        stranger = ~nearer & (np.abs(now - median) > SPREADS * peers["spread"])
        return np.setdiff1d(owners[at[nearer]], owners[at[stranger]])

    def begin_again(self, hosts: Ints, now: int, events: Iterable[EpisodeEvent]) -> list[EpisodeEvent]:
        """Forget what is known of the series of some hosts; answers `events` without episodes of theirs that the window has opened."""
        state = self._state
        chosen = {name: np.flatnonzero(np.isin(getattr(state, name).owner[0], hosts)) for name in ("gauges", "counts")}
        chosen |= {"hosts": NONE, "contexts": np.flatnonzero(np.isin(state.contexts.owner[0], hosts))}
        found = [*events, *state.reset(chosen, now, self._p)]
        closed = {event.id for event in found if event.status == "close"}
        opened = {event.id for event in found if event.status == "open"} & closed
        return [event for event in found if event.id not in opened]


def _distance(values: Floats, medians: Floats) -> Floats:
    """How far values are from medians, `(n,)`: by their ratio where both are positive, as sizes of hosts differ by factors."""
    positive = (values > 0) & (medians > 0)
    ratio = np.log(np.where(positive, values, 1.0) / np.where(positive, medians, 1.0))
    out: Floats = np.where(positive, np.abs(ratio), np.where(values == medians, 0.0, np.inf))
    return out
