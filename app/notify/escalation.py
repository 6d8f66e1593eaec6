"""Escalation: an incident that nobody acknowledges in time is sent to further channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.timestamps import is_due
from app.notify.incident import LogPlace, ReadIncident
from app.notify.routes import Routes
from models.core.wording import counted

MINUTE_MS = 60_000


@dataclass(frozen=True)
class DueEscalation:
    """An incident that nobody has acknowledged in time, and where it goes."""

    key: str
    incident: ReadIncident
    place: LogPlace
    channels: tuple[str, ...]
    why: str


class Escalation:
    """Remembers incidents of routes with `escalate_minutes` until somebody labels them, or they are closed."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        # by key and route: when, and how long after a channel was notified by that route, ms
        self._waiting: dict[tuple[str, str], tuple[int, int, DueEscalation]] = {}
        self._acknowledged: dict[str, None] = {}

    def on_notified(self, key: str, incident: ReadIncident, place: LogPlace, why: str, at_ms: int) -> None:
        """Start the time of an incident: a channel was notified at `at_ms` that it opens or has become worse. The first time of a route counts.

        `key` is what channels know the incident by, another one in each version; `why` is the title of the route.
        """
        route = self._routes.titled(why, incident.window_end)
        minutes = None if route is None else route.escalate_minutes
        known = (key, why) in self._waiting or incident.id in self._acknowledged
        if route is None or minutes is None or known:
            return
        channels = tuple(name for name in route.escalate_to if name in self._routes.notify.channels)
        due = DueEscalation(
            key, incident, place, channels, f"{why}: nobody acknowledged it within {counted(minutes, 'minute')}"
        )
        after_ms = int(minutes * MINUTE_MS)
        self._waiting[key, why] = (at_ms + after_ms, after_ms, due)

    def update_incident(self, key: str, incident: ReadIncident, place: LogPlace) -> None:
        """Note the newest record of an incident: it is the one that is escalated, at the time that was set before."""
        for known, (at, after, due) in self._waiting.items():
            if known[0] == key:
                self._waiting[known] = (at, after, replace(due, incident=incident, place=place))

    def on_closed(self, key: str) -> None:
        """Forget a closed incident."""
        self._waiting = {place: one for place, one in self._waiting.items() if place[0] != key}

    def on_acknowledged(self, incident: str) -> None:
        """Forget an incident, by its id, because somebody has labelled it, with whatever label. Versions share labels, so it counts in all."""
        self._waiting = {place: one for place, one in self._waiting.items() if one[2].incident.id != incident}
        self._acknowledged[incident] = None
        if len(self._acknowledged) > 10_000:
            del self._acknowledged[next(iter(self._acknowledged))]

    def take_due(self, now_ms: int) -> list[DueEscalation]:
        """Remove and return the incidents whose time by a route has passed."""
        passed = [place for place, (at, after, _) in self._waiting.items() if is_due(at, now_ms, after)]
        return [self._waiting.pop(place)[2] for place in passed]
