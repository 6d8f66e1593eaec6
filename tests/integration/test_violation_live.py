"""A row that the watermark drops: the batch is never committed, the violation outlives the process, and refuses every start."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession

from app.core.settings import PROJECT, Settings
from app.core.timestamps import iso_or
from app.embedded.stack_state import Addresses
from app.kafka.checkpoints import PlannedBatch, last_committed
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime import attempts
from app.runtime.run import prepare, running
from app.versions import violations
from app.versions.accepted import Accepted
from pipelines.errors import DeterminismViolation
from pipelines.windowing import WindowingConfig

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long]

START, WINDOW = 1_767_614_400_000, 10_000


@pytest.fixture
def settings(folder: Path, stack: Addresses, unique: str) -> Settings:
    made = Settings(
        home=folder, jar_folder=PROJECT / ".kappa" / "jars", windowing=WindowingConfig(shards=2), version=f"v{unique}"
    )
    own = {"prefix": f"{unique}-", "timestamps": "create", "partitions": 2}
    few = {"telemetry_partitions": 1, "logs_partitions": 1}
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "topics": made.topics.model_copy(update=own | few),
            "spark": made.spark.model_copy(update={"trigger_seconds": 0.1, "max_records_per_batch": 400}),
        }
    )


def send(settings: Settings, *windows: int) -> None:
    """A measurement and the heartbeats of windows, appended in this order at the windows' own times."""
    with BoundedProducer(client_options(settings)) as outbox:
        for window in windows:
            now = START + window * WINDOW + 5000
            point = {"@timestamp": iso_or(now, ""), "host.name": "web-1", "metric.name": "load", "metric.value": window}
            value = json.dumps(point).encode()
            outbox.send(settings.topic("telemetry"), value, key=b"", partition=0, timestamp_ms=now)
            queue_heartbeats(outbox, input_partitions(settings), now)
            outbox.flush()


def everything(settings: Settings, kind: str) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers of a topic's records."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [record for batch in consumer.poll(timeout_ms=500).values() for record in batch]
    consumer.close()
    return [(record.value, {key: value.decode() for key, value in record.headers}) for record in found]


def windows(settings: Settings) -> set[int]:
    found = (json.loads(value) for value, _ in everything(settings, "statistics"))
    return {(row["window_end"] - START) // WINDOW - 1 for row in found if row["record"] == "statistics"}


def test_a_dropped_row_stops_the_version_until_an_operator_accepts_it(spark: SparkSession, settings: Settings) -> None:
    prepare(settings, ("extract",))
    send(settings, *range(10))
    checkpoint, stop = settings.checkpoint("extract"), threading.Event()

    def closed(window: int) -> None:
        if window in windows(settings):
            stop.set()

    with running(settings, ["extract"]) as (runner, _):
        runner.wait(stop, on_poll=lambda: closed(7))
    before = last_committed(checkpoint)
    assert before is not None

    send(settings, 3, 10, 11)  # the third window once more, long after it was closed
    attempts.count_start(settings, "extract", PlannedBatch(before, "any", {}, {}))
    dropped = pytest.raises(DeterminismViolation, match=r"\d+ rows were dropped by the watermark")
    with dropped, running(settings, ["extract"]) as (runner, health):
        runner.wait(threading.Event())
    assert last_committed(checkpoint) == before, "a batch with a violation is not committed, so it is found again"
    assert attempts.read_attempts(attempts.file_of(settings, "extract")) is None, "nobody has to search for a record"
    [found] = violations.read(settings)
    assert (found.job, found.batch, found.accepted) == ("extract", before + 1, None)
    with pytest.raises(DeterminismViolation) as refused, running(settings, ["extract"]):
        pass
    line = str(refused.value)
    assert "\n" not in line
    wanted = ("stopped at 20", f"in batch {before + 1} of extract", "kappa replay promote", "--accept-violation")
    for word in wanted:
        assert word in line

    stop.clear()
    lines: list[str] = []
    with running(settings, ["extract"], accepted=Accepted(violation=True), report=lines.append) as (runner, health):
        health.violations = lambda: violations.summary(settings)
        runner.wait(stop, on_poll=lambda: closed(8))
        assert health.summary()["violations"]["count"] == 1
        assert b"kappa_determinism_violations 1.0" in health.exposition()
        assert health.summary()["healthy"], "of a batch that was accepted"
    assert lines[0].startswith("extract: accepted: extract: ")
    [(value, headers)] = everything(settings, "dead-letters")
    assert value == b""
    assert headers["kappa.reason"].startswith("violation: accepted by an operator: extract: ")
    [accepted] = violations.read(settings)
    assert accepted.accepted is not None

    with running(settings, ["extract"]):  # the next start needs nothing
        pass
