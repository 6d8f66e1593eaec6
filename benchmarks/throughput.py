"""Events a second of each job, and their ratio to reading the topic plainly, in one run."""

from __future__ import annotations

import dataclasses
import json
import statistics
import threading
import time
from typing import Any

from kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.kafka.connection import kafka_connection, open_consumer
from app.kafka.topics import create, topic_names
from app.runtime import jobs
from benchmarks.deployment import HOSTS, PARTITIONS, close_windows, far_ahead, say, telemetry, write
from benchmarks.state import state_bytes, written_bytes
from pipelines.jobs import extract
from pipelines.runner import Input, Job, Kafka, Runner

RUNS = 3
# The defaults of Kafka's consumer: plain reading is measured with them, and with the jobs' own options.
DEFAULTS = {"fetch.max.wait.ms": "500", "max.poll.records": "500", "receive.buffer.bytes": "65536"}
DAY_SECONDS = 86_400
LEARNING = 2  # batches, of a window each, in which all series are new or the machine warms up


def batches(spark: SparkSession, settings: Settings, job: Job, kafka: Kafka | None = None) -> list[tuple[int, float]]:
    """Records and seconds of each batch that a job takes over all that is in its inputs. Raises DeterminismViolation for a dropped row.

    Starting the job is left out: it happens once in the life of a deployment, and here it would be a tenth of the whole.
    """
    runner = Runner(spark, kafka or kafka_connection(settings))
    try:
        query = runner.run_to_end(job)
        return [(b["numInputRows"], b["durationMs"]["triggerExecution"] / 1000) for b in query.recentProgress]
    finally:
        runner.stop()


def timed(spark: SparkSession, settings: Settings, job: Job) -> float:
    """Seconds that a job takes over all that is in its inputs."""
    return sum(seconds for _, seconds in batches(spark, settings, job))


def numbered(settings: Settings, version: int) -> Settings:
    """The same deployment with checkpoints of its own, so that a job begins anew."""
    return settings.model_copy(update={"home": settings.home / f"run-{version}", "jar_folder": settings.jars})


def apart(settings: Settings, name: str) -> Settings:
    """The same servers with topics and checkpoints of its own."""
    own = settings.model_copy(
        update={
            "topics": settings.topics.model_copy(update={"prefix": f"{name}-"}),
            "home": settings.home / name,
            "jar_folder": settings.jars,
        }
    )
    create(own)
    return own


def plain(
    spark: SparkSession, settings: Settings, events: int, number: int, kind: str = "telemetry"
) -> tuple[float, float]:
    """Events a second of reading an input without looking at it: with what Kafka does by default, and as the jobs do."""
    rates = []
    for name, consumer in (("defaults", DEFAULTS), ("ours", {})):
        kafka = kafka_connection(settings)
        reading = dataclasses.replace(kafka, options={**kafka.options, **consumer})
        job = plain_job(settings, f"{name}-{number}", kind)
        rates.append(events / sum(seconds for _, seconds in batches(spark, settings, job, reading)))
    return rates[0], rates[1]


def plain_job(settings: Settings, name: str, kind: str = "telemetry") -> Job:
    """Read an input without looking at it, partition by partition as `extract` does."""
    source = Input((settings.topic(kind),), tuple(range(PARTITIONS)), settings.windowing.watermark_delay_seconds)
    return Job(
        name=f"plain-{name}",
        inputs=(source,),
        transform=lambda raw: raw,
        sink=lambda rows, batch: rows.write.format("noop").mode("overwrite").save(),
        checkpoint=str(settings.home / "plain" / name),
        max_records_per_batch=settings.spark.max_records_per_batch,
    )


def extraction(spark: SparkSession, settings: Settings, events: int, series: int) -> dict[str, float]:
    """`extract` against plain reading, in turns; medians."""
    say(f"writing {events:,} events of {series:,} series")
    telemetry(spark, settings, events, series)
    close_windows(settings, far_ahead())
    read, extracted = [], []
    plain(spark, settings, events, 100)
    for number in range(RUNS):
        read.append(plain(spark, settings, events, number))
        own = numbered(settings, number)
        extracted.append(events / timed(spark, settings, jobs.extract_job(own)))
        say(
            f"plain reading {read[-1][0]:,.0f}/s, with our options {read[-1][1]:,.0f}/s, extract {extracted[-1]:,.0f}/s"
        )
    return {
        "plain_events_per_second": statistics.median(defaults for defaults, _ in read),
        "plain_ours_events_per_second": statistics.median(ours for _, ours in read),
        "extract_events_per_second": statistics.median(extracted),
        "extract_to_plain": statistics.median(e / p for e, (p, _) in zip(extracted, read, strict=True)),
        "extract_to_plain_ours": statistics.median(e / p for e, (_, p) in zip(extracted, read, strict=True)),
    }


def closed(spark: SparkSession, series: int, window_end: int) -> DataFrame:
    """Statistics of one window of `series` gauges, as `extract` makes them."""
    number, noise = F.col("id"), F.randn(window_end // 1000)
    host = F.concat(F.lit("host-"), (number % (10 * HOSTS)).cast("string"))
    name = F.concat(F.lit("gauge/"), host, F.lit("/app/metric."), F.floor(number / (10 * HOSTS)).cast("string"))
    nothing = F.lit(None).cast("string")
    mean = F.round(50 + noise, 4)
    return spark.range(0, series, 1, 2).select(
        name.alias("series"),
        F.lit(window_end).alias("window_end"),
        F.lit(1).cast("long").alias("n"),
        mean.alias("mean"),
        F.lit(0.0).alias("m2"),
        mean.alias("min"),
        mean.alias("max"),
        mean.alias("last"),
        nothing.alias("template"),
        nothing.alias("sample"),
        nothing.cast("binary").alias("payload"),
        nothing.alias("refused"),
    )


def statistics_of(spark: SparkSession, settings: Settings, series: int, window_end: int) -> DataFrame:
    """The records that `extract` writes of such a window: rows of the gauges, and the watermark messages."""
    rows = closed(spark, series, window_end)
    windows = extract.ClosedWindows((window_end,), {})
    return extract.output_records(rows, windows, settings.windowing, topic_names(settings), PARTITIONS)


def write_windows(spark: SparkSession, settings: Settings, series: int, windows: int) -> None:
    """Statistics of `windows` windows of so many gauges, one after the other from a day ago on: a window of the future would be refused."""
    seconds = settings.windowing.window_seconds
    first = int(time.time()) // seconds * seconds - DAY_SECONDS
    for window in range(windows):
        write(settings, statistics_of(spark, settings, series, 1000 * (first + window * seconds)))


def none_refused(settings: Settings) -> None:
    """Raises RuntimeError where jobs have refused records: what was measured is not what it says then."""
    topic = settings.topic("dead-letters")
    with open_consumer(settings) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        refused = sum(consumer.end_offsets(partitions).values())
    if refused:
        msg = f"{refused:,} records were refused, see {topic}; wanted none"
        raise RuntimeError(msg)


def detection(spark: SparkSession, settings: Settings, series: int, windows: int) -> dict[str, float]:
    """`detect` with many series: rows a second once all of them are known."""
    own = apart(settings, "many")
    say(f"detect: {LEARNING} windows to learn {series:,} series, {windows} more")
    write_windows(spark, own, series, LEARNING + windows)
    job = dataclasses.replace(jobs.detect_job(own), max_records_per_batch=series + 1_000)
    taken = batches(spark, own, job)[LEARNING:]
    none_refused(own)
    say("detect: " + ", ".join(f"{records:,} in {seconds:.1f} s" for records, seconds in taken))
    rate = sum(records for records, _ in taken) / sum(seconds for _, seconds in taken)
    return {
        "detect_rows_per_second": rate,
        "state_bytes_after_a_day": state_bytes(days=1),
        "state_bytes_per_gauge": state_bytes(),
        "state_bytes_written": written_bytes(),
    }


def indexing(spark: SparkSession, settings: Settings) -> dict[str, float]:
    """`index` over the scores that `detect` has written."""
    own = apart(settings, "small").model_copy(update={"index": settings.index.model_copy(update={"scores": True})})
    windows, series = 6, 20_000
    write_windows(spark, own, series, windows)
    timed(spark, own, jobs.detect_job(own))
    none_refused(own)
    job = jobs.index_job(own, threading.Event().wait)
    seconds = timed(spark, own, job)
    return {"index_documents_per_second": windows * series / seconds}


def measure(spark: SparkSession, settings: Settings, events: int, series: int, many: int) -> dict[str, Any]:
    """All of it."""
    figures: dict[str, Any] = {}
    figures |= extraction(spark, settings, events, series)
    figures |= indexing(spark, settings)
    figures |= detection(spark, settings, many, 4)
    say(json.dumps(figures))
    return figures
