"""Which of the services that are strange at once is likely the cause?

Three observations, each a rule without a constant:

    strength    how far a metric went, in its own history's terms: its second largest distance from what was expected when its episode
                began, in widths of the expected interval (`models.stats.interval_distance`)
    calls       a caller shows what its callee does (latency, errors). A strange service is *explained* if it reaches, by calls
                among strange services, one that does not reach it back. Services that are not explained come first, and each is
                ranked by what it explains: E = sum of the strength of those that reach it, its own included
    onset       who is called explains who calls it only if both began together: requests carry a fault at once. Each onset is
                known to the delay of its series (the time between its rows, the half-life of a slow mean), so onsets are
                together that lie no further apart than the longer delay. Among equals the one that began first is first, less its delay

The strength of a service is that of its strongest metric. An episode that has no measure, as a silence or something new,
counts as 1, and so does what never moved before. A host counts as a service of its own for metrics that are of no service. Nothing
later than the episodes at hand is looked at.

It fails where what is measured flows with the calls instead of against them: a callee gets fewer requests because its caller
is broken, so numbers of requests are better left out. It fails where a callee is only seen through its caller, as a
load balancer is: both move alike; where a fault goes on by queues or caches, minutes after it began; and where a service is strange in one
window only. Without calls it ranks by strength alone.

The rule of callees is that of Chen et al., CauseInfer (INFOCOM 2014), and of the traversal in PetShop (Hardt et al., 2023, arXiv
2311.04806), which stop at strange nodes without strange callees; the sum over those explained and the onsets are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Floats
from models.core.calls import Call
from models.records.records import Cause
from models.stats.interval_distance import BORDER

Matrix = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
MOST_CAUSES = 10  # that an incident lists
MOST_WHY = 500  # characters


@dataclass(frozen=True)
class Suspect:
    """Something strange in a service, or on a host.

    Parameters
    ----------
    host, service, series
        Where, and the name of the series.
    what
        The metric, or another word for what is strange, such as `error lines`.
    onset, delay
        When it began, epoch ms, and by how much its series may be late, ms.
    strength
        How far it went, in widths of its interval; `BORDER` where there is no measure.
    went
        How far, in words; empty for those of a metric.
    """

    host: str
    service: str
    what: str
    onset: float
    strength: float
    delay: float = 0.0
    series: str = ""
    went: str = ""

    @property
    def name(self) -> str:
        """The name under which it calls and is called: that of its service, or of its host where it is of no service."""
        return self.service or self.host

    @property
    def words(self) -> str:
        """How far it went, in words: the border of the interval is as far as it normally goes."""
        if self.went:
            return self.went
        if self.strength <= BORDER:
            return f"{self.what} of {self.name} is unusual"
        return f"{self.what} of {self.name} went {self.strength:,.1f} times as far from its usual value as it normally does"


def find_reachable(count: int, calls: Iterable[tuple[int, int]]) -> Matrix:
    """Whether calls lead from one to another, directly or through others, `(count, count)`; each reaches itself."""
    leads = np.eye(count, dtype=bool)
    pairs = list(calls)
    for caller, callee in pairs:
        leads[caller, callee] = True
    for through in sorted({caller for caller, _ in pairs} & {callee for _, callee in pairs}):  # Warshall's
        leads[leads[:, through]] |= leads[through]
    return leads


def began_together(some: Sequence[Suspect], others: Sequence[Suspect]) -> bool:
    """Whether one of each can have begun at one moment."""
    return any(abs(a.onset - b.onset) <= max(a.delay, b.delay) for a in some for b in others)


def rank_services(suspects: Iterable[Suspect], calls: Iterable[Call] = ()) -> list[Cause]:
    """The services by who is likely the cause, the likeliest first.

    Parameters
    ----------
    suspects
        What is strange, in any order.
    calls
        Pairs of caller and callee. Those of services without a suspect are ignored.
    """
    by_name = _by_name(suspects)
    names = list(by_name)
    lead = [by_name[name][0] for name in names]
    at = {name: i for i, name in enumerate(names)}
    among = {(at[a], at[b]) for a, b in calls if a in at and b in at and began_together(by_name[a], by_name[b])}
    leads = find_reachable(len(names), sorted(among))
    explained = np.any(leads & ~leads.T, axis=1)
    own: Floats = np.array([one.strength for one in lead])
    total = np.where(leads, own[:, None], 0.0).sum(axis=0)
    begun = [one.onset - one.delay for one in lead]
    order = sorted(range(len(names)), key=lambda i: (explained[i], -total[i], -own[i], begun[i], names[i]))
    return [_cause(lead, leads, i, float(total[i])) for i in order]


def _by_name(suspects: Iterable[Suspect]) -> Mapping[str, list[Suspect]]:
    """The suspects of each service, the strongest first, in order of names."""
    found: dict[str, list[Suspect]] = {}
    for one in sorted(suspects, key=sort_key_of):
        found.setdefault(one.name, []).append(one)
    return found


def sort_key_of(one: Suspect) -> tuple[str, float, float, str, str, str, float, str]:
    """Sorts suspects; no two different ones have the same place, as in what order they come is not in the log."""
    return one.name, -one.strength, one.onset - one.delay, one.what, one.host, one.series, one.onset, one.went


def _cause(lead: Sequence[Suspect], leads: Matrix, i: int, total: float) -> Cause:
    """One cause with its sentence."""
    one, why = lead[i], lead[i].words
    below = [lead[j].name for j in np.flatnonzero(leads[i] & ~leads[:, i]).tolist()]
    mutual = [lead[j].name for j in np.flatnonzero(leads[i] & leads[:, i]).tolist() if j != i]
    above = int(leads[:, i].sum()) - 1
    if below:
        why += f"; it calls {below[0]}, which is strange too"
    elif mutual:
        why += f"; it and {mutual[0]}, which is strange too, call each other"
    elif above:
        why += (
            f"; of what it calls nothing else is strange, and {above:,} of its callers {'is' if above == 1 else 'are'}"
        )
    return Cause(
        kind="episode",
        host=one.host,
        service=one.service,
        metric=one.what,
        series=one.series,
        onset=round(one.onset),
        score=total,
        why=why[:MOST_WHY],
    )
