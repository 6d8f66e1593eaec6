"""Rows of a flood that go before they are summed: what is written is the same, and what has to be kept meanwhile is little."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from pyarrow import parquet
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from support.raw_records import SOURCE, WINDOWING, Raw, at, frame, line, point, raw

from app.kafka.score_log import shard_of
from models.core.limits import LimitParameters
from models.detection.limits import SHOWN_NAMES
from pipelines.jobs import extract
from pipelines.jvm import Needed, unpack_sums
from pipelines.windowing import WindowingConfig

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
    rows = collected(closed, LIMITS, WINDOWING)
    closed.unpersist()
    return sorted(map(str, rows))


def collected(closed: DataFrame, limits: LimitParameters, windowing: WindowingConfig) -> list[Row]:
    windows = extract.find_closed_windows(closed, windowing, limits)
    return extract.output_records(closed, windows, windowing, TOPICS, 2, limits).collect()


def test_what_is_written_is_the_same_as_of_all_rows(spark: SparkSession) -> None:
    points, lines = telemetry(1500), logs(500)
    wanted = written(extract.closed_windows(frame(spark, points), frame(spark, lines), WINDOWING))
    assert len(wanted) > 300
    assert sum("overflow/" in one for one in wanted) == 6, "of three hosts, two of them in two windows; one is ahead"
    back = frame(spark, points[::-1], 1), frame(spark, lines[::-1], 1)
    assert written(extract.closed_windows(*back, WINDOWING, limits=LIMITS)) == wanted


# A shard may write 80 series, and a bucket has the sums of as many as are looked at of two hosts, 60 of each.
FEW, OF_SHARD, OF_BUCKET = replace(LIMITS, all_series=1), 80, 120
HONEST = ("honest", "other", "third")


def hashed(name: str) -> int:
    """Spark's xxhash64, in its order."""
    return xxhash.xxh64_intdigest(name.encode(), 42) ^ 1 << 63


def of_one_bucket(hosts: int) -> list[str]:
    """Names of hosts that are summed together."""
    return list(islice((f"big-{i}" for i in count() if hashed(f"big-{i}") % 1024 == hashed("honest") % 1024), hosts))


def first(names: Iterable[str], most: float) -> list[str]:
    """The first names by their hashes, up to that with which they count as `most`."""
    found: list[str] = []
    for name in sorted(names, key=lambda name: (hashed(name), name)):
        if sum(-(-len(one) // 256) for one in found) < most:
            found.append(name)
    return found


def fair(names: Iterable[str], group: Callable[[str], int], room: int, of_host: float = math.inf) -> list[str]:
    """The names that are kept where those of a group count as `room` at most: the largest share of a host for which there is room."""
    hosts: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        host = name.split("/")[1]
        hosts[group(host)][host].append(name)
    kept = []
    for own in hosts.values():
        each = [min(sum(-(-len(one) // 256) for one in found), of_host) for found in own.values()]
        share = max(k for k in range(1, 1000) if sum(min(n, k) for n in each) <= room)
        kept += [name for found in own.values() for name in first(found, share)]
    return kept


def test_of_hosts_that_are_summed_together_each_keeps_its_share(spark: SparkSession) -> None:
    """With 12 shards the hosts of a bucket are of three, which have bounds of their own."""
    windowing, greedy = replace(WINDOWING, shards=12), of_one_bucket(8)
    sent = {host: 90 if i < 5 else 10 for i, host in enumerate(greedy)} | dict.fromkeys(HONEST, 5)
    wide = "x" * 240
    metrics = {host: [f"m{i}.{wide * (host in greedy[::3])}" for i in range(n)] for host, n in sent.items()}
    values = [point(1, at(i % 10), host, metric=one) for host, found in metrics.items() for i, one in enumerate(found)]
    random.Random(4).shuffle(values)
    records = [raw(value, offset, at(12)) for offset, value in enumerate(values)]
    nothing = frame(spark, [raw(BEAT, 0, at(10), "logs")])
    closed = extract.closed_windows(frame(spark, records), nothing, windowing, limits=FEW).persist()
    there = [row.series for row in closed.where("series like 'gauge/big-%' or series like 'gauge/honest/%'").collect()]
    assert OF_BUCKET < sum(-(-len(name) // 256) for name in there) <= OF_BUCKET + 2 * len(greedy)
    rows = [json.loads(row.value) for row in collected(closed, FEW, windowing) if row.topic == "s"]
    closed.unpersist()

    names = [f"gauge/{host}/s/{one}" for host, found in metrics.items() for one in found]
    assert [len(name) > 256 for name in names].count(True) > 100
    of_buckets = fair(names, lambda host: hashed(host) % 1024, OF_BUCKET, 60)
    wanted = fair(of_buckets, lambda host: shard_of(host, 12), OF_SHARD)
    assert sorted(row["series"] for row in rows if row.get("series", "").startswith("gauge/")) == sorted(wanted)
    assert Counter(name.split("/")[1] for name in wanted if "/big-" not in name) == dict.fromkeys(HONEST, 5)
    over = {row["shard"]: row for row in rows if row.get("series") == "overflow//all_series"}
    gone = Counter(shard_of(name.split("/")[1], 12) for name in set(names) - set(wanted))
    assert over.keys() == gone.keys()
    assert gone.total() / 3 < sum(row["n"] for row in over.values()) < gone.total() * 2, "an estimate, of three hosts"


def test_of_a_host_no_more_sums_are_handed_out_than_are_kept(spark: SparkSession) -> None:
    values = [point(1, at(i % 10), "big", ("gauge", "counter")[i % 2], f"m{i}") for i in range(2_000)]
    values += [point(1, at(5), "honest", metric=f"m{i}") for i in range(40)]
    records = [raw(value, offset, at(10)) for offset, value in enumerate(values)]
    sums = extract.points_and_sums(frame(spark, records, 1), WINDOWING, Needed(35, 1_000)).where(
        "sums_block is not null"
    )
    sums = unpack_sums(sums.withColumn("refused", F.lit(None).cast("string")), F.col("sums_window"))
    assert Counter(row.series.split("/")[1] for row in sums.collect()) == {"big": 35, "honest": 35}


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
    assert found[0] == kept
    whole = extract.closed_windows(frame(spark, rows), frame(spark, [raw(BEAT, 0, at(10), "logs")]), WINDOWING)
    assert [one for one in results if "gauge/" in one] == [one for one in written(whole) if "gauge/" in one]


def store(folder: Path, index: int, rows: list[Raw]) -> None:
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([row._asdict() for row in rows], ARROW), folder / f"{index:03d}.parquet")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(SOURCE).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("timestamp", f"{WINDOWING.watermark_delay_seconds} seconds")
