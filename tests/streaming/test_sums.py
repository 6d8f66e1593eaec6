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


SCALES, SQUARES = (2.0**32, 1.0, 2.0**-32, 2.0**-64), (2.0**64, 2.0**32, 1.0, 2.0**-32, 2.0**-64)


def summed_exactly(values: list[float], scales: tuple[float, ...]) -> float:
    """The sum of values that are cut into whole multiples of each scale, with Python's integers."""
    wholes = [0] * len(scales)
    for value in values:
        rest = value
        for i, scale in enumerate(scales):
            whole = int(rest / scale)
            wholes[i] += whole
            rest -= whole * scale
    total = wholes[0] * scales[0]
    for whole, scale in zip(wholes[1:], scales[1:], strict=True):
        total += whole * scale
    return total


def statistics_of(points: list[tuple[float, int, int, int]], *, counter: bool) -> tuple[Any, ...]:
    """n, mean, m2, min, max, last of points (value, time in the window in ms, offset, partition)."""
    values = [value + 0.0 for value, *_ in points]
    levels = [0.0] * len(values) if counter else values
    n, total = len(values), summed_exactly(levels, SCALES)
    m2 = max(summed_exactly([v * v for v in levels], SQUARES) - total * total / n, 0.0) if n > 1 else 0.0
    return n, total / n, m2, min(values), max(values), max(points, key=lambda point: point[1:])[0] + 0.0


@pytest.mark.parametrize("partitions", [1, 5])
def test_statistics_are_those_of_pythons_own_numbers(spark: SparkSession, partitions: int) -> None:
    source, rows = random.Random(17), []
    expected: dict[str, list[tuple[float, int, int, int]]] = {}
    windowing = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=8)
    for offset in range(4000):
        series = source.choice(("gauge/a//m", "gauge/b/s/m", "counter/a//n", f"gauge/h{source.randrange(400)}//m"))
        kind, host, service, metric = series.split("/")
        value = source.choice(
            (0.1, -0.0, 3.0, source.gauss(0, 1e-12), source.gauss(0, 1e7), source.uniform(-1e15, 1e15))
        )
        if kind == "counter":
            value = abs(value)
        millis, partition = source.randrange(10_000), source.randrange(16)
        about = {"host.name": host, "metric.name": metric, "metric.value": value, "metric.type": kind}
        about |= {
            "@timestamp": (NOON + timedelta(milliseconds=millis))
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        }
        about |= {"service.name": service} if service else {}
        space = b" " * source.randrange(2)  # with a space before it no reader in Java takes it
        append = NOON + timedelta(seconds=11)
        rows.append((space + json.dumps(about).encode(), "telemetry", partition, offset, append))
        expected.setdefault(series, []).append((value, millis, offset, partition))
    frame = spark.createDataFrame(rows, SOURCE)
    found = extract.closed_windows(frame.repartition(partitions), frame.limit(0), windowing).collect()
    assert {row.series: tuple(row[name] for name in ("n", "mean", "m2", "min", "max", "last")) for row in found} == {
        series: statistics_of(points, counter=series.startswith("counter")) for series, points in expected.items()
    }


# Of `gauge/h//mNUMBER` the first 40 bits of xxhash64 are those of the number beside it: found among the first six million.
OF_ONE_PLACE = (
    2026740,
    5005246,
    923535,
    3759769,
    379553,
    5260258,
    4207767,
    4979607,
    1418525,
    5561809,
    1709020,
    2587942,
    876192,
    2822529,
    1053140,
    1141600,
    66696,
    5356146,
    3059434,
    3388848,
    3288121,
    4117205,
    3140405,
    3343860,
    44245,
    4134839,
    177414,
    4308859,
)


def test_names_whose_hashes_begin_alike_are_summed_apart(spark: SparkSession) -> None:
    """Blocks are in the order of hashes, of which the first 40 bits are compared first."""
    windowing = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=8)
    rows = []
    for offset, number in enumerate((*OF_ONE_PLACE, *reversed(OF_ONE_PLACE))):
        about = {"host.name": "h", "metric.name": f"m{number}", "metric.value": number + offset}
        about |= {"@timestamp": NOON.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        rows.append((json.dumps(about).encode(), "telemetry", 0, offset, NOON + timedelta(seconds=1)))
    half = len(OF_ONE_PLACE)
    frames = [spark.createDataFrame(part, SOURCE).coalesce(1) for part in (rows[:half], rows[half:])]
    found = extract.closed_windows(frames[0].union(frames[1]), frames[0].limit(0), windowing).collect()
    assert sorted((row.series, row.n) for row in found) == sorted((f"gauge/h//m{n}", 2) for n in OF_ONE_PLACE)
