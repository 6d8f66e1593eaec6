"""The topic `quarantine`: which records jobs do not read. It is read at each start, and appended to by who finds one.

Where two processes have found the same record, the first entry counts, so each start reads what the one before has read, and perhaps more.
`app.kafka.quarantine_retry` appends an entry before it appends a record again, with the end of the record's topic as `released_as`: after a crash
the next retry looks for the copy from there. Anything else in the topic is skipped with a line in the log.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from app.core.settings import Settings
from app.kafka.connection import client_options, open_consumer, unavailable_error
from app.kafka.producer import close_producer
from app.kafka.record_range import records_between
from app.kafka.topics import QUARANTINE
from models.records.records import JOBS, QuarantinedRecord, RefusedRecord
from models.records.schema import parsed, plain
from pipelines.quarantine import NO_QUARANTINE, Quarantine

log = structlog.get_logger()

HEAD_BYTES = 1024
MOST_BYTES = 64 << 10  # of a record of the topic: what is longer is none of ours
SEND_SECONDS = 10.0


@dataclass(frozen=True)
class QuarantineLog:
    """What the topic says up to the offset `end`: records that were `found`, in order, `released` (appended again), and retries that were `begun`."""

    end: int = 0
    found: Quarantine = NO_QUARANTINE
    released: tuple[QuarantinedRecord, ...] = ()
    begun: tuple[QuarantinedRecord, ...] = ()

    @property
    def kept(self) -> int:
        """How many records are in quarantine and have not been appended again."""
        return len({one.identity for one in self.found.records} - {one.identity for one in self.released})

    def first_offset_of_copy(self, record: QuarantinedRecord) -> int | None:
        """The first offset at which a retry may have appended a copy of a record; None where no retry was begun."""
        return next((one.released_as for one in self.begun if one.identity == record.identity), None)

    def last_at(self, place: tuple[str, int, int]) -> QuarantinedRecord | None:
        """The entry that was found last at a place: where a topic was created again, there may be several."""
        return next((one for one in reversed(self.found.records) if one.place == place), None)

    def release_of(self, record: QuarantinedRecord) -> QuarantinedRecord | None:
        """The entry which says that a record was appended again; None where it was not."""
        return next((one for one in self.released if one.identity == record.identity), None)


def read(settings: Settings, until: int | None = None) -> QuarantineLog:
    """Read the topic.

    Parameters
    ----------
    settings
        `topics.prefix` and the broker.
    until
        Read up to this offset only, as a replay of an earlier moment does; None for all there is now.

    Returns
    -------
    QuarantineLog
        Without records where there is no topic.

    Raises
    ------
    ServiceUnavailable
        Kafka does not answer.
    """
    with open_consumer(settings) as consumer:
        return read_with(settings, consumer, until)


def read_with(settings: Settings, consumer: KafkaConsumer, until: int | None = None) -> QuarantineLog:
    """As `read`, with a connected consumer."""
    topic = settings.topic(QUARANTINE)
    if not consumer.partitions_for_topic(topic):
        return QuarantineLog()
    at = TopicPartition(topic, 0)
    end = consumer.end_offsets([at])[at]
    end = end if until is None else min(until, end)
    found: dict[tuple[str, str, int, int, int], QuarantinedRecord] = {}
    released: dict[tuple[str, int, int, int], QuarantinedRecord] = {}
    begun: list[QuarantinedRecord] = []
    for record in records_between(settings, consumer, at, consumer.beginning_offsets([at])[at], end):
        one = parse_entry(record.value)
        if one is None:
            log.warning("a record of the quarantine cannot be read", topic=topic, offset=record.offset)
        elif one.status == "released":
            released[one.identity] = one
        elif one.released_as is not None:
            begun.append(one)
        else:
            found.setdefault((one.job, *one.identity), one)
    return QuarantineLog(end, Quarantine(tuple(found.values())), tuple(released.values()), tuple(begun))


def parse_entry(value: bytes | None) -> QuarantinedRecord | None:
    """An entry of the topic from its JSON; None for anything else."""
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        source = json.loads(value)
        found = parsed(QuarantinedRecord, source)
        base64.b64decode(found.head, validate=True)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    own = found.record == QuarantinedRecord.KIND and found.status in ("quarantined", "released") and found.job in JOBS
    inside = 0 <= found.partition < 2**31 and 0 <= found.offset < 2**63
    return found if own and inside else None


def now_ms() -> int:
    """The time now, epoch ms, for people."""
    return int(time.time() * 1000)


def quarantine_entry(record: Any, *, job: str, reason: str, version: str, software: str) -> QuarantinedRecord:
    """The entry about a record that ended a job, as kafka-python gives it."""
    value = record.value or b""
    return QuarantinedRecord(
        status="quarantined",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        job=job,
        reason=reason,
        length=len(value),
        sha256=hashlib.sha256(value).hexdigest(),
        head=base64.b64encode(value[:HEAD_BYTES]).decode(),
        found=now_ms(),
        version=version,
        software=software,
    )


def placeholder(topic: str, partition: int, offset: int, job: str) -> QuarantinedRecord:
    """An entry of which only the place is known, for a job that is to read without this record."""
    none = {
        "timestamp": 0,
        "reason": "",
        "length": 0,
        "sha256": "",
        "head": "",
        "found": 0,
        "version": "",
        "software": "",
    }
    place = {"topic": topic, "partition": partition, "offset": offset}
    return parsed(QuarantinedRecord, {"status": "quarantined", "job": job, **place, **none})


def append(settings: Settings, records: Sequence[QuarantinedRecord]) -> None:
    """Append to the topic. Raises ServiceUnavailable if Kafka does not take it."""
    topic = settings.topic(QUARANTINE)
    values = ((one.name.encode(), json.dumps(plain(one), ensure_ascii=False).encode()) for one in records)
    send(settings, [(topic, 0, key, value, [], None) for key, value in values])


def append_dead_letters(settings: Settings, records: Iterable[QuarantinedRecord]) -> None:
    """Append dead letters about records of the pipeline's own topics; `extract` writes those about input records."""
    topic = settings.topic("dead-letters")
    send(settings, [(topic, None, None, base64.b64decode(one.head), dead_letter_headers(one), None) for one in records])


def dead_letter_headers(one: QuarantinedRecord) -> list[tuple[str, bytes]]:
    """The headers of a dead letter about a record in quarantine."""
    about = RefusedRecord.about(
        b"",
        topic=one.topic,
        partition=one.partition,
        offset=one.offset,
        timestamp=one.timestamp,
        reason=f"quarantined: {one.reason}",
        stage=one.job,
    )
    return replace(about, length=one.length, sha256=one.sha256).headers()


# topic, partition, key, value, headers, append time (ms)
Outgoing = tuple[str, int | None, bytes | None, bytes | None, Sequence[tuple[str, bytes]], int | None]


def send(settings: Settings, records: Sequence[Outgoing]) -> list[int]:
    """Append records and wait for the broker; returns their offsets. Raises ServiceUnavailable if it does not take them."""
    if not records:
        return []
    producer = None
    try:
        producer = KafkaProducer(
            **client_options(settings), allow_auto_create_topics=False, acks="all", max_request_size=4 << 20
        )
        sent = [
            producer.send(topic, value=value, key=key, headers=list(headers), partition=partition, timestamp_ms=at_ms)
            for topic, partition, key, value, headers, at_ms in records
        ]
        producer.flush(SEND_SECONDS)
        return [one.get(timeout=SEND_SECONDS).offset for one in sent]
    except (KafkaError, OSError) as error:
        raise unavailable_error(settings, error) from error
    finally:
        if producer is not None:
            close_producer(producer, SEND_SECONDS)
