"""Which notifications are due for each incident: that it opens, that it has become worse, that it is over. No clock, no Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from app.notify.incident import ReadIncident
from app.notify.routes import RoutedChannel, Routes
from models.records.records import DELIVERED, HELD, SEVERITIES, Delivery

MOST_KNOWN = 200_000


@dataclass(frozen=True)
class KnownDelivery:
    """What a channel has been notified of an incident, or will have been when its queue is empty; `version` has published the last record of it."""

    status: str
    rank: int
    version: str
    why: str = ""


@dataclass(frozen=True)
class Step:
    """A notification that is due: what to tell a channel, and which route sends it there."""

    channel: str
    status: str
    why: str


class NotificationPlan:
    """Remembers which notifications were due, and says which are."""

    def __init__(self, routes: Routes, resending: Collection[str] = ()) -> None:
        """`resending`: channels that get what is open again and again, and so must know which version says it."""
        self._routes, self._resending = routes, resending
        self._known: dict[tuple[str, str], KnownDelivery] = {}
        self._channels: dict[str, set[str]] = {}  # by key, those that know it

    def remember(self, last: Mapping[tuple[str, str], Delivery]) -> None:
        """Restore what earlier processes have sent from the last delivery of each incident to each channel."""
        for (channel, key), one in last.items():
            if one.status != "open" or one.outcome in (DELIVERED, HELD):
                self._note(
                    channel, key, KnownDelivery(one.status, SEVERITIES.index(one.severity), one.version, one.why)
                )

    def steps(self, incident: ReadIncident, key: str, *, opens: bool = True) -> Iterator[Step]:
        """The notifications that are due after this record of an incident; they count as sent. Without `opens`, only for channels that know it."""
        due = {one.channel: one for one in self._routes.routed(incident)} if opens else {}
        for channel in sorted(self._channels.get(key, ())):
            known = self._known[channel, key]
            due.setdefault(channel, RoutedChannel(channel, known.why))
        for channel, one in due.items():
            if channel not in self._routes.notify.channels:
                continue  # it was there when this incident opened
            before = self._known.get((channel, key))
            status = step(before, incident, adopts=channel in self._resending)
            if status is None and before is not None and before.status != "close":
                self._known[channel, key] = replace(before, version=incident.version)
            if status is not None:
                self._note(channel, key, KnownDelivery(status, incident.rank, incident.version, one.why))
                yield Step(channel, status, one.why)

    def ends(self, incident: ReadIncident, key: str) -> list[Step]:
        """An incident is over in a version that no longer serves: what is due for channels that know `key` from when it did, and from no other."""
        found = []
        for channel in sorted(self._channels.get(key, ())):
            known = self._known[channel, key]
            if known.status != "close" and known.version == incident.version:
                self._note(channel, key, replace(known, status="close"))
                found.append(Step(channel, "close", known.why))
        return [one for one in found if one.channel in self._routes.notify.channels]

    def forget_opening(self, channel: str, key: str) -> None:
        """Forget an opening of which a channel could not be notified: a later record of the incident may open it."""
        self._known.pop((channel, key), None)
        self._channels.get(key, set()).discard(channel)

    def plan_escalation(self, incident: ReadIncident, key: str, channel: str, why: str) -> Step | None:
        """What is due for a channel to which an incident is escalated; None where it knows it."""
        if (channel, key) in self._known:
            return None
        self._note(channel, key, KnownDelivery("open", incident.rank, incident.version, why))
        return Step(channel, "open", why)

    def _note(self, channel: str, key: str, known: KnownDelivery) -> None:
        self._known.pop((channel, key), None)
        self._known[channel, key] = known
        self._channels.setdefault(key, set()).add(channel)
        if len(self._known) > MOST_KNOWN:
            self._forget()

    def _forget(self) -> None:
        """Forget the older half of what is over."""
        over = [place for place, one in self._known.items() if one.status == "close"]
        for channel, key in over[: len(over) // 2 + 1]:
            self.forget_opening(channel, key)
            if not self._channels[key]:
                del self._channels[key]


def step(known: KnownDelivery | None, incident: ReadIncident, *, adopts: bool = False) -> str | None:
    """Which notification is due for a channel after a record of an incident; None for nothing. `adopts`: also that another version says it now."""
    if known is None:
        return None if incident.status == "close" else "open"
    if known.status == "close":
        return None
    if incident.status == "close":
        return "close"
    return "update" if incident.rank > known.rank or (adopts and known.version != incident.version) else None
