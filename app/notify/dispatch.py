"""Puts what is due into the channels' queues: of incidents, of storms of them, of escalations, and of kappa itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from app.core.settings import Settings
from app.notify.chain import ALIVE
from app.notify.deliveries import DeliveryLog, Remembered
from app.notify.escalation import Escalation
from app.notify.incident import LogPlace, ReadIncident
from app.notify.incidents_reader import Read
from app.notify.links import Links
from app.notify.notification import Notification, about_kappa, of_incident
from app.notify.outbox import Outbox, Waiting, delivery_of
from app.notify.plan import NotificationPlan, Step
from app.notify.positions import Positions
from app.notify.storm import Storm
from models.records.records import DELIVERED, FAILED, HELD, Delivery

log = structlog.get_logger()

OF_KAPPA = "pipeline-"
FULL, STORM = "too many notifications wait for this channel", "held back in a storm"


Count = Callable[[str, str], None]


def uncounted(channel: str, outcome: str) -> None:
    """What becomes of notifications is counted nowhere."""


class Dispatch:
    """Decides for each record of the log; used by the thread that reads, by that of the chain, and by the channels' own."""

    def __init__(
        self,
        settings: Settings,
        outboxes: Mapping[str, Outbox],
        positions: Positions,
        deliveries: DeliveryLog,
        clock: Callable[[], int],
        count: Count = uncounted,
    ) -> None:
        """`count` is called with the channel and the outcome of each delivery that was recorded."""
        self._notify, self._outboxes, self._positions = settings.notify, outboxes, positions
        self._links = Links.of(settings)
        self._deliveries, self._clock, self._count, self._lock = deliveries, clock, count, threading.Lock()
        notify = settings.notify
        resending = [name for name, box in outboxes.items() if box.channel.resends]
        self._plan, self.escalation = NotificationPlan(notify, resending), Escalation(notify)
        self._storms = {
            name: Storm(name, notify.storm_incidents, notify.storm_minutes)
            for name in outboxes
            if name not in resending
        }
        self._of_kappa: dict[tuple[str, str], int] = {}  # since when, by channel and alert

    def remember(self, remembered: Remembered) -> None:
        """Take in what earlier processes have sent."""
        self._plan.remember(remembered.last)
        for name, storm in self._storms.items():
            own = [one for (channel, _), one in remembered.last.items() if channel == name]
            storm.remember(own, self._clock())
            for one in own:
                alert, _, since = one.incident.removeprefix(OF_KAPPA).rpartition("-")
                if one.incident.startswith(OF_KAPPA) and one.status == "open" and since.isdigit():
                    self._of_kappa[name, alert] = int(since)

    def take(self, read: Read) -> None:
        """Queue what is due after a record."""
        if read.acknowledged:
            self.escalation.acknowledged(read.acknowledged)
        incident = read.incident
        if incident is None:
            return
        if incident.status == "close":
            self.escalation.over(read.key)
        with self._lock:
            steps = list(self._plan.steps(incident, read.key))
        for step in steps:
            if step.status == "open":
                self.escalation.opened(read.key, incident, read.place, step.why, self._clock())
            self._queue(step, incident, read.key, read.place)

    def elapse(self, *, escalates: bool) -> None:
        """What is due with time: the ends of storms, and escalations."""
        now = self._clock()
        for name, storm in self._storms.items():
            note = storm.ends(now)
            if note is not None:
                self._outboxes[name].put(Waiting(note, "storm"))
        for due in self.escalation.due(now) if escalates else ():
            for channel in due.channels:
                with self._lock:
                    step = self._plan.escalates(due.incident, due.key, channel, due.why)
                if step is not None:
                    self._queue(step, due.incident, due.key, due.place)

    def chain(self, alerts: Mapping[str, str]) -> None:
        """The alerts about kappa itself that hold now, by name."""
        now = self._clock()
        for channel, settings in self._notify.channels.items():
            wanted = (
                alerts if self._outboxes[channel].channel.resends else {n: t for n, t in alerts.items() if n != ALIVE}
            )
            own = wanted if settings.pipeline else {}
            for name in own.keys() - {alert for of, alert in self._of_kappa if of == channel}:
                if self._of_itself(channel, name, own[name], "open", now, now):
                    self._of_kappa[channel, name] = now
            for of, name in [key for key in self._of_kappa if key[0] == channel and key[1] not in own]:
                if self._of_itself(of, name, "it has passed", "close", self._of_kappa[of, name], now):
                    del self._of_kappa[of, name]

    def settled(self, item: Waiting, delivery: Delivery) -> bool:
        """Record a delivery; called by the channels' threads."""
        if not self._deliveries.append(delivery, patiently=True):
            return False
        self._count(delivery.channel, delivery.outcome)
        if delivery.outcome == FAILED and delivery.status == "open":
            with self._lock:
                self._plan.not_notified(delivery.channel, delivery.incident)
        self._positions.settle(item.places)
        log.debug("notified", channel=delivery.channel, incident=delivery.incident, outcome=delivery.outcome)
        return True

    def _queue(self, step: Step, incident: ReadIncident, key: str, place: LogPlace) -> None:
        """Queue a notification, or hold it back in a storm, or where too many wait."""
        storm = self._storms.get(step.channel)
        status, held = step.status, False
        if storm is not None and status == "open":
            held, begins = storm.opens(key, incident.severity, self._clock())
            if begins is not None:
                self._outboxes[step.channel].put(Waiting(begins, "storm"))
        elif storm is not None:
            was_held, held = storm.has(key), storm.holds(key, status)
            status = "open" if was_held and not held else status  # the first that the channel gets of it
        note = of_incident(incident, status, key, self._links)
        item = Waiting(note, step.why, [place])
        self._positions.wait_for(place)
        if held:
            self._hold(step.channel, item, STORM)
        elif not self._outboxes[step.channel].put(item):
            self._hold(step.channel, item, FULL)
            if storm is not None and status == "open":
                storm.keep(key, incident.severity)

    def _hold(self, channel: str, item: Waiting, why: str) -> None:
        """Record that a channel does not get something."""
        log.warning("a notification was held back", channel=channel, incident=item.note.key, reason=why)
        if self._deliveries.append(delivery_of(channel, item, HELD, why, self._clock())):
            self._count(channel, HELD)
            self._positions.settle(item.places)

    def _of_itself(self, channel: str, name: str, text: str, status: str, since: int, now: int) -> bool:
        note: Notification = about_kappa(f"{OF_KAPPA}{name}-{since}", status, name, text, since, now)
        return self._outboxes[channel].put(Waiting(note, "pipeline"))


def is_open(one: Delivery) -> bool:
    """Whether a channel was notified of an incident that is not over."""
    return one.status != "close" and one.outcome == DELIVERED and bool(one.topic)
