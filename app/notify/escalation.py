"""Escalation: an incident that nobody acknowledges goes to other channels as well."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.timestamps import is_due
from app.notify.incident import LogPlace, ReadIncident
from app.notify.routes import Routes
from models.core.wording import counted

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Due:
    """An incident that nobody has acknowledged in time, and where it goes."""

    key: str
    incident: ReadIncident
    place: LogPlace
    channels: tuple[str, ...]
    why: str


class Escalation:
    """Remembers incidents of routes with `escalate_minutes` until somebody labels them, or they are over."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        # by key and route: when, and how long after a channel was notified by that route, ms
        self._waiting: dict[tuple[str, str], tuple[int, int, Due]] = {}
        self._acknowledged: dict[str, None] = {}

    def notified(self, key: str, incident: ReadIncident, place: LogPlace, why: str, at_ms: int) -> None:
        """A channel was notified, by a route and at a time (epoch ms), that an incident opens or has become worse. The first time counts.

        `key` is what channels know it by: another one in each version.
        """
        route = self._routes.titled(why, incident.window_end)
        minutes = None if route is None else route.escalate_minutes
        known = (key, why) in self._waiting or incident.id in self._acknowledged
        if route is None or minutes is None or known:
            return
        channels = tuple(name for name in route.escalate_to if name in self._routes.notify.channels)
        due = Due(key, incident, place, channels, f"{why}: nobody acknowledged it within {counted(minutes, 'minute')}")
        after_ms = int(minutes * MINUTE_MS)
        self._waiting[key, why] = (at_ms + after_ms, after_ms, due)

    def newer(self, key: str, incident: ReadIncident, place: LogPlace) -> None:
        """What the log has of an incident by now: that is what is escalated, at the time that was set."""
        for known, (at, after, due) in self._waiting.items():
            if known[0] == key:
                self._waiting[known] = (at, after, replace(due, incident=incident, place=place))

    def over(self, key: str) -> None:
        """An incident is over."""
        self._waiting = {place: one for place, one in self._waiting.items() if place[0] != key}

    def acknowledged(self, incident: str) -> None:
        """Somebody has labelled an incident, by its id, whatever the label: it is answered in all versions, which share labels."""
        self._waiting = {place: one for place, one in self._waiting.items() if one[2].incident.id != incident}
        self._acknowledged[incident] = None
        if len(self._acknowledged) > 10_000:
            del self._acknowledged[next(iter(self._acknowledged))]

    def due(self, now_ms: int) -> list[Due]:
        """Incidents whose time by a route has passed, each once."""
        passed = [place for place, (at, after, _) in self._waiting.items() if is_due(at, now_ms, after)]
        return [self._waiting.pop(place)[2] for place in passed]
