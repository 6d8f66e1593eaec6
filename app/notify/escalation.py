"""Escalation: an incident that nobody acknowledges goes to other channels as well."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.notify_settings import NotifySettings, RouteSettings
from app.notify.incident import LogPlace, ReadIncident
from app.notify.routes import title

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

    def __init__(self, notify: NotifySettings) -> None:
        self._routes: dict[str, RouteSettings] = {
            title(route, i): route for i, route in enumerate(notify.routes) if route.escalate_minutes is not None
        }
        self._waiting: dict[str, tuple[int, Due]] = {}
        self._acknowledged: dict[str, None] = {}

    @property
    def wanted(self) -> bool:
        """Whether any route escalates."""
        return bool(self._routes)

    def opened(self, key: str, incident: ReadIncident, place: LogPlace, why: str, at_ms: int) -> None:
        """A channel was notified of an incident by a route, epoch milliseconds."""
        route = self._routes.get(why)
        if route is None or key in self._waiting or key in self._acknowledged:
            return
        minutes = route.escalate_minutes or 0.0
        due = Due(key, incident, place, route.escalate_to, f"{why}: nobody acknowledged it within {minutes:g} minutes")
        self._waiting[key] = (at_ms + int(minutes * MINUTE_MS), due)

    def over(self, key: str) -> None:
        """An incident is over."""
        self._waiting.pop(key, None)

    def acknowledged(self, incident: str) -> None:
        """Somebody has labelled an incident, whatever the label."""
        self._waiting.pop(incident, None)
        self._acknowledged[incident] = None
        if len(self._acknowledged) > 10_000:
            del self._acknowledged[next(iter(self._acknowledged))]

    def due(self, now_ms: int) -> list[Due]:
        """Incidents whose time has passed, each once."""
        found = [due for at, due in self._waiting.values() if at <= now_ms]
        for one in found:
            del self._waiting[one.key]
        return found
