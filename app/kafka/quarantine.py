"""The topic `quarantine`: which records jobs do not read. It is read at each start, and appended to by who finds one.

Where one record is named twice, because two processes found it, the first counts: so a start reads the same as the one before,
and more. Who appends a record again names it once more before, with where its topic ends then in `released_as`: if he is killed, the next
one looks there for the copy. What is in the topic and is no such record is left out with a line in the log.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from app.core.file_lock import held_lock
from app.core.settings import Settings
from app.kafka.connection import client_options, open_consumer, unavailable
from app.kafka.offset_ranges import last_timestamps
from app.kafka.producer import closed
from app.kafka.topics import QUARANTINE
from models.records.records import JOBS, QuarantinedRecord, RefusedRecord
from models.records.schema import parsed, plain
from pipelines.errors import InputError
from pipelines.inputs.fields import MAX_RECORD
from pipelines.quarantine import NO_QUARANTINE, Quarantine

log = structlog.get_logger()

HEAD_BYTES = 1024
MOST_BYTES = 64 << 10  # of a record of the topic: what is longer is none of ours
POLL_MS = 1_000
SILENT_POLLS = 30  # after which the broker counts as gone
SEND_SECONDS = 10.0
GONE = "no longer in the log: retention has deleted it, or its topic was made again"
LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class QuarantineLog:
    """All that the topic says: the offset up to which it was read, what was found in order, what was released since, and what was to be."""

    end: int = 0
    found: Quarantine = NO_QUARANTINE
    released: tuple[QuarantinedRecord, ...] = ()
    begun: tuple[QuarantinedRecord, ...] = ()

    @property
    def kept(self) -> int:
        """How many records are in quarantine and have not been appended again."""
        return len({one.identity for one in self.found.records} - {one.identity for one in self.released})

    def first_offset_of_copy(self, record: QuarantinedRecord) -> int | None:
        """The offset from which on there may be a copy of one that was to be appended again; None where that was never begun."""
        return next((one.released_as for one in self.begun if one.identity == record.identity), None)

    def last_at(self, place: tuple[str, int, int]) -> QuarantinedRecord | None:
        """The record that was found last at a place: where its topic was made again, there may be several."""
        return next((one for one in reversed(self.found.records) if one.place == place), None)

    def release_of(self, record: QuarantinedRecord) -> QuarantinedRecord | None:
        """The record that says that one was appended again; None where it was not."""
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
    for record in records_to(settings, consumer, at, consumer.beginning_offsets([at])[at], end):
        one = record_of(record.value)
        if one is None:
            log.warning("a record of the quarantine cannot be read", topic=topic, offset=record.offset)
        elif one.status == "released":
            released[one.identity] = one
        elif one.released_as is not None:
            begun.append(one)
        else:
            found.setdefault((one.job, *one.identity), one)
    return QuarantineLog(end, Quarantine(tuple(found.values())), tuple(released.values()), tuple(begun))


def records_to(settings: Settings, consumer: KafkaConsumer, at: TopicPartition, begin: int, end: int) -> Iterator[Any]:
    """The records of a partition from an offset up to another one. Raises ServiceUnavailable if the broker falls silent."""
    if begin >= end:
        return
    consumer.assign([at])
    consumer.seek(at, begin)
    silent = 0
    while consumer.position(at) < end:
        polled = [record for batch in consumer.poll(timeout_ms=POLL_MS).values() for record in batch]
        silent = 0 if polled else silent + 1
        if silent > SILENT_POLLS:
            raise unavailable(settings, TimeoutError())
        yield from (record for record in polled if record.offset < end)


def record_of(value: bytes | None) -> QuarantinedRecord | None:
    """A record of the topic from its JSON; None for anything else."""
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
    """The time at which something was found, for people."""
    return int(time.time() * 1000)


def described(record: Any, *, job: str, reason: str, version: str, software: str) -> QuarantinedRecord:
    """A record of the topic about a record as kafka-python gives it, which ended a job."""
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
    """A record of the topic about which nothing is known but its place, to read without it."""
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


def fetched(settings: Settings, topic: str, partition: int, offset: int) -> Any:
    """A record of the log, as kafka-python gives it; None where there is none at this offset any more."""
    with open_consumer(settings) as consumer:
        return fetched_with(settings, consumer, topic, partition, offset)


def fetched_with(settings: Settings, consumer: KafkaConsumer, topic: str, partition: int, offset: int) -> Any:
    """As `fetched`, with a connected consumer."""
    if partition not in (consumer.partitions_for_topic(topic) or ()):
        return None
    at = TopicPartition(topic, partition)
    if not consumer.beginning_offsets([at])[at] <= offset < consumer.end_offsets([at])[at]:
        return None
    return next((one for one in records_to(settings, consumer, at, offset, offset + 1) if one.offset == offset), None)


def meant(one: QuarantinedRecord, record: Any) -> Any:
    """What the log has at the place of a record in quarantine; None where that is another record."""
    return record if record is not None and one.is_of(record.timestamp) else None


def append(settings: Settings, records: Sequence[QuarantinedRecord]) -> None:
    """Append to the topic. Raises ServiceUnavailable if Kafka does not take it."""
    topic = settings.topic(QUARANTINE)
    values = ((one.name.encode(), json.dumps(plain(one), ensure_ascii=False).encode()) for one in records)
    send(settings, [(topic, 0, key, value, [], None) for key, value in values])


def append_letters(settings: Settings, records: Iterable[QuarantinedRecord]) -> None:
    """Append dead letters about records of the pipeline's own topics; of input records `extract` writes them."""
    topic = settings.topic("dead-letters")
    send(settings, [(topic, None, None, base64.b64decode(one.head), letter_headers(one), None) for one in records])


def letter_headers(one: QuarantinedRecord) -> list[tuple[str, bytes]]:
    """The headers of every dead letter, about a record in quarantine."""
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
        raise unavailable(settings, error) from error
    finally:
        if producer is not None:
            closed(producer, SEND_SECONDS)


@dataclass(frozen=True)
class Retry:
    """A record that is appended again: what it was, the append time that the copy is given (None: the broker's clock), the end of its partition."""

    original: QuarantinedRecord
    record: Any
    at_ms: int | None
    end: int


def planned_retry(settings: Settings, known: QuarantineLog, place: tuple[str, int, int]) -> Retry:
    """What appending a record again would be. Raises InputError for one that is not in quarantine, or cannot be appended again."""
    topic, partition, offset = place
    name = f"{topic}/{partition}/{offset}"
    original = known.last_at(place)
    if original is None:
        msg = f"{name} is not in quarantine; `kappa quarantine list` names those that are"
        raise InputError(msg)
    before = known.release_of(original)
    if before is not None:
        msg = f"{name} was appended again before, as {topic}/{partition}/{before.released_as}; nothing is left to do"
        raise InputError(msg)
    inputs = [settings.topic(kind) for kind in settings.input_partitions]
    if topic not in inputs:
        msg = (
            f"{name} is of a topic that jobs write: a copy would come after its window; wanted one of {', '.join(inputs)}. "
            "Run a replay, which makes it anew"
        )
        raise InputError(msg)
    with open_consumer(settings) as consumer:
        record = meant(original, fetched_with(settings, consumer, *place))
        if record is None:
            msg = f"{name} is {GONE}; its first bytes are in `kappa quarantine show {name}`"
            raise InputError(msg)
        if len(record.value or b"") > MAX_RECORD:
            msg = f"{name} has {len(record.value):,} bytes: every release refuses what is longer than {MAX_RECORD:,} (docs/inputs.md)"
            raise InputError(msg)
        at = TopicPartition(topic, partition)
        ends, at_ms = consumer.end_offsets([at]), None
        if settings.topics.timestamps == "create":
            # Append times of a partition do not go back, and a later one would close the windows of what is still to come.
            at_ms = last_timestamps(consumer, {at: offset}, ends).get(at, record.timestamp)
    return Retry(original, record, at_ms, ends[at])


def retry(settings: Settings, planned: Retry) -> QuarantinedRecord:
    """Append a record again, and note that in the topic before and after; returns what was noted.

    What another process has begun and not ended is completed: a copy that is there is not appended once more. One process does so at a time
    for each home. Raises InputError as `planned_retry`, and where another process is at it for long.
    """
    lock = settings.home / "versions" / "quarantine.lock"
    refusal = f"{lock} is held by another process for {LOCK_SECONDS:.0f} s; try again"
    with held_lock(lock, LOCK_SECONDS, refusal):
        known = read(settings)
        planned = planned_retry(settings, known, planned.original.place)
        one, record = planned.original, planned.record
        offset = copy_of(settings, planned, known.first_offset_of_copy(one))
        if offset is None:
            append(settings, [begun(planned, settings.version)])
            headers = headers_of(record)
            (offset,) = send(settings, [(one.topic, one.partition, record.key, record.value, headers, planned.at_ms)])
        released = replace(one, status="released", released_as=offset, found=now_ms(), version=settings.version)
        append(settings, [released])
    return released


def begun(planned: Retry, version: str) -> QuarantinedRecord:
    """The record of the topic that is appended before a copy is: from which offset on that may be."""
    return replace(planned.original, released_as=planned.end, found=now_ms(), version=version)


def copy_of(settings: Settings, planned: Retry, first: int | None) -> int | None:
    """The offset of the copy of a record, which may be at an offset or after it; None where there is none."""
    if first is None:
        return None
    one, record = planned.original, planned.record
    wanted = record.key, record.value, headers_of(record)
    with open_consumer(settings) as consumer:
        at = TopicPartition(one.topic, one.partition)
        later = records_to(settings, consumer, at, first, planned.end)
        return next((each.offset for each in later if (each.key, each.value, headers_of(each)) == wanted), None)


def headers_of(record: Any) -> list[tuple[str, bytes]]:
    """The headers of a record as kafka-python gives it."""
    return [(str(key), value) for key, value in record.headers or ()]
