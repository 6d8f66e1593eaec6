"""Puts what is due into the channels' queues: of incidents, of early alarms, of storms of them, of escalations, and of kappa itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import structlog

from app.core.settings import Settings
from app.core.timestamps import time_of_digits
from app.kafka.topics import EARLY
from app.notify.chain import ALIVE, PASSED, ChainVerdict
from app.notify.deliveries import DeliveryHistory, DeliveryLog
from app.notify.early_threads import AlarmThread, EarlyThreads
from app.notify.escalation import Escalation
from app.notify.incident import LogPlace, ReadIncident
from app.notify.incidents_reader import PolledRecord, key_with_version
from app.notify.links import Links
from app.notify.notification import alarm_notification, incident_notification, kappa_notification
from app.notify.outbox import Outbox, QueuedNotification, make_delivery
from app.notify.plan import NotificationPlan, Step
from app.notify.positions import Positions
from app.notify.routes import Routes
from app.notify.storm import StormFilter
from models.records.records import DELIVERED, FAILED, HELD, INFO, RAISED, Delivery, EarlyAlarm

log = structlog.get_logger()

OF_KAPPA = "pipeline-"
FULL, STORM = "too many notifications wait for this channel", "held back in a storm"


Count = Callable[[str, str], None]


def ignore_outcome(channel: str, outcome: str) -> None:
    """What becomes of notifications is counted nowhere."""


class Dispatch:
    """Decides for each record of the log; used by the thread that reads, by that of the chain, and by the channels' own."""

    def __init__(
        self,
        settings: Settings,
        routes: Routes,
        outboxes: Mapping[str, Outbox],
        positions: Positions,
        deliveries: DeliveryLog,
        clock: Callable[[], int],
        count: Count = ignore_outcome,
    ) -> None:
        """`count` is called with the channel and the outcome of each delivery that was recorded."""
        self._notify, self._outboxes, self._positions = settings.notify, outboxes, positions
        self._links, self._early_topic = Links.of(settings), settings.topic(EARLY)
        self._deliveries, self._clock, self._count, self._lock = deliveries, clock, count, threading.Lock()
        notify = settings.notify
        resending = [name for name, box in outboxes.items() if box.channel.resends]
        self._plan, self.escalation = NotificationPlan(routes, resending), Escalation(routes)
        self._storms = {
            name: StormFilter(name, notify.storm_incidents, notify.storm_minutes)
            for name in outboxes
            if name not in resending
        }
        self.early = EarlyThreads(routes)
        self._of_kappa: dict[tuple[str, str], int] = {}  # since when, by channel and alert

    def remember(self, remembered: DeliveryHistory) -> None:
        """Take in what earlier processes have sent."""
        self._plan.remember(remembered.last)
        for (channel, incident), one in remembered.last.items():
            if one.key and one.status != "close":
                self.early.link_incident(channel, incident, one.key)
        for name, storm in self._storms.items():
            own = [one for (channel, _), one in remembered.last.items() if channel == name]
            storm.remember(own, self._clock(), self._early_topic)
            for one in own:
                alert, _, digits = one.incident.removeprefix(OF_KAPPA).rpartition("-")
                since = time_of_digits(digits)
                if one.incident.startswith(OF_KAPPA) and one.status == "open" and since is not None:
                    self._of_kappa[name, alert] = since

    def restore(self, one: Delivery, incident: ReadIncident, routed_at: Mapping[str, int]) -> None:
        """Restore an open incident that an earlier process has sent to a channel. `routed_at`: by which routes, and when (epoch ms)."""
        place = LogPlace(one.topic, one.partition, one.offset)
        for why, first in routed_at.items():
            self.escalation.on_notified(one.incident, incident, place, why, first)
        if one.incident == incident.id:
            self.early.on_incident_opened(one.incident, incident)

    def process(self, read: PolledRecord) -> None:
        """Queue the notifications that are due after a record."""
        if read.acknowledged:
            self.escalation.on_acknowledged(read.acknowledged)
        if read.alarm is not None:
            self._take_alarm(read.alarm, read.place, read.appended)
        if read.incident is not None:
            self._take_incident(read.incident, read)

    def _take_incident(self, incident: ReadIncident, read: PolledRecord) -> None:
        """Queue what is due after a record of an incident. One that is over ends under the keys of before its version served, and since, too."""
        is_over, serves = incident.status == "close", read.key == incident.id
        keys = [read.key, key_with_version(incident)] if is_over and serves else [read.key]
        if not is_over:
            self.escalation.update_incident(read.key, incident, read.place)
        for key in keys if is_over else ():
            self.escalation.on_closed(key)
        with self._lock:
            steps = [(key, step) for key in keys for step in self._plan.steps(incident, key, opens=read.news)]
            ended = self._plan.ends(incident, incident.id) if is_over and not serves else []
            steps += [(incident.id, step) for step in ended]
            opening = [step.channel for _, step in steps if step.status == "open"]
            ends = self.early.on_incident(incident, read.key, opening) if serves else []
        if ended:
            self.escalation.on_closed(incident.id)
        for thread in ends:
            self._end_alarm(thread, read.place)
        for key, step in steps:
            is_sent = self._queue(step, incident, key, read.place)
            if is_sent and step.status != "close":
                self.escalation.on_notified(key, incident, read.place, step.why, self._clock())
        if is_over:
            with self._lock:
                self.early.on_incident_closed(read.key)

    def _take_alarm(self, alarm: EarlyAlarm, place: LogPlace, appended: int) -> None:
        """Queue what is due after a record of an early alarm."""
        now = self._clock()
        with self._lock:
            raised = self.early.on_raised(alarm, place, appended, now) if alarm.status == RAISED else []
            ends = self.early.on_settled(alarm, now) if alarm.status != RAISED else []
        for thread in raised:
            self._open_alarm(thread, now)
        for thread in ends:
            self._end_alarm(thread, place)

    def _open_alarm(self, thread: AlarmThread, now: int) -> None:
        """Queue a notification that an alarm was raised; in a storm it is held back, and nothing comes of it later."""
        channel, storm = thread.channel, self._storms.get(thread.channel)
        item = QueuedNotification(alarm_notification(thread.alarm, "open", self._links), thread.why, [thread.place])
        self._positions.wait_for(thread.place)
        held = ""
        if storm is not None:
            in_storm, begins = storm.on_opening(thread.alarm.id, INFO, thread.alarm.window_end, now)
            if begins is not None:
                self._outboxes[channel].put(QueuedNotification(begins, "storm"))
            if in_storm:
                storm.on_follow_up(thread.alarm.id, "close", INFO)
                held = STORM
        if not held and not self._outboxes[channel].put(item):
            held = FULL
        if held:
            with self._lock:
                self.early.drop(channel, thread.alarm.id)
            self._hold(channel, item, held)

    def _end_alarm(self, thread: AlarmThread, place: LogPlace) -> None:
        """Queue a notification of how an alarm ended."""
        self._positions.wait_for(place)
        self._outboxes[thread.channel].put(
            QueuedNotification(alarm_notification(thread.alarm, "close", self._links), thread.why, [place])
        )

    def process_due(self, *, escalates: bool) -> None:
        """Queue what is due because time has passed: ends of storms and of early alarms, and escalations."""
        now = self._clock()
        with self._lock:
            overdue = self.early.take_overdue(now)
        for thread in overdue:
            self._end_alarm(thread, thread.place)
        for name, storm in self._storms.items():
            note = storm.end_if_over(now)
            if note is not None:
                self._outboxes[name].put(QueuedNotification(note, "storm"))
        for due in self.escalation.take_due(now) if escalates else ():
            for channel in due.channels:
                with self._lock:
                    step = self._plan.plan_escalation(due.incident, due.key, channel, due.why)
                if step is not None:
                    self._queue(step, due.incident, due.key, due.place)

    def on_chain_verdict(self, verdict: ChainVerdict) -> None:
        """Queue what is due of the alerts about kappa itself."""
        now = self._clock()
        for channel, settings in self._notify.channels.items():
            for name, text in verdict.holds.items() if settings.pipeline else ():
                wanted = name != ALIVE or self._outboxes[channel].channel.resends
                if wanted and (channel, name) not in self._of_kappa:
                    self._of_kappa[channel, name] = now
                    self._of_itself(channel, name, text, "open", now, now)
            for of, name in [key for key in self._of_kappa if key[0] == channel]:
                if name in verdict.passed or not settings.pipeline:
                    self._of_itself(of, name, PASSED[name], "close", self._of_kappa.pop((of, name)), now)

    def on_settled(self, item: QueuedNotification, delivery: Delivery) -> bool:
        """Record a delivery; called by the channels' threads. Returns False if it could not be queued for the log."""
        if delivery.outcome == FAILED and delivery.status == "open":
            with self._lock:
                self._plan.forget_opening(delivery.channel, delivery.incident)
                self.early.drop(delivery.channel, delivery.incident)
        log.debug("notified", channel=delivery.channel, incident=delivery.incident, outcome=delivery.outcome)
        return self._record(delivery, item.places)

    def _record(self, delivery: Delivery, places: Sequence[LogPlace]) -> bool:
        """Count a delivery, and the records that it is about as dealt with, when it is in the log."""

        def recorded() -> None:
            self._count(delivery.channel, delivery.outcome)
            self._positions.settle(places)

        return self._deliveries.put(delivery, recorded)

    def _queue(self, step: Step, incident: ReadIncident, key: str, place: LogPlace) -> bool:
        """Queue a notification, or hold it back in a storm or where too many wait. Returns whether it will be sent."""
        storm = self._storms.get(step.channel)
        status, held = step.status, False
        with self._lock:
            alarm = self.early.key(step.channel, key)
        if storm is not None and status == "open" and not alarm:
            held, begins = storm.on_opening(key, incident.severity, incident.window_end, self._clock())
            if begins is not None:
                self._outboxes[step.channel].put(QueuedNotification(begins, "storm"))
        elif storm is not None:
            was_held, held = storm.is_held(key), storm.on_follow_up(key, status, incident.severity)
            status = "open" if was_held and not held else status  # the first that the channel gets of it
        note = incident_notification(incident, status, key, self._links, alarm)
        item = QueuedNotification(note, step.why, [place])
        self._positions.wait_for(place)
        if held:
            self._hold(step.channel, item, STORM)
            return False
        if self._outboxes[step.channel].put(item):
            return True
        self._hold(step.channel, item, FULL)
        if storm is not None and status == "open" and not alarm:
            storm.hold(key, incident.severity)
        return False

    def _hold(self, channel: str, item: QueuedNotification, why: str) -> None:
        """Record that a channel does not get something."""
        log.warning("a notification was held back", channel=channel, incident=item.note.key, reason=why)
        self._record(make_delivery(channel, item, HELD, why, self._clock()), item.places)

    def _of_itself(self, channel: str, name: str, text: str, status: str, since: int, now: int) -> None:
        note = kappa_notification(f"{OF_KAPPA}{name}-{since}", status, name, text, since, now)
        self._outboxes[channel].put(QueuedNotification(note, "pipeline"))


def is_open(one: Delivery) -> bool:
    """Whether a channel was notified of an incident that is not over."""
    return one.status != "close" and one.outcome == DELIVERED and bool(one.topic)
