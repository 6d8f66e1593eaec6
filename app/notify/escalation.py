"""Escalation: an incident that nobody acknowledges goes to other channels as well."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.timestamps import is_due
from app.notify.incident import LogPlace, ReadIncident
from app.notify.routes import Routes

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
        self._waiting: dict[str, tuple[int, int, Due]] = {}  # when, and how long after it was opened, ms
        self._acknowledged: dict[str, None] = {}

    def opened(self, key: str, incident: ReadIncident, place: LogPlace, why: str, at_ms: int) -> None:
        """A channel was notified of an incident by a route, epoch milliseconds. `key` is what channels know it by: another one in each version."""
        route = self._routes.titled(why, incident.window_end)
        minutes = None if route is None else route.escalate_minutes
        if route is None or minutes is None or key in self._waiting or incident.id in self._acknowledged:
            return
        channels = tuple(name for name in route.escalate_to if name in self._routes.notify.channels)
        due = Due(key, incident, place, channels, f"{why}: nobody acknowledged it within {minutes:g} minutes")
        after_ms = int(minutes * MINUTE_MS)
        self._waiting[key] = (at_ms + after_ms, after_ms, due)

    def over(self, key: str) -> None:
        """An incident is over."""
        self._waiting.pop(key, None)

    def acknowledged(self, incident: str) -> None:
        """Somebody has labelled an incident, by its id, whatever the label: it is answered in all versions, which share labels."""
        for key in [key for key, (_, _, due) in self._waiting.items() if due.incident.id == incident]:
            del self._waiting[key]
        self._acknowledged[incident] = None
        if len(self._acknowledged) > 10_000:
            del self._acknowledged[next(iter(self._acknowledged))]

    def due(self, now_ms: int) -> list[Due]:
        """Incidents whose time has passed, each once."""
        found = [due for at, after, due in self._waiting.values() if is_due(at, now_ms, after)]
        for one in found:
            del self._waiting[one.key]
        return found
