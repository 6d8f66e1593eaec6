"""Changes and calls that were announced: which change may be the cause of an incident.

A change is a candidate if it was made before something strange began, on the same service or host or on a service that is called from
there. How likely does chance bring one so close? With n other changes of these k names in the last T days, each name has changed

    L_i = (n_i + 1) / (T + 1)  times a day        the mean of a Gamma law that began with one change in one day

and of independent moments one lies within d days before the onset with

    p = 1 - exp(-d * sum_i L_i)

A change leads the causes from p = LEADS on: of incidents that have nothing to do with changes, one in twenty has a change at its head. From JOINS on
it stands behind the strange services. d is counted to the end of the window in which the first strange value lies, as the moment
within it is not known. Changes that lie as close to the candidate as that to the onset are of the same rollout and are not counted in n.

It fails where changes follow incidents, as repairs and scaling by load do: what began later than the onset is no candidate, but the next
onset of the same fault is after it. It fails where changes are announced by another name than their service has.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.core.calls import Call
from models.core.wording import duration
from models.incidents.cause import MOST_WHY
from models.records.records import AnnouncedChange, Cause, Watched
from models.records.schema import parsed, plain

DAY_MS = 86_400_000
MEMORY_MS = 7 * DAY_MS
MOST_CHANGES = 1_000  # that are remembered, the latest to come
MOST_CALLS = 10_000
MOST_SHOWN = 3  # changes among the causes of an incident
LEADS, JOINS = 0.05, 0.5
SCALING = "scaling"


@dataclass(frozen=True)
class Candidate:
    """A change as a cause: by how much chance brings one so close, and which of the strange services, by rank, it explains."""

    chance: float
    place: int
    cause: Cause


@dataclass
class Announced:
    """What has been announced up to a window: `changes` with the window in which they came, and calls.

    `since` is the first window in which anything happened at all: from there on changes would have been seen.
    """

    since: int = -1
    changes: list[tuple[int, AnnouncedChange]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def learn(self, window_end: int, watched: Watched) -> None:
        """Take in what was announced in a window. The same change again is none."""
        if self.since < 0:
            self.since = window_end
        if watched.changes:
            known = {change for _, change in self.changes}
            fresh = [(window_end, change) for change in watched.changes if change not in known]
            if fresh:
                kept = [one for one in self.changes if one[0] >= window_end - MEMORY_MS]
                self.changes = [*kept, *fresh][-MOST_CHANGES:]
        if watched.topology:
            calls = dict.fromkeys(self.calls)  # in the order in which they were announced last
            for call in watched.topology:
                pair = call.client, call.server
                calls.pop(pair, None)
                if not call.removed:
                    calls[pair] = None
            self.calls = list(calls)[-MOST_CALLS:]

    def candidates(self, causes: Sequence[Cause], calls: Iterable[Call], window_ms: int) -> list[Candidate]:
        """Changes that may be behind the strange services, those of the likeliest service first, at most `MOST_SHOWN`.

        Parameters
        ----------
        causes
            Strange services, the likeliest first.
        calls
            Calls by them.
        window_ms
            How much later than its onset each may have begun.
        """
        by_name: dict[str, list[AnnouncedChange]] = {}
        for _, one in self.changes:
            for name in filter(None, (one.service, one.host)):
                by_name.setdefault(name, []).append(one)
        called: dict[str, list[str]] = {}
        for caller, callee in calls:
            called.setdefault(caller, []).append(callee)
        own = [[name for name in (cause.service, cause.host) if name] for cause in causes]
        near = [[*names, *called.get(names[0], [])] if names else [] for names in own]
        relevant = {name for names in near for name in names}
        moments = sorted(change.at for change in {one for name in relevant for one in by_name.get(name, ())})
        latest: dict[tuple[str, str], Candidate] = {}  # by name and kind of change
        taken: set[AnnouncedChange] = set()
        for place, (cause, names) in enumerate(zip(causes, near, strict=True)):
            for name in names:
                for change in last_of_each_kind(by_name.get(name, ()), cause.onset + window_ms):
                    if (name, change.change) not in latest and change not in taken:
                        taken.add(change)
                        chance = self._chance(len(relevant), moments, change.at, cause.onset + window_ms)
                        found = as_cause(change, cause, chance, name in own[place])
                        latest[name, change.change] = Candidate(chance, place, found)
        likely = [one for one in latest.values() if one.chance <= JOINS]
        return sorted(likely, key=order)[:MOST_SHOWN]

    def _chance(self, names: int, moments: Sequence[int], at: int, before: int) -> float:
        """The probability that some change of so many names, made at these moments, lies as close before a moment as `at` does, by chance."""
        first = self.changes[0][0] if len(self.changes) == MOST_CHANGES else self.since
        days = min(max(before - first, 0), MEMORY_MS) / DAY_MS
        oldest, newest = before - MEMORY_MS, 2 * at - before
        others = max(0, bisect_left(moments, newest) - bisect_left(moments, oldest))
        rate = (others + names) / (days + 1.0)
        return -math.expm1(-rate * (before - at) / DAY_MS)

    def dump(self) -> dict[str, Any]:
        """As JSON types."""
        changes = [[came, plain(change)] for came, change in self.changes]
        return {"since": self.since, "changes": changes, "calls": self.calls}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Announced:
        """The inverse of `dump`."""
        changes = [(came, parsed(AnnouncedChange, change)) for came, change in data["changes"]]
        return cls(data["since"], changes, [(caller, callee) for caller, callee in data["calls"]])


def order(one: Candidate) -> tuple[int, bool, bool, float, str, str]:
    """Sorts changes: of those that lead a scaling is the last, as it may be a part of what another one has begun."""
    cause, leads = one.cause, one.chance <= LEADS
    return one.place, not leads, leads and cause.metric == SCALING, one.chance, cause.service, cause.host


def last_of_each_kind(changes: Iterable[AnnouncedChange], before: int) -> list[AnnouncedChange]:
    """The last change of each kind before a moment, of those not long ago: the scaling of a rollout does not hide its deployment."""
    recent = sorted(change for change in changes if before - MEMORY_MS <= change.at < before)
    return list({change.change: change for change in recent}.values())


def as_cause(change: AnnouncedChange, strange: Cause, chance: float, own: bool) -> Cause:
    """A change as the cause of what is strange; `own` is on the same service or host, else on one that is called from there."""
    apart = strange.onset - change.at
    when = f"{duration(apart / 1_000)} after" if apart >= 1_000 else "together with"
    version = f" {change.version}" if change.version else ""
    where = f"{change.service} on {change.host}" if change.service and change.host else change.name
    why = f"began {when} {change.change}{version} of {where}"
    if not own:
        why = f"{strange.service or strange.host} {why}, which it calls"
    if change.comment:
        why += f" ({change.comment})"
    why += f"; chance brings a change so close to 1 of {1 / max(chance, 1e-9):,.0f} incidents"
    return Cause(
        kind="change",
        host=change.host,
        service=change.service,
        metric=change.change,
        onset=change.at,
        score=-math.log(max(chance, 1e-300)),
        why=why[:MOST_WHY],
    )
