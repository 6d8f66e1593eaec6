"""Joins novelties that belong together into incidents, window by window.

A novelty joins an open incident that it touches in time (`join_seconds`) when they share a host, a service with the
same metric or log level, or a log template. Novelties of one window that are linked by these rules join together. A
group that touches several incidents joins the one that was opened first: published incidents are never merged, so that what was
once published of an incident stays true. An incident that is not published yet and began within `join_seconds` of a published one
becomes part of it, whatever it is about, where incidents are so rare that chance hardly brings two so near to each other, unless the
whole would count as a change and one of them does not. What many hosts begin at once is one incident of the fleet
(`models.incidents.fleet`), apart from what some of them may have been in before. Incidents that chance may well have made are kept and
not published (`models.incidents.budget`). What goes back to where it was before a change opens none (`models.incidents.returns`).
Where a service has so many hosts that chance brings the same metric, level or template to another one while an incident is open, what is weak
does not join by it any more: in a service of thousands of hosts everything would become one incident, without an end.
A metric that is missing while its host reports joins with what begins until five minutes after it was found, however long it is missing.

It fails where independent faults hit one host, or one metric of one service, at the same time, or a quiet fleet within a minute: they
become one incident. Without knowledge of the physical topology nothing in the records tells them apart.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from models.core.state_format import check_format
from models.incidents.announced import Announced
from models.incidents.budget import joint_surprise, publication_threshold
from models.incidents.fleet import (
    HOST,
    ROLL_SECONDS,
    BegunEpisode,
    Cluster,
    Onsets,
    Rolls,
    count_independent,
    find_clusters,
    find_coincidences,
)
from models.incidents.members import finite_or_zero, says_missing
from models.incidents.open_incident import MILLIS, OpenIncident, Reach
from models.incidents.parameters import STATE_FORMAT, CorrelationParameters
from models.incidents.returns import Returns
from models.records.records import NOTHING, USUAL_END, EpisodeEvent, IncidentEvent, Key, Watched

# Two incidents that chance lets begin so near to each other at most once in ten times are one.
SIMULTANEOUS_NATS = math.log(10)


class Correlator:
    """Episode events of windows in, incident events out.

    Its answers depend on the events, and on what was watched in their windows, alone: steps of windows without any, and
    the order within a window, change nothing. Memory is bounded by `max_members` episodes for each open incident.
    """

    def __init__(self, parameters: CorrelationParameters) -> None:
        self._parameters = parameters
        self._last = -1
        self._open: list[OpenIncident] = []
        self._onsets, self._rolls = Onsets(), Rolls()
        self._published = Onsets()  # incidents
        self._announced, self._returns = Announced(), Returns()

    def step(self, window_end: int, events: Iterable[EpisodeEvent], watched: Watched = NOTHING) -> list[IncidentEvent]:
        """Take in the next window and what was watched in it. Raises ValueError if it is not after the last one."""
        if window_end <= self._last:
            msg = f"window {window_end} comes after {self._last}; wanted windows in order"
            raise ValueError(msg)
        self._last = window_end
        found, limits = self._close(window_end - 1), self._parameters
        ordered = sorted(events, key=lambda event: event.order)
        if ordered or watched.changes or watched.topology:  # other windows may be stepped through, or not
            self._announced.learn(window_end, watched)
        touched = self._take_in(ordered, window_end, watched)
        for incident in touched:
            if incident.members:  # an older one may have absorbed them
                self._weigh(incident, watched)
        touched = self._join_simultaneous(touched, watched)
        for incident in touched:
            incident.forget(limits)
            if not incident.published:
                status = "open" if incident.is_within_budget else None
            else:
                goes_on = incident.closing_time(limits) > window_end
                status = "update" if goes_on and incident.is_worth_publishing(limits.growth, self._announced) else None
            if status is not None:
                found.append(incident.publish(status, window_end, limits, self._announced))
        begun = sum(event.status == "open" for event in found)
        if begun:
            self._published.learn(window_end, begun)
        self._returns.learn(ordered, window_end)
        return found + self._close(window_end)

    @property
    def open_by_severity(self) -> dict[str, int]:
        """How many published incidents are open, by the severity that was published last."""
        return dict(Counter(i.published_severity for i in self._open if i.published))

    def _weigh(self, incident: OpenIncident, watched: Watched) -> None:
        """Weigh an incident; one that is published takes in what is weak on its hosts."""
        incident.weigh(watched, self._parameters, self._announced)
        if incident.news and not incident.role and (incident.published or incident.is_within_budget):
            self._absorb(incident)

    def _join_simultaneous(self, touched: list[OpenIncident], watched: Watched) -> list[OpenIncident]:
        """Join each incident that is about to be published with one that began when it did; answer what is left of them, oldest first."""
        frequency = replace(self._published)
        frequency.learn(self._last, 0)
        about_to = {i.id: i for i in touched if i.members and i.is_within_budget}
        left = {i.id: i for i in touched if i.members}
        for incident in about_to.values() if watched.series else ():
            if incident.published or not incident.members:  # weighing another one may have emptied it
                continue
            others = [
                i
                for i in self._open
                if i.published or (i.id in about_to and opening_order(i) < opening_order(incident))
            ]
            alike = [i for i in others if self._are_simultaneous(i, incident, frequency, watched)]
            first = min(alike, key=opening_order, default=None)
            if first is not None:
                first.merge(incident, self._parameters)
                self._weigh(first, watched)
                self._open = [i for i in self._open if i.members]
                left[first.id] = first
        return sorted((i for i in left.values() if i.members), key=opening_order)

    def _are_simultaneous(self, one: OpenIncident, other: OpenIncident, frequency: Onsets, watched: Watched) -> bool:
        """Whether two incidents are one: by how often incidents are published, chance hardly lets two begin so near to each other.

        What is about a limit stays by itself, and so does what would count as a change with the other one.
        """
        apart = abs(one.start - other.start)
        if apart > MILLIS * self._parameters.join_seconds or not (one.members and other.members):
            return False
        chance = frequency.surprise(1, 2 * apart / MILLIS + watched.window_seconds)
        return chance >= SIMULTANEOUS_NATS and not (one.is_of_a_limit or other.is_of_a_limit or one.would_hide(other))

    def _take_in(self, events: list[EpisodeEvent], window_end: int, watched: Watched) -> list[OpenIncident]:
        """Give every event to its incident; answer the incidents that got some, oldest first.

        The end of what began before, of which no open incident knows, is no part of any: its incident has closed, as that of a change does
        before its end comes where windows are longer than `close_seconds`. Nor is what recurs, until it is unusual: one that lasts all day, and that
        everybody knows, would keep an incident open that something else began.
        """
        owners = {i: incident for incident in self._open for i in (*incident.members, *incident.going_on)}
        touched: dict[str, OpenIncident] = {}
        unknown: list[EpisodeEvent] = []
        goes_on = {event.id for event in events if event.status != "close"}
        for event in events:
            owner = owners.get(event.id)
            if owner is not None:
                if event.id in owner.members:
                    owner.update(event)
                    owner.members[event.id].returned &= not self._returns.is_over(event)
                else:
                    owner.take_back_member(event, returned=self._returns.is_return(event))
                touched[owner.id] = owner
            elif not event.recurs and (event.id in goes_on or event.start >= window_end):
                unknown.append(event)
        if unknown:
            last = {event.id: event for event in unknown}
            returned = {name for name, event in last.items() if self._returns.is_return(event)}
            fresh = [event for event in unknown if event.id not in returned]
            at_once = self._find_fleet_events(fresh, watched)
            # What follows on a host of an incident does not begin by itself: one host would make the fleet restless.
            affected = self._affected(window_end - ROLL_SECONDS * MILLIS)
            first = [event for event in fresh if event.host not in affected]
            # Usual ends begin by themselves, however near to each other: of what comes all day, some always does so at once.
            unusual = [cluster for cluster in at_once if cluster.role[-1] != USUAL_END]
            begun = count_independent(
                first, unusual, self._onsets.rate, self._parameters.join_seconds, watched.window_seconds
            )
            self._onsets.learn(window_end, begun)
            # Groups share no keys, so that what one adds to an incident does not change what another touches: only what
            # is emptied is no longer there.
            within_reach, near = self._reach(watched), MILLIS * self._parameters.join_seconds
            least = publication_threshold(watched, self._parameters.false_alarms_per_day)
            strong = {
                event.id
                for event in unknown
                if event.is_fact or joint_surprise(opening_surprise(event), watched) >= least
            }
            for group in connected_components(unknown, at_once):
                ids = {event.id for event in group}
                own = [c for c in at_once if not c.episodes.isdisjoint(ids)]
                surprise = [self._onsets.coincidence(c, max(near, MILLIS * watched.window_seconds)) for c in own]
                incident = self._find_incident(group, own, within_reach, strong) or self._begin(group, window_end)
                incident.add_events(group, self._parameters, returned)
                incident.mark_as_fleet(own, max(surprise, default=0.0), self._parameters)
                touched[incident.id] = incident
                certain = [c for c, nats in zip(own, surprise, strict=True) if c.is_large or nats >= least]
                if self._gather(incident, certain):
                    within_reach = self._reach(watched)
        return sorted((i for i in touched.values() if i.members), key=opening_order)

    def _gather(self, incident: OpenIncident, certain: list[Cluster]) -> bool:
        """Episodes of clusters that are large, or published for their hosts at once, move from incidents that are not published yet to that
        of the fleet.

        Answers whether incidents are gone for that.
        """
        before = len(self._open)
        wanted = {episode for cluster in certain for episode in cluster.episodes}
        for other in sorted(self._open, key=opening_order):
            if other is not incident and not other.published:
                for member in other.release_members(sorted(wanted & other.members.keys())):
                    incident.move_begin_back(member.start)
                    incident.add_member_of_other(member, self._parameters)
        self._open = [i for i in self._open if i.members]
        return len(self._open) < before

    def _absorb(self, incident: OpenIncident) -> None:
        """Weak episodes that go on, on hosts of an incident that is published, become part of it; when it began stays as it is.

        Of an incident of the fleet they are no part: what one host did before is not what the fleet does.
        """
        for other in sorted(
            (i for i in self._open if i is not incident and not (i.published or i.role)), key=opening_order
        ):
            going_on = sorted(name for name, m in other.members.items() if m.lasts and m.host in incident.hosts)
            for member in other.release_members(going_on):
                incident.add_member_of_other(member, self._parameters)
        self._open = [i for i in self._open if i.members]

    def _affected(self, since: int) -> set[str]:
        """Hosts on which something of a published incident has begun since a moment, ms."""
        published = (incident for incident in self._open if incident.published)
        return {m.host for incident in published for m in incident.members.values() if m.start >= since}

    def _find_fleet_events(self, unknown: list[EpisodeEvent], watched: Watched) -> list[Cluster]:
        """What the fleet does now: clusters of these episodes with those that are known already, of one role first, rolls, and others."""
        roles, ids = {event.role for event in unknown}, {event.id for event in unknown}
        near, hosts = MILLIS * self._parameters.join_seconds, self._parameters.fleet_hosts
        known = [m for incident in self._open for m in incident.members.values() if not m.returned]
        found = find_clusters(
            [*unknown, *(m for m in known if m.role in roles)], near, hosts, watched.population((HOST,))
        )
        if self._rolls.learn(unknown):
            found += [c for c in self._rolls.clusters(near, hosts, self._onsets) if not c.episodes.isdisjoint(ids)]
        everything: list[BegunEpisode] = [*unknown, *known]
        unlike = find_coincidences(everything, near, hosts, self._onsets, watched.window_seconds)
        return found + [c for c in unlike if not c.episodes.isdisjoint(ids)]

    def _find_incident(
        self,
        group: list[EpisodeEvent],
        own: list[Cluster],
        within_reach: Mapping[Key, list[tuple[Reach, OpenIncident]]],
        strong: Container[str],
    ) -> OpenIncident | None:
        """The open incident that a group belongs to; None opens a new one.

        A group in a cluster joins the oldest fleet incident that holds its cluster, or most of its hosts; or the oldest one that was
        the beginning of it: all that is in it belongs to the cluster.
        """
        if not own:
            return oldest_touched(group, within_reach, strong)
        near = {i.id for i in touched_by(group, within_reach, strong)}
        among = [
            i for i in self._open if i.role and any(i.has(c) or (i.id in near and i.is_continued_by(c)) for c in own)
        ]
        among += [i for i in self._open if not i.role and any(i.is_within(c) for c in own)]
        return min(among, key=opening_order, default=None)

    def _reach(self, watched: Watched) -> dict[Key, list[tuple[Reach, OpenIncident]]]:
        """For each key, the open incidents that have it, and the latest starts that touch each."""
        found: dict[Key, list[tuple[Reach, OpenIncident]]] = {}

        def apart(role: Key) -> float:
            often = self._onsets.rate * watched.population(role) / max(watched.tests or watched.series, 1)
            return -math.log1p(-math.exp(-SIMULTANEOUS_NATS)) / often - watched.window_seconds if often else math.inf

        for incident in self._open:
            for key, until in incident.touchable_until(self._parameters, apart).items():
                found.setdefault(key, []).append((until, incident))
        return found

    def _begin(self, group: list[EpisodeEvent], window_end: int) -> OpenIncident:
        """Open an incident, named for the first episode of the group; where that goes on, its first incident is over, and has that name."""
        first = min(group, key=lambda event: (event.start, *event.order))
        of = first.id if first.status == "open" else f"{first.id}|{window_end}"
        name = hashlib.sha256(of.encode()).hexdigest()[:20]
        incident = OpenIncident(name, window_end, first.start, window_end)
        self._open.append(incident)
        return incident

    def _close(self, until: int) -> list[IncidentEvent]:
        """Close the incidents that are due, each at its own time; answers events about those that were published."""
        due = [(incident.closing_time(self._parameters), incident) for incident in self._open]
        self._open = [incident for when, incident in due if when > until]
        over = sorted(((when, i) for when, i in due if when <= until), key=lambda found: (found[0], found[1].id))
        return [i.publish("close", when, self._parameters, self._announced) for when, i in over if i.published]

    def dump(self) -> bytes:
        """Canonical bytes: equal states give equal bytes."""
        state = {"format": STATE_FORMAT, "last": self._last, "onsets": vars(self._onsets)}
        state["rolls"], state["published"], state["returns"] = (
            self._rolls.begun,
            vars(self._published),
            self._returns.changes,
        )
        state["announced"] = self._announced.dump()
        state["open"] = [i.dump() for i in sorted(self._open, key=opening_order)]
        return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def load(cls, data: bytes, parameters: CorrelationParameters) -> Correlator:
        """The inverse of `dump`. Raises OtherFormat for that of another release."""
        state = json.loads(data)
        check_format("state of the correlator", state.get("format"), STATE_FORMAT)
        correlator = cls(parameters)
        correlator._last = state["last"]
        correlator._onsets = Onsets(**state["onsets"])
        correlator._rolls, correlator._published = Rolls.load(state["rolls"]), Onsets(**state["published"])
        correlator._returns = Returns.load(state["returns"])
        correlator._announced = Announced.load(state["announced"])
        correlator._open = [OpenIncident.load(i) for i in state["open"]]
        return correlator


def opening_order(incident: OpenIncident) -> tuple[int, int, str]:
    """Sorts incidents: the one that was opened first comes first."""
    return incident.opened, incident.start, incident.id


def connected_components(events: list[EpisodeEvent], at_once: Iterable[Cluster] = ()) -> list[list[EpisodeEvent]]:
    """Groups of one window's events that share keys or clusters, directly or through others. As all end now, all touch."""
    leader: dict[Key, Key] = {}
    shared: dict[str, list[Key]] = {}
    for cluster in at_once:
        for episode in cluster.episodes:
            shared.setdefault(episode, []).append(cluster.key)

    def find(key: Key) -> Key:
        leader.setdefault(key, key)
        while leader[key] != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for event in events:
        own = find(("id", event.id))
        for key in [*event.keys, *shared.get(event.id, [])]:
            # The least key leads, so that the groups come out in the same order every time.
            one, other = sorted((own, find(key)))
            leader[other] = one
            own = one
    groups: dict[Key, list[EpisodeEvent]] = {}
    for event in events:
        groups.setdefault(find(("id", event.id)), []).append(event)
    return list(groups.values())


def opening_surprise(event: EpisodeEvent) -> dict[str, float]:
    """The surprise of an episode as it opens, nats, by series."""
    return {event.series: max(finite_or_zero(event.score), finite_or_zero(event.evidence))}


def oldest_touched(
    group: list[EpisodeEvent], reach: Mapping[Key, list[tuple[Reach, OpenIncident]]], strong: Container[str]
) -> OpenIncident | None:
    """The open incident that was opened first of those that an event of the group touches."""
    return min(touched_by(group, reach, strong), key=opening_order, default=None)


def touched_by(
    group: list[EpisodeEvent], reach: Mapping[Key, list[tuple[Reach, OpenIncident]]], strong: Container[str]
) -> list[OpenIncident]:
    """The open incidents that events of the group touch; `strong` are the ids of those that chance hardly makes anywhere."""
    found = []
    for event in group:
        missing, beyond = says_missing(event.kind, event.series), event.id in strong
        for key in event.keys:
            for until, incident in reach.get(key, []):
                if event.start <= (until.missing if missing else until.strong if beyond else until.any):
                    found.append(incident)
    return found
