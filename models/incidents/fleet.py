"""What many hosts do at once: episodes that begin together, of one role or against chance, are one incident of the fleet.

The role of an episode is the service of its host and its metric, log level or template; of a host or service as a whole, that it
comes or goes. Episodes of a role are a cluster while each begins within `join_seconds` of the one before. A cluster of
`fleet_hosts` different hosts is of the fleet. Two would not do: where five hosts a day begin a false episode of some role, two of them
fall together within a minute about once a day over fifty roles, three about once a year. Of two hosts in all, both
that come or go at once are the fleet.

A host that began earlier keeps its own incident while the cluster has fewer than ten hosts, since that may be coincidence.
From ten on it moves into the fleet's incident, unless its own was published.

Episodes of *different* roles that begin together are a cluster where chance does not bring so many hosts together: a switch, a database or
a collector has no role of its own. With lambda episodes a second in the fleet, other clusters apart (`Onsets`, `count_independent`), n hosts begin
within a span of s seconds by chance with P(Poisson(lambda (s + join_seconds)) >= n), or a window instead of `join_seconds` where that is longer,
and a cluster is what should happen less than once a year.

Hosts that fall silent one after the other, as in a rolling restart, are a *roll*: each within `ROLL_SECONDS` of the one before, and more of
them than chance brings together in that time once a year, by what was known before it. So are hosts that appear, and hosts whose logs stop. A
roll is one incident, which is over when nothing has come for so long, and is as severe as the hosts are many that are away at the same time.
Hosts that are away by turns all day are a roll for the first hours, until that is known of the fleet.

What most of the same hosts do next, while the incident goes on, belongs to it: a rate, and the mix that follows from it.

It fails in the first hours of a fleet in which chance makes episodes all the time, as of a thousand hosts with a hundred metrics each: until
lambda is known, they are one incident of the fleet. It fails where another fault than such a silence runs through a fleet slower than that: each
host is an incident of its own, unless a service's metric, level or template holds them together. And where independent faults begin within the
same minute on several hosts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from scipy import special

from models.records.records import USUAL_END, Key

LARGE = 10
ROLL_SECONDS = 600
ROLL_MEMORY_SECONDS = 3 * 3_600  # how far back a roll is looked at; raising it takes more to be usual
MOST_OF_ROLLS = 1_000  # episodes that are remembered for rolls
HOST = "host"  # the first part of a role of whole hosts
ANY_ROLE: Key = (HOST, "", "any")  # of a cluster of different roles
YEAR_SECONDS = 365 * 86_400.0
LEAST = 1e-300  # probability
MEMORY_SECONDS = 86_400.0  # half-life of the rate of episodes


class BegunEpisode(Protocol):
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
    """Hosts that began the same at once, or one after the other if it `rolls`; `start` and `last` are those of the first and the last episode."""

    role: Key
    start: int
    last: int
    hosts: frozenset[str]
    episodes: frozenset[str]
    rolls: bool = False

    @property
    def is_large(self) -> bool:
        """Whether a host that began a little earlier is one of them rather than a coincidence."""
        return len(self.hosts) >= LARGE

    @property
    def is_no_chance(self) -> bool:
        """Whether chance does not bring these hosts together: an incident that has part of them, and nothing else, was its beginning."""
        return self.role == ANY_ROLE or self.is_large

    @property
    def key(self) -> Key:
        """What its episodes share with one another."""
        return ("fleet", str(self.start), *self.role)


@dataclass
class Onsets:
    """How often episodes begin in the fleet by themselves: their number, halved every day, and since when (epoch ms) it is counted.

    An hour with one episode is assumed beforehand.
    """

    number: float = 0.0
    since: int = 0
    last: int = 0

    def learn(self, window_end: int, begun: float) -> None:
        """Take in how many began by themselves in the window that ends at `window_end`, epoch ms."""
        self.since = self.since or window_end
        self.number = self.number * 0.5 ** ((window_end - self.last) / 1000 / MEMORY_SECONDS) + begun
        self.last = window_end

    @property
    def rate(self) -> float:
        """Episodes a second."""
        memory = MEMORY_SECONDS / math.log(2)
        seconds = memory * -math.expm1(-(self.last - self.since) / 1000 / memory)
        return (1 + self.number) / (3_600.0 + seconds)

    def is_no_chance(self, hosts: int, seconds: float) -> bool:
        """Whether chance brings so many hosts together within so many seconds less than once a year."""
        return self.surprise(hosts, seconds) > math.log(YEAR_SECONDS / seconds)

    def surprise(self, hosts: int, seconds: float) -> float:
        """-ln of the probability that chance brings so many hosts together within so many seconds, nats."""
        return -math.log(max(float(special.gammainc(hosts, self.rate * seconds)), LEAST))

    def coincidence(self, cluster: Cluster, join_milliseconds: float) -> float:
        """Surprise of so many hosts at once, nats, by what was known before them; 0 of hosts one after the other."""
        span, hosts = (cluster.last - cluster.start) / 1000, len(cluster.hosts)
        return 0.0 if cluster.rolls else self.without(hosts, span).surprise(hosts, span + join_milliseconds / 1000)

    def without(self, begun: int, seconds: float) -> Onsets:
        """What is known without the last episodes, so many in so many seconds, which are not to explain themselves."""
        since = min(self.since + round(1000 * seconds), self.last)
        return Onsets(max(self.number - begun, 0.0), since, self.last)


def count_independent(
    fresh: Iterable[BegunEpisode], at_once: Iterable[Cluster], rate: float, join_seconds: float, window_seconds: float
) -> float:
    """How many hosts begin by themselves, of episodes that begin in one window.

    They are those outside of clusters, and those that a cluster has only got after twice `join_seconds`, of which at most one and three times
    as many count as the rate, episodes a second, lets one expect in `join_seconds` (or two windows). So what happens at once is apart, and
    adds little when it goes on; what always goes on is learnt: where chance makes an episode every few seconds, all of them are one cluster,
    without an end. Of windows that are longer than `join_seconds` each has clusters of its own, of which so many count. What begins on hosts on which
    something of a published incident has just begun is not given: it follows from that.
    """
    soon = 2_000 * join_seconds if window_seconds <= join_seconds else -1
    begun: dict[str, int] = {}
    for cluster in at_once:
        for episode in () if cluster.rolls else cluster.episodes:
            begun[episode] = max(cluster.start, begun.get(episode, cluster.start))
    alone, late = set(), set()
    for one in fresh:
        start = begun.get(one.id)
        if start is None:
            alone.add(one.host)
        elif one.start > start + soon:
            late.add(one.host)
    return len(alone) + min(len(late - alone), 1 + 3 * rate * max(join_seconds, 2 * window_seconds))


class Onset(NamedTuple):
    """An episode of a host that came or went, or whose log did."""

    start: int
    id: str
    host: str
    role: Key


@dataclass
class Rolls:
    """Hosts that have come or gone lately, in the order of these moments."""

    begun: list[Onset] = field(default_factory=list)

    def learn(self, begun: Iterable[BegunEpisode]) -> bool:
        """Take in episodes that begin; those of another role than of a host as a whole are passed over, and ends that are usual. Answers whether
        there were others.
        """
        fresh = [
            Onset(e.start, e.id, e.host, e.role) for e in begun if e.role[:1] == (HOST,) and e.role[-1] != USUAL_END
        ]
        if fresh:
            found = sorted({*self.begun, *fresh})
            oldest = found[-1].start - 1000 * ROLL_MEMORY_SECONDS
            self.begun = [one for one in found if one.start >= oldest][-MOST_OF_ROLLS:]
        return bool(fresh)

    def clusters(self, join_milliseconds: float, fleet_hosts: int, onsets: Onsets) -> list[Cluster]:
        """The rolls among them that chance does not make, largest first; none of hosts that began at once."""
        found = []
        for role in sorted({one.role for one in self.begun}):
            for own in split_by_gaps([one for one in self.begun if one.role == role], 1000 * ROLL_SECONDS):
                hosts = frozenset(one.host for one in own)
                seconds = (own[-1].start - own[0].start) / 1000 + ROLL_SECONDS
                at_once = own[-1].start - own[0].start <= 2 * join_milliseconds
                before = onsets.without(len(hosts), (own[-1].start - own[0].start) / 1000)
                if len(hosts) >= fleet_hosts and not at_once and before.is_no_chance(len(hosts), seconds):
                    found.append(
                        Cluster(role, own[0].start, own[-1].start, hosts, frozenset(one.id for one in own), rolls=True)
                    )
        return sorted(found, key=lambda c: (-len(c.hosts), c.key))

    @classmethod
    def load(cls, begun: Iterable[Sequence[Any]]) -> Rolls:
        """From JSON types."""
        return cls([Onset(start, name, host, tuple(role)) for start, name, host, role in begun])


def find_coincidences(
    begun: Iterable[BegunEpisode],
    join_milliseconds: float,
    fleet_hosts: int,
    onsets: Onsets,
    window_seconds: float = 0.0,
) -> list[Cluster]:
    """The clusters of different roles that chance does not make, largest first. When within its window one began is not known."""
    found = []
    for own in split_by_gaps([e for e in begun if e.host], join_milliseconds):
        hosts = frozenset(e.host for e in own)
        seconds = (own[-1].start - own[0].start + max(join_milliseconds, 1000 * window_seconds)) / 1000
        if len({e.role for e in own}) > 1 and len(hosts) >= fleet_hosts and onsets.is_no_chance(len(hosts), seconds):
            found.append(Cluster(ANY_ROLE, own[0].start, own[-1].start, hosts, frozenset(e.id for e in own)))
    return sorted(found, key=lambda c: (-len(c.hosts), c.key))


def find_clusters(
    begun: Iterable[BegunEpisode], join_milliseconds: float, fleet_hosts: int, hosts_in_all: int = 0
) -> list[Cluster]:
    """The clusters that are of the fleet, largest first. Where there are fewer hosts in all, all that come or go at once are one."""
    by_role: dict[Key, list[BegunEpisode]] = {}
    for episode in begun:
        if episode.role:
            by_role.setdefault(episode.role, []).append(episode)
    found = [
        Cluster(role, own[0].start, own[-1].start, frozenset(e.host for e in own), frozenset(e.id for e in own))
        for role, episodes in by_role.items()
        for own in split_by_gaps(episodes, join_milliseconds)
    ]
    every = min(fleet_hosts, hosts_in_all) if hosts_in_all > 1 else fleet_hosts
    large = (c for c in found if len(c.hosts) >= (every if c.role[0] == HOST else fleet_hosts))
    return sorted(large, key=lambda c: (-len(c.hosts), c.key))


def split_by_gaps(episodes: Iterable[BegunEpisode], join_milliseconds: float) -> Iterator[list[BegunEpisode]]:
    """Episodes in order of their start, cut where the next one begins too late."""
    run: list[BegunEpisode] = []
    for episode in sorted(episodes, key=lambda e: (e.start, e.id)):
        if run and episode.start - run[-1].start > join_milliseconds:
            yield run
            run = []
        run.append(episode)
    if run:
        yield run
