"""Reads the records of one partition between two offsets, or a single record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.connection import open_consumer, unavailable_error

POLL_MS = 1_000
SILENT_POLLS = 30  # in a row without a record, after which the broker counts as gone


def records_between(
    settings: Settings, consumer: KafkaConsumer, at: TopicPartition, begin: int, end: int
) -> Iterator[Any]:
    """The records of a partition from offset `begin` to before `end`, as kafka-python gives them. Raises ServiceUnavailable if polls stay empty."""
    if begin >= end:
        return
    consumer.assign([at])
    consumer.seek(at, begin)
    silent = 0
    while consumer.position(at) < end:
        polled = [record for batch in consumer.poll(timeout_ms=POLL_MS).values() for record in batch]
        silent = 0 if polled else silent + 1
        if silent > SILENT_POLLS:
            raise unavailable_error(settings, TimeoutError())
        yield from (record for record in polled if record.offset < end)


def fetch_record(settings: Settings, topic: str, partition: int, offset: int) -> Any:
    """The record at an offset, as kafka-python gives it; None where the log has none there, or no more."""
    with open_consumer(settings) as consumer:
        return fetch_record_with(settings, consumer, topic, partition, offset)


def fetch_record_with(settings: Settings, consumer: KafkaConsumer, topic: str, partition: int, offset: int) -> Any:
    """As `fetch_record`, with a connected consumer, whose assignment and position change."""
    if partition not in (consumer.partitions_for_topic(topic) or ()):
        return None
    at = TopicPartition(topic, partition)
    if not consumer.beginning_offsets([at])[at] <= offset < consumer.end_offsets([at])[at]:
        return None
    return next(
        (one for one in records_between(settings, consumer, at, offset, offset + 1) if one.offset == offset), None
    )
