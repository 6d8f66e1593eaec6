"""How long after a window is closed its documents can be searched, while events come live."""

from __future__ import annotations

import dataclasses
import threading
import time
from http import HTTPStatus
from typing import Any

import numpy as np
from elasticsearch import ApiError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app import jobs, topics
from app.collector import Heartbeats
from app.run import running
from app.settings import Settings
from benchmarks.deployment import HOSTS, say
from pipelines.runner import PRODUCER

WARM_UP_SECONDS = 120.0


def measure(spark: SparkSession, settings: Settings, rate: int, series: int, seconds: float) -> dict[str, float]:
    """Live load for `seconds` after a warm-up; latencies of documents from their window's closing."""
    own = settings.model_copy(
        update={
            "home": settings.home / "live",
            "jar_folder": settings.jars,
            # The generator shares two cores with what it is to load, so it falls behind, and what it writes then would be
            # late: a document for each event. Latency counts from when the law closes a window, whatever the law waits.
            "law": dataclasses.replace(settings.law, lateness_seconds=60, skew_seconds=5, disorder_seconds=2),
            "topics": settings.topics.model_copy(
                update={"prefix": "live-", "telemetry_partitions": 2, "logs_partitions": 1, "partitions": 2}
            ),
            "index": settings.index.model_copy(update={"scores": True}),
            "spark": settings.spark.model_copy(update={"trigger_seconds": 0.5, "max_records_per_batch": 200_000}),
        }
    )
    topics.create(own)
    seen: dict[int, list[tuple[float, int]]] = {}
    with (
        running(own, ("all",)) as (runner, _),
        Heartbeats(topics.client_options(own), [own.topic(kind) for kind in topics.INPUTS]),
    ):
        load = generate(spark, own, rate, series)
        say(f"{rate:,} events/s live, for {WARM_UP_SECONDS + seconds:.0f} s")
        try:
            observe(own, seen, time.time() + WARM_UP_SECONDS + seconds)
        finally:
            load.stop()
        dropped = runner.dropped_by_watermark
    return summarise(seen, own.law.watermark_delay_seconds, time.time() - seconds - 30) | {"dropped": dropped}


def generate(spark: SparkSession, settings: Settings, rate: int, series: int) -> Any:
    """A stream of canonical events at a fixed rate, made by Spark."""
    number = F.col("value") % series
    event = F.struct(
        F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("@timestamp"),
        F.concat(F.lit("host-"), number % HOSTS).alias("host.name"),
        F.concat(F.lit("system.cpu.core"), F.floor(number / HOSTS).cast("string")).alias("metric.name"),
        F.round(50 + F.randn(), 4).alias("metric.value"),
    )
    rows = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 1).load()
    records = rows.select(
        F.lit(settings.topic("telemetry")).alias("topic"),
        F.concat(F.lit("host-"), number % HOSTS).cast("binary").alias("key"),
        F.to_json(event).cast("binary").alias("value"),
    )
    return (
        records.writeStream.format("kafka")
        .options(**jobs.kafka_of(settings).prefixed(), **PRODUCER)
        .option("checkpointLocation", str(settings.checkpoint("generator")))
        .trigger(processingTime="1 second")
        .start()
    )


def observe(settings: Settings, seen: dict[int, list[tuple[float, int]]], until: float) -> None:
    """Ask Elasticsearch again and again how many documents of each window can be searched."""
    client = jobs.elastic_of(settings).connect()
    body = {"windows": {"terms": {"field": "@timestamp", "size": 12, "order": {"_key": "desc"}}}}
    index = f"scores-{settings.version}-*"
    while time.time() < until:
        try:
            found = client.search(index=index, size=0, aggs=body, allow_no_indices=True, ignore_unavailable=True)
        except ApiError as error:
            if error.meta.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            threading.Event().wait(0.2)  # the index of a new day is there, its shard is not yet
            continue
        now = time.time()
        for bucket in found.get("aggregations", {}).get("windows", {}).get("buckets", []):
            seen.setdefault(int(bucket["key"]), []).append((now, int(bucket["doc_count"])))
        threading.Event().wait(0.2)
    client.close()


def summarise(seen: dict[int, list[tuple[float, int]]], delay: float, since: float) -> dict[str, float]:
    """Percentiles over documents. A window is closed when append times have passed its end by `delay`."""
    latencies: list[np.ndarray[Any, Any]] = []
    for window_end, counts in seen.items():
        closed = window_end / 1000 + delay
        if not since <= closed <= time.time():  # later ones are of the other measurements, whose clock is ahead
            continue
        before = 0
        for at, count in counts:
            if count > before:
                latencies.append(np.full(count - before, at - closed))
                before = count
    if not latencies:
        return {"latency_median_seconds": float("nan"), "latency_p99_seconds": float("nan"), "documents": 0}
    together = np.concatenate(latencies)
    return {
        "latency_median_seconds": float(np.median(together)),
        "latency_p99_seconds": float(np.quantile(together, 0.99)),
        "documents": len(together),
    }
