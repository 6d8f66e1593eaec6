"""The topic `deliveries`: which channel was notified of what, which is also all that a notifier remembers.

At its start it reads the topic back. A notification is sent first and recorded then: one whose record is missing is sent again, under
the same key.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

import structlog
from kafka import TopicPartition

from app.core.settings import Settings
from app.core.timestamps import LAST_MS, wall_clock
from app.kafka.connection import client_options, open_consumer
from app.kafka.producer import BoundedProducer
from app.kafka.record_range import records_between
from app.kafka.topics import DELIVERIES
from models.records.records import DELIVERED, OUTCOMES, SEVERITIES, STATUSES, DeliveriesUntil, Delivery
from models.records.schema import parsed, plain

log = structlog.get_logger()

MOST_BYTES = 16_384
TOPIC = re.compile(r"[A-Za-z0-9._-]{0,249}")  # a name that Kafka takes; empty of what is about no record
TRY_SECONDS = 10.0
MOST_KNOWN = 100_000  # deliveries of closed incidents that are remembered
MOST_UNRECORDED, MOST_AT_ONCE = 10_000, 500  # deliveries that wait for Kafka, and that are appended together

OnRecorded = Callable[[], None]


@dataclass
class DeliveryHistory:
    """The content of the topic.

    `last` has the last delivery of each incident to each channel, `routed_at` when each route first sent an incident to a channel (epoch ms), and
    `until` the offsets up to which the inputs have been processed.
    """

    last: dict[tuple[str, str], Delivery] = field(default_factory=dict)
    routed_at: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)  # by route, epoch ms
    until: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, record: Delivery | DeliveriesUntil) -> None:
        """Add a record, in the order of the topic. Of closed incidents the latest MOST_KNOWN are kept."""
        if isinstance(record, DeliveriesUntil):
            self.until[TopicPartition(record.topic, record.partition)] = record.offset
            return
        key = (record.channel, record.incident)
        self.last.pop(key, None)
        self.last[key] = record
        if record.outcome == DELIVERED:
            self.routed_at.setdefault(key, {}).setdefault(record.why, record.at)
        if len(self.last) > 2 * MOST_KNOWN:
            closed = [known for known, one in self.last.items() if one.status == "close"]
            for known in closed[:-MOST_KNOWN]:
                del self.last[known]
                self.routed_at.pop(known, None)


def read_deliveries(settings: Settings) -> DeliveryHistory:
    """Read the whole topic. Raises ServiceUnavailable if Kafka does not answer."""
    found, topic = DeliveryHistory(), settings.topic(DELIVERIES)
    with open_consumer(settings) as consumer:
        if not consumer.partitions_for_topic(topic):
            return found
        at = TopicPartition(topic, 0)
        begin, end = consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
        for record in records_between(settings, consumer, at, begin, end):
            one = parse_record(record.value)
            if one is None:
                log.warning("a record of deliveries cannot be read", topic=topic, offset=record.offset)
            else:
                found.add(one)
    return found


def parse_record(value: bytes | None) -> Delivery | DeliveriesUntil | None:
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
    """Appends to the topic, in a thread of its own: while Kafka is away channels go on sending. May be used by several threads."""

    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        """`stopping` ends waiting for Kafka."""
        self._options, self._topic, self._stopping = client_options(settings), settings.topic(DELIVERIES), stopping
        self._lock, self._changed = threading.Lock(), threading.Condition()
        self._waiting: deque[tuple[Delivery, OnRecorded]] = deque()
        self._closing = False
        self.thread = threading.Thread(target=self._run, name="notify deliveries", daemon=True)
        self._producer: BoundedProducer | None = None

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    def put(self, delivery: Delivery, recorded: OnRecorded) -> bool:
        """Have a delivery appended; `recorded` is called when Kafka has it. Where MOST_UNRECORDED wait it waits, too. False: it is stopping."""
        with self._changed:
            while len(self._waiting) >= MOST_UNRECORDED:
                if self._stopping.is_set():
                    return False
                self._changed.wait(1.0)
            self._waiting.append((delivery, recorded))
            self._changed.notify_all()
        return True

    def append(self, *records: Delivery | DeliveriesUntil) -> bool:
        """Append records and wait until Kafka has them. False where it has not got them."""
        values = [(key_of(one), json.dumps(plain(one), ensure_ascii=False).encode()) for one in records]
        with self._lock:
            try:
                self._append(values)
            except Exception as error:  # whatever it is: what was sent would be sent again at the next start
                log.warning("deliveries cannot be recorded now", error=f"{type(error).__name__}: {error}")
                self._drop()
                return False
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait(1.0)
                some = list(islice(self._waiting, MOST_AT_ONCE))
            if not some:
                return
            if self.append(*(delivery for delivery, _ in some)):
                for _, recorded in some:
                    recorded()
                with self._changed:
                    for _ in some:
                        self._waiting.popleft()
                    self._changed.notify_all()
            elif self._closing or self._stopping.wait(1.0):
                return

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

    def close(self, seconds: float) -> None:
        """Append what waits, once and for so long at most, and close the connection. What is not recorded is sent again at the next start."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self.thread.is_alive():
            self.thread.join(seconds)
        with self._lock:
            self._drop()


def key_of(record: Delivery | DeliveriesUntil) -> bytes:
    """The key of a record: the same for a repeat."""
    return (record.name if isinstance(record, Delivery) else f"{record.topic}/{record.partition}").encode()


def until_records(until: Mapping[TopicPartition, int]) -> list[DeliveriesUntil]:
    """Positions as records."""
    return [DeliveriesUntil(topic=at.topic, partition=at.partition, offset=offset) for at, offset in until.items()]
