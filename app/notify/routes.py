"""Routes: which channels an incident goes to, and why. Those of the log come before those of the settings; no clock, no Kafka."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import structlog

from app.core.notify_settings import NotifySettings
from app.notify.incident import ReadIncident
from models.core.printable import printable
from models.core.series import labels_of, parse
from models.core.wording import counted
from models.records.records import SEVERITIES, EarlyAlarm
from models.rules.route import Route
from models.rules.rule_log import LoggedRule, Placed, RuleLog, is_route, take_all

log = structlog.get_logger()

MOST_CHANGES = 1_000  # windows with changes that are remembered


@dataclass(frozen=True)
class TitledRoute:
    """A route, and what people and records of deliveries call it."""

    title: str
    route: Route


@dataclass(frozen=True)
class RoutedChannel:
    """A channel that an incident goes to, and the route that sends it there."""

    channel: str
    why: str


@dataclass(frozen=True)
class RouteVerdict:
    """Of one route: whether it matches, else what does not."""

    title: str
    mismatch: str


class Routes:
    """Which routes are in effect at which time: those of the settings, and what the topic `rules` says.

    What a record says counts for incidents whose last window ends after the beginning of the window in which it was appended.
    """

    def __init__(self, notify: NotifySettings) -> None:
        self.notify = notify
        self._titled = [TitledRoute(title(route, i), route) for i, route in enumerate(notify.routes)]
        self._begin()

    def _begin(self) -> None:
        """With the settings alone."""
        self._log = RuleLog(self.notify.routes)
        self._logged: dict[LoggedRule, Route] = {}
        self._since, self._changes = [float("-inf")], [tuple(self._titled)]  # what is in effect from when on, epoch ms

    def take(self, records: Iterable[Placed], window_ms: int, *, anew: bool = False) -> None:
        """Take in records of the topic, in the order of their offsets. Those about series, and those that are refused, change nothing.

        With `anew` what was taken before no longer counts.
        """
        if anew:
            self._begin()
        deque(take_all(self._log, self._by_window(records), window_ms, unread), maxlen=0)

    def _by_window(self, records: Iterable[Placed]) -> Iterator[Placed]:
        """The records; after the last one of each window what is in effect by then is noted."""
        window = None
        for record in records:
            if window is not None and record[1] != window:
                self._change(window)
            window = record[1]
            yield record
        if window is not None:
            self._change(window)

    def _change(self, since: int) -> None:
        """What is in effect from a window on."""
        before, self._logged = self._logged, {}
        for one in self._log.rules_of_log():
            if not is_route(one.rule):
                continue
            found = before.get(one) or one.effective_record()
            if isinstance(found, Route):
                self._logged[one] = found
            if one not in before and isinstance(found, Route):
                self._warn(found)
        logged = [TitledRoute(f"rule {route.name}", route) for route in self._logged.values()]
        now = (*logged, *(one for one in self._titled if one.route.name not in self._log.known))
        if now == self._changes[-1]:
            return
        self._since.append(max(since, self._since[-1]))  # a broker's clock may step back
        self._changes.append(now)
        if len(self._changes) > MOST_CHANGES:
            del self._since[0], self._changes[0]

    def _warn(self, route: Route) -> None:
        unknown = [name for name in route.named_channels if name not in self.notify.channels]
        if unknown:
            log.warning("a rule names a channel that the settings do not have", rule=route.name, channel=unknown[0])

    def at(self, window_end: int) -> tuple[TitledRoute, ...]:
        """The routes that are in effect in the window that ends then, epoch ms, in the order in which they are tried."""
        return self._changes[max(0, bisect_left(self._since, window_end) - 1)]

    def titled(self, title: str, window_end: int) -> Route | None:
        """The route of this title that was in effect then; None for what is no route."""
        return next((one.route for one in self.at(window_end) if one.title == title), None)

    @property
    def escalates(self) -> bool:
        """Whether any route escalates."""
        return any(one.route.escalate_minutes is not None for change in self._changes for one in change)

    def routed(self, incident: ReadIncident) -> list[RoutedChannel]:
        """The channels that an incident goes to, each once, in the order of routes."""
        matching = [one for one in self.at(incident.window_end) if not self.mismatch(one.route, incident)]
        return self._channels(matching[: 1 if self.notify.match == "first" else None])

    def escalated(self, incident: ReadIncident) -> list[RoutedChannel]:
        """The channels that it goes to as well where nobody labels it in time, and when, by the routes that send it."""
        by = {one.why for one in self.routed(incident)}
        return [
            RoutedChannel(
                name, f"{one.title}, {counted(one.route.escalate_minutes, 'minute')} later unless somebody labels it"
            )
            for one in self.at(incident.window_end)
            if one.title in by and one.route.escalate_minutes is not None
            for name in one.route.escalate_to
            if name in self.notify.channels
        ]

    def routed_early(self, alarm: EarlyAlarm) -> list[RoutedChannel]:
        """The channels that take early alarms and that an incident of this alarm's host and service could go to: kind and severity are not
        known yet.
        """
        found = parse(alarm.series)
        places = (printable(found.host),), (printable(found.service),), labels_of(alarm.series)
        matching = [
            one for one in self.at(alarm.window_end) if not any(self._elsewhere(one.route, *places, alarm.window_end))
        ]
        return [one for one in self._channels(matching) if self.notify.channels[one.channel].early]

    def _channels(self, matching: Iterable[TitledRoute]) -> list[RoutedChannel]:
        """The channels of routes, each once, of the first that names it; without routes the default ones."""
        found: dict[str, RoutedChannel] = {}
        titles = list(matching)
        for one in titles:
            for name in one.route.channels:
                if name in self.notify.channels:
                    found.setdefault(name, RoutedChannel(name, one.title))
        if not titles:
            found = {name: RoutedChannel(name, "default") for name in default_channels(self.notify)}
        return list(found.values())

    def verdicts(self, incident: ReadIncident) -> list[RouteVerdict]:
        """What each route says of an incident, in order, and that those that were appended later came too late."""
        there = self.at(incident.window_end)
        found = [RouteVerdict(one.title, self.mismatch(one.route, incident)) for one in there]
        late = [one for one in self._changes[-1] if one not in there]
        return found + [RouteVerdict(one.title, "it was written after the incident's last window") for one in late]

    def mismatch(self, route: Route, incident: ReadIncident) -> str:
        """The first thing that keeps a route from matching, in words; empty where all holds."""
        return next(self._mismatches(route, incident), "")

    def _mismatches(self, route: Route, incident: ReadIncident) -> Iterator[str]:
        if route.kinds and incident.kind not in route.kinds:
            yield f"kind is {incident.kind}, wanted {', '.join(route.kinds)}"
        if incident.rank < SEVERITIES.index(route.severity):
            yield f"severity is {incident.severity}, wanted {route.severity} at least"
        yield from self._elsewhere(route, incident.hosts, incident.services, incident.labels, incident.window_end)

    def _elsewhere(
        self,
        route: Route,
        hosts: Collection[str],
        services: Collection[str],
        labels: Collection[tuple[str, str]],
        window_end: int,
    ) -> Iterator[str]:
        """What a route demands of place and time, and does not hold; and that it leads nowhere."""
        for part, pattern in route.patterns.items():
            if part.startswith("labels."):
                name = part.removeprefix("labels.")
                values: Collection[str] = [value for key, value in labels if key == name]
            else:
                values = hosts if part == "host" else services
            if not any(pattern(value) for value in values):
                yield f"no {part} matches"
        if not route.holds(window_end):
            yield "the time of its last window is outside of since, until, days and hours"
        if route.channels and not any(name in self.notify.channels for name in route.channels):
            yield f"the settings have no channel {' or '.join(route.channels)}"


def default_channels(notify: NotifySettings) -> Collection[str]:
    """The channels of what no route matches."""
    return notify.channels if notify.default is None else notify.default


def title(route: Route, number: int) -> str:
    """The name of a route of the settings, or its number from 1."""
    return f"route {route.name or number + 1}"


def unread(offset: int, reason: str) -> None:
    """A record that takes no effect is a dead letter of the jobs, and no news here."""
    log.debug("a record of the topic rules takes no effect", offset=offset, reason=reason)
