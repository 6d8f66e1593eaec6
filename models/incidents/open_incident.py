"""An incident that is not closed yet, and the events published about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from models.core.calls import Call
from models.core.wording import counted
from models.incidents.announced import LEADS, Announced
from models.incidents.budget import expected_false_alarms, joint_surprise, publication_threshold
from models.incidents.cause import MOST_CAUSES, Suspect, rank_services
from models.incidents.fleet import HOST, ROLL_SECONDS, Cluster
from models.incidents.members import Member, contributions, kind_of, member_of, surprise_of, suspect_of
from models.incidents.parameters import CorrelationParameters
from models.incidents.replacement import Replacements
from models.incidents.severity import Severity, severity
from models.records.records import (
    LASTING_KINDS,
    LIMIT,
    NOTHING,
    SEVERITIES,
    Cause,
    Contribution,
    EpisodeEvent,
    IncidentEvent,
    Key,
    Watched,
    fit_into_bytes,
)
from models.records.schema import parsed, plain

MILLIS = 1_000
LINGER_SECONDS = 300  # for so long after it was found a metric that is missing is a reason to join what begins
NEVER = (-math.inf, -math.inf, -math.inf)
SETS = ("hosts", "services", "templates", "role_hosts", "going_on")


class Reach(NamedTuple):
    """The latest start, epoch ms, with which an episode touches something: any, one that chance hardly makes anywhere, and one that says that a
    metric or log is missing.
    """

    any: float
    strong: float
    missing: float


@dataclass
class OpenIncident:
    """An incident that is not closed yet.

    `published_*` is its state when it was last published, empty before that; `news` whether a series or host has joined since;
    `forgotten` how many members had to go, and `going_on` the ids of those of them whose end has not come. `watched` is the most that
    was watched in a window of its events, `calls` those by its services in the latest of these windows, `threshold` the score from which
    on it is published. `role` is what the fleet does, empty if it is not of the fleet, and `role_hosts` who does so; `rolls` whether they
    do it one after the other, and `most` how many did it at the same time at most. `replacements` are metrics that ended as others began.
    """

    id: str
    opened: int
    start: int
    end: int
    novelties: int = 0
    score: float = 0.0
    published_score: float = 0.0
    published_kind: str = ""
    published_cause: str = ""
    published_severity: str = ""
    news: bool = False
    forgotten: int = 0
    threshold: float = 0.0
    role: Key = ()
    coincidence: float = 0.0
    rolls: bool = False
    most: int = 0
    population: int = 0
    watched: Watched = NOTHING
    calls: list[Call] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)
    role_hosts: set[str] = field(default_factory=set)
    going_on: set[str] = field(default_factory=set)
    members: dict[str, Member] = field(default_factory=dict)
    replacements: Replacements = field(default_factory=Replacements)

    def add_events(
        self, events: list[EpisodeEvent], limits: CorrelationParameters, returned: Container[str] = ()
    ) -> None:
        """Take in events about members, or about episodes that become members with them; `returned` are the ids of returns."""
        known = {m.series for m in self.members.values()}
        for event in events:
            if event.id in self.members:
                self.update(event)
            else:
                # A forgotten episode may come back: it was counted, and published, when it opened.
                fresh = not self.forgotten or event.status == "open"
                self.novelties += fresh
                self.news |= fresh and event.series not in known
                self._join(replace(member_of(event), returned=event.id in returned), limits)
                if fresh:
                    self.replacements.learn(self.members[event.id], limits.max_hosts)

    def take_back_member(self, event: EpisodeEvent, *, returned: bool) -> None:
        """Take in the next event of a member that had to go: what goes on is a member again, and may have to go again.

        `returned` says whether it is a return.
        """
        self.going_on.discard(event.id)
        if event.status != "close":
            self.members[event.id] = replace(member_of(event), returned=returned)
            self.forgotten -= 1
        self.end = max(self.end, event.window_end)

    def _join(self, member: Member, limits: CorrelationParameters) -> None:
        self.members[member.id] = member
        self.news |= add_names(self.hosts, [member.host], limits.max_hosts)
        add_names(self.services, [member.service], limits.max_members)
        add_names(self.templates, [member.template], limits.max_shown)
        if self.role and member.role == self.role:
            add_names(self.role_hosts, [member.host], limits.max_hosts)
        self.end = max(self.end, member.end)

    def update(self, event: EpisodeEvent) -> None:
        """Take in the next event of a member."""
        self.members[event.id].update(event)
        self.end = max(self.end, event.window_end)

    def mark_as_fleet(self, clusters: Iterable[Cluster], surprise: float, limits: CorrelationParameters) -> None:
        """It is of the fleet if it has taken in a cluster; the first and largest one says what the fleet does.

        `surprise` is the greatest `Onsets.coincidence` of the clusters, nats.
        """
        self.coincidence = max(self.coincidence, surprise)
        for cluster in clusters:
            if cluster.role == (self.role or cluster.role):
                self.news |= not self.role
                self.population = self.population if self.role else 0  # it was that of another role
                self.role, self.rolls = cluster.role, self.rolls or cluster.rolls
                add_names(self.role_hosts, sorted(cluster.hosts), limits.max_hosts)

    def has(self, cluster: Cluster) -> bool:
        """Whether episodes of a cluster are in it."""
        return not cluster.episodes.isdisjoint(self.members)

    def is_within(self, cluster: Cluster) -> bool:
        """Whether all that it ever held belongs to a cluster that chance does not make."""
        return (
            cluster.is_no_chance
            and not self.forgotten
            and self.novelties == len(self.members)
            and self.members.keys() <= cluster.episodes
        )

    def is_continued_by(self, cluster: Cluster) -> bool:
        """Whether most hosts of a cluster do already what the fleet does in it: then it is what they do next."""
        return 2 * len(cluster.hosts & self.role_hosts) > len(cluster.hosts)

    def release_members(self, names: Iterable[str]) -> list[Member]:
        """Let go of members, for another incident. What is left, if anything, is about the hosts and the time of the members that stay.

        Where members had to be forgotten, it stays about theirs too.
        """
        found = [self.members.pop(name) for name in names]
        self.novelties -= len(found)
        left = self.members.values()
        if found and left and not self.forgotten:
            self.hosts &= {m.host for m in left}
            self.role_hosts &= self.hosts
            self.services &= {m.service for m in left}
            self.templates &= {m.template for m in left}
            self.start, self.end = min(m.start for m in left), max(m.end for m in left)
        return found

    def add_member_of_other(self, member: Member, limits: CorrelationParameters) -> None:
        """Take in a member of another incident, which was not published."""
        self.novelties += 1
        self._join(member, limits)
        self.replacements.learn(member, limits.max_hosts)

    @property
    def is_of_a_limit(self) -> bool:
        """Whether it says that a host or the fleet sends more than it may, which goes on for as long as it does and is no part of another."""
        return any(key[0] == LIMIT for member in self.members.values() for key in member.keys)

    def would_hide(self, other: OpenIncident) -> bool:
        """Whether as one incident they would count as a change or as news, and one of them is worse."""
        together = kind_of([*self.members.values(), *other.members.values()])
        return together not in LASTING_KINDS and not {self._kind(), other._kind()}.isdisjoint(LASTING_KINDS)

    def merge(self, other: OpenIncident, limits: CorrelationParameters) -> None:
        """Take in all of another incident, which was not published and is of the same event."""
        self.move_begin_back(other.start)
        if other.role and not self.role:
            self.role, self.population, self.most = other.role, other.population, other.most
        if other.role and other.role == self.role:
            self.rolls, self.most = self.rolls or other.rolls, max(self.most, other.most)
            add_names(self.role_hosts, sorted(other.role_hosts), limits.max_hosts)
        for member in other.release_members(sorted(other.members)):
            self.add_member_of_other(member, limits)
        self.novelties += other.novelties  # those that were forgotten
        self.forgotten += other.forgotten
        for own, more, most in (
            (self.hosts, other.hosts, limits.max_hosts),
            (self.services, other.services, limits.max_members),
            (self.templates, other.templates, limits.max_shown),
            (self.going_on, other.going_on, limits.max_hosts),
        ):
            add_names(own, sorted(more), most)
        self.coincidence, self.end = max(self.coincidence, other.coincidence), max(self.end, other.end)
        self.news = True

    def move_begin_back(self, start: int) -> None:
        """Let it begin no later than an episode; what was published stays true."""
        self.start = self.start if self.published else min(self.start, start)

    def weigh(self, watched: Watched, limits: CorrelationParameters, announced: Announced) -> None:
        """Learn what was watched and who calls whom in the window of its latest events, and how surprising it is now."""
        numbers = replace(watched, services={}, services_omitted=0, calls=[], changes=[], topology=[])
        self.watched = max(self.watched, numbers, key=lambda w: (w.series, w.hosts))
        names = {one.name for one in self._suspects()}
        seen = {(one.client, one.server) for one in watched.calls if one.client in names}
        others = {call for call in announced.calls if call[0] in names}
        self.calls = sorted(seen | others)[: limits.max_members]
        self.threshold = publication_threshold(self.watched, limits.false_alarms_per_day)
        self.score = max(self.score, self.coincidence, joint_surprise(surprise_of(self.members.values()), self.watched))
        if self.role:
            going_on = {m.host for m in self.members.values() if self._is_going_on(m)}
            # Others had to go before those that do what the fleet does.
            forgotten = len(self.going_on) if len(going_on) >= limits.max_members else 0
            self.most = max(self.most, min(len(going_on) + forgotten, len(self.role_hosts)))
            self.population = max(self.population, watched.population(self.role))
        elif self.members:
            self.population = watched.population(self._leading_member().role) if watched.hosts else self.population

    def forget(self, limits: CorrelationParameters) -> None:
        """Keep at most `max_members`, of a roll the hosts that are away first, and of what goes on `max_hosts` ids more: it is not over before they
        are.
        """
        most = limits.max_members
        if len(self.members) <= most:
            return
        first = self._is_going_on if self.rolls else lambda m: m.lasts
        ranked = sorted(self.members.values(), key=lambda m: (not first(m), not m.lasts, -m.weight, m.series, m.id))
        self.forgotten += len(ranked) - most
        add_names(self.going_on, [m.id for m in ranked[most:] if m.lasts], limits.max_hosts)
        self.members = {m.id: m for m in ranked[:most]}

    def _is_going_on(self, member: Member) -> bool:
        """Whether a member does what the fleet does, and still goes on."""
        return member.lasts and member.role == self.role

    def closing_time(self, limits: CorrelationParameters) -> int:
        """When it closes, unless something comes until then."""
        stale = [m.end + limits.stale_seconds * MILLIS for m in self.members.values() if m.lasts]
        stale += [self.end + limits.stale_seconds * MILLIS] if self.going_on else []
        wait = max(limits.close_seconds, ROLL_SECONDS if self.rolls else 0)
        return max([self.end, *stale]) + wait * MILLIS

    def touchable_until(self, limits: CorrelationParameters, apart: Callable[[Key], float]) -> dict[Key, Reach]:
        """For each key, the latest start with which an episode touches a member that has it; `apart` says of a role for how long, seconds,
        chance hardly brings another episode of it to some host.

        What chance may well have made is no reason to join what begins later: a weak episode that goes on touches for as long as one that
        is over, from its start. That a metric is missing goes on for up to a day where an agent has dropped or renamed it: it says no more of
        what its host does after some minutes, but more may be missing for the same reason. Of thousands of hosts some have the same metric
        strange at any time: what is weak joins by it only for as long as chance hardly brings that.
        """
        until: dict[Key, Reach] = {}
        for member in self.members.values():
            ended = member.end if self.published else min(member.end, member.start)
            missing = last = math.inf if member.lasts and self.published else ended + limits.join_seconds * MILLIS
            if member.lasts and member.is_partial:
                last = min(last, member.found + MILLIS * LINGER_SECONDS)
            for key in member.keys:
                weak = last if key[0] == HOST else min(last, member.start + MILLIS * apart(member.role))
                until[key] = Reach(*map(max, until.get(key, NEVER), (weak, last, missing)))
        return until

    @property
    def published(self) -> bool:
        """Whether an event about it has been published."""
        return bool(self.published_kind)

    @property
    def is_within_budget(self) -> bool:
        """Whether it may be published: chance hardly makes it, or it is no matter of chance, as that something is there."""
        return self.score >= self.threshold or any(m.fact for m in self.members.values())

    def publish(
        self, status: str, window_end: int, limits: CorrelationParameters, announced: Announced
    ) -> IncidentEvent:
        """Make an event of what is known of it, and remember that."""
        members = list(self.members.values())
        ranked, kind = contributions(members), self._kind()
        affected = self.affected
        population = max(self.population, affected) if self.role and self.population else None
        listed = fit_into_bytes([m.id for m in sorted(members, key=lambda m: (-m.weight, m.id))[: limits.max_episodes]])
        self.published_score, self.published_kind, self.news = self.score, kind, False
        causes = fit_into_bytes(self.causes(announced))
        how_bad = self.severity(kind)
        self.published_severity = how_bad.word
        self.published_cause = named(causes)
        return IncidentEvent(
            id=self.id,
            status=status,
            kind=kind,
            scope="fleet" if self.role else "hosts" if len(self.hosts) > 1 else "host",
            start=self.start,
            end=self.end if status == "close" else None,
            window_end=window_end,
            score=self.score,
            hosts=fit_into_bytes(sorted(self.hosts)[: limits.max_members]),
            services=fit_into_bytes(sorted(self.services)),
            templates=fit_into_bytes(sorted(self.templates)),
            series=fit_into_bytes(ranked[: limits.max_shown]),
            novelties=self.novelties,
            episodes=listed,
            episodes_omitted=self.novelties - len(listed),
            affected=affected,
            population=population,
            share=affected / population if population else None,
            false_alarms_per_day=expected_false_alarms(self.score, self.watched),
            causes=causes,
            severity=how_bad.word,
            severity_points=how_bad.points,
            reason=self._fleet(affected, population)
            + headline(self._opening_words(ranked), len(ranked), len(self.hosts), forgotten=self.forgotten > 0)
            + self._peer_words(kind),
        )

    def severity(self, kind: str) -> Severity:
        """How bad it is as it is now, as an incident of this kind."""
        alike = self._count_alike()
        hosts = alike if self.role else self.affected
        share = alike / max(self.population, alike) if self.population > 1 else 0.0
        seconds = (self.end - self.start) / MILLIS
        return severity(kind, expected_false_alarms(self.score, self.watched), hosts, share, seconds)

    @property
    def affected(self) -> int:
        """How many hosts it is about: of an incident of the fleet those that do what the fleet does."""
        return len(self.role_hosts if self.role else self.hosts)

    def _kind(self) -> str:
        """What kind of incident it is; metrics that have been replaced are a change, and outweigh nothing else."""
        left = [m for m in self.members.values() if not self.replacements.has_replaced(m)]
        return kind_of(left) if left or not self.members else "change"

    def _count_alike(self) -> int:
        """How many hosts do what the fleet does in it, in a roll at the same time, or what the strongest of its members does."""
        if self.rolls:
            return max(self.most, 1)
        if self.role:
            return len(self.role_hosts)
        lead = self._leading_member()
        return len({m.host for m in self.members.values() if m.role == lead.role})

    def causes(self, announced: Announced) -> list[Cause]:
        """Who of its members, or which change, is likely the cause, the likeliest first."""
        found = rank_services(self._suspects(), self.calls)
        window_ms = round(MILLIS * self.watched.window_seconds)
        changes = announced.candidates(found[:MOST_CAUSES], self.calls, window_ms)
        first = [one.cause for one in changes if one.chance <= LEADS]
        later = [one.cause for one in changes if one.chance > LEADS]
        return [*first, *found[: MOST_CAUSES - len(changes)], *later]

    def _suspects(self) -> list[Suspect]:
        return [one for one in map(suspect_of, self.members.values()) if one.name]

    def _fleet(self, affected: int, population: int | None) -> str:
        """The beginning of the sentence about the fleet."""
        if not self.role:
            return ""
        service = f" with {self.role[1]}" if self.role[1] else ""
        when = "at once"
        if self.rolls and self.most < affected:
            when = "one after the other" + (f", up to {self.most:,} at once" if self.most > 1 else "")
        of = f"{affected:,} of {counted(population, 'host')}" if population else counted(affected, "host")
        return f"{of}{service} {when}: "

    def _opening_words(self, ranked: list[Contribution]) -> Contribution:
        """What its sentence begins with: what the fleet does, else what makes it the kind that it is, else the strongest."""
        kind = self._kind()
        does = {m.series for m in self.members.values() if self.role and m.role == self.role}
        return min(ranked, key=lambda c: (c.series not in does, c.kind != kind))

    def _leading_member(self) -> Member:
        """The strongest of the members that make it what kind it is."""
        kind = self._kind()
        return min(self.members.values(), key=lambda m: (m.kind != kind, -m.weight, m.id))

    def _peer_words(self, kind: str) -> str:
        """The end of the sentence: how many of the hosts that could do what is strange in it, do it."""
        if self.role or kind not in LASTING_KINDS or self.population < 2:
            return ""
        lead, alike = self._leading_member(), self._count_alike()
        service = f" with {lead.role[1]}" if lead.role[1] else ""
        return f"; on {alike:,} of {max(self.population, alike):,} hosts{service}"

    def is_worth_publishing(self, growth: float, announced: Announced) -> bool:
        """Whether something has come that its reader does not know."""
        grown = self.score > 0 and self.score >= growth * self.published_score
        kind = self._kind()
        other = kind != self.published_kind
        worse = SEVERITIES.index(self.severity(kind).word) > SEVERITIES.index(self.published_severity)
        return self.news or grown or other or worse or named(self.causes(announced)) != self.published_cause

    def dump(self) -> dict[str, Any]:
        """As JSON types."""
        members = sorted(self.members.values(), key=lambda m: m.id)
        names: dict[str, Any] = {name: sorted(getattr(self, name)) for name in SETS}
        names["replacements"] = self.replacements.places
        return {**vars(self), **names, "watched": plain(self.watched), "members": [vars(m) for m in members]}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> OpenIncident:
        """The inverse of `dump`."""
        members = {m["id"]: Member.load(m) for m in data["members"]}
        names: dict[str, Any] = {name: set(data[name]) for name in SETS}
        more = {"watched": parsed(Watched, data["watched"]), "role": tuple(data["role"]), "members": members}
        more["replacements"] = Replacements(data["replacements"])
        more["calls"] = [(caller, callee) for caller, callee in data["calls"]]
        return cls(**{**data, **names, **more})


def named(causes: Sequence[Cause]) -> str:
    """What is the likeliest of these causes; empty without any."""
    return next((f"{one.kind} {one.service or one.host}" for one in causes), "")


def add_names(names: set[str], more: Iterable[str], most: int) -> bool:
    """Put names into a set while there is room; answer whether one was new and had room."""
    before = len(names)
    for name in more:
        if name and len(names) < most:
            names.add(name)
    return len(names) > before


def headline(lead: Contribution, series: int, hosts: int, *, forgotten: bool) -> str:
    """One sentence for a person: what it is first of all, and how much more there is; some series may have been forgotten."""
    at_least = " or more" if forgotten else ""
    more = f" (+{series - 1:,} series{at_least}" if series > 1 else ""
    if more and hosts > 1:
        more += f", {hosts:,} hosts"
    return lead.reason + (f"{more})" if more else "")
