"""Finds an incident in the log."""

from __future__ import annotations

from kafka import TopicPartition

from app.core.settings import Settings
from app.kafka.connection import open_consumer
from app.kafka.record_range import records_between
from app.notify.incident import ReadIncident, parse_incident


def last_record(settings: Settings, identity: str) -> ReadIncident | None:
    """The last record of an incident of the settings' version; None where there is none. Raises ServiceUnavailable without Kafka.

    It reads the whole topic, which holds what is rare.
    """
    topic, found = settings.topic("incidents"), None
    with open_consumer(settings) as consumer:
        for partition in sorted(consumer.partitions_for_topic(topic) or ()):
            at = TopicPartition(topic, partition)
            begin, end = consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
            for record in records_between(settings, consumer, at, begin, end):
                if record.key is not None and record.key != identity.encode():
                    continue
                one = parse_incident(record.value)
                if one is not None and one.id == identity and (found is None or one.order >= found.order):
                    found = one
    return found
