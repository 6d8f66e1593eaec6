"""Offsets without a record: a transaction ends with a marker, which has an offset and which no consumer is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer
from support.live_jobs import beat, settings_file, wait_for

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, quarantine_retry, topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import HEARTBEAT_KEY, heartbeat
from app.kafka.input_offsets import input_partitions
from replay.slices import RequestedRange, resolve

pytestmark = [pytest.mark.stack]

START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
MINUTE = 60_000


@pytest.fixture
def settings(stack: Addresses, folder: Path, unique: str) -> Settings:
    """A log of heartbeats, the last of which is in a transaction in each partition."""
    found = load(settings_file(folder, stack, unique, "again", 1_000))
    topics.create(found)
    beat(found, [START])
    producer = KafkaProducer(**client_options(found), acks="all", transactional_id=unique)
    producer.init_transactions()
    producer.begin_transaction()
    at = START + MINUTE
    for topic, partition in input_partitions(found):
        producer.send(topic, heartbeat(at), key=HEARTBEAT_KEY, partition=partition, timestamp_ms=at)
    producer.commit_transaction()
    producer.close()
    # The broker writes the markers after it has answered that the transaction is committed.
    wait_for(
        lambda: set(resolve(found, RequestedRange()).ends.values()) == {3},
        30,
        "two records and a marker in each partition",
    )
    return found


def test_a_log_that_ends_with_a_transaction_is_replayed_up_to_its_last_record(settings: Settings) -> None:
    whole = resolve(settings, RequestedRange())
    assert whole.until == START + 40_000
    shorter = resolve(settings, RequestedRange(to_offsets=dict.fromkeys(whole.ends, 2)))
    assert shorter.until == whole.until


def test_a_record_that_is_sent_again_is_not_appended_before_the_last_one(settings: Settings) -> None:
    topic = settings.topic("telemetry")
    place = (topic, 0, 0)
    one = quarantine.placeholder(*place, "extract")
    quarantine.append(settings, [replace(one, timestamp=START)])
    assert quarantine_retry.plan_retry(settings, quarantine.read(settings), place).at_ms == START + MINUTE
