"""Rows of a flood that go before they are summed: what is written is the same, and what has to be kept meanwhile is little."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.raw_records import SOURCE, WINDOWING, Raw, at, frame, line, point, raw

from models.core.limits import LimitParameters
from models.detection.limits import SHOWN_NAMES
from pipelines.jobs import extract
from pipelines.jvm import rows_of_sums

pytestmark = pytest.mark.spark

LIMITS = LimitParameters(metrics_per_host=30, templates_per_host=10, new_series_per_host=20, hosts=40)
TOPICS = {"statistics": "s", "dead-letters": "d", "late": "l"}
BEAT = b'{"record":"heartbeat"}'
ARROW = pa.schema(
    [
        *(("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32())),
        *(("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))),
    ]
)


def word(number: int) -> str:
    """Letters, which no mask takes for a parameter."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(4))


def telemetry(series: int) -> list[Raw]:
    """Of one host far too many gauges and counters, among points of others; some are refused, and some are no flat records."""
    values = [point(i % 7, at(i % 20), "big", ("gauge", "counter")[i % 3 == 0], f"m{i}") for i in range(series)]
    values += [b" " + point(-i, at(3), "big", metric=f"m{i}") for i in range(0, series, 5)]
    values += [point(i, at(4), "honest", metric=f"m{i}") for i in range(40)]
    values += [point(i, at(300), "honest", metric=f"m{i}") for i in range(9)] + [b"{broken", BEAT]
    random.Random(1).shuffle(values)
    return [raw(value, offset, at(12)) for offset, value in enumerate(values)]


def logs(templates: int) -> list[Raw]:
    """Of one host far too many templates in far too many services, of another too many in one."""
    values = [line(f"{word(i)} {i}", at(i % 20), "noisy", service=f"s{i % 90}") for i in range(templates)] * 2
    values += [line(f"{word(i)} failed", at(5), "wordy", level="error") for i in range(templates)] * 3
    values += [line(f"took {i} ms", at(5), "honest") for i in range(30)] + [BEAT]
    random.Random(2).shuffle(values)
    return [raw(value, offset, at(12), "logs") for offset, value in enumerate(values)]


def written(closed: DataFrame) -> list[Any]:
    """All that the sink of `extract` writes."""
    closed = closed.persist()
    windows = extract.windows_of(closed, WINDOWING, LIMITS)
    rows = extract.records(closed, windows, WINDOWING, TOPICS, 2, LIMITS).collect()
    closed.unpersist()
    return sorted(map(str, rows))


def most_rows(kept: int, sent: int) -> float:
    """Of so many names in a random order, those that are among the `kept` least when they come: kept (1 + ln(sent / kept)), with a margin."""
    return 1.5 * kept * (1 + math.log(sent / kept))


def test_what_is_written_is_the_same_as_of_all_rows(spark: SparkSession) -> None:
    points, lines = telemetry(1500), logs(500)
    wanted = written(extract.closed_windows(frame(spark, points), frame(spark, lines), WINDOWING))
    assert len(wanted) > 300
    assert sum("overflow/" in one for one in wanted) == 5, "of three hosts, two of them in two windows"
    back = frame(spark, points[::-1], 1), frame(spark, lines[::-1], 1)
    assert written(extract.closed_windows(*back, WINDOWING, limits=LIMITS)) == wanted


def test_of_a_host_no_more_sums_are_handed_out_than_are_kept(spark: SparkSession) -> None:
    values = [point(1, at(i % 10), "big", ("gauge", "counter")[i % 2], f"m{i}") for i in range(2_000)]
    values += [point(1, at(5), "honest", metric=f"m{i}") for i in range(40)]
    records = [raw(value, offset, at(10)) for offset, value in enumerate(values)]
    sums = extract.points_and_sums(frame(spark, records, 1), WINDOWING, 35).where("sums_block is not null")
    sums = rows_of_sums(sums.withColumn("refused", F.lit(None).cast("string")), F.col("sums_window"))
    found = Counter("/".join(row.series.split("/")[:2]) for row in sums.collect())
    assert found == {"gauge/big": 35, "counter/big": 35, "gauge/honest": 35}


def test_a_stream_keeps_few_rows_of_a_flood_however_many_batches_it_comes_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    series, files = 16_000, 4
    points = [point(1, at(i % 10), "big", metric=f"m{i}") for i in random.Random(3).sample(range(series), series)]
    points += [point(i, at(5), "honest", metric=f"m{i}") for i in range(40)]
    rows = [raw(value, offset, at(10)) for offset, value in enumerate(points)]
    share = -(-len(rows) // files)
    for index in range(files):
        store(tmp_path / "telemetry", index, rows[index * share : (index + 1) * share])
        store(tmp_path / "logs", index, [raw(BEAT, index, at(10), "logs")])
    for topic in ("telemetry", "logs"):  # the first closes the window, the second is a batch that may write it
        for more in range(2):
            store(tmp_path / topic, files + more, [raw(BEAT, 10**6 + more, at(40 + more), topic)])
    found: list[int] = []
    results: list[Any] = []

    def keep(batch: DataFrame, _: int) -> None:
        rows = batch.where("series like 'gauge/big/%'").count()
        if rows:
            found.append(rows)
            results.extend(written(batch))

    streams = stream(spark, tmp_path / "telemetry"), stream(spark, tmp_path / "logs")
    closed = extract.closed_windows(*streams, WINDOWING, limits=LIMITS)
    writer = closed.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert len(found) == 1
    kept = LIMITS.metric_rows + SHOWN_NAMES
    assert kept <= found[0] < most_rows(kept, series)
    whole = extract.closed_windows(frame(spark, rows), frame(spark, [raw(BEAT, 0, at(10), "logs")]), WINDOWING)
    assert [one for one in results if "gauge/" in one] == [one for one in written(whole) if "gauge/" in one]


def store(folder: Path, index: int, rows: list[Raw]) -> None:
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([row._asdict() for row in rows], ARROW), folder / f"{index:03d}.parquet")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(SOURCE).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("timestamp", f"{WINDOWING.watermark_delay_seconds} seconds")
