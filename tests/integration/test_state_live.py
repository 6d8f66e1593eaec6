"""The state of a series in a running job, asked over HTTP and read in a session of one's own."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession

from app.core.settings import PROJECT, Settings
from app.core.timestamps import iso_millis
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime import jobs, state_query, state_server
from app.runtime.supervise import run_until_stopped
from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from pipelines.errors import InputError
from pipelines.jobs.detect import add_records
from pipelines.runner import Runner
from pipelines.state.window_buffer import WindowBuffer
from pipelines.windowing import WindowingConfig

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(600)]

START, WINDOW = 1_767_614_400_000, 10_000
HOSTS = tuple(f"web-{i}" for i in range(6))
GAUGE, LINES = "gauge/web-3/web/load", "logs/web-3/web/info"
SHARDS = 3


@pytest.fixture
def settings(folder: Path, stack: Addresses, unique: str) -> Settings:
    made = Settings(
        home=folder,
        jar_folder=PROJECT / ".kappa" / "jars",
        windowing=WindowingConfig(shards=SHARDS),
        detection=DetectorParameters(warm_up_minutes=2, grace_minutes=2),
    )
    own = {
        "prefix": f"{unique}-",
        "timestamps": "create",
        "partitions": 2,
        "logs_partitions": 1,
        "telemetry_partitions": 1,
    }
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "topics": made.topics.model_copy(update=own),
            "spark": made.spark.model_copy(update={"trigger_seconds": 0.2}),
        }
    )


def write(settings: Settings, first: int, count: int) -> None:
    """History of some windows: a gauge and a log line of every host."""
    with BoundedProducer(client_options(settings)) as outbox:
        for window in range(first, first + count):
            now = START + window * WINDOW + 5000
            for i, host in enumerate(HOSTS):
                about = {"@timestamp": iso_millis(now), "host.name": host, "service.name": "web"}
                value = 5000.0 + window if window >= 30 and host == "web-3" else 20 + (window * 7 + i) % 5
                point = about | {"metric.name": "load", "metric.value": value}
                line = about | {"message": f"took {window} ms", "log.level": "info"}
                for kind, event in (("telemetry", point), ("logs", line)):
                    sent = json.dumps(event).encode()
                    outbox.send(settings.topic(kind), sent, key=b"", partition=0, timestamp_ms=now)
            queue_heartbeats(outbox, input_partitions(settings), now)


def statistics(settings: Settings) -> list[dict[str, Any]]:
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic("statistics"), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [json.loads(r.value) for batch in consumer.poll(timeout_ms=500).values() for r in batch]
    consumer.close()
    return found


def believed(settings: Settings, shard: int, series: str) -> tuple[int, dict[str, Any]]:
    """The last window, and the state by a detector that has been given the log of a shard."""
    rows = [json.dumps(row).encode() for row in statistics(settings) if row["shard"] == shard]
    buffer, detector = WindowBuffer(), ShardDetector(settings.detector)
    add_records(buffer, rows)
    done = 0
    for window_end, windows in buffer.take():
        detector.step(window_end, windows)
        done = window_end
    return done, detector.describe_state(series)


def wait_for(condition: Callable[[], bool], running: threading.Thread, what: str) -> None:
    for _ in range(600):
        if condition():
            return
        assert running.is_alive(), "the jobs ended by themselves"
        threading.Event().wait(0.2)
    pytest.fail(f"waited in vain for {what}")


def test_the_answer_of_a_running_job_is_that_of_the_detector(spark: SparkSession, settings: Settings) -> None:
    with pytest.raises(InputError, match="version live has no state"):
        state_query.describe_state(spark, settings, GAUGE)
    topics.create(settings)
    write(settings, 0, 40)
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
    finally:
        runner.stop()
    stopping = threading.Event()
    run = threading.Thread(
        target=run_until_stopped,
        args=(settings, jobs.JobSelection(("detect",)), stopping),
        kwargs={"heartbeats": False},
    )
    run.start()
    try:
        last = max(row["watermark"] for row in statistics(settings) if row["record"] == "watermark")
        wait_for(lambda: state_server.address_of(settings) is not None, run, "an address")

        def learnt() -> bool:
            with contextlib.suppress(InputError):  # until the first batch has ended
                return bool(state_server.ask(settings, GAUGE)["as_of_ms"] == last)
            return False

        wait_for(learnt, run, "the last window")
        answers = {series: state_server.ask(settings, series) for series in (GAUGE, LINES)}
        with pytest.raises(InputError) as error:
            state_server.ask(settings, "gauge/web-3/web/laod")
        assert GAUGE in str(error.value), "the nearest name"
        with pytest.raises(InputError) as error:
            state_server.ask(settings, "gauge/web-33/web/load")
        assert "no host 'web-33'" in str(error.value) and "web-3" in str(error.value)
        with pytest.raises(InputError, match="not the name of a series"):
            state_server.ask(settings, "load of web-3")
        assert run.is_alive()
    finally:
        stopping.set()
        run.join()
    assert state_server.address_of(settings) is None

    for series, answer in answers.items():
        done, expected = believed(settings, answer["shard"], series)
        assert answer["as_of_ms"] == done == last
        assert answer["numbers"] | {"episode": answer["episode"]} == state_query.known(expected)
        assert state_query.describe_state(spark, settings, series) == answer, "a session of one's own reads the same"
    assert answers[GAUGE]["windows"] == (last - START) // WINDOW
    assert answers[GAUGE]["episode"]["kind"] == "anomaly"
    assert 20 <= answers[GAUGE]["typical"] <= 100, "of 5,000 a fiftieth is believed at most"
    assert answers[LINES]["typical"] == pytest.approx(6, abs=0.2), "a line in each window of 10 s, in a minute"
    with pytest.raises(state_query.UnknownSeries):
        state_query.describe_state(spark, settings, "gauge/web-3/web/laod")
