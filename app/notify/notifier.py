"""Reads incidents and notifies people of them: a thread that plans, and one for each channel that sends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

import structlog
from kafka import TopicPartition

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.kafka.quarantine import fetched_with
from app.notify.channels.channel import Channel
from app.notify.channels.kinds import opened
from app.notify.deliveries import DeliveryLog, Remembered, read_back, until_records
from app.notify.incident import Place, incident_of
from app.notify.incidents_reader import IncidentsReader, Read
from app.notify.notification import Notification, of_incident
from app.notify.outbox import Outbox, Waiting
from app.notify.plan import Plan, Step
from app.notify.positions import Positions
from models.records.records import DELIVERED, FAILED, HELD, Delivery

log = structlog.get_logger()

POSITION_SECONDS = 5.0
GOODBYE_SECONDS = 10.0


class Notifier:
    """Tells of incidents until it is stopped."""

    def __init__(
        self,
        settings: Settings,
        stopping: threading.Event,
        clock: Callable[[], int] = wall_clock,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """`progress` is called every half a second. Raises SettingsError for a channel that cannot be."""
        self._settings, self._stopping, self._clock, self._progress = settings, stopping, clock, progress
        self._ending = threading.Event()
        notify = settings.notify
        self._channels: dict[str, Channel] = {name: opened(notify, name) for name in notify.channels}
        self._lock = threading.Lock()  # of the plan
        self._plan = Plan(notify, [name for name, channel in self._channels.items() if channel.resends])
        self._positions = Positions()
        self._recorded: dict[TopicPartition, int] = {}
        self._recorded_at = 0.0
        self._deliveries = DeliveryLog(settings, self._ending)
        self.outboxes = {
            name: Outbox(
                name, channel, self._settled, self._ending, clock, notify.patience_hours, notify.resend_seconds
            )
            for name, channel in self._channels.items()
        }

    def run(self) -> None:
        """Until stopped. Raises ServiceUnavailable where Kafka cannot be reached at the start, or is away for long."""
        remembered = read_back(self._settings)
        self._plan.remember(remembered.last)
        self._recorded = dict(remembered.until)
        reader = IncidentsReader(self._settings, remembered.until)
        with closing(reader):
            for name, outbox in self.outboxes.items():
                outbox.start(self._still_open(reader, remembered, name) if self._channels[name].resends else ())
            try:
                while not self._stopping.is_set():
                    self._turn(reader)
            finally:
                self._ending.set()
                for outbox in self.outboxes.values():
                    outbox.join(GOODBYE_SECONDS)
                self._deliveries.close()

    def _turn(self, reader: IncidentsReader) -> None:
        """Half a second."""
        for version in reader.look():
            for outbox in self.outboxes.values():
                outbox.forget(version)
        if not reader.versions:
            self._stopping.wait(1.0)  # a version that has not run yet has no topic
        else:
            for read in reader.poll():
                self._take(read)
            for at, offset in reader.positions().items():
                self._positions.read(at, offset)
            self._record_positions()
        self._progress()

    def _take(self, read: Read) -> None:
        """Queue what is due after a record."""
        incident = read.incident
        if incident is None:
            return
        with self._lock:
            steps = list(self._plan.steps(incident, read.key))
        for step in steps:
            self._positions.wait_for(read.place)
            note = of_incident(incident, step.status, read.key, self._settings.notify.link)
            if not self.outboxes[step.channel].put(Waiting(note, step.why, [read.place])):
                self._hold(step, note, read.place, "too many notifications wait for this channel")

    def _hold(self, step: Step, note: Notification, place: Place, answer: str) -> None:
        """Record that a channel is not notified of something."""
        log.warning("a notification was left out", channel=step.channel, incident=note.key, reason=answer)
        held = Delivery(
            channel=step.channel,
            incident=note.key,
            version=note.version,
            status=note.status,
            severity=note.severity,
            outcome=HELD,
            why=step.why,
            answer=answer,
            title=note.title,
            at=self._clock(),
            topic=place.topic,
            partition=place.partition,
            offset=place.offset,
        )
        if self._deliveries.append(held):
            self._positions.settle([place])

    def _settled(self, item: Waiting, delivery: Delivery) -> bool:
        """Record a delivery; called by the channels' threads."""
        if not self._deliveries.append(delivery, patiently=True):
            return False
        if delivery.outcome == FAILED and delivery.status == "open":
            with self._lock:
                self._plan.not_told(delivery.channel, delivery.incident)
        self._positions.settle(item.places)
        log.info("notified", channel=delivery.channel, incident=delivery.incident, outcome=delivery.outcome)
        return True

    def _record_positions(self) -> None:
        """Every few seconds, where they have changed."""
        until = self._positions.until()
        changed = {at: offset for at, offset in until.items() if self._recorded.get(at) != offset}
        if not changed or time.monotonic() - self._recorded_at < POSITION_SECONDS:
            return
        if self._deliveries.append(*until_records(changed)):
            self._recorded |= changed
            self._recorded_at = time.monotonic()

    def _still_open(self, reader: IncidentsReader, remembered: Remembered, channel: str) -> list[Notification]:
        """What a channel has been notified and is not over, made anew from the log."""
        found = []
        for (name, key), one in remembered.last.items():
            if name != channel or one.status == "close" or one.outcome != DELIVERED or not one.topic:
                continue
            record = fetched_with(self._settings, reader.consumer, one.topic, one.partition, one.offset)
            incident = None if record is None else incident_of(record.value)
            if incident is not None:
                found.append(of_incident(incident, one.status, key, self._settings.notify.link))
        return found
