"""early: telemetry, logs and the bounds of their series -> early alarms, a record at a time, in Spark's real-time mode.

The readers and the rule of admission are those of `extract`; there is no state, no window is waited for, and nothing is learnt. Each
record is compared with the bound of its series, which `detect` has published (`pipelines/jvm/AlarmBounds.java` holds them). What is
raised is provisional: app/early settles it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from models.records.records import RAISED, EarlyAlarm
from pipelines.inputs import log_lines, telemetry_points
from pipelines.jobs.extract import make_refusal, template_series
from pipelines.runner import CONSUMER, PRODUCER, Kafka
from pipelines.spark_internals import map_partitions
from pipelines.windowing import MILLIS, WindowingConfig

NAME = "early"
# Duration of a batch in real-time mode. At its end the query is planned again, which takes a second or two.
BATCH = "1 hour"
# How far behind a record the jobs may be for it to be compared with their bounds.
MOST_BEHIND_SECONDS = 300
# Alarms are sent without waiting for a fuller batch.
QUICK = {"kafka.linger.ms": "0"}

CROSSING = StructType(
    [
        StructField("series", StringType()),
        StructField("window_end", LongType()),
        StructField("event_time", LongType()),
        *(StructField(name, DoubleType()) for name in ("value", "lower", "upper", "typical", "chance")),
        StructField("bound_window_end", LongType()),
        StructField("template", StringType()),
    ]
)


@dataclass(frozen=True)
class Lane:
    """What the lane in real time reads and writes: names of topics, the version of the bounds, and the windowing."""

    telemetry: str
    logs: str
    bounds: str
    early: str
    version: str
    windowing: WindowingConfig

    @property
    def most_behind_ms(self) -> int:
        """How far the end of a record's window may be after the last window that the jobs have judged."""
        own = self.windowing
        return (MOST_BEHIND_SECONDS + own.window_seconds + own.watermark_delay_seconds + own.skew_seconds) * MILLIS


def has_real_time_mode() -> bool:
    """Whether this Spark has a real-time mode."""
    return "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


def spark_version() -> str:
    """The version of PySpark that is installed."""
    return pyspark.__version__


def alarm_records(telemetry: DataFrame, logs: DataFrame, lane: Lane) -> DataFrame:
    """Kafka's columns of both inputs -> `topic, key, value`: the records of early alarms."""
    refusal = make_refusal(lane.windowing)
    points = telemetry_points(telemetry, refusal=refusal).withColumn("template", F.lit(None).cast("string"))
    lines = log_lines(logs, refusal=refusal).withColumns(
        {"series": template_series(), "value": F.lit(None).cast("double")}
    )
    found = find_crossings(_observed(points, lane).unionByName(_observed(lines, lane)), lane)
    record = F.struct(
        F.lit(EarlyAlarm.KIND).alias("record"),
        alarm_id().alias("id"),
        F.lit(lane.version).alias("version"),
        F.lit(RAISED).alias("status"),
        *CROSSING.names,
    )
    return found.select(
        F.lit(lane.early).alias("topic"),
        alarm_id().cast("binary").alias("key"),
        F.to_json(record).cast("binary").alias("value"),
    )


def find_crossings(observed: DataFrame, lane: Lane) -> DataFrame:
    """`series, event_time (ms), value, template` -> the rows that raise an alarm now, with the columns `CROSSING`."""
    window = lane.windowing.window_seconds * MILLIS
    return map_partitions(observed, CROSSING, "AlarmCrossings", lane.bounds, window, lane.most_behind_ms)


def _observed(rows: DataFrame, lane: Lane) -> DataFrame:
    """Rows of a reader -> `series, event_time (ms), value, template`; what is refused has no series, and so no alarm."""
    refused = make_refusal(lane.windowing)(F.col("event_time"), F.col("reason")).isNotNull()
    return rows.select(
        F.when(~refused, F.col("series")).alias("series"),
        F.unix_millis("event_time").alias("event_time"),
        F.col("value"),
        F.col("template"),
    )


def alarm_id() -> Column:
    """The id of an alarm, as `models.records.records.early_id` makes it."""
    return F.substring(
        F.sha2(F.concat_ws("|", "series", F.lit("early"), F.col("window_end").cast("string")), 256), 1, 20
    )


def start(
    spark: SparkSession, kafka: Kafka, lane: Lane, begins: Mapping[str, Mapping[int, int]], checkpoint: str
) -> StreamingQuery:
    """Start the query at these offsets, by topic and partition. `checkpoint` is a new folder: nothing in it is ever read again.

    With Spark's `latest` it would begin where the inputs end once it has been planned, seconds later.
    """
    telemetry, logs = (_stream(spark, kafka, topic, begins[topic]) for topic in (lane.telemetry, lane.logs))
    found = alarm_records(telemetry, logs, lane)
    options: Mapping[str, Any] = kafka.prefixed() | PRODUCER | QUICK
    writer = found.writeStream.queryName(NAME).format("kafka").options(**options).outputMode("update")
    mode: Mapping[str, Any] = {"realTime": BATCH}
    return writer.option("checkpointLocation", checkpoint).trigger(**mode).start()


def _stream(spark: SparkSession, kafka: Kafka, topic: str, begin: Mapping[int, int]) -> DataFrame:
    where = json.dumps({topic: {str(partition): offset for partition, offset in begin.items()}})
    options = kafka.prefixed() | CONSUMER | {"subscribe": topic, "startingOffsets": where, "failOnDataLoss": "false"}
    return spark.readStream.format("kafka").options(**options).load()
