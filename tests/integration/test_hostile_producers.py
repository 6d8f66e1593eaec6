"""What a producer can do to a topic beside the values it writes: transactions, keys and headers of a megabyte, nulls, times to come."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support.live_jobs import beat, records, settings_file
from support.malformed import MEGABYTE, iso

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import HEARTBEAT_KEY, heartbeat
from app.runtime import jobs
from app.runtime.run import prepare
from pipelines.runner import Runner

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
GOOD, SECONDS = 120, 60


def point(second: int, host: str) -> bytes:
    own = {"@timestamp": iso(START + 1000 * second), "host.name": host}
    return json.dumps(own | {"metric.name": "load", "metric.value": second}).encode()


def in_transactions(settings: Settings, topic: str, second: int) -> None:
    """A transaction that is committed and one that is aborted in each partition, so that it ends in a control batch; and one of nothing."""
    own = KafkaProducer(**client_options(settings), acks="all", transactional_id=f"{topic}-{second}")
    own.init_transactions()
    for end in (own.commit_transaction, own.abort_transaction):
        own.begin_transaction()
        for p in range(settings.topics.telemetry_partitions):
            host = "kept" if end == own.commit_transaction else "aborted"
            own.send(topic, point(second, host), partition=p, timestamp_ms=START + 1000 * second)
        own.flush()
        end()
    own.begin_transaction()
    own.commit_transaction()
    own.close()


def feed(settings: Settings, *, hostile: bool) -> None:
    """Good points in each partition; between them what a producer can do."""
    topic, partitions = settings.topic("telemetry"), settings.topics.telemetry_partitions
    producer = KafkaProducer(**client_options(settings), acks="all", max_request_size=4 * MEGABYTE)
    for i in range(GOOD):
        second = i * SECONDS // GOOD
        at = START + 1000 * second
        producer.send(topic, point(second, f"good-{i % 5}"), partition=i % partitions, timestamp_ms=at)
        if not hostile or i % 40:
            continue
        producer.flush()
        in_transactions(settings, topic, second)
        large = bytes(900_000)
        for p in range(partitions):
            for value, key, headers in (
                (point(second, "keyed"), large, []),
                (point(second, "headed"), None, [("h", large)]),
                (point(second, "headed"), None, [(f"h{n}", b"") for n in range(10_000)]),
                (point(second, "headed"), None, [("kappa.reason", b"\xff\x00"), ("kappa.reason", b"")]),
                (point(second, "beat"), HEARTBEAT_KEY, []),
                (None, HEARTBEAT_KEY, []),
                (None, b"", []),
                (b"", b"", []),
                (heartbeat(START + 10**12), HEARTBEAT_KEY, []),
            ):
                producer.send(topic, value, key=key, headers=headers, partition=p, timestamp_ms=at)
    producer.flush()
    producer.close()
    beat(settings, (START + 1000 * second for second in (SECONDS, 200)))
    if hostile:
        in_transactions(settings, topic, 200)


def test_no_way_to_write_to_a_topic_stops_the_jobs_or_changes_what_others_sent(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    found = {}
    for hostile in (False, True):
        prefix = f"{unique}{hostile:d}"
        settings = load(settings_file(folder, stack, prefix, "live", 100_000))
        settings = settings.model_copy(update={"home": folder / prefix})
        prepare(settings, ("extract",))
        feed(settings, hostile=hostile)
        runner = Runner(kafka_spark, kafka_connection(settings))
        try:
            runner.run_to_end(jobs.extract_job(settings))
            assert runner.dropped_by_watermark == 0
        finally:
            runner.stop()
        found[hostile] = settings
    rows = {
        hostile: [(key or b"", value) for key, value, _ in records(own, "statistics")] for hostile, own in found.items()
    }
    good = {hostile: sorted(v for k, v in each if b"/good-" in k) for hostile, each in rows.items()}
    assert good[True] == good[False] != []
    count: Counter[str] = Counter()
    for key, value in rows[True]:
        if key.startswith(b"gauge/"):
            count[key.split(b"/")[1].decode()] += json.loads(value)["n"]
    each = 3 * found[True].topics.telemetry_partitions
    # records of an aborted transaction are in the log, and count as any others: the log alone decides
    late = {host: n for host, n in count.items() if not host.startswith("good-")}
    assert late == {"kept": each, "aborted": each, "keyed": each, "headed": 3 * each, "beat": each}
    reasons = Counter(dict(headers)["kappa.reason"] for _, _, headers in records(found[True], "dead-letters"))
    assert reasons == {b"empty value": 3 * each}
