"""The largest lateness of the records of a range, for a replay that is to admit all of them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.kafka import quarantine
from app.kafka.connection import kafka_connection
from app.versions.replay_manifest import Slice
from pipelines.inputs import log_lines, telemetry_points
from pipelines.quarantine import Quarantine
from pipelines.windowing import MILLIS
from replay.slice_run import read_bounded

Read = Callable[[DataFrame], DataFrame]


def largest_lateness(spark: SparkSession, settings: Settings, whole: Slice) -> int:
    """Seconds by which the latest record of a range is late, at least `windowing.lateness_seconds`.

    Records of event times before the range belong to windows that are not made, and do not count: a clock that is years
    behind would make every window wait for years. Those in quarantine are left unread, as `extract` leaves them.
    """
    kafka, partitions = kafka_connection(settings), spark.sparkContext.defaultParallelism
    readers = {settings.topic("telemetry"): telemetry_points, settings.topic("logs"): log_lines}
    unread, least = quarantine.read(settings).found.for_job("extract", readers), settings.windowing.lateness_seconds
    delays = [
        latest_in(read, read_bounded(spark, kafka, whole, topic, partitions), unread, whole.after, least)
        for topic, read in readers.items()
    ]
    return max(least, -(-max(delays) // MILLIS))


def latest_in(read: Read, raw: DataFrame, unread: Quarantine, after: int | None, lateness_seconds: int) -> int:
    """Milliseconds by which the latest record of a topic is late, 0 where none is; `after` as in a `Slice`, `raw` as Kafka gives it."""
    first = raw.agg(F.min(F.unix_millis("timestamp"))).first()
    start = after if after is not None else (first[0] if first and first[0] is not None else 0)
    event = F.unix_millis("event_time")
    counts = F.col("reason").isNull() & (event >= start - lateness_seconds * MILLIS)
    row = read(unread.drop_from(raw)).where(counts).agg(F.max(F.unix_millis("timestamp") - event)).first()
    return row[0] if row and row[0] is not None else 0
