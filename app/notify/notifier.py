"""Reads incidents and notifies people of them: a thread that reads and decides, one for each channel, and one that watches the chain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from kafka import KafkaConsumer

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.kafka.connection import open_consumer
from app.kafka.early_records import parse_alarm
from app.kafka.record_range import fetch_record_with
from app.kafka.rule_topic import RuleTail
from app.kafka.topics import EARLY
from app.notify.chain_watch import LOOK_SECONDS, ChainWatch
from app.notify.channels.channel import Channel
from app.notify.channels.kinds import open_channel
from app.notify.deliveries import DeliveryHistory, DeliveryLog, read_deliveries, until_records
from app.notify.dispatch import Dispatch, ignore_outcome, is_open
from app.notify.early_threads import SETTLED_MS, AlarmThread
from app.notify.incident import LogPlace, ReadIncident, parse_incident
from app.notify.incidents_reader import IncidentsReader
from app.notify.links import Links
from app.notify.notification import alarm_notification, incident_notification
from app.notify.outbox import Outbox
from app.notify.positions import Positions, RecordedPositions
from app.notify.routes import Routes
from models.records.records import Delivery
from pipelines.errors import KappaError

if TYPE_CHECKING:
    from app.runtime.metrics import Metrics  # loads Spark

DAY_SECONDS = 86_400.0
GOODBYE_SECONDS = 10.0


class Notifier:
    """Notifies until it is stopped."""

    def __init__(
        self,
        settings: Settings,
        stopping: threading.Event,
        clock: Callable[[], int] = wall_clock,
        progress: Callable[[], None] = lambda: None,
        look_seconds: float = LOOK_SECONDS,
        metrics: Metrics | None = None,
    ) -> None:
        """`progress` is called every half a second, the chain looked at every `look_seconds`; `metrics` count what is sent.

        Raises SettingsError for a channel that cannot be.
        """
        self._settings, self._stopping, self._clock, self._progress = settings, stopping, clock, progress
        notify, self._ending = settings.notify, threading.Event()
        channels: dict[str, Channel] = {name: open_channel(notify, name) for name in notify.channels}
        self._positions = Positions()
        self._recorded: RecordedPositions
        self._deliveries = DeliveryLog(settings, self._ending)
        timing = (notify.patience_hours, notify.resend_seconds)
        self.outboxes = {
            name: Outbox(name, channel, self._ending, clock, *timing) for name, channel in channels.items()
        }
        self._metrics = metrics
        if metrics is not None:
            for name in channels:
                metrics.expect_channel(name)
        count = ignore_outcome if metrics is None else metrics.notified
        self._routes = Routes(notify)
        self.dispatch = Dispatch(settings, self._routes, self.outboxes, self._positions, self._deliveries, clock, count)
        self._rules = RuleTail(settings)
        self._chain = ChainWatch(settings, self.dispatch.on_chain_verdict, self._ending, clock, look_seconds)

    def run(self) -> None:
        """Until stopped.

        Raises ServiceUnavailable where Kafka cannot be reached at the start, or is away for long, KappaError where a thread has ended.
        """
        remembered = read_deliveries(self._settings)
        self.dispatch.remember(remembered)
        anew_seconds = min(DAY_SECONDS, self._settings.topics.retention_hours * 3_600 / 2)
        self._recorded = RecordedPositions(remembered.until, anew_seconds)
        self._read_rules()
        since = self._clock()
        if self._routes.escalates:  # the labels of what is open
            known = (remembered.routed_at[key] for key, one in remembered.last.items() if is_open(one))
            since = min((at for by_route in known for at in by_route.values()), default=since)
        with closing(IncidentsReader(self._settings, remembered.until, since)) as reader:
            try:
                self._deliveries.start()
                with open_consumer(self._settings) as consumer:  # not the reader's: to fetch a record moves a position
                    self._start(consumer, remembered, reader.wanted())
                while not self._stopping.is_set():
                    self._turn(reader)
            finally:
                self._ending.set()
                for outbox in self.outboxes.values():
                    outbox.join(GOODBYE_SECONDS)
                self._chain.join(GOODBYE_SECONDS)
                self._deliveries.close(GOODBYE_SECONDS)

    def _start(self, consumer: KafkaConsumer, remembered: DeliveryHistory, versions: Collection[str]) -> None:
        """Start the channels, with what is open."""
        alarms = list(self._open_alarms(consumer, remembered))
        for thread in alarms:
            self.dispatch.early.remember(thread)
        still_open = list(self._still_open(consumer, remembered, versions))
        for one, incident in still_open:
            self.dispatch.restore(one, incident, remembered.routed_at[one.channel, one.incident])
        for name, outbox in self.outboxes.items():
            links = Links.of(self._settings)
            own = [
                incident_notification(incident, one.status, one.incident, links, one.key)
                for one, incident in still_open
                if one.channel == name
            ]
            own += [alarm_notification(thread.alarm, "open", links) for thread in alarms if thread.channel == name]
            outbox.start(self.dispatch.on_settled, own)
        if any(channel.pipeline for channel in self._settings.notify.channels.values()):
            self._chain.start()

    def _turn(self, reader: IncidentsReader) -> None:
        """Half a second. Raises KappaError where a thread has ended, so that all of them begin again."""
        check_alive(self._deliveries.thread, self._chain.thread, *(box.thread for box in self.outboxes.values()))
        for version in reader.update_assignment():
            self.dispatch.early.forget(version)
            for outbox in self.outboxes.values():
                outbox.forget(version)
        if not reader.versions:
            self._stopping.wait(1.0)  # a version that has not run yet has no topic
        else:
            polled = list(reader.poll())
            if any(read.incident or read.alarm for read in polled):
                self._read_rules()  # those of its windows were there before an incident was
            for read in polled:
                self.dispatch.process(read)
            for at, offset in reader.positions().items():
                self._positions.read(at, offset)
            self._record_positions()
        self.dispatch.process_due(escalates=reader.labels_read)
        if self._metrics is not None:
            for name, outbox in self.outboxes.items():
                self._metrics.waiting(name, outbox.waiting)
        self._progress()

    def _read_rules(self) -> None:
        """Take in what the topic `rules` says of routes by now."""
        found = self._rules.read()
        self._routes.take(found.records, self._rules.window_ms, anew=found.anew)

    def _record_positions(self) -> None:
        """Those that are due."""
        now = time.monotonic()
        due = self._recorded.due(self._positions.until(), now)
        if due and self._deliveries.append(*until_records(due)):
            self._recorded.written(due, now)

    def _still_open(
        self, consumer: KafkaConsumer, remembered: DeliveryHistory, versions: Collection[str]
    ) -> Iterator[tuple[Delivery, ReadIncident]]:
        """What channels were notified of and is not over, with its record in the log; of other versions nobody would say that it is over."""
        all_wanted = self._routes.escalates or self.dispatch.early.wanted
        for one in remembered.last.values():
            wanted = one.channel in self.outboxes and (all_wanted or self.outboxes[one.channel].channel.resends)
            is_read = one.version in versions and one.topic != self._settings.topic(EARLY)
            if wanted and is_open(one) and is_read:
                record = fetch_record_with(self._settings, consumer, one.topic, one.partition, one.offset)
                incident = None if record is None else parse_incident(record.value)
                if incident is not None:
                    yield one, incident

    def _open_alarms(self, consumer: KafkaConsumer, remembered: DeliveryHistory) -> Iterator[AlarmThread]:
        """The early alarms that channels were notified of and that have not ended, or become an incident there."""
        continued = {(one.channel, one.key) for one in remembered.last.values() if one.key}
        until = self._clock() + SETTLED_MS
        for one in remembered.last.values():
            known = (one.channel, one.incident) not in continued and one.channel in self.outboxes
            if known and is_open(one) and one.topic == self._settings.topic(EARLY):
                record = fetch_record_with(self._settings, consumer, one.topic, one.partition, one.offset)
                alarm = None if record is None else parse_alarm(record.value)
                if alarm is not None:
                    place = LogPlace(one.topic, one.partition, one.offset)
                    yield AlarmThread(one.channel, alarm, one.why, until, place)


def check_alive(*threads: threading.Thread) -> None:
    """Raise KappaError where one that was started has ended: nobody would do its work."""
    ended = [thread.name for thread in threads if thread.ident is not None and not thread.is_alive()]
    if ended:
        msg = f"notify: the thread {ended[0]!r} has ended by an error, which is on stderr"
        raise KappaError(msg)
