"""The topics that settle early alarms: `early` itself, `incidents`, and the watermark messages of `novelties`. Nothing in them is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.early.settlement import IncidentSeen, Settlement
from app.kafka.connection import client_options, translate_errors, unavailable_error
from app.kafka.early_records import parse_alarm
from app.kafka.incident_records import parse_incident_record
from app.kafka.producer import BoundedProducer
from app.kafka.record_range import records_between
from app.kafka.shard_watermarks import WATERMARKS_BACK_MS, ShardWatermarks
from app.kafka.topics import EARLY
from models.records.records import EarlyAlarm, HeldAlarms
from models.records.schema import plain
from pipelines.errors import InputError

log = structlog.get_logger()

POLL_MS = 200
SEND_SECONDS = 10.0
OnAlarm = Callable[[EarlyAlarm], None]


class EarlyLog:
    """Reads what there is into a `Settlement`, then what comes; appends what is settled."""

    def __init__(self, settings: Settings, settlement: Settlement, on_alarm: OnAlarm = lambda alarm: None) -> None:
        """`on_alarm` gets each alarm that is appended from now on.

        Raises ServiceUnavailable if Kafka does not answer, InputError where a topic is missing.
        """
        self._settings, self.settlement, self._on_alarm = settings, settlement, on_alarm
        self._own = TopicPartition(settings.topic(EARLY), 0)
        self._watermarks = ShardWatermarks()
        options = client_options(settings)
        with translate_errors(options):
            self._consumer = KafkaConsumer(**options, allow_auto_create_topics=False, auto_offset_reset="earliest")
            self._producer = BoundedProducer(options)
            self._begin()

    def _begin(self) -> None:
        """Take in all of `early`; go on with all incidents, as one that an alarm was confirmed by may be open, and the latest watermark messages."""
        end = self._consumer.end_offsets([self._own])[self._own]
        begin = self._consumer.beginning_offsets([self._own])[self._own]
        for record in records_between(self._settings, self._consumer, self._own, begin, end):
            self._take_alarm(record)
        since = dict.fromkeys(self._partitions("incidents"), 0)
        since |= {part: wall_clock() - WATERMARKS_BACK_MS for part in self._partitions("novelties")}
        self._consumer.assign([self._own, *since])
        self._consumer.seek(self._own, end)
        self._ends = self._consumer.end_offsets(list(since))
        found = self._consumer.offsets_for_times(since)
        for part in since:
            self._consumer.seek(part, found[part].offset if found.get(part) else self._ends[part])

    def _partitions(self, kind: str) -> list[TopicPartition]:
        topic = self._settings.topic(kind)
        found = self._consumer.partitions_for_topic(topic)
        if not found:
            msg = f"there is no topic {topic}: version {self._settings.version} has never run here; `kappa run all`"
            raise InputError(msg)
        return [TopicPartition(topic, p) for p in sorted(found)]

    @property
    def is_current(self) -> bool:
        """Whether all is read that was there at the start."""
        return all(self._consumer.position(part) >= end for part, end in self._ends.items())

    def poll(self) -> None:
        """Take in what has come; waits for a fifth of a second at the most."""
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            raise unavailable_error(self._settings, error) from error
        for part, records in polled.items():
            for record in records:
                self._take(part, record)
        until = self._watermarks.until
        if until is not None:
            self.settlement.take_judged(until)

    def _take(self, part: TopicPartition, record: Any) -> None:
        if part == self._own:
            alarm = self._take_alarm(record)
            if alarm is not None:
                self._on_alarm(alarm)
        elif part.topic == self._settings.topic("novelties"):
            self._watermarks.update(record.value, record.timestamp)
        else:
            seen = incident_of(record.value, record.timestamp)
            if seen is not None:
                self.settlement.take_incident(seen)

    def _take_alarm(self, record: Any) -> EarlyAlarm | None:
        alarm = parse_alarm(record.value)
        if alarm is not None:
            self.settlement.take_alarm(alarm, record.timestamp)
        return alarm

    def append(self, *records: EarlyAlarm | HeldAlarms) -> None:
        """Append records and wait until Kafka has them. Raises ServiceUnavailable where it does not take them."""
        for one in records:
            key = one.id if isinstance(one, EarlyAlarm) else f"{one.KIND}/{one.window_end}"
            value = json.dumps(plain(one), ensure_ascii=False).encode()
            self._producer.send(self._own.topic, value, key=key.encode(), partition=0)
        self._producer.flush(SEND_SECONDS)

    def close(self) -> None:
        """Close both connections."""
        self._consumer.close()
        self._producer.close(0.0)


def incident_of(value: bytes | None, appended: int) -> IncidentSeen | None:
    """What a record of `incidents` says; None for what is none."""
    found = parse_incident_record(value)
    if found is None:
        return None
    return IncidentSeen(
        id=found.id,
        status=found.status,
        start=found.start,
        end=found.end,
        window_end=found.window_end,
        series=frozenset(found.series),
        hosts=frozenset(found.hosts),
        appended=appended,
    )
