"""Code of our own in Spark's JVM: where it is, and what it answers. Why: docs/decisions/0010-flat-records-in-java.md.

Functions read or write the bytes of one record each, so that no record of the usual forms costs a parser or a writer of its
own; `app.runtime.spark.session` makes them known. `sums_of_flat` and `packed_by_shard` make few rows of many records.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from models.templates.masks import MASKS, MAX_INPUT, MAX_TEMPLATE, NEEDS

SOURCES = Path(__file__).parent

_PATTERNS, _TOKENS = zip(*MASKS, strict=True)
# SQL name -> (class, what it answers, what it is made of); readers answer null for a record that is not plainly good
FUNCTIONS: dict[str, tuple[str, DataType, tuple[Any, ...]]] = {
    "kappa_score_text": ("ScoreText", BinaryType(), ()),
    "kappa_template": (
        "LogTemplate",
        StringType(),
        (list(_PATTERNS), list(_TOKENS), ["\n".join(sets) for sets in NEEDS], MAX_INPUT, MAX_TEMPLATE),
    ),
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

PACKED = StructType([StructField("shard", IntegerType()), StructField("value", BinaryType())])
RECORD = [
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", LongType()),  # microseconds since 1970
    StructField("value", BinaryType()),
]

_environment = threading.Lock()


def packed_by_shard(values: DataFrame) -> DataFrame:
    """Records of `statistics` (one column, their bytes) -> `shard, value`: many records of a shard, a line each.

    A task fails on a record without a shard.
    """
    return _map_partitions(values, PACKED, "ShardPacker")


@contextmanager
def own_workers(spark: SparkSession, job: str) -> Iterator[None]:
    """Let functions that are made now have a Python worker for each partition, which meets no other partition's tasks.

    What such a worker keeps in memory is there when the partition's next task comes. PySpark has no argument for it: it takes
    the environment of a function's workers from the context.
    """
    context: Any = spark.sparkContext
    with _environment:
        before = context.environment
        context.environment = context._jvm.kappa.OwnWorkers(before, job)
        try:
            yield
        finally:
            context.environment = before


def sums_of_flat(
    raw: DataFrame,
    *,
    window: int,
    lateness: int,
    skew: int,
    scales: Sequence[Sequence[float]],
    order: tuple[int, int, int],
) -> DataFrame:
    """Kafka's columns -> the same for records that need a look, and sums of the flat points among the others.

    `window`, `lateness`, `skew` are in milliseconds, `scales` those of sums and of squares, `order` as in
    `extract.arrival_order`: bits of offset and of partition, microseconds of a step. Columns of sums are `sums_window` (end,
    ms), `sums_series`, `sums_n`, `sums_s0`, ..., `sums_q0`, ..., `sums_min`, `sums_max`, `sums_last`, `sums_order`.
    """
    schema = StructType([*RECORD, *sums_schema(scales)])
    columns = (F.unix_micros(c.name).alias(c.name) if c.name == "timestamp" else F.col(c.name) for c in RECORD)
    arrays = (java_array(raw.sparkSession, "double", each) for each in scales)
    rows = _map_partitions(raw.select(*columns), schema, "FlatSums", window, lateness, skew, *arrays, *order)
    return rows.withColumn("timestamp", F.timestamp_micros("timestamp"))


def sums_schema(scales: Sequence[Sequence[float]]) -> list[StructField]:
    """The columns of sums, in the order in which `FlatSums` writes them."""
    parts = [f"{name}{i}" for name, each in zip("sq", scales, strict=True) for i in range(len(each))]
    sums = [("window", LongType()), ("series", StringType()), ("n", LongType()), *((p, LongType()) for p in parts)]
    sums += [("min", DoubleType()), ("max", DoubleType()), ("last", DoubleType()), ("order", LongType())]
    return [StructField(f"sums_{name}", kind) for name, kind in sums]


def java_array(spark: SparkSession, kind: str, values: Sequence[Any]) -> Any:
    """An array of Java's, of a primitive type or a class of this name."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(getattr(gateway.jvm, kind), len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def _map_partitions(frame: DataFrame, schema: StructType, kind: str, *arguments: Any) -> DataFrame:
    """Rows through a class of ours, a partition at a time: Python has no such call."""
    java: Any = frame.sparkSession
    encoder = java._jvm.org.apache.spark.sql.Encoders.row(java._jsparkSession.parseDataType(schema.json()))
    mapping = getattr(java._jvm.kappa, kind)(*arguments)
    return DataFrame(frame._jdf.mapPartitions(mapping, encoder), frame.sparkSession)
