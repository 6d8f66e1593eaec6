"""Log lines that are counted in Java, before Spark's own aggregation, against the same lines without."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from models.core.limits import LimitParameters
from models.records.log_levels import SYNONYMS as LEVELS
from models.templates.extraction import template_id, template_of
from pipelines.jobs import extract
from pipelines.jvm import count_flat_lines
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.spark

WINDOWINGS = [
    WindowingConfig(window_seconds=seconds, lateness_seconds=15, skew_seconds=60, shards=8) for seconds in (7, 3600)
]
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SOURCE = "value binary, topic string, partition int, offset long, timestamp timestamp"
NAMES = [name for names in LEVELS.values() for name in names]
LETTERS = ("a", "é", "ß", "\u0130", "\u2028", "\ud7ff", "\ue000", "\uffee", "𝒳", "\ufffd")
MESSAGES = (
    "took 5 ms", "took 12 ms", "took {} ms", "connection to 10.0.0.{} lost", "a", " ", "user ä{} is gone", "<*> and {}", "100 % of /var/{}",
    "put {} Order(items=[" + "Item(id=7, name=ann), " * 120,
)  # fmt: skip
TWINS = (("vcegeuwp", "ahaaoafa"), ("ruluwikr", "uayhawag"))  # what two texts with one hash differ in
Record = tuple[bytes, str, int, int, datetime]


def record(source: random.Random, offset: int) -> Record:
    """A record of any kind: plain lines most, then late ones, clocks ahead, other forms, broken bytes, heartbeats."""
    partition, append = source.randint(0, 3), NOON + timedelta(seconds=source.uniform(0, 60))
    event = append - timedelta(seconds=source.choice((0, 1, 14.9999, 15, 15.001, 16, -59.9995, -60, -60.002, -300)))
    level = source.choice((*NAMES, "info", "notice", "", "5", " error", "ERR\u0130", "\u0130nfo", "\u212aRIT"))
    document: dict[str, Any] = {
        "@timestamp": event.isoformat(timespec=source.choice(("microseconds", "milliseconds"))).replace("+00:00", "Z"),
        "host.name": source.choice(("a", "b/c", "d%", "heartbeat", "0123456789ab/d%f"[: source.randint(1, 16)])),
        "service.name": source.choice(("s", "t/%2F", "ü")),
        "log.level": source.choice((level, level.upper(), level.title())),
        "message": source.choice(MESSAGES).format(source.randint(0, 99))
        + source.choice(("", "", source.choice(LETTERS))),
    }
    text = json.dumps(document, ensure_ascii=source.random() < 0.5)
    other = (
        *(text[:-1], text + "1", "", '{"record":"heartbeat"}', text.replace('"a"', "5"), text.replace("Z", "+01:00")),
        *(json.dumps({"host": {"name": "a"}, **document}), json.dumps({**document, "message": "x" * 9_000})),
    )
    value = text if source.random() < 0.8 else source.choice(other)
    return value.encode("utf-8", "surrogatepass"), "logs", partition, offset, append


def closed(
    spark: SparkSession,
    rows: list[Record],
    windowing: WindowingConfig,
    counted: bool,
    partitions: int,
    limits: LimitParameters | None = None,
) -> list[str]:
    """What comes of records; a space before the first brace keeps a record from the reader in Java."""
    frame = spark.createDataFrame(
        [(data if counted or not data else b" " + data, *others) for data, *others in rows], SOURCE
    )
    found = extract.closed_windows(frame.limit(0), frame.repartition(partitions), windowing, limits=limits)
    numbers = F.when(F.col("refused").isNull(), F.col("n"))  # what was refused shows its bytes, space included
    source = F.col("refused").dropFields("value", "length", "sha256")
    return sorted(map(str, found.withColumn("n", numbers).withColumn("refused", source).collect()))


@pytest.mark.parametrize("windowing", WINDOWINGS, ids=["windows of 7 s", "windows of an hour"])
def test_counted_lines_are_those_of_the_slow_reader(spark: SparkSession, windowing: WindowingConfig) -> None:
    source = random.Random(windowing.window_seconds)
    rows = [record(source, offset) for offset in range(1_500)]
    slow = closed(spark, rows, windowing, counted=False, partitions=2)
    assert sum("template/" in row for row in slow) > 100
    assert closed(spark, rows, windowing, counted=True, partitions=1) == slow
    source.shuffle(rows)
    assert closed(spark, rows, windowing, counted=True, partitions=5) == slow


def test_templates_of_one_id_are_one_row_in_whatever_order_they_come(spark: SparkSession) -> None:
    """Of XXH64, of which ids are made, anybody finds texts with one hash: these two in a second."""
    texts = [f"{one} of the queue is full is{other} was not found by anyone" for one, other in TWINS]
    (template,) = {template_id(template_of(text)) for text in texts}
    lines = [
        (json.dumps({
            "@timestamp": "2026-11-21T12:00:01Z", "host.name": "h", "service.name": "s", "log.level": "info", "message": texts[i % 2],
        }).encode(), "logs", i % 3, i, NOON + timedelta(seconds=2))
        for i in range(7)
    ]  # fmt: skip
    for counted, partitions in ((True, 1), (True, 4), (False, 4)):
        (found,) = closed(spark, lines, WINDOWINGS[1], counted=counted, partitions=partitions)
        assert f"series='template/h/s/info/{template}'" in found
        assert "n=7, mean=None" in found
        assert f"template='{min(texts)}', sample='{min(texts)}'" in found


def test_most_lines_are_counted_by_the_reader_in_java(spark: SparkSession) -> None:
    source = random.Random(3)
    frame = spark.createDataFrame([record(source, offset) for offset in range(1_000)], SOURCE).coalesce(1)
    found = count_flat_lines(frame, WINDOWINGS[0])
    assert found.agg(F.sum("lines_n")).collect()[0][0] > 350


def lines_of(messages: list[str]) -> list[Record]:
    """A record of each message, of one host and service."""
    return [
        (json.dumps({
            "@timestamp": "2026-11-21T12:00:01Z", "host.name": "h", "service.name": "s", "log.level": "info", "message": message,
        }).encode(), "logs", 0, i, NOON + timedelta(seconds=2))
        for i, message in enumerate(messages)
    ]  # fmt: skip


def test_each_of_many_templates_comes_in_one_row(spark: SparkSession) -> None:
    words = [" ".join("xy"[i >> bit & 1] for bit in range(15)) for i in range(20_000)]
    counted = count_flat_lines(spark.createDataFrame(lines_of(words * 2), SOURCE).coalesce(1), WINDOWINGS[1])
    assert counted.where("lines_n = 2").count() == counted.count() == len(words)


def test_templates_whose_hashes_are_alike_are_handed_out_and_none_is_lost(spark: SparkSession) -> None:
    """A hundred lines whose places in a table of 1,024 are the same, which anybody can make."""
    letters = F.translate(F.conv(F.col("id") + 30_000, 10, 16), "0123456789", "GHIJKLMNOP")
    name = F.concat(F.lit(f"{int(NOON.timestamp() + 3600) * 1000}\0h\0s\0info\0"), letters)
    alike = (
        spark.range(250_000).where(F.pmod(F.xxhash64(name.cast("binary")), F.lit(1024)) == 7).select(letters.alias("m"))
    )
    messages = [row["m"] for row in alike.orderBy("id").limit(100).collect()]
    assert len(messages) == 100
    frame = spark.createDataFrame(lines_of(messages * 3), SOURCE).coalesce(1)
    counted = count_flat_lines(frame, WINDOWINGS[1])
    rows = counted.groupBy("lines_template").agg(F.sum("lines_n").alias("n"), F.count(F.lit(1)).alias("rows")).collect()
    assert {row["lines_template"]: row["n"] for row in rows} == dict.fromkeys(messages, 3)
    assert sum(row["rows"] for row in rows) > len(messages)


def test_counts_are_handed_out_before_they_take_much_memory(spark: SparkSession) -> None:
    """More texts than are held: lines of one template come in several rows, and are summed."""
    rows = [
        (json.dumps({
            "@timestamp": "2026-11-21T12:00:01Z", "host.name": "h", "service.name": "s", "log.level": "info",
            "message": f"{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}{'uvwxyzabcd'[i // 100 % 10]}{'ef'[i // 1_000]} {'word ' * 1_600}",
        }).encode(), "logs", 0, i, NOON + timedelta(seconds=2))
        for i in (*range(2_000),) * 3
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, SOURCE).coalesce(1)
    counted = extract.lines_and_counts(frame, WINDOWINGS[1])
    series = [row["series"] for row in counted.select("series").collect()]
    assert counted.agg(F.sum("n")).collect()[0][0] == 6_000
    assert len(series) > len(set(series))
    found = extract.closed_windows(frame.limit(0), frame, WINDOWINGS[1]).collect()
    assert len({row["series"] for row in found}) == len(found)
    assert sum(row["n"] for row in found) == 6_000


def test_messages_that_grow_are_handed_out_before_they_take_much_memory(spark: SparkSession) -> None:
    """The least message of each of many templates is replaced by one of 8,000 characters, of which the template reads the first 2,048."""
    words = [
        f"{one}{other}{third}" for one in "abcdefghijklmn" for other in "abcdefghijklmn" for third in "abcdefghijklmn"
    ]
    long = [f"{' ' * 2_040}{word}{' ' * 5_900}" for word in words]
    counted = count_flat_lines(spark.createDataFrame(lines_of([*words, *long]), SOURCE).coalesce(1), WINDOWINGS[1])
    assert counted.count() > len(words)
    rows = (
        counted.groupBy("lines_template")
        .agg(F.sum("lines_n").alias("n"), F.min("lines_sample").alias("least"))
        .collect()
    )
    assert {row["lines_template"]: (row["n"], row["least"]) for row in rows} == {
        word: (2, least) for word, least in zip(words, long, strict=True)
    }
