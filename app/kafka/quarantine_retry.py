"""Appends a record that is in quarantine once more to its topic, at most once: the topic `quarantine` says when that is begun and done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kafka import TopicPartition

from app.core.file_lock import held_lock
from app.core.settings import Settings
from app.kafka.connection import open_consumer
from app.kafka.offset_ranges import last_timestamps
from app.kafka.quarantine import QuarantineLog, append, now_ms, read, send
from app.kafka.record_range import fetch_record_with, records_between
from models.records.records import QuarantinedRecord
from pipelines.errors import InputError
from pipelines.inputs.fields import MAX_RECORD

GONE = "no longer in the log: retention has deleted it, or its topic was made again"
LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class Retry:
    """A record to append again.

    `original` is its entry in the quarantine, `record` what the log has (kafka-python's), `at_ms` the append time of the copy (None: the broker's
    clock), `end` the end of its partition.
    """

    original: QuarantinedRecord
    record: Any
    at_ms: int | None
    end: int


def plan_retry(settings: Settings, known: QuarantineLog, place: tuple[str, int, int]) -> Retry:
    """How to append a record again. Changes nothing. Raises InputError for one that is not in quarantine, or cannot be appended again."""
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
        record = unless_replaced(original, fetch_record_with(settings, consumer, *place))
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
    """Append a record again, with an entry in the topic `quarantine` before and after; returns the entry after it.

    A retry that was interrupted is completed: where its copy is in the log already, none is appended. One process retries at a time
    for each home. Raises InputError as `plan_retry`, and where another process holds the lock for long.
    """
    lock = settings.home / "versions" / "quarantine.lock"
    refusal = f"{lock} is held by another process for {LOCK_SECONDS:.0f} s; try again"
    with held_lock(lock, LOCK_SECONDS, refusal):
        known = read(settings)
        planned = plan_retry(settings, known, planned.original.place)
        one, record = planned.original, planned.record
        offset = find_copy(settings, planned, known.first_offset_of_copy(one))
        if offset is None:
            append(settings, [retry_intent(planned, settings.version)])
            headers = kafka_headers(record)
            (offset,) = send(settings, [(one.topic, one.partition, record.key, record.value, headers, planned.at_ms)])
        released = replace(one, status="released", released_as=offset, found=now_ms(), version=settings.version)
        append(settings, [released])
    return released


def retry_intent(planned: Retry, version: str) -> QuarantinedRecord:
    """The entry that is appended before the copy: `released_as` is the first offset at which the copy may be."""
    return replace(planned.original, released_as=planned.end, found=now_ms(), version=version)


def find_copy(settings: Settings, planned: Retry, first: int | None) -> int | None:
    """The offset of the copy of a record, looked for from offset `first`; None where there is none, or no retry was begun."""
    if first is None:
        return None
    one, record = planned.original, planned.record
    wanted = record.key, record.value, kafka_headers(record)
    with open_consumer(settings) as consumer:
        at = TopicPartition(one.topic, one.partition)
        later = records_between(settings, consumer, at, first, planned.end)
        return next((each.offset for each in later if (each.key, each.value, kafka_headers(each)) == wanted), None)


def kafka_headers(record: Any) -> list[tuple[str, bytes]]:
    """The headers of a record as kafka-python gives it."""
    return [(str(key), value) for key, value in record.headers or ()]


def unless_replaced(one: QuarantinedRecord, record: Any) -> Any:
    """The record that the log has at the place of one in quarantine; None where it is another one, as its topic was created again."""
    return record if record is not None and one.is_of(record.timestamp) else None
