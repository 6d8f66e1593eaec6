"""How long after a window is closed its documents can be searched, while events come live.

First as it comes, with novelties alone in Elasticsearch; then with a document for every window of every series.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
from elasticsearch import ApiError
from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import Heartbeats
from app.runtime.run import running
from app.search.connection import elasticsearch_connection
from benchmarks.deployment import HOSTS, live_topics, say
from pipelines.runner import PRODUCER
from pipelines.spark_internals import java_array, jvm_of

LOAD = Path(__file__).with_name("Load.java")
WARM_UP_SECONDS = 600.0  # in the first ten minutes a third of a core compiles


def measure(spark: SparkSession, settings: Settings, rate: int, series: int, seconds: float) -> dict[str, float]:
    """Percentiles of seconds under live load, each over `seconds` after a warm-up."""
    figures: dict[str, float] = {}
    for scores, warm_up in ((False, WARM_UP_SECONDS), (True, WARM_UP_SECONDS / 3)):
        found = live(spark, chosen(settings, scores=scores), rate, series, warm_up, seconds)
        figures |= {f"{'scores_' if scores else ''}{name}": value for name, value in found.items()}
    return figures


def chosen(settings: Settings, *, scores: bool) -> Settings:
    """Topics and checkpoints of its own. Models speak after a minute, and with less certainty than half an hour would give."""
    name = "live-scores" if scores else "live"
    return settings.model_copy(
        update=live_topics(settings, name)
        | {
            # Latency counts from when a window closes, not from its end: lateness is not included.
            "windowing": dataclasses.replace(settings.windowing, lateness_seconds=10, skew_seconds=5, shards=16),
            "detection": dataclasses.replace(
                settings.detection, warm_up_minutes=1.0, alarm_chance=0.01, confirm_seconds=10
            ),
            "index": settings.index.model_copy(update={"scores": scores}),
            "spark": settings.spark.model_copy(update={"trigger_seconds": 0.25}),
        }
    )


def live(
    spark: SparkSession, own: Settings, rate: int, series: int, warm_up: float, seconds: float
) -> dict[str, float]:
    """Latencies of documents from their window's closing."""
    topics.create(own)
    seen: dict[int, list[tuple[float, int]]] = {}
    index, field = (
        (f"kappa-scores-{own.version}-*", "@timestamp")
        if own.index.scores
        else (f"kappa-novelties-{own.version}-*", "novelty.window_end")
    )
    with (
        running(own, ("all",)) as (runner, _),
        Heartbeats(client_options(own), [own.topic(kind) for kind in topics.INPUTS], own.windowing),
    ):
        load = generate(spark, own, rate, series)
        say(f"{rate:,} events/s live, for {warm_up + seconds:.0f} s, looking at {index}")
        try:
            observe(own, seen, index, field, time.time() + warm_up + seconds)
        finally:
            load.end()
        dropped = runner.dropped_by_watermark
    return summarise(seen, own.windowing.watermark_delay_seconds, time.time() - seconds) | {"dropped": dropped}


def generate(
    spark: SparkSession,
    settings: Settings,
    rate: int,
    series: int,
    jump_millis: int | None = None,
    hosts: int = HOSTS,
) -> Any:
    """A thread of Spark's JVM that sends canonical events at a fixed rate: what it costs is not what is measured.

    Every `jump_millis`, in each window without, other series are odd.
    """
    jvm = jvm_of(spark)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(LOAD.read_text())
    kind = compiler.getClassLoader().loadClass("kappa.bench.Load")
    options = jvm.java.util.HashMap()
    for name, value in (kafka_connection(settings).prefixed() | PRODUCER | {"kafka.linger.ms": "5"}).items():
        options.put(name.removeprefix("kafka."), value)
    jump = jump_millis or 1000 * settings.windowing.window_seconds
    arguments = (options, settings.topic("telemetry"), rate, series, hosts, jump)
    load = kind.getConstructors()[0].newInstance(java_array(spark, "java.lang.Object", arguments))
    load.start()
    return load


def observe(settings: Settings, seen: dict[int, list[tuple[float, int]]], index: str, field: str, until: float) -> None:
    """Ask Elasticsearch again and again how many documents of each window can be searched."""
    client = elasticsearch_connection(settings).connect()
    body = {"windows": {"terms": {"field": field, "size": 12, "order": {"_key": "desc"}}}}
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
        threading.Event().wait(0.1)
    client.close()


def summarise(seen: dict[int, list[tuple[float, int]]], delay: float, since: float) -> dict[str, float]:
    """Percentiles over documents. A window is closed when append times have passed its end by `delay`."""
    latencies: list[np.ndarray[Any, Any]] = []
    for window_end, counts in seen.items():
        closed = window_end / 1000 + delay
        if not since <= closed <= time.time():
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
