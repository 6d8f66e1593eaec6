"""Routes: which channels an incident goes to, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.core.notify_settings import NotifySettings, RouteSettings
from app.notify.incident import ReadIncident
from models.records.records import SEVERITIES

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
        names = notify.channels if notify.default is None else notify.default
        found = {name: RoutedChannel(name, "default") for name in names}
    return list(found.values())


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
    for part, pattern in route.patterns.items():
        if not any(pattern(value) for value in _values(incident, part)):
            yield f"no {part} matches"
    if route.calendar.calendar and not route.calendar.holds(incident.window_end, INSTANT_MS):
        yield "the time of its last window is outside of days and hours"


def _values(incident: ReadIncident, part: str) -> list[str]:
    """What a pattern is compared with: hosts, services, or the values of a label."""
    if part.startswith("labels."):
        name = part.removeprefix("labels.")
        return [value for key, value in incident.labels if key == name]
    return list(incident.hosts if part == "host" else incident.services)
