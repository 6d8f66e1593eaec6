"""Routes: which channels an incident goes to, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.core.notify_settings import NotifySettings, RouteSettings
from app.notify.incident import ReadIncident
from models.core.printable import printable
from models.core.series import labels_of, parse
from models.records.records import SEVERITIES, EarlyAlarm

INSTANT_MS = 1


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


def routed(notify: NotifySettings, incident: ReadIncident) -> list[RoutedChannel]:
    """The channels that an incident goes to, each once, in the order of routes."""
    found: dict[str, RoutedChannel] = {}
    matching = [(i, route) for i, route in enumerate(notify.routes) if not mismatch(route, incident)]
    for i, route in matching[: 1 if notify.match == "first" else None]:
        for name in route.channels:
            found.setdefault(name, RoutedChannel(name, title(route, i)))
    if not matching:
        found = {name: RoutedChannel(name, "default") for name in default_channels(notify)}
    return list(found.values())


def routed_early(notify: NotifySettings, alarm: EarlyAlarm) -> list[RoutedChannel]:
    """The channels that take early alarms and that an incident of this alarm's host and service could go to: kind and severity are not known yet."""
    found = parse(alarm.series)
    hosts, services, labels = (printable(found.host),), (printable(found.service),), labels_of(alarm.series)
    channels: dict[str, RoutedChannel] = {}
    matching = [
        (i, route)
        for i, route in enumerate(notify.routes)
        if not any(_elsewhere(route, hosts, services, labels, alarm.window_end))
    ]
    for i, route in matching:
        for name in route.channels:
            channels.setdefault(name, RoutedChannel(name, title(route, i)))
    if not matching:
        channels = {name: RoutedChannel(name, "default") for name in default_channels(notify)}
    return [one for name, one in channels.items() if notify.channels[name].early]


def default_channels(notify: NotifySettings) -> Collection[str]:
    """The channels of what no route matches."""
    return notify.channels if notify.default is None else notify.default


def verdicts(notify: NotifySettings, incident: ReadIncident) -> list[RouteVerdict]:
    """What each route says of an incident, in order."""
    return [RouteVerdict(title(route, i), mismatch(route, incident)) for i, route in enumerate(notify.routes)]


def title(route: RouteSettings, number: int) -> str:
    """A route's name, or its number in the settings from 1."""
    return f"route {route.name or number + 1}"


def mismatch(route: RouteSettings, incident: ReadIncident) -> str:
    """The first thing that keeps a route from matching, in words; empty where all holds."""
    return next(_mismatches(route, incident), "")


def _mismatches(route: RouteSettings, incident: ReadIncident) -> Iterator[str]:
    if route.kinds and incident.kind not in route.kinds:
        yield f"kind is {incident.kind}, wanted {', '.join(route.kinds)}"
    if incident.rank < SEVERITIES.index(route.severity):
        yield f"severity is {incident.severity}, wanted {route.severity} at least"
    yield from _elsewhere(route, incident.hosts, incident.services, incident.labels, incident.window_end)


def _elsewhere(
    route: RouteSettings,
    hosts: Collection[str],
    services: Collection[str],
    labels: Collection[tuple[str, str]],
    window_end: int,
) -> Iterator[str]:
    """What a route demands of place and time, and does not hold."""
    for part, pattern in route.patterns.items():
        if part.startswith("labels."):
            name = part.removeprefix("labels.")
            values: Collection[str] = [value for key, value in labels if key == name]
        else:
            values = hosts if part == "host" else services
        if not any(pattern(value) for value in values):
            yield f"no {part} matches"
    if route.calendar.calendar and not route.calendar.holds(window_end, INSTANT_MS):
        yield "the time of its last window is outside of days and hours"
