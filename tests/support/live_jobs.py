"""Live jobs on the embedded servers: a log to read, the jobs run to its end, and what is on a topic."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession

from app.core.settings import FEW, PROJECT, Settings
from app.embedded.stack_state import Addresses
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime import jobs
from app.runtime.run import prepare
from app.simulator import Planned, SimulatorSettings, simulate
from app.simulator.publish import Target, to_kafka
from models.core import series as names
from pipelines.runner import Runner

JARS = PROJECT / ".kappa" / "jars"


MINUTES = 14


def settings_file(folder: Path, stack: Addresses, prefix: str, version: str, batch: int) -> Path:
    file = folder / f"{version}.toml"
    file.write_text(
        f"""
home = "{folder / version}"
jar_folder = "{JARS}"
version = "{version}"
[windowing]
shards = 4
[topics]
prefix = "{prefix}-"
timestamps = "create"
telemetry_partitions = 3
logs_partitions = 2
partitions = 2
[kafka]
bootstrap_servers = "{stack.kafka}"
[elasticsearch]
url = "{stack.elasticsearch}"
[index]
scores = true
[detection]
warm_up_minutes = 5  # the log is shorter than the usual warm-up
[spark]
master = "local[2]"
driver_memory = "1g"
max_records_per_batch = {batch}
trigger_seconds = 0.1
"""
    )
    return file


def feed(settings: Settings, minutes: int = 24) -> int:
    """A small fleet with disorder, late records, a wrong clock and faults; answers how many events."""
    end = 60 * minutes
    plan = [
        ("cpu_contention", end - 540, 120),
        ("log_silence", end - 480, 180),
        ("host_silent", end - 360, 120),
        ("wrong_clock", end - 720, 60),
    ]
    simulation = simulate(
        SimulatorSettings(
            hosts=5,
            hours=minutes / 60,
            seed=7,
            late_share=0.005,
            schedule=tuple(Planned(kind, start, seconds) for kind, start, seconds in plan),
        )
    )
    inputs = {kind: settings.topic(kind) for kind in ("telemetry", "logs")}
    sent = to_kafka(simulation, Target(client_options(settings), inputs), processes=1)
    start = simulation.settings.start
    feed_labels(settings, (start, sent.until), start + 1000 * (end - 250), simulation.fleet.hosts)
    return sent.events


def feed_labels(settings: Settings, span: tuple[int, int], at: int, hosts: Sequence[str]) -> None:
    """A heartbeat a second in each topic that people write, and at a moment labels: that any host's silence is expected, and two that are none."""
    labels = [{"label": "expected-change", "series": [names.build(names.Series("host", host)) for host in hosts]}]
    labels += [{"label": "false-alarm", "series": [f"gauge/{names.quote(host)}//cpu" for host in hosts]}]
    labels += [{"label": "nonsense", "series": ["host/a"]}, {"label": "true", "series": ["a"]}]
    with BoundedProducer(client_options(settings)) as outbox:
        topic = settings.topic("labels")
        for now in range(*span, 1000):
            queue_heartbeats(outbox, [(settings.topic(each), 0) for each in FEW], now)
            if now <= at < now + 1000:
                for label in labels:
                    outbox.send(topic, json.dumps(label).encode(), key=b"", partition=0, timestamp_ms=now)


def beat(settings: Settings, moments: Iterable[int]) -> None:
    """Heartbeats of some append times, epoch ms, in each partition of the inputs: they close the windows before. Raises when Kafka refuses one."""
    with BoundedProducer(client_options(settings)) as outbox:
        for at in moments:
            queue_heartbeats(outbox, input_partitions(settings), at)


def append_rule(settings: Settings, at: int, rule: dict[str, Any], key: str = "") -> None:
    """A rule with this append time, epoch ms, under its name or a `key`, and a minute of heartbeats from then on, so that its window is closed."""
    with BoundedProducer(client_options(settings)) as outbox:
        value = json.dumps({"record": "rule"} | rule).encode()
        outbox.send(settings.topic("rules"), value, key=(key or rule["name"]).encode(), partition=0, timestamp_ms=at)
    beat(settings, range(at, at + 60_000, 1000))


def run_to_end(spark: SparkSession, settings: Settings) -> int:
    """All jobs, one after the other, over what the log holds. Answers rows dropped by the watermark."""
    prepare(settings, jobs.NAMES)
    runner = Runner(spark, kafka_connection(settings))
    try:
        for job in (
            jobs.extract_job(settings),
            jobs.detect_job(settings),
            jobs.correlate_job(settings),
            jobs.index_job(settings, threading.Event().wait),
        ):
            runner.run_to_end(job)
        return runner.dropped_by_watermark
    finally:
        runner.stop()


def records(settings: Settings, kind: str) -> list[tuple[bytes | None, bytes, tuple[Any, ...]]]:
    """Everything that a topic holds now: key, value, headers."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends = consumer.end_offsets(parts)
    found = []
    while any(consumer.position(part) < ends[part] for part in parts):
        for batch in consumer.poll(timeout_ms=500).values():
            found += [(r.key, r.value, tuple(tuple(h) for h in r.headers or ())) for r in batch]
    consumer.close()
    return found


def watermarks(settings: Settings, kind: str) -> set[tuple[int, int]]:
    found = (json.loads(value) for _, value, _ in records(settings, kind))
    return {(record["watermark"], record["shard"]) for record in found if record["record"] == "watermark"}


def start(file: Path, *names: str) -> subprocess.Popen[bytes]:
    """Jobs in a process group of their own; what they say goes into `run.log` beside the settings."""
    command = [sys.executable, "-m", "app.cli", "run", *names, "--config", str(file), "--no-heartbeats"]
    with (file.parent / "run.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=PROJECT)


def wait_for(condition: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:.0f} s in vain for {what}")
        threading.Event().wait(0.1)
