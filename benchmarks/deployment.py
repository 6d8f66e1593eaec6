"""A deployment of its own for measurements: a folder, a stack, a session, and topics that are made by Spark."""

from __future__ import annotations

import dataclasses
import logging
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core import logs
from app.core.settings import Settings, load
from app.embedded.stack import Stack, running_stack
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime.spark import session
from app.search.connection import elasticsearch_connection
from app.search.mappings import ensure_templates
from pipelines.runner import PRODUCER

PARTITIONS = 4
HOSTS = 1_000
WORDS = ("connection", "request", "session", "worker", "query", "upload", "cache", "index")  # of log lines
LATENESS = 600
AHEAD_SECONDS = 1_500  # the broker refuses timestamps that are more than an hour ahead


def say(line: str) -> None:
    """Progress on stderr; stdout is for tables."""
    os.write(2, f"{line}\n".encode())


def live_topics(settings: Settings, name: str) -> dict[str, Any]:
    """Topics and checkpoints of its own, as an update of the settings; the broker stamps what is appended."""
    own = {
        "prefix": f"{name}-",
        "timestamps": "append",
        "telemetry_partitions": 2,
        "logs_partitions": 1,
        "partitions": 2,
    }
    return {
        "home": settings.home / name,
        "jar_folder": settings.jars,
        "topics": settings.topics.model_copy(update=own),
    }


@contextmanager
def deployment() -> Iterator[tuple[Settings, SparkSession]]:
    """A running stack and a session, in a folder that is wiped first; logs go to stderr, because stdout has the figures."""
    logs.configure(level=logging.WARNING)
    base = load()
    home = base.home / "bench"
    shutil.rmtree(home, ignore_errors=True)
    with running_stack(Stack(home, jars=base.jars, elasticsearch_heap_mib=1024, kafka_heap_mib=1024), say) as servers:
        settings = base.model_copy(
            update={
                "home": home,
                "jar_folder": base.jars,
                # Everything is written within minutes and read as it comes: nothing of it is late.
                "windowing": dataclasses.replace(base.windowing, lateness_seconds=LATENESS, skew_seconds=LATENESS),
                "topics": base.topics.model_copy(
                    update={
                        "timestamps": "create",
                        "telemetry_partitions": PARTITIONS,
                        "logs_partitions": 1,
                        "partitions": PARTITIONS,
                    }
                ),
                "spark": base.spark.model_copy(update={"driver_memory": "6g"}),
                "kafka": base.kafka.model_copy(update={"bootstrap_servers": servers.kafka}),
                "elasticsearch": base.elasticsearch.model_copy(update={"url": servers.elasticsearch}),
            }
        )
        spark = session(settings)
        topics.create(settings)
        client = elasticsearch_connection(settings).connect()
        ensure_templates(client, settings.version, live=True)
        client.close()
        try:
            yield settings, spark
        finally:
            spark.stop()


def write(settings: Settings, records: DataFrame) -> None:
    """Append rows `topic, key, value` (and `partition`) to the log."""
    records.write.format("kafka").options(**kafka_connection(settings).prefixed(), **PRODUCER).save()


def telemetry(
    spark: SparkSession,
    settings: Settings,
    events: int,
    series: int,
    span_seconds: int = 60,
    *,
    in_order: bool = False,
) -> None:
    """Fill the topic `telemetry` with canonical events of `series` series, evenly over `span_seconds` from now.

    A record has its host as its key. `in_order`: host and metric, and a partition's records are in order of time.
    """
    start = int(time.time() * 1000)
    number = F.col("id") % series
    at = F.timestamp_millis(F.lit(start) + F.floor(F.col("id") * (1000 * span_seconds) / events))
    host = F.concat(F.lit("host-"), number % HOSTS)
    metric = F.concat(F.lit("system.cpu.core"), F.floor(number / HOSTS).cast("string"))
    event = F.struct(
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("@timestamp"),
        host.alias("host.name"),
        metric.alias("metric.name"),
        F.round(50 + 10 * F.sin(F.col("id") / 1e4) + F.randn(1), 4).alias("metric.value"),
    )
    rows = spark.range(0, events, 1, PARTITIONS).select(
        F.lit(settings.topic("telemetry")).alias("topic"),
        (F.concat(host, metric) if in_order else host).cast("binary").alias("key"),
        F.to_json(event).cast("binary").alias("value"),
        *([F.pmod(number, F.lit(PARTITIONS)).cast("int").alias("partition"), F.col("id")] if in_order else []),
    )
    if in_order:
        rows = rows.repartition(PARTITIONS, "partition").sortWithinPartitions("partition", "id").drop("id")
    write(settings, rows)


def message(number: Column, length: int) -> Column:
    """The message of a log line, of `length` bytes and one of 8 templates: its numbers have as many digits as those of other lines."""

    def digits(most: int, count: int) -> Column:
        return F.lit(10 ** (count - 1)) + number % most

    word = F.element_at(F.array(*map(F.lit, WORDS)), (F.floor(number / HOSTS) % len(WORDS) + 1).cast("int"))
    text = F.concat(
        *(F.lit("accepted "), word, F.lit(" 0x"), F.lpad(F.lower(F.hex(number)), 8, "0"), F.lit(" from 10.0.")),
        *(digits(150, 3), F.lit("."), digits(99, 3), F.lit(":"), digits(50_000, 5), F.lit(" after "), digits(3000, 4)),
        *(
            F.lit(" ms, user=u"),
            digits(5000, 4),
            F.lit(" path=/srv/data/"),
            digits(877, 3),
            F.lit("/object status=200"),
        ),
    )
    return F.substring(F.repeat(F.concat(text, F.lit(" ")), length // 100 + 1), 1, length)


def log_lines(spark: SparkSession, settings: Settings, lines: int, length: int, span_seconds: int = 60) -> None:
    """Fill the topic `logs` with lines of `length` bytes, of 8 templates on each of HOSTS hosts, evenly over `span_seconds` from now."""
    number, host = F.col("id"), F.concat(F.lit("host-"), F.col("id") % HOSTS)
    at = F.timestamp_millis(F.unix_millis(F.current_timestamp()) + F.floor(number * (1000 * span_seconds) / lines))
    event = F.struct(
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("@timestamp"),
        host.alias("host.name"),
        F.lit("shop").alias("service.name"),
        F.lit("info").alias("log.level"),
        message(number, length).alias("message"),
    )
    rows = spark.range(0, lines, 1, PARTITIONS).select(
        F.lit(settings.topic("logs")).alias("topic"),
        host.cast("binary").alias("key"),
        F.to_json(event).cast("binary").alias("value"),
    )
    write(settings, rows)


def far_ahead() -> int:
    """A time, ms, that is after all windows of what was written within minutes, delays included."""
    return int(time.time() * 1000) + AHEAD_SECONDS * 1000


def close_windows(settings: Settings, at_ms: int) -> None:
    """A heartbeat of a time after all windows and delays in every input partition, so that all of them are closed."""
    with BoundedProducer(client_options(settings)) as outbox:
        queue_heartbeats(outbox, input_partitions(settings), at_ms)


def machine() -> dict[str, Any]:
    """What was measured on."""
    info = Path("/proc/cpuinfo")
    models = (
        [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if (info.exists())
        else []
    )
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }
