"""Which of the services that are strange at once is likely the cause?

Three observations, each a rule without a constant:

    strength    how far a metric went, in its own history's terms: s = |x - t| / w, with x the value at the episode's peak, t what
                was expected when it began, and w the distance from t to that end of the expected interval which x lies
                beyond. 1 is the border of the interval. Surprise in nats saturates where there is little history, s does not
    calls       a caller shows what its callee does (latency, errors). A strange service is *explained* if it reaches, by calls
                among strange services, one that does not reach it back. Services that are not explained come first, and each is
                ranked by what it explains: E = sum of the strength of those that reach it, its own included
    onset       among equals the one that began first: onset less the delay after which its series can show anything

The strength of a service is that of its strongest metric. An episode that has no interval, as a silence or something new,
counts as 1, and so does what never moved before. Nothing later than the episodes at hand is looked at.

It fails where what is measured flows with the calls instead of against them: a callee gets fewer requests because its caller
is broken, so numbers of requests are better left out. It fails where a callee is only seen through its caller, as a
load balancer is: both move alike. Without calls it ranks by strength alone.

The rule of callees is that of Chen et al., CauseInfer (INFOCOM 2014), and of the traversal in PetShop (Hardt et al., 2023, arXiv
2311.04806), which stop at strange nodes without strange callees; the sum over those explained is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Floats

BORDER = 1.0  # the strength of a value on the border of its interval
LARGEST = 1e12  # sums of it are still numbers


@dataclass(frozen=True)
class Suspect:
    """A metric of a service that is strange: when that began and when its series could first show it, and how strong it is.

    `onset` is in epoch ms, `delay` in ms: the length of a window, or of a rate's average. `strength` is in widths of its interval.
    """

    service: str
    metric: str
    onset: float
    strength: float
    delay: float = 0.0


@dataclass(frozen=True)
class Cause:
    """A service that may be the cause, with its strongest metric.

    `score` is the strength of all that it explains, in widths of intervals; it compares causes of one kind, explained or not.
    """

    service: str
    metric: str
    score: float
    why: str


def strength(value: float, typical: float, lower: float, upper: float) -> float:
    """Distance from what was expected in widths of the interval on that side.

    It is `BORDER` where a number is not known, and of an interval without width: a series that never moved has no measure.
    """
    if not all(map(math.isfinite, (value, typical, lower, upper))):
        return BORDER
    away = value - typical
    width = upper - typical if away > 0 else typical - lower
    return min(abs(away) / width, LARGEST) if width > 0 else BORDER if away else 0.0


def reached(count: int, calls: Iterable[tuple[int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Whether calls lead from one to another, directly or through others, `(count, count)`; each reaches itself."""
    leads = np.eye(count, dtype=bool)
    for caller, callee in calls:
        leads[caller, callee] = True
    while True:
        further = (leads.astype(np.int64) @ leads.astype(np.int64)) > 0
        if (further == leads).all():
            return leads
        leads = further


def rank(suspects: Iterable[Suspect], calls: Iterable[tuple[str, str]] = ()) -> list[Cause]:
    """The services by who is likely the cause, the likeliest first.

    Parameters
    ----------
    suspects
        The strange metrics, in any order.
    calls
        Pairs of caller and callee. Those of services without a suspect are ignored.
    """
    lead = _strongest(suspects)
    names = sorted(lead)
    at = {name: i for i, name in enumerate(names)}
    among = [(at[caller], at[callee]) for caller, callee in calls if caller in at and callee in at]
    leads = reached(len(names), among)
    explained = np.any(leads & ~leads.T, axis=1)
    own: Floats = np.array([lead[name].strength for name in names])
    total = np.where(leads, own[:, None], 0.0).sum(axis=0)
    begun = [lead[name].onset - lead[name].delay for name in names]
    order = sorted(range(len(names)), key=lambda i: (explained[i], -total[i], -own[i], begun[i], names[i]))
    return [_cause(i, names, lead, leads, total) for i in order]


def _strongest(suspects: Iterable[Suspect]) -> dict[str, Suspect]:
    """The strongest metric of each service."""
    lead: dict[str, Suspect] = {}
    for one in sorted(suspects, key=lambda s: (s.service, -s.strength, s.onset - s.delay, s.metric)):
        lead.setdefault(one.service, one)
    return lead


def _cause(
    i: int,
    names: list[str],
    lead: Mapping[str, Suspect],
    leads: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    total: Floats,
) -> Cause:
    """One cause with its sentence."""
    one = lead[names[i]]
    below = [names[j] for j in np.flatnonzero(leads[i] & ~leads[:, i])]
    above = [names[j] for j in np.flatnonzero(leads[:, i]) if j != i]
    why = f"{one.metric} of {one.service} went {one.strength:,.1f} times as far as its interval"
    if below:
        why += f"; it calls {below[0]}, which is strange too"
    elif above:
        why += f"; of what it calls nothing else is strange, and {len(above)} of its callers are"
    return Cause(names[i], one.metric, float(total[i]), why)
