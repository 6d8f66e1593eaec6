"""What many hosts do at once: episodes of one role that begin together are one incident of the fleet.

The role of an episode is the service of its host and its metric, log level or template; of a host or service as a whole, that it
comes or goes. Episodes of a role are a cluster while each begins within `join_seconds` of the one before. A cluster of
`fleet_hosts` different hosts is of the fleet. Two would not do: where five hosts a day begin a false episode of some role, two of them
fall together within a minute about once a day over fifty roles, three about once a year.

A host that began earlier keeps its own incident while the cluster has fewer than ten hosts, since that may be coincidence.
From ten on it moves into the fleet's incident, unless its own was published.

What most of the same hosts do next, while the incident goes on, belongs to it: a rate, and the mix that follows from it.

It fails where a fault runs through a fleet slower than that: each host is an incident of its own, unless a service's metric,
level or template holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from models.records.records import Key

LARGE = 10


class Begun(Protocol):
    """An episode, of which host it is, what others may do as well, and when it began (epoch milliseconds)."""

    @property
    def id(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def role(self) -> Key: ...
    @property
    def start(self) -> int: ...


@dataclass(frozen=True)
class Cluster:
    """Hosts that began the same at once; `start` is that of the first."""

    role: Key
    start: int
    hosts: frozenset[str]
    episodes: frozenset[str]

    @property
    def is_large(self) -> bool:
        """Whether a host that began a little earlier is one of them rather than a coincidence."""
        return len(self.hosts) >= LARGE

    @property
    def key(self) -> Key:
        """What its episodes share with one another."""
        return ("fleet", str(self.start), *self.role)


def clusters(begun: Iterable[Begun], join_milliseconds: float, fleet_hosts: int) -> list[Cluster]:
    """The clusters that are of the fleet, largest first."""
    by_role: dict[Key, list[Begun]] = {}
    for episode in begun:
        if episode.role:
            by_role.setdefault(episode.role, []).append(episode)
    found = [
        Cluster(role, own[0].start, frozenset(e.host for e in own), frozenset(e.id for e in own))
        for role, episodes in by_role.items()
        for own in runs(episodes, join_milliseconds)
    ]
    return sorted((c for c in found if len(c.hosts) >= fleet_hosts), key=lambda c: (-len(c.hosts), c.key))


def runs(episodes: list[Begun], join_milliseconds: float) -> Iterator[list[Begun]]:
    """Episodes in order of their start, cut where the next one begins too late."""
    run: list[Begun] = []
    for episode in sorted(episodes, key=lambda e: (e.start, e.id)):
        if run and episode.start - run[-1].start > join_milliseconds:
            yield run
            run = []
        run.append(episode)
    if run:
        yield run
