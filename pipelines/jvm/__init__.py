"""Our Java classes in Spark's JVM: SQL functions, and their result types. Why: docs/decisions/0010-flat-records-in-java.md.

Functions read or write the bytes of one record each, so that no record of the usual forms costs a parser or a writer of its
own; `app.runtime.spark.session` makes them known. Sums and `pack_by_shard` make few rows of many records.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from models.records import log_levels
from models.records.records import LETTER_BYTES
from models.templates.masks import line_table
from models.templates.pattern_program import Table
from pipelines.inputs import OF_LINES, OF_POINTS, ecs, syslog
from pipelines.inputs.fields import MAX_CUT
from pipelines.inputs.members import Paths, field_name, paths_text
from pipelines.inputs.shippers import SERVICE_PATTERNS
from pipelines.letters import MOST_BYTES
from pipelines.spark_internals import Functions, aggregate_bytes, java_object, map_partitions
from pipelines.windowing import MILLIS, TopicOfShards, WindowingConfig

SOURCES = Path(__file__).parent


def compress_table(table: Table) -> bytes:
    """A table of masks as `LogTemplate` reads it."""
    return zlib.compress(table.astype(">i4").tobytes())


def functions() -> Functions:
    """SQL name -> (class, what it answers, what it is made of); readers answer null for a record that is not plainly good."""
    text = [StructField(name, StringType()) for name in ("json", "line", "reason")]

    def record_with(members: Paths) -> tuple[str, DataType, tuple[Any, ...]]:
        found = StructType([StructField(field_name(path), StringType()) for path in members])
        return "RecordText", StructType([*text, StructField("members", found)]), (paths_text(members),)

    leaf = [StructField(name, StringType()) for name in ("path", "value", "kind")]
    return {
        "kappa_score_text": ("ScoreText", BinaryType(), ()),
        "kappa_template": ("LogTemplate", StringType(), (compress_table(line_table()),)),
        "kappa_level": ("LineLevel", StringType(), _levels()),
        "kappa_service": ("ServiceName", StringType(), (False, *SERVICE_PATTERNS)),
        "kappa_service_of_file": ("ServiceName", StringType(), (True, *SERVICE_PATTERNS)),
        "kappa_leaves": ("DocumentLeaves", ArrayType(StructType(leaf)), (ecs.DEPTH, MAX_CUT)),
        "kappa_plain_time": ("PlainTime", LongType(), ()),
        "kappa_rfc3164": ("PatternGroups", ArrayType(StringType()), (syslog.RFC3164,)),
        "kappa_rfc5424": ("PatternGroups", ArrayType(StringType()), (syslog.RFC5424,)),
        "kappa_record_text": ("RecordText", StructType(text), ()),
        "kappa_point_record": record_with(OF_POINTS),
        "kappa_line_record": record_with(OF_LINES),
        "kappa_flat_point": (
            "FlatPoint",
            StructType(
                [
                    StructField("event_time", LongType()),  # microseconds since 1970
                    StructField("series", StringType()),
                    StructField("value", DoubleType()),
                ]
            ),
            (),
        ),
        "kappa_flat_line": (
            "FlatLine",
            StructType(
                [
                    StructField("event_time", LongType()),
                    *(StructField(name, StringType()) for name in ("host", "service", "level", "message")),
                ]
            ),
            (),
        ),
    }


def _levels() -> tuple[Any, ...]:
    """What `LineLevel` is made of."""
    names = "\n".join(" ".join((level, *given)) for level, given in log_levels.SYNONYMS.items())
    patterns = (
        log_levels.NAMED,
        log_levels.WORD,
        log_levels.IN_JSON,
        " ".join(log_levels.LIKELY),
        log_levels.BEFORE_DIGITS,
    )
    return names, *patterns, log_levels.WITHIN, log_levels.WITHIN_JSON


# SQL name -> class, of functions whose answers depend on what they were asked before
CHANGING = {"kappa_among_least": "AmongLeast"}

REFUSED = -1
PACKED = StructType([StructField("shard", IntegerType()), StructField("value", BinaryType())])
RECORD = [
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", LongType()),  # microseconds since 1970
    StructField("value", BinaryType()),
]


# Sums of many series of a window and of a bucket of hosts: its end, ms, and an array of bytes (`SumsBlock.java`)
SUMS = [
    StructField("sums_window", LongType()),
    StructField("sums_bucket", LongType()),
    StructField("sums_block", BinaryType()),
]
# Log lines of a template in a window: its end, ms, how many there were and the least message (`LineCounts.java`)
COUNTS = [
    StructField("lines_window", LongType()),
    StructField("lines_series", StringType()),
    StructField("lines_template", StringType()),
    StructField("lines_n", LongType()),
    StructField("lines_sample", StringType()),
]
SERIES = [
    StructField("window_end", LongType()),
    StructField("series", StringType()),
    StructField("n", LongType()),
    *(StructField(name, DoubleType()) for name in ("mean", "m2", "min", "max", "last")),
]


class Needed(NamedTuple):
    """How many metric series of a window are summed at most, those with the least hashes. One counts for each 256 bytes of its name.

    Parameters
    ----------
    of_host
        Of a host.
    of_bucket
        Of all hosts of one of 1,024 buckets, which share them (`HostShares.java`).
    """

    of_host: int
    of_bucket: int


def pack_by_shard(raw: DataFrame, topic: TopicOfShards) -> DataFrame:
    """Kafka's columns of `statistics` -> `shard, value`: many records of a shard, a line each.

    A record that `extract` has not written is a row of its own: the shard `REFUSED`, and a letter (`pipelines.letters`).
    """
    columns = raw.select("value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp"))
    rule = (topic.partitions, topic.shards, topic.window_ms, topic.ahead_ms, MOST_BYTES, LETTER_BYTES)
    return map_partitions(columns, PACKED, "ShardPacker", topic.name, *rule)


def sum_flat_points(raw: DataFrame, windowing: WindowingConfig, needed: Needed) -> DataFrame:
    """Kafka's columns -> the same for records that need a look, and sums of the flat points among the others, with the columns `SUMS`."""
    return _map_flat(raw, windowing, SUMS, "FlatSums", *needed)


def count_flat_lines(raw: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """Kafka's columns -> the same for records that need a look, and counts of the flat log lines among the others, with the columns `COUNTS`."""
    levels = java_object(raw.sparkSession, "LineLevel", *_levels())
    return _map_flat(raw, windowing, COUNTS, "FlatLineCounts", compress_table(line_table()), levels)


def _map_flat(
    raw: DataFrame, windowing: WindowingConfig, made: Sequence[StructField], kind: str, *arguments: Any
) -> DataFrame:
    """Kafka's columns through a class of ours, which adds the columns `made`."""
    limits = (windowing.window_seconds, windowing.lateness_seconds, windowing.skew_seconds)
    admission = (seconds * MILLIS for seconds in limits)
    schema = StructType([*RECORD, *made])
    # Kafka's source has both.
    unread = {"key": F.lit(None).cast("binary"), "timestampType": F.lit(0)}
    whole = raw.withColumns({name: column for name, column in unread.items() if name not in raw.columns})
    rows = map_partitions(whole, schema, kind, *admission, *arguments, record="InputRecord")
    return rows.withColumn("timestamp", F.timestamp_micros("timestamp"))


def sum_into_blocks(points: DataFrame, *, window: int, needed: Needed) -> DataFrame:
    """Rows of single points, of sums and of what was refused -> rows of sums and of what was refused: `SUMS` and `refused`.

    Parameters
    ----------
    points
        `series`, null where a row is no single point, `event_time`, `value`, `partition`, `offset`, and the columns of the answer.
    window
        Its length, ms.
    needed
        How many series.
    """
    time = F.unix_micros("event_time")
    found = points.select(*(c.name for c in SUMS), "refused", time, "series", "value", "partition", "offset")
    return map_partitions(found, StructType([*SUMS, points.schema["refused"]]), "PointSums", window, *needed)


def merge_sums(sums: DataFrame, needed: Needed) -> Column:
    """The sums of all blocks of a window and bucket in rows of `SUMS`, as a block; null where there is none."""
    return aggregate_bytes(sums, "sums_block", "MergedSums", needed.of_bucket)


def unpack_sums(sums: DataFrame, window: Column) -> DataFrame:
    """Rows of sums and of what was refused -> a row for each series in a window, and for each refused record.

    `window` is the end of a row's window, ms. Columns are `window_end, series, n, mean, m2, min, max, last, refused`.
    """
    schema = StructType([*SERIES, sums.schema["refused"]])
    return map_partitions(sums.select(window, "sums_block", "refused"), schema, "SeriesRows")
