"""A log that no longer reaches back: jobs stop with one sentence, or write the gap into the log and go on."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewPartitions
from pyspark.sql import SparkSession
from support.live_jobs import wait_for

from app.core.report import Report
from app.core.settings import PROJECT, Settings
from app.core.timestamps import iso_or
from app.embedded.stack_state import Addresses
from app.kafka import data_loss, log_marks, topics
from app.kafka.checkpoints import ConsumedOffsets, consumed_offsets
from app.kafka.connection import admin_client, client_options, kafka_connection, open_consumer
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.offset_ranges import OffsetGap, OffsetRange, find_gaps, find_gaps_since, offset_ranges
from app.kafka.producer import BoundedProducer
from app.runtime import jobs
from app.runtime.run import prepare, running
from app.search.connection import elasticsearch_connection
from app.versions import start_position
from app.versions.accepted import Accepted
from pipelines.consumer_lag import QueryProgress
from pipelines.errors import DeterminismViolation, InputError
from pipelines.runner import Runner
from pipelines.windowing import WindowingConfig

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(600)]

START, WINDOW = 1_767_614_400_000, 10_000


@pytest.fixture
def settings(folder: Path, stack: Addresses, unique: str) -> Settings:
    made = Settings(
        home=folder, jar_folder=PROJECT / ".kappa" / "jars", windowing=WindowingConfig(shards=2), version=f"v{unique}"
    )
    own = {"prefix": f"{unique}-", "timestamps": "create", "partitions": 2, "logs_partitions": 1}
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "elasticsearch": made.elasticsearch.model_copy(update={"url": stack.elasticsearch}),
            "topics": made.topics.model_copy(update=own),
            "spark": made.spark.model_copy(update={"trigger_seconds": 0.1, "max_records_per_batch": 400}),
        }
    )


@pytest.fixture
def outbox(settings: Settings) -> Iterator[BoundedProducer]:
    with BoundedProducer(client_options(settings)) as made:
        yield made


def write(
    settings: Settings, outbox: BoundedProducer, first: int, count: int, each: int = 1, more_bytes: int = 0
) -> None:
    """History of `count` windows from number `first` on: in every partition a heartbeat, and in one of telemetry a host."""
    for window in range(first, first + count):
        for i in range(each):
            now = START + window * WINDOW + 5000 + i
            point = {
                "@timestamp": f"{iso_or(now, '')[:-1]}.{now % 1000:03d}Z",
                "host.name": "web-1",
                "metric.name": "load",
            }
            more = random.Random(i).randbytes(more_bytes // 2).hex()
            value = json.dumps(point | {"metric.value": window / 7, "more": more}).encode()
            outbox.send(settings.topic("telemetry"), value, key=b"", partition=0, timestamp_ms=now)
            silent = [where for where in input_partitions(settings) if where != (settings.topic("telemetry"), 0)]
            queue_heartbeats(outbox, silent, now)
    outbox.flush()


def delete(settings: Settings, kind: str, partition: int, before: int) -> None:
    """What retention does."""
    client = admin_client(settings)
    client.delete_records({TopicPartition(settings.topic(kind), partition): before})
    client.close()


def letters(settings: Settings) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers of dead letters."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic("dead-letters"), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [record for batch in consumer.poll(timeout_ms=500).values() for record in batch]
    consumer.close()
    return [(record.value, {key: value.decode() for key, value in record.headers}) for record in found]


def windows_of(settings: Settings, kind: str) -> set[int]:
    """Numbers of the windows that the host's series has in a topic."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [json.loads(r.value) for batch in consumer.poll(timeout_ms=500).values() for r in batch]
    consumer.close()
    return {(row["window_end"] - START) // WINDOW - 1 for row in found if row.get("series") == "gauge/web-1//load"}


def run_to_end(spark: SparkSession, settings: Settings, *names: str) -> None:
    runner = Runner(spark, kafka_connection(settings))
    made = {
        "extract": lambda: jobs.extract_job(settings),
        "detect": lambda: jobs.detect_job(settings),
        "correlate": lambda: jobs.correlate_job(settings),
        "index": lambda: jobs.index_job(settings, threading.Event().wait),
    }
    try:
        for name in names:
            runner.run_to_end(made[name]())
    finally:
        runner.stop()


def read_so_far(settings: Settings, job: str) -> dict[tuple[str, int], int]:
    found = consumed_offsets(settings.checkpoint(job))
    assert found is not None
    return dict(found.offsets)


def test_what_was_deleted_unread_stops_a_job_and_is_written_once_when_accepted(
    spark: SparkSession, settings: Settings, outbox: BoundedProducer
) -> None:
    checkpoints = data_loss.checkpoints(settings, ["extract", "detect"])
    assert data_loss.check_before_start(settings, checkpoints) == set(), "a version that has not begun has no gap"
    prepare(settings, ("extract", "detect"))
    write(settings, outbox, 0, 20)
    run_to_end(spark, settings, "extract", "detect")
    where = (settings.topic("telemetry"), 0)
    assert read_so_far(settings, "extract")[where] == 20
    assert data_loss.check_before_start(settings, checkpoints, accept=True) == set()
    assert letters(settings) == []

    write(settings, outbox, 20, 40)
    delete(settings, "telemetry", 0, 45)
    with pytest.raises(DeterminismViolation) as before:
        data_loss.check_before_start(settings, checkpoints)
    sentence = str(before.value)
    for word in ("extract: ", f"{where[0]}/0 begins at offset 45", "offsets 20 to 44", "--accept-gap"):
        assert word in sentence
    # Between the watermark, which is the lateness behind the last record read, and the first one left.
    assert iso_or(START + 19 * WINDOW + 5000 - 15_000, "") in sentence
    assert iso_or(START + 45 * WINDOW + 5000, "") in sentence
    assert "\n" not in sentence

    # Without looking first, the job fails, and the reason is the same sentence.
    with pytest.raises(DeterminismViolation) as after, data_loss.explain_data_loss(settings, checkpoints):
        run_to_end(spark, settings, "extract")
    assert str(after.value) == sentence
    assert after.value.__cause__ is not None
    assert letters(settings) == []

    reports: list[str] = []
    assert data_loss.check_before_start(settings, checkpoints, accept=True, report=reports.append) == {"extract"}
    assert data_loss.check_before_start(settings, checkpoints, accept=True, report=reports.append) == {"extract"}
    assert len(reports) == 1
    go_on(settings, until=57, report=reports.append)
    assert windows_of(settings, "statistics") >= {*range(20), *range(45, 58)}
    assert not windows_of(settings, "statistics") & set(range(20, 45))
    assert {*range(45, 58)} <= windows_of(settings, "scores")
    assert len(reports) == 1

    assert data_loss.check_before_start(settings, checkpoints) == set(), "the job is past the gap"
    [(value, headers)] = letters(settings)
    assert value == b""
    assert headers["kappa.reason"].startswith(
        f"gap: offsets 20 to 44 of {where[0]}/0 were deleted before they were read"
    )
    assert (headers["kappa.topic"], headers["kappa.partition"], headers["kappa.offset"]) == (where[0], "0", "20")
    assert headers["kappa.stage"] == "extract"
    assert START <= int(headers["kappa.timestamp"]) < START + 20 * WINDOW

    assert_written_once_through_a_crash(settings, where, headers["kappa.reason"])
    assert_document_of_gap(spark, settings)
    assert_added_partitions_are_refused(settings, checkpoints)
    assert_topic_made_anew_is_refused(settings, checkpoints)


def assert_written_once_through_a_crash(settings: Settings, where: tuple[str, int], reason: str) -> None:
    """A start that was killed between the record and the note about it finds the record."""
    reports: list[str] = []
    note = settings.checkpoint("gaps") / "extract.json"
    entry = json.loads(note.read_text())[f"{where[0]}/0"]
    assert entry == {"last": 44}
    place = crash(settings, reason)
    note.write_text(json.dumps({f"{where[0]}/0": {"last": -1, "next": 44, **place}}))
    with open_consumer(settings) as consumer:
        data_loss.GapRecorder(settings, "extract", consumer).record(OffsetGap(*where, 20, 44), reports.append)
        assert len(letters(settings)) == 1
        data_loss.GapRecorder(settings, "extract", consumer).record(OffsetGap(*where, 20, 50), reports.append)
    assert [found["kappa.offset"] for _, found in letters(settings)] == ["20", "45"], (
        "only what is new of a gap that grew"
    )


def go_on(settings: Settings, until: int, report: Report) -> None:
    """`kappa run extract detect --accept-gap` until a window has been scored, or for two minutes."""
    stopping = threading.Event()
    deadline = threading.Timer(120, stopping.set)
    deadline.start()

    def seen(job: str, progress: QueryProgress) -> None:
        if job == "detect" and until in windows_of(settings, "scores"):
            stopping.set()

    with running(settings, ["extract", "detect"], on_progress=seen, accepted=Accepted(gap=True), report=report) as (
        runner,
        _,
    ):
        runner.wait(stopping)
    deadline.cancel()
    assert until in windows_of(settings, "scores"), "the jobs do not go on"


def crash(settings: Settings, reason: str) -> dict[str, Any]:
    """What the note says before the record is written: where the record is at the earliest."""
    consumer = KafkaConsumer(**client_options(settings))
    parts = [TopicPartition(settings.topic("dead-letters"), p) for p in range(settings.topics.partitions)]
    ends = consumer.end_offsets(parts)
    consumer.close()
    [own] = [part for part in parts if ends[part]]
    return {"partition": own.partition, "from": 0, "reason": reason}


def assert_document_of_gap(spark: SparkSession, settings: Settings) -> None:
    prepare(settings, ("index",))
    run_to_end(spark, settings, "index")
    client = elasticsearch_connection(settings).connect()
    pattern = f"kappa-pipeline-{settings.version}-*"
    client.indices.refresh(index=pattern)
    hits = [hit["_source"] for hit in client.search(index=pattern, size=10)["hits"]["hits"]]
    client.close()
    by_offset = {hit["pipeline"]["offset"]: hit for hit in hits}
    assert by_offset.keys() == {20, 45}
    assert by_offset[20]["event"]["kind"] == "pipeline_error"
    assert by_offset[20]["event"]["reason"].startswith("gap: offsets 20 to 44")
    assert by_offset[20]["pipeline"]["stage"] == "extract"
    assert by_offset[20]["pipeline"]["length"] == 0


def assert_added_partitions_are_refused(settings: Settings, checkpoints: dict[str, Path]) -> None:
    with data_loss.LogWatch(settings, "extract", every_seconds=0.2) as watch:
        wait_for(lambda: bool(log_marks.read_marks(settings)), 60, "the first marks of the log")
        watch.check()
        client = admin_client(settings)
        client.create_partitions({settings.topic("logs"): NewPartitions(2)})
        client.close()
        found = None
        for _ in range(100):
            try:
                watch.check()
            except DeterminismViolation as error:
                found = error
                break
            threading.Event().wait(0.2)
    assert found is not None
    assert "has 2 partitions, the version began with 1" in str(found)
    with pytest.raises(DeterminismViolation) as start:
        data_loss.check_before_start(settings, checkpoints)
    assert str(start.value) == str(found)
    data_loss.check_before_start(settings, {"detect": checkpoints["detect"]})  # which reads none of it


def assert_topic_made_anew_is_refused(settings: Settings, checkpoints: dict[str, Path]) -> None:
    client = admin_client(settings)
    client.delete_topics([settings.topic("statistics")])
    client.close()
    own = {"detect": checkpoints["detect"]}
    for _ in range(2):
        with pytest.raises(DeterminismViolation) as error:
            data_loss.check_before_start(settings, own, accept=True)
        assert f"topic {settings.topic('statistics')} was deleted" in str(error.value)
        assert "kappa recover" in str(error.value)
        client = admin_client(settings)
        topics.create(settings.model_copy(update={"topics": settings.topics.model_copy(update={"logs_partitions": 2})}))
        client.close()


def test_a_job_that_falls_behind_retention_while_it_runs_stops_with_the_sentence(
    spark: SparkSession, settings: Settings, outbox: BoundedProducer
) -> None:
    topics.create(settings)
    # More than a consumer fetches at once: what it has already, it reads although the log has it no longer.
    write(settings, outbox, 0, 30, each=100, more_bytes=4000)
    checkpoints = data_loss.checkpoints(settings, ["extract"])
    deleted = threading.Event()

    def behind(job: str, progress: QueryProgress) -> None:
        if not deleted.is_set():
            delete(settings, "telemetry", 0, 2990)
            deleted.set()

    stopping = threading.Event()
    deadline = threading.Timer(180, stopping.set)
    deadline.start()
    with (
        pytest.raises(DeterminismViolation) as error,
        data_loss.explain_data_loss(settings, checkpoints),
        running(settings, ["extract"], on_progress=behind) as (runner, _),
    ):
        runner.wait(stopping, poll_seconds=0.1)
    deadline.cancel()
    assert deleted.is_set()
    message = str(error.value)
    assert f"{settings.topic('telemetry')}/0 begins at offset 2990" in message
    assert "to 2989" in message and "--accept-gap" in message and "\n" not in message


def test_an_error_of_ours_that_a_task_raises_is_that_one_line(
    spark: SparkSession, settings: Settings, outbox: BoundedProducer
) -> None:
    start_position.set_back(settings, None)
    begin = start_position.checkpoint_home(settings) / "begin.json"
    begin.write_text(json.dumps(json.loads(begin.read_text()) | {"savepoint": "of a disk that broke"}))
    outbox.send(settings.topic("novelties"), b"{}", key=b"", partition=0)
    outbox.flush()
    with pytest.raises(InputError, match=r"^savepoint begin: cannot read [^\n]*; wanted a manifest[^\n]*$") as error:
        run_to_end(spark, settings, "correlate")
    assert "Traceback" in str(error.value.__cause__)


def test_offset_gaps_of_a_log_with_deleted_records(settings: Settings, outbox: BoundedProducer) -> None:
    topics.create(settings)
    write(settings, outbox, 0, 30)
    topic = settings.topic("telemetry")
    parts = [(topic, 0), (topic, 1), (settings.topic("logs"), 0)]
    delete(settings, "telemetry", 0, 10)
    at = START + 10 * WINDOW + 5000
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, parts)
    assert find_gaps(ConsumedOffsets({parts[0]: 4, parts[1]: 0}), held) == [OffsetGap(topic, 0, 4, 9, None, at)]
    assert find_gaps(ConsumedOffsets({parts[0]: 10, parts[1]: 0}), held) == []
    assert find_gaps_since(at, held) == []
    assert find_gaps_since(at - 1, held) == [OffsetGap(topic, 0, None, 9, at - 1, at)]


def test_a_partition_without_records_and_one_that_does_not_exist(settings: Settings, outbox: BoundedProducer) -> None:
    topics.create(settings)
    write(settings, outbox, 0, 30)
    topic = settings.topic("telemetry")
    delete(settings, "telemetry", 1, 30)
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, [(topic, 1), (topic, 7), ("no-such-topic", 0)])
    assert held == {(topic, 1): OffsetRange(30, 30)}
    gaps = find_gaps(ConsumedOffsets({(topic, 1): 0}), held)
    assert "nothing is left" in data_loss.describe_missing(gaps, [])
