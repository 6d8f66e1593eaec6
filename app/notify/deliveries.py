"""The topic `deliveries`: which channel was notified of what, which is also all that a notifier remembers.

At its start it reads the topic back. A notification is sent first and recorded then: one whose record is missing is sent again, under
the same key.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from kafka import TopicPartition

from app.core.settings import Settings
from app.core.timestamps import LAST_MS, wall_clock
from app.kafka.connection import client_options, open_consumer
from app.kafka.producer import BoundedProducer
from app.kafka.quarantine import records_to
from app.kafka.topics import DELIVERIES
from models.records.records import OUTCOMES, SEVERITIES, STATUSES, DeliveriesUntil, Delivery
from models.records.schema import parsed, plain
from pipelines.errors import KappaError

log = structlog.get_logger()

MOST_BYTES = 16_384
TOPIC = re.compile(r"[A-Za-z0-9._-]{0,249}")  # a name that Kafka takes; empty of what is about no record
TRY_SECONDS = 10.0
MOST_KNOWN = 100_000  # deliveries of closed incidents that are remembered


@dataclass
class Remembered:
    """What the topic says: the last delivery of each incident to each channel, when the first was, and what has been dealt with."""

    last: dict[tuple[str, str], Delivery] = field(default_factory=dict)
    first_at: dict[tuple[str, str], int] = field(default_factory=dict)  # epoch ms
    until: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, record: Delivery | DeliveriesUntil) -> None:
        """Take in a record of the topic, in its order. Of closed incidents the latest MOST_KNOWN stay."""
        if isinstance(record, DeliveriesUntil):
            self.until[TopicPartition(record.topic, record.partition)] = record.offset
            return
        key = (record.channel, record.incident)
        self.last.pop(key, None)
        self.last[key] = record
        self.first_at.setdefault(key, record.at)
        if len(self.last) > 2 * MOST_KNOWN:
            closed = [known for known, one in self.last.items() if one.status == "close"]
            for known in closed[:-MOST_KNOWN]:
                del self.last[known], self.first_at[known]


def read_back(settings: Settings) -> Remembered:
    """Everything that the topic says now. Raises ServiceUnavailable if Kafka does not answer."""
    found, topic = Remembered(), settings.topic(DELIVERIES)
    with open_consumer(settings) as consumer:
        if not consumer.partitions_for_topic(topic):
            return found
        at = TopicPartition(topic, 0)
        begin, end = consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
        for record in records_to(settings, consumer, at, begin, end):
            one = record_of(record.value)
            if one is None:
                log.warning("a record of deliveries cannot be read", topic=topic, offset=record.offset)
            else:
                found.take(one)
    return found


def record_of(value: bytes | None) -> Delivery | DeliveriesUntil | None:
    """A record of the topic from its JSON; None for anything else."""
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        source = json.loads(value)
        kind = source["record"]
        if kind == DeliveriesUntil.KIND:
            until = parsed(DeliveriesUntil, source)
            return until if until.partition >= 0 and until.offset >= 0 else None
        one = parsed(Delivery, source)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    own = kind == Delivery.KIND and one.status in STATUSES and one.severity in SEVERITIES and one.outcome in OUTCOMES
    can_be = one.partition >= 0 and one.offset >= 0 and 0 <= one.at < LAST_MS and TOPIC.fullmatch(one.topic)
    return one if own and can_be else None


class DeliveryLog:
    """Appends to the topic; may be used by several threads. While Kafka is away, appending waits."""

    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        """`stopping` ends the waiting."""
        self._options, self._topic, self._stopping = client_options(settings), settings.topic(DELIVERIES), stopping
        self._lock = threading.Lock()
        self._producer: BoundedProducer | None = None

    def append(self, *records: Delivery | DeliveriesUntil, patiently: bool = False) -> bool:
        """Append records and wait until Kafka has them; `patiently` until it is there. False where it has not got them."""
        values = [(key_of(one), json.dumps(plain(one), ensure_ascii=False).encode()) for one in records]
        while True:
            with self._lock:
                try:
                    self._append(values)
                    return True
                except KappaError as error:
                    log.warning("deliveries cannot be recorded now", error=str(error))
                    self._drop()
            if not patiently or self._stopping.wait(1.0):
                return False

    def _append(self, records: list[tuple[bytes, bytes]]) -> None:
        if self._producer is None:
            self._producer = BoundedProducer(self._options)
        for key, value in records:
            self._producer.send(self._topic, value, key=key, partition=0, timestamp_ms=wall_clock())
        self._producer.flush(TRY_SECONDS)

    def _drop(self) -> None:
        """Close the producer: it would go on trying what is appended again."""
        if self._producer is not None:
            self._producer.close(0.0)
        self._producer = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()


def key_of(record: Delivery | DeliveriesUntil) -> bytes:
    """The key of a record: the same for a repeat."""
    return (record.name if isinstance(record, Delivery) else f"{record.topic}/{record.partition}").encode()


def until_records(until: Mapping[TopicPartition, int]) -> list[DeliveriesUntil]:
    """Positions as records."""
    return [DeliveriesUntil(topic=at.topic, partition=at.partition, offset=offset) for at, offset in until.items()]
