"""Tracks early alarms that channels were notified of until each becomes an incident or ends. Needs no Kafka; the clock is passed in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from app.core.timestamps import is_due
from app.notify.incident import LONGEST_NAME, LogPlace, ReadIncident
from app.notify.routes import Routes
from models.core.printable import printable
from models.records.records import CONFIRMED, WITHDRAWN, EarlyAlarm

FRESH_MS = 300_000  # what was raised longer ago is no news
READ_MS = 60_000  # how long after an alarm was confirmed its incident is waited for
SETTLED_MS = 3_600_000  # how long an alarm stays open that the lane does not settle
MOST_INCIDENTS = 10_000  # open ones that are remembered


@dataclass
class AlarmThread:
    """An early alarm that a channel was notified of. It ends by itself at `until`, epoch ms."""

    channel: str
    alarm: EarlyAlarm
    why: str
    until: int
    place: LogPlace


class EarlyThreads:
    """Remembers which channels were notified of which early alarms, and which incidents continue under the key of an alarm."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._open: dict[tuple[str, str], AlarmThread] = {}  # by channel and alarm
        self._keys: dict[tuple[str, str], str] = {}  # alarm by channel and incident
        self._incidents: dict[str, ReadIncident] = {}

    @property
    def wanted(self) -> bool:
        """Whether any channel takes early alarms."""
        return any(channel.early for channel in self._routes.notify.channels.values())

    def remember(self, thread: AlarmThread) -> None:
        """Remember that a channel was notified of an alarm."""
        self._open[thread.channel, thread.alarm.id] = thread

    def link_incident(self, channel: str, incident: str, alarm: str) -> None:
        """Remember that a channel knows an incident by the key of an alarm."""
        self._keys[channel, incident] = alarm
        self._open.pop((channel, alarm), None)

    def key(self, channel: str, incident: str) -> str:
        """The alarm by whose key a channel knows an incident; empty where it knows it by its own."""
        return self._keys.get((channel, incident), "")

    def drop(self, channel: str, alarm: str) -> None:
        """Forget an alarm of which a channel could not be notified, or whose notification was held back."""
        self._open.pop((channel, alarm), None)

    def on_raised(self, alarm: EarlyAlarm, place: LogPlace, appended: int, now_ms: int) -> list[AlarmThread]:
        """The threads of channels to notify of an alarm that was raised: none if it is old, or an incident of its host is open."""
        if now_ms - appended > FRESH_MS or any(host_of(alarm) in one.hosts for one in self._incidents.values()):
            return []
        new = [
            AlarmThread(one.channel, alarm, one.why, now_ms + SETTLED_MS, place)
            for one in self._routes.routed_early(alarm)
            if (one.channel, alarm.id) not in self._open
        ]
        for thread in new:
            self.remember(thread)
        return new

    def on_settled(self, alarm: EarlyAlarm, now_ms: int) -> list[AlarmThread]:
        """The threads that end because an alarm is withdrawn. Those of a confirmed one wait for READ_MS: its incident may not have been read yet."""
        own = [thread for thread in self._open.values() if thread.alarm.id == alarm.id]
        for thread in own:
            thread.alarm = alarm
            if alarm.status == CONFIRMED:
                thread.until = now_ms + READ_MS
            else:
                del self._open[thread.channel, alarm.id]
        return own if alarm.status == WITHDRAWN else []

    def on_incident_opened(self, key: str, one: ReadIncident) -> None:
        """Remember an open incident. Alarms of its hosts are not notified."""
        self._incidents[key] = one
        if len(self._incidents) > MOST_INCIDENTS:
            del self._incidents[next(iter(self._incidents))]

    def forget(self, version: str) -> None:
        """Forget the incidents of a version that is no longer read: their end would not be seen."""
        self._incidents = {key: one for key, one in self._incidents.items() if one.version != version}

    def on_incident(self, one: ReadIncident, key: str, opening: Collection[str]) -> list[AlarmThread]:
        """Process a record of an incident that the channels `opening` are to be notified of now; returns the threads that end with it.

        In each of these channels the incident continues under the key of the first alarm of its hosts. The threads of other alarms end: they are a
        part of this incident, or of one that does not go to that channel.
        """
        self._incidents.pop(key, None)
        if one.status != "close":
            self.on_incident_opened(key, one)
        ends = []
        for (channel, alarm), thread in list(self._open.items()):
            if confirms(one, thread.alarm):
                del self._open[channel, alarm]
                if channel in opening and (channel, key) not in self._keys:
                    self._keys[channel, key] = alarm
                else:
                    ends.append(replace(thread, alarm=replace(thread.alarm, status=CONFIRMED, incident=one.id)))
        return ends

    def on_incident_closed(self, key: str) -> None:
        """Forget an incident whose end has been queued."""
        for place in [place for place in self._keys if place[1] == key]:
            del self._keys[place]

    def take_overdue(self, now_ms: int) -> list[AlarmThread]:
        """Remove and return the threads whose time `until` has passed."""
        ends = [thread for thread in self._open.values() if is_due(thread.until, now_ms, SETTLED_MS)]
        for thread in ends:
            del self._open[thread.channel, thread.alarm.id]
        return ends


def confirms(incident: ReadIncident, alarm: EarlyAlarm) -> bool:
    """Whether an incident is of an alarm's host, and of its window or a later one: what confirms it."""
    reaches = incident.window_end >= alarm.window_end and (incident.end is None or incident.end >= alarm.window_end)
    return reaches and host_of(alarm) in incident.hosts


def host_of(alarm: EarlyAlarm) -> str:
    """The host of an alarm, as incidents name it here."""
    return printable(alarm.host[:LONGEST_NAME])
