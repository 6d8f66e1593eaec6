"""Points that are summed in Java, before Spark's own aggregation, against the same points without."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.jobs import extract
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.spark

WINDOWINGS = [
    WindowingConfig(window_seconds=seconds, lateness_seconds=15, skew_seconds=60, shards=8) for seconds in (7, 3600)
]
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SOURCE = "value binary, topic string, partition int, offset long, timestamp timestamp"


def record(source: random.Random, offset: int) -> tuple[Any, ...]:
    """A record of any kind: plain points most, then late ones, clocks ahead, other forms, broken bytes, heartbeats."""
    partition, append = source.randint(0, 3), NOON + timedelta(seconds=source.uniform(0, 60))
    event = append - timedelta(seconds=source.choice((0, 1, 14.9999, 15, 15.001, 16, -59.9995, -60, -60.002, -300)))
    value = source.choice((0.0, -0.0, 1, -0.1, 1e15, -1e15, source.gauss(0, 1e-9), source.gauss(0, 1e9)))
    document = {
        "@timestamp": event.isoformat(timespec=source.choice(("microseconds", "milliseconds"))).replace("+00:00", "Z"),
        "host.name": source.choice(("a", "b/c", "d%", "0123456789ab/d%f"[: source.randint(1, 16)])),
        "metric.name": source.choice(("m", "n")),
        "metric.value": value,
    }
    more: list[dict[str, Any]] = [{}, {"service.name": "s"}, {"labels": {"k": "v"}}, {"metric.type": "counter"}]
    document |= source.choice(more)
    text = json.dumps(document)
    other = (text[:-1], text + "1", "", '{"record":"heartbeat"}', text.replace('"a"', "5"), text.replace("Z", "+01:00"))
    return (text if source.random() < 0.8 else source.choice(other), "telemetry", partition, offset, append)


def as_bytes(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[0].encode() if isinstance(row[0], str) else row[0], *row[1:])


def closed(
    spark: SparkSession, rows: list[tuple[Any, ...]], windowing: WindowingConfig, summed: bool, partitions: int
) -> list[Any]:
    """What comes of records; a space before the first brace keeps a record from the reader in Java."""
    frame = spark.createDataFrame(
        [(data if summed or not data else b" " + data, *others) for data, *others in map(as_bytes, rows)], SOURCE
    )
    found: DataFrame = extract.closed_windows(frame.repartition(partitions), frame.limit(0), windowing)
    counted = F.when(F.col("refused").isNull(), F.col("n"))  # what was refused shows its bytes, space included
    source = F.col("refused").dropFields("value", "length", "sha256")
    return sorted(map(str, found.withColumn("n", counted).withColumn("refused", source).collect()))


@pytest.mark.parametrize("windowing", WINDOWINGS, ids=lambda windowing: f"{windowing.window_seconds} s")
def test_sums_of_flat_points_are_the_sums_of_all_points(spark: SparkSession, windowing: WindowingConfig) -> None:
    source = random.Random(windowing.window_seconds)
    rows = [record(source, offset) for offset in range(3000)]
    without = closed(spark, rows, windowing, summed=False, partitions=1)
    assert len(without) > 500
    assert closed(spark, rows, windowing, summed=True, partitions=3) == without


NUMBERS = (
    "1.",
    "-",
    "-0",
    "00",
    "01.5",
    "0.1e3",
    "1E+2",
    "0.30000000000000004",
    "123456789012345678",
    "1" * 30,
    ".5",
    "+1",
    "1e",
    "0x1",
    "NaN",
)


def changed(source: random.Random, text: str) -> bytes:
    """A record with a number of another form, or with bytes taken out, put in and exchanged."""
    if source.random() < 0.3:
        return re.sub(r'(metric.value": )[^,}]*', lambda found: found[1] + source.choice(NUMBERS), text).encode()
    data = bytearray(text.encode())
    for _ in range(source.choice((1, 1, 2))):
        at = source.randrange(1, source.choice((len(data), 50)))  # the time is among the first fifty
        new = source.choice(
            (b'"', b"\\", b"{", b"}", b",", b":", b" ", b"\t", b"\x00", b"\x7f", b"\xc3\xa9", b"\xff", b"0", b"-", b"z")
        )
        data[at : at + source.choice((0, 1, 1))] = source.choice((new, new, b""))
    return bytes(data)


def test_a_record_with_changed_bytes_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    source, windowing = random.Random(3), WINDOWINGS[0]
    good = [row for row in (record(source, offset) for offset in range(4000)) if row[0].startswith('{"@')]
    rows = [(changed(source, row[0]), *row[1:]) for row in good]
    without = closed(spark, rows, windowing, summed=False, partitions=1)
    assert len(without) > 1000
    assert closed(spark, rows, windowing, summed=True, partitions=3) == without


def test_a_stream_of_many_series_is_summed_in_parts(spark: SparkSession) -> None:
    windowing = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=8)
    rows = spark.range(250_000).select(
        F.format_string(
            '{"@timestamp":"2026-11-21T12:00:0%dZ","host.name":"h%d","metric.name":"m","metric.value":%d}',
            F.col("id") % 10,
            F.floor(F.col("id") / 2),
            F.col("id") % 2,
        )
        .cast("binary")
        .alias("value"),
        F.lit("telemetry").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.lit(NOON).alias("timestamp"),
    )
    found = extract.closed_windows(rows.coalesce(1), rows.limit(0), windowing)
    assert found.groupBy("n", "mean", "m2", "min", "max", "last").count().collect() == [
        (2, 0.5, 0.5, 0.0, 1.0, 1.0, 125_000)
    ]


def test_points_of_weeks_with_long_names_are_summed_in_parts(spark: SparkSession) -> None:
    """A quiet fleet that catches up: a window has one series, and a batch has thousands of windows."""
    windowing, windows = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=8), 60_000
    moment = F.timestamp_seconds(F.lit(int(NOON.timestamp())) + F.col("id") % windows * 10)
    names = {"host.name": "h" * 256, "service.name": "s" * 256, "metric.name": "m" * 256}
    head = json.dumps(names)[:-1].replace("%", "%%")
    rows = spark.range(2 * windows).select(
        F.format_string(
            head + ',"@timestamp":"%s","metric.value":%d}',
            F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss'Z'"),
            F.floor(F.col("id") / windows),
        )
        .cast("binary")
        .alias("value"),
        F.lit("telemetry").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        moment.alias("timestamp"),
    )
    found = extract.closed_windows(rows.coalesce(1), rows.limit(0), windowing)
    assert found.groupBy("n", "mean", "m2", "min", "max", "last").count().collect() == [
        (2, 0.5, 0.5, 0.0, 1.0, 1.0, windows)
    ]
