"""The largest lateness of the records of a range, for a replay that is to admit all of them."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.kafka.connection import kafka_connection
from app.versions.replay_manifest import Slice
from pipelines.inputs import log_lines, telemetry_points
from pipelines.windowing import MILLIS
from replay.slice_run import read_bounded


def largest(spark: SparkSession, settings: Settings, whole: Slice) -> int:
    """Seconds by which the latest record of a range is late, at least `windowing.lateness_seconds`.

    Records of event times before the range belong to windows that are not made, and do not count: a clock that is years
    behind would make every window wait for years.
    """
    kafka, partitions = kafka_connection(settings), spark.sparkContext.defaultParallelism
    delays = []
    for kind, read in (("telemetry", telemetry_points), ("logs", log_lines)):
        raw = read_bounded(spark, kafka, whole, settings.topic(kind), partitions)
        first = raw.agg(F.min(F.unix_millis("timestamp"))).first()
        start = whole.after if whole.after is not None else (first[0] if first and first[0] is not None else 0)
        event = F.unix_millis("event_time")
        delay = F.max(F.unix_millis("timestamp") - event)
        row = (
            read(raw)
            .where(F.col("reason").isNull() & (event >= start - settings.windowing.lateness_seconds * MILLIS))
            .agg(delay)
            .first()
        )
        delays.append(row[0] if row and row[0] is not None else 0)
    return max(settings.windowing.lateness_seconds, -(-max(delays) // MILLIS))
