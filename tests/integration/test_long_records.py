"""Records that are small on the way and large when they are unpacked: Kafka bounds the bytes of what is compressed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support.live_jobs import beat, records, settings_file
from support.malformed import iso

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine
from app.kafka.connection import client_options, kafka_connection
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
    record = quarantine.fetched(settings, settings.topic("telemetry"), 0, 0)
    one: QuarantinedRecord = quarantine.described(record, job="extract", reason="tried", version="live", software="1")
    quarantine.append(settings, [one])
    (known,) = quarantine.read(settings).found.records
    assert (known.length, known.sha256) == (len(value), hashlib.sha256(value).hexdigest())
    with pytest.raises(InputError, match=r"has 62,914,\d{3} bytes"):
        quarantine.planned_retry(settings, quarantine.QuarantineLog(1, Quarantine((known,))), known.place)


def test_a_poll_ends_when_it_holds_enough_and_no_record_is_lost(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    settings = load(settings_file(folder, stack, unique, "live", 100_000))
    prepare(settings, ("extract",))
    topic, count, size = settings.topic("telemetry"), 200, 1_000_000
    producer = KafkaProducer(
        **client_options(settings), compression_type="lz4", batch_size=MOST, linger_ms=10_000, max_request_size=MOST
    )
    for i in range(count):
        value, header = (b"", [("h", bytes(size))]) if i % 4 == 0 else (i.to_bytes(4, "big") + bytes(size - 4), [])
        producer.send(topic, value, partition=0, timestamp_ms=START, headers=header)
    producer.close()
    jvm = jvm_of(kafka_spark)
    options = {"bootstrap.servers": str(stack.kafka), "max.poll.records": "100000"}
    for part in ("key", "value"):
        options[f"{part}.deserializer"] = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options)
    place = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    polls: list[int] = []
    try:
        consumer.assign([place])
        consumer.seekToBeginning([place])
        while sum(polls) < count:
            records = consumer.poll(jvm.java.time.Duration.ofSeconds(60)).records(place)
            assert [r.offset() for r in records] == list(range(sum(polls), sum(polls) + len(records)))
            polls.append(len(records))
    finally:
        consumer.close()
    assert sum(polls) == count
    assert all(polls) and max(polls) <= 32 * MEBIBYTE // size, polls


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
    tracker, polls = context.statusTracker(), jvm_of(kafka_spark).kappa.Polls
    jobs_of_group = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(unique)]
    stages = [stage for job in jobs_of_group if job is not None for stage in job.stageIds]
    assert sum(polls.ofStage(stage) for stage in stages) >= settings.input_partitions["logs"]
    assert polls.ofStage(max(stages) + 10_000) == 0
