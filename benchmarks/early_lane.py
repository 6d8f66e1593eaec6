"""How long after a record has been appended its early alarm is, while events come live and the jobs run; a micro-batch beside it.

    python -m benchmarks.early_lane [--rates 20000 100000] [--bounds 10000 500000] [--seconds 45]

`python -m benchmarks --only early` measures all four, which takes twenty minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.early.lane import BoundsTable, of_version
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection, open_admin
from app.kafka.heartbeats import Heartbeats
from app.runtime.run import running
from benchmarks.deployment import HOSTS, deployment, live_topics, machine, say, write
from benchmarks.environment import environment_of
from benchmarks.latency import generate
from models.records.records import RAISED, Bound, EarlyAlarm
from pipelines.inputs import telemetry_points
from pipelines.jobs import early
from pipelines.runner import CONSUMER, PRODUCER, Kafka, read_bounded

RATES, BOUNDS = (20_000, 100_000), (10_000, 500_000)  # events/s, series
# Two cores do not hold the jobs with many more; bounds of series that are silent are read like others.
REPORTING = 10_000  # series at most that send
FAR = 75.0  # between what the load usually sends and what is odd
START_SECONDS = 600.0  # a lane that is busy with a backlog, or a machine that is
WARM_UP_SECONDS = 60.0
JUMP_MILLIS = 1_000  # so often other series are odd: many alarms in little time


def measure(
    spark: SparkSession, settings: Settings, rates: Sequence[int], bounds: Sequence[int], seconds: float
) -> dict[str, float]:
    """Percentiles of milliseconds, for each rate of events a second with each number of bounds."""
    figures: dict[str, float] = {}
    for rate in rates:
        for series in bounds:
            own = chosen(settings, f"early-{rate}-{series}")
            topics.create(own)
            publish(spark, own, series)
            name = f"early_{rate // 1000}k_{series // 1000}k"
            with jobs_at_work(own):
                load = generate(spark, own, rate, min(series, REPORTING), JUMP_MILLIS)
                try:
                    figures |= {f"{name}_{key}": value for key, value in of_lane(spark, own, seconds).items()}
                    figures |= {f"{name}_batch_{key}": value for key, value in of_batches(spark, own, seconds).items()}
                finally:
                    load.end()
            say(", ".join(f"{key} {value:,.0f}" for key, value in figures.items() if key.startswith(name)))
    return figures


def chosen(settings: Settings, name: str) -> Settings:
    """Topics and checkpoints of its own; the broker stamps what is appended."""
    return settings.model_copy(
        update=live_topics(settings, name)
        | {
            "windowing": dataclasses.replace(settings.windowing, lateness_seconds=15, skew_seconds=60, shards=16),
        }
    )


def publish(spark: SparkSession, settings: Settings, series: int) -> None:
    """A bound for each series of the load."""
    number = F.col("id")
    name = F.concat(
        F.lit("gauge/host-"), (number % HOSTS).cast("string"), F.lit("//system.cpu.core"), F.floor(number / HOSTS)
    )
    record = F.struct(
        F.lit(Bound.KIND).alias("record"),
        name.alias("series"),
        F.lit(1_000).alias("window_end"),
        F.lit(FAR).alias("upper"),
        F.lit(1e-9).alias("chance"),
    )
    topic = F.lit(settings.topic("bounds")).alias("topic")
    rows = spark.range(series).select(
        topic, name.cast("binary").alias("key"), F.to_json(record).cast("binary").alias("value")
    )
    write(settings, rows)


@contextmanager
def jobs_at_work(settings: Settings) -> Iterator[None]:
    """All jobs, and heartbeats."""
    inputs = [settings.topic(kind) for kind in topics.INPUTS]
    with running(settings, ("all",)), Heartbeats(client_options(settings), inputs, settings.windowing):
        yield


@contextmanager
def lane_process(settings: Settings) -> Iterator[None]:
    """`kappa run early` as it runs beside jobs, a process of its own."""
    environment = environment_of(settings) | {"KAPPA_EARLY__ENABLED": "true"}
    process = subprocess.Popen([sys.executable, "-P", "-m", "app.cli", "run", "early"], env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60.0)


def of_lane(spark: SparkSession, settings: Settings, seconds: float) -> dict[str, float]:
    """Latencies of the lane."""
    with lane_process(settings):
        return observed(spark, settings, settings.topic("early"), seconds)


def of_batches(spark: SparkSession, settings: Settings, seconds: float) -> dict[str, float]:
    """The same query in micro-batches, each as soon as the last one has ended, in the session of the jobs."""
    lane, kafka = (
        dataclasses.replace(of_version(settings), early=settings.topic("early-batches")),
        kafka_connection(settings),
    )
    with open_admin(settings) as admin:
        times = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic(lane.early, 1, 1, topic_configs=times)])
    with closing(BoundsTable(spark, settings)) as table:
        until(table.is_ready, "bounds")
        telemetry, logs = (stream(spark, kafka, topic) for topic in (lane.telemetry, lane.logs))
        writer = early.alarm_records(telemetry, logs, lane).writeStream.format("kafka")
        writer = writer.options(**(kafka.prefixed() | PRODUCER | early.QUICK))
        query = writer.option("checkpointLocation", str(settings.home / "early-batches")).start()
        try:
            # Of the jobs it need not know more than that they follow.
            return observed(spark, settings, lane.early, seconds, lambda: table.judged(now_ms() - 60_000, ()))
        finally:
            query.stop()


def stream(spark: SparkSession, kafka: Kafka, topic: str) -> DataFrame:
    """What is appended to a topic from now on."""
    options = kafka.prefixed() | CONSUMER | {"subscribe": topic, "startingOffsets": "latest"}
    return spark.readStream.format("kafka").options(**options).load()


def observed(
    spark: SparkSession, settings: Settings, topic: str, seconds: float, turn: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Percentiles of the time from a record's append to its alarm's, over `seconds` after a warm-up; `turn` is called all the time."""

    def begun() -> bool:
        turn()
        return end_of(settings, topic) > 0

    until(begun, f"alarms in {topic}")
    begin, first, warm = now_ms(), end_of(settings, topic), time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < warm + seconds:
        turn()
        if time.monotonic() < warm:
            begin, first = now_ms(), end_of(settings, topic)
        time.sleep(0.5)
    alarms = alarms_since(settings, topic, first)
    appended = crossings_since(spark, settings, begin - 5_000)
    took = np.array([at - appended[key] for key, at in alarms.items() if key in appended], dtype=float)
    if not len(took):
        return {"alarms": 0.0}
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(took.max()), "alarms": float(len(took))}


def until(what: Callable[[], bool], name: str) -> None:
    """Wait for it. Raises TimeoutError."""
    end = time.monotonic() + START_SECONDS
    while not what():
        if time.monotonic() > end:
            msg = f"no {name} within {START_SECONDS:g} s"
            raise TimeoutError(msg)
        time.sleep(0.2)


def now_ms() -> int:
    """The time of the broker, which runs on this machine."""
    return int(time.time() * 1000)


def end_of(settings: Settings, topic: str) -> int:
    """How many records the first partition of a topic has."""
    part = TopicPartition(topic, 0)
    with closing(KafkaConsumer(**client_options(settings))) as consumer:
        return int(consumer.end_offsets([part])[part])


def alarms_since(settings: Settings, topic: str, first: int) -> dict[tuple[str, int], int]:
    """Append times of alarms that were raised, by series and event time."""
    found, part = {}, TopicPartition(topic, 0)
    with closing(KafkaConsumer(**client_options(settings))) as consumer:
        consumer.assign([part])
        consumer.seek(part, first)
        end = consumer.end_offsets([part])[part]
        while consumer.position(part) < end:
            for record in (one for batch in consumer.poll(500).values() for one in batch):
                alarm = json.loads(record.value)
                if alarm["record"] == EarlyAlarm.KIND and alarm["status"] == RAISED:
                    found[alarm["series"], alarm["event_time"]] = record.timestamp
    return found


def crossings_since(spark: SparkSession, settings: Settings, since_ms: int) -> dict[tuple[str, int], int]:
    """Append times of the records that are beyond the bounds, by series and event time."""
    topic = settings.topic("telemetry")
    with closing(KafkaConsumer(**client_options(settings))) as consumer:
        parts = [TopicPartition(topic, p) for p in range(settings.topics.telemetry_partitions)]
        starts, ends = consumer.offsets_for_times(dict.fromkeys(parts, since_ms)), consumer.end_offsets(parts)
    begins = {topic: {str(p.partition): ends[p] if starts[p] is None else starts[p].offset for p in parts}}
    until_now = {topic: {str(p.partition): ends[p] for p in parts}}
    raw = read_bounded(spark, kafka_connection(settings), begins, until_now)
    rows = telemetry_points(raw).where(F.col("value") > FAR)
    columns: Any = rows.select("series", F.unix_millis("event_time"), F.unix_millis("timestamp"))
    return {(series, event): appended for series, event, appended in columns.collect()}


def main() -> None:
    """Print the figures as JSON, with the machine and its load before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES, help="events/s")
    parser.add_argument("--bounds", type=int, nargs="+", default=BOUNDS, help="series that have one")
    parser.add_argument("--seconds", type=float, default=45.0, help="measured, after a minute's warm-up")
    own = parser.parse_args()
    about = machine()
    with deployment() as (settings, spark):
        figures = measure(spark, settings, own.rates, own.bounds, own.seconds)
    sys.stdout.write(json.dumps({"machine": about, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
