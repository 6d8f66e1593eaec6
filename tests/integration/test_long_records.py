"""Records that are small on the way and large when they are unpacked: Kafka bounds the bytes of what is compressed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support.live_jobs import beat, records, settings_file
from support.malformed import iso

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, quarantine_retry, record_range
from app.kafka.connection import client_options, kafka_connection
from app.kafka.record_batches import MOST_HEADERS
from app.runtime import jobs
from app.runtime.run import prepare
from models.records.records import LETTER_BYTES, QuarantinedRecord
from pipelines.errors import InputError
from pipelines.quarantine import Quarantine
from pipelines.runner import Runner
from pipelines.spark_internals import jvm_of

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(300)]

START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
GOOD = 100
MEBIBYTE = 1 << 20
SIZES = (MEBIBYTE + 1, 5 * MEBIBYTE, 60 * MEBIBYTE)
OF_PEOPLE = {"labels": "not a label: ", "changes": "not a change: ", "rules": "not a rule: "}
MOST = 1 << 30  # what this client sends: Kafka's own look at the uncompressed bytes, and nobody has to use them


def line(second: int, host: str, message: str) -> bytes:
    return json.dumps({"@timestamp": iso(START + 1000 * second), "host.name": host, "message": message}).encode()


def long_values() -> list[bytes]:
    """Zeros, and JSON that would be good if it were shorter."""
    return [*(bytes(size) for size in SIZES), line(1, "bad", "x" * SIZES[-1])]


def feed(settings: Settings, long: dict[str, list[bytes]]) -> None:
    """Good lines, with long records of each topic in the midst of them, each in a compressed batch of its own."""
    producer = KafkaProducer(**client_options(settings), acks="all", compression_type="lz4", max_request_size=MOST)
    for i in range(GOOD):
        second = i * 60 // GOOD
        at = START + 1000 * second
        producer.send(
            settings.topic("logs"), line(second, f"good-{i % 5}", "it is done"), partition=i % 2, timestamp_ms=at
        )
        if i == GOOD // 2:
            for kind, values in long.items():
                for value in values:
                    producer.send(settings.topic(kind), value, partition=0, timestamp_ms=at)
                    producer.flush()
    producer.flush()
    producer.close()
    beat(settings, (START + 1000 * second for second in (60, 200)))


@pytest.mark.long
def test_a_record_that_is_long_only_when_it_is_unpacked_is_a_letter_and_all_others_are_counted(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    long = {kind: long_values()[:2] if kind == "rules" else long_values() for kind in settings.input_partitions}
    feed(settings, long)
    runner = Runner(kafka_spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
    finally:
        runner.stop()
    rows = (json.loads(value) for _, value, _ in records(settings, "statistics"))
    good = [row["n"] for row in rows if row["record"] == "statistics" and row["series"].startswith("logs/good-")]
    assert sum(good) == GOOD
    found = []
    for _, value, headers in records(settings, "dead-letters"):
        about = {key: text.decode() for key, text in headers}
        length, whole, first = about["kappa.length"], about["kappa.sha256"], hashlib.sha256(value).hexdigest()
        found.append((about["kappa.topic"], about["kappa.reason"], length, whole, first))
    expected = [
        (
            settings.topic(kind),
            f"{OF_PEOPLE.get(kind, '')}a record of {len(value)} bytes, more than {MEBIBYTE}",
            str(len(value)),
            hashlib.sha256(value).hexdigest(),
            hashlib.sha256(value[:LETTER_BYTES]).hexdigest(),
        )
        for kind, values in long.items()
        for value in values
    ]
    assert sorted(found) == sorted(expected)


def test_a_long_record_in_quarantine_is_described_and_not_appended_again(
    stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    value = long_values()[-1]
    feed(settings, {"telemetry": [value]})
    record = record_range.fetch_record(settings, settings.topic("telemetry"), 0, 0)
    one: QuarantinedRecord = quarantine.quarantine_entry(
        record, job="extract", reason="tried", version="live", software="1"
    )
    quarantine.append(settings, [one])
    (known,) = quarantine.read(settings).found.records
    assert (known.length, known.sha256) == (len(value), hashlib.sha256(value).hexdigest())
    with pytest.raises(InputError, match=r"has 62,914,\d{3} bytes"):
        quarantine_retry.plan_retry(settings, quarantine.QuarantineLog(1, Quarantine((known,))), known.place)


def polled(spark: SparkSession, stack: Addresses, topic: str, count: int) -> list[list[Any]]:
    """So many records of the first partition as the jobs' consumer gives them, poll by poll: offset, key, value and number of headers."""
    jvm = jvm_of(spark)
    options = {"bootstrap.servers": str(stack.kafka), "max.poll.records": "100000"}
    for part in ("key", "value"):
        options[f"{part}.deserializer"] = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options)
    place = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    found: list[list[Any]] = []
    try:
        consumer.assign([place])
        consumer.seekToBeginning([place])
        while sum(map(len, found)) < count:
            records = consumer.poll(jvm.java.time.Duration.ofSeconds(60)).records(place)
            found.append(
                [
                    (r.offset(), r.serializedKeySize(), r.serializedValueSize(), len(r.headers().toArray()))
                    for r in records
                ]
            )
    finally:
        consumer.close()
    assert [one[0] for poll in found for one in poll] == list(range(count))
    return found


def test_a_poll_ends_when_it_holds_enough_and_no_record_is_lost(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    topic, size, header = settings.topic("telemetry"), 1_000_000, 60_000
    jvm = jvm_of(kafka_spark)
    options = {"bootstrap.servers": str(stack.kafka), "compression.type": "lz4", "batch.size": "1000000"}
    for part in ("key", "value"):
        options[f"{part}.serializer"] = "org.apache.kafka.common.serialization.ByteArraySerializer"
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(options)
    named = jvm.org.apache.kafka.common.header.internals.RecordHeader("h", bytes(header))
    none, one = jvm.java.util.Collections.emptyList(), jvm.java.util.Collections.singletonList(named)
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord
    for i in range(1_600):  # most are nothing but headers: Kafka asks no deserializer about what is null
        value = bytes(size) if i % 32 == 0 else None
        producer.send(record(topic, 0, START, None, value, none if value else one))
    producer.close()
    polls = polled(kafka_spark, stack, topic, 1_600)
    held = [sum(max(value, 0) + header * headers for _, _, value, headers in poll) for poll in polls]
    assert sum(held) == 50 * size + 1_550 * header
    assert max(held) <= 32 * MEBIBYTE, held


def test_a_record_has_no_headers_where_they_are_too_many_or_too_large(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    topic, few = settings.topic("telemetry"), [("a", b"1"), ("b", b"")]
    producer = KafkaProducer(**client_options(settings), compression_type="lz4", max_request_size=MOST)
    sent: list[tuple[bytes | None, bytes | None, list[Any]]] = [
        (None, b"v", [("", b"")] * 500_000),
        (b"k", None, [("h", bytes(70_000))]),
        (b"k", None, [("", b"")] * MOST_HEADERS),
        (b"k", b"v", few),
    ]
    for key, value, headers in sent:
        producer.send(topic, value, key=key, headers=headers, partition=0, timestamp_ms=START)
        producer.flush()
    producer.close()
    found = [one[1:] for poll in polled(kafka_spark, stack, topic, len(sent)) for one in poll]
    assert found == [(-1, 1, 0), (1, -1, 0), (1, -1, MOST_HEADERS), (1, 1, 2)]


def test_the_polls_of_a_stage_are_counted_so_that_a_long_task_is_seen_to_make_progress(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    feed(settings, {})
    context = kafka_spark.sparkContext
    context.setJobGroup(unique, "reads the lines")
    try:
        source = kafka_spark.read.format("kafka").options(**kafka_connection(settings).prefixed())
        assert source.option("subscribe", settings.topic("logs")).load().count() > GOOD
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # takes it away
    tracker, progress = context.statusTracker(), jvm_of(kafka_spark).kappa.TaskProgress
    jobs_of_group = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(unique)]
    stages = [stage for job in jobs_of_group if job is not None for stage in job.stageIds]
    assert sum(progress.ofStage(stage) for stage in stages) >= settings.input_partitions["logs"]
    assert progress.ofStage(max(stages) + 10_000) == 0
