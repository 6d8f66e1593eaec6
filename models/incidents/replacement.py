"""Metrics that end as others begin: what is collected of a host has changed, and nothing has failed.

An agent that renames metrics, or values of their labels, ends metrics and begins others on each of its hosts. The missing ones are
*replaced* where at least as many of the same service have begun on the host within `WITHIN_SECONDS` of their last rows.

It fails where a fault does the same: requests that are counted under another code than before, without the old one going on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.core.series import quote
from models.incidents.members import Member

WITHIN_SECONDS = 300


@dataclass
class Replacements:
    """Metrics that have begun and ended within an incident.

    Attributes
    ----------
    places
        By service of a host: how many metrics have begun in it, how many have ended, and when the first and the last one began, epoch ms.
    """

    places: dict[str, list[int]] = field(default_factory=dict)

    def learn(self, member: Member, most: int) -> None:
        """Take in an episode that becomes part of the incident; `most` services of hosts are remembered."""
        place, at = place_of(member), member.start
        if not place or (place not in self.places and len(self.places) >= most):
            return
        begun, ended, first, last = self.places.get(place, (0, 0, at, at))
        if member.fact and begun:
            self.places[place] = [begun + 1, ended, min(first, at), max(last, at)]
        else:
            self.places[place] = [1, ended, at, at] if member.fact else [begun, ended + 1, first, last]

    def has_replaced(self, member: Member) -> bool:
        """Whether an episode is about a metric that has been replaced, or that one of its service has been replaced with."""
        begun, ended, first, last = self.places.get(place_of(member), (0, 0, 0, 0))
        near = first - 1000 * WITHIN_SECONDS <= member.start <= last + 1000 * WITHIN_SECONDS
        return near and 0 < ended <= begun


def place_of(member: Member) -> str:
    """The service of a host in which a metric begins or is missing; empty for what is no such episode."""
    if not member.role or member.role[0] != "metric" or not (member.fact or member.is_partial):
        return ""
    return f"{quote(member.host)}/{quote(member.role[1])}"
