"""correlate on Kafka: a job that is stopped and started again says the same as one that was not."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from app.embedded.stack_state import Addresses
from app.kafka.producer import BoundedProducer
from models.incidents.parameters import CorrelationParameters
from pipelines.jobs.correlate import NoveltiesTopic, correlate
from pipelines.runner import MAX_STARTS, Input, Job, Kafka, Runner, start

pytestmark = [pytest.mark.spark, pytest.mark.stack]

T = 1_795_305_590_000
SHARDS = 2


def event(host: str, window: int, status: str) -> dict[str, Any]:
    return {
        "record": "episode",
        "version": "live",
        "series": f"gauge/{host}/{host}/latency",
        "kind": "anomaly",
        "status": status,
        "start": T,
        "window_end": T + window * 10_000,
        "score": 20.0,
        "evidence": None,
        "reason": "slow",
        "host": host,
        "service": host,
        "metric": "latency",
    }


def window(number: int) -> list[dict[str, Any]]:
    """What detect writes for a window: events of two hosts in the first and fourth, then each shard's watermark."""
    status = {0: "open", 3: "close"}.get(number)
    events = [event(host, number, status) for host in ("a", "b")] if status else []
    return events + [
        {"record": "watermark", "watermark": T + number * 10_000, "shard": shard, "shards": SHARDS}
        for shard in range(SHARDS)
    ]


def publish(kafka: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    with BoundedProducer({"bootstrap_servers": kafka}) as outbox:
        for record in records:
            outbox.send(topic, json.dumps(record).encode(), key=record.get("series", "").encode(), partition=0)


def everything(kafka: str, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """Keys and values of all records that the topic has now."""
    consumer = KafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    end, found = consumer.end_offsets([partition])[partition], []
    while consumer.position(partition) < end:
        for records in consumer.poll(1_000).values():
            found += [(r.key.decode(), json.loads(r.value)) for r in records]
    consumer.close()
    return found


def created(kafka: str, *names: str) -> tuple[str, ...]:
    """New topics of one partition."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.create_topics([NewTopic(name, 1, 1) for name in names])
    admin.close()
    return names


def correlating(novelties: str, incidents: str, folder: Path) -> Job:
    parameters = CorrelationParameters()
    topics = {"incidents": incidents, "dead-letters": f"{incidents}.dead"}
    source = NoveltiesTopic(novelties, 1, SHARDS, 10_000, 400 * 86_400_000)
    return Job(
        "correlate",
        (Input((novelties,)),),
        lambda raw: correlate(raw, parameters, "live", topics, source),
        str(folder / incidents),
    )


def test_stopped_and_started_again_the_job_says_the_same(
    spark: SparkSession, stack: Addresses, unique: str, tmp_path: Path
) -> None:
    assert stack.kafka is not None
    kafka = stack.kafka
    novelties, incidents, _ = created(kafka, f"novelties.{unique}", f"incidents.{unique}", f"incidents.{unique}.whole")

    def run(output: str) -> None:
        job = correlating(novelties, output, tmp_path)
        start(spark, Kafka(kafka), job, {"availableNow": True}).awaitTermination()

    for numbers in (range(2), range(2, 5), range(5, 12)):
        publish(kafka, novelties, [r for number in numbers for r in window(number)])
        run(incidents)
    run(f"{incidents}.whole")

    found = everything(kafka, incidents)
    assert [value["status"] for _, value in found] == ["open", "open", "close", "close"]
    assert sorted(value["hosts"] for _, value in found) == [["a"], ["a"], ["b"], ["b"]]
    assert all(key == value["id"] for key, value in found)
    assert everything(kafka, f"{incidents}.whole") == found


@pytest.mark.long
@pytest.mark.parametrize("late", [1, MAX_STARTS])
def test_a_job_whose_python_takes_too_long_to_start_is_started_again(
    spark: SparkSession, stack: Addresses, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """But not for ever."""
    assert stack.kafka is not None
    kafka = stack.kafka
    novelties, incidents = created(kafka, f"novelties.{unique}", f"incidents.{unique}")
    publish(kafka, novelties, window(0))
    slow = tmp_path / "python"
    marks = [str(tmp_path / f"late-{number}") for number in range(late)]
    waits = "".join(f'[ -e "{mark}" ] || {{ touch "{mark}"; sleep 12; exit 1; }}\n' for mark in marks)
    slow.write_text(f'#!/bin/sh\n{waits}exec "{sys.executable}" "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow))
    runner, stopping = Runner(spark, Kafka(kafka)), threading.Event()
    runner.start(correlating(novelties, incidents, tmp_path))

    def look() -> None:
        if everything(kafka, incidents):
            stopping.set()

    try:
        if late < MAX_STARTS:
            runner.wait(stopping, on_poll=look)
            assert len(everything(kafka, incidents)) == 2
        else:
            with pytest.raises(StreamingQueryException, match="failed to connect back"):
                runner.wait(stopping, on_poll=look)
    finally:
        runner.stop()
