"""Records that the readers of flat records and Spark's functions read differently."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from support import record_grammar

from pipelines.inputs import canonical, log_lines, telemetry_points
from pipelines.jvm import functions

KAFKA = "value binary, topic string, partition int, offset long, timestamp timestamp"
APPENDED = datetime(2026, 1, 5, 0, 0, 11, tzinfo=UTC)
READERS = {record_grammar.TELEMETRY: "flat_point", record_grammar.LOGS: "flat_line"}
SHRINKING_ROUNDS = 12


@contextmanager
def spark_alone(topic: str) -> Iterator[None]:
    """Without the reader of flat records in Java."""
    name = READERS[topic]
    before, answer = getattr(canonical, name), functions()[f"kappa_{name}"][1]
    setattr(canonical, name, lambda record: F.lit(None).cast(answer))
    try:
        yield
    finally:
        setattr(canonical, name, before)


def read(frame: DataFrame, topic: str) -> DataFrame:
    """`offset` and all that is read of the records, as text, in one column `row`."""
    points = topic == record_grammar.TELEMETRY
    found = telemetry_points(frame) if points else log_lines(frame)
    names = ("series", "host", "value", "reason") if points else ("host", "service", "level", "message", "reason")
    columns: list[Column] = [F.unix_micros("event_time").alias("time")]
    columns += [(F.col(n) + F.lit(0.0)).alias(n) if n == "value" else F.col(n) for n in names]
    return found.select("offset", F.to_json(F.struct(*columns)).alias("row"))


def frame_of(spark: SparkSession, records: list[bytes], topic: str) -> DataFrame:
    """Kafka's columns; a record's place in the list is its offset."""
    rows = [(bytearray(value), topic, 0, i, APPENDED) for i, value in enumerate(records)]
    return spark.createDataFrame(rows, KAFKA).repartition(4)


def both(spark: SparkSession, records: list[bytes], topic: str) -> tuple[DataFrame, DataFrame]:
    """What is read by both readers, and by Spark's functions alone."""
    frame = frame_of(spark, records, topic)
    fast = read(frame, topic)
    with spark_alone(topic):
        return fast, read(frame, topic)


def differing(spark: SparkSession, records: list[bytes], topic: str) -> list[int]:
    """The places in the list of the records that are read differently, or give no row at all."""
    fast, slow = both(spark, records, topic)
    sums = [frame.select("offset", (F.xxhash64("row") * sign).alias("h")) for frame, sign in ((fast, 1), (slow, -1))]
    found = sums[0].unionByName(sums[1]).groupBy("offset").agg(F.sum("h").alias("h"), F.count("h").alias("n")).collect()
    return sorted(
        {row["offset"] for row in found if row["h"] != 0} | set(range(len(records))) - {r["offset"] for r in found}
    )


def shrunk(spark: SparkSession, record: bytes, topic: str) -> bytes:
    """A shorter record that is read differently, too: pieces are taken out as long as one may go."""
    for _ in range(SHRINKING_ROUNDS):
        spans = [
            (at, at + size)
            for size in (len(record) // 2, len(record) // 4, 32, 8, 4, 2, 1)
            if size
            for at in range(0, len(record), size)
        ]
        candidates = [record[:a] + record[b:] for a, b in spans[:2000]]
        still = differing(spark, candidates, topic)
        if not still:
            break
        record = min((candidates[i] for i in still), key=len)
    return record


def fuzzed(spark: SparkSession, topic: str, seed: int, count: int, others: float = 0.06) -> list[str]:
    """Read `count` records made from a seed, a share of other forms; a sentence for each of the first that are read differently."""
    source = random.Random(f"{topic}/{seed}")
    records = [record_grammar.record(source, topic, others) for _ in range(count)]
    sentences = []
    for place in differing(spark, records, topic)[:3]:
        least = shrunk(spark, records[place], topic)
        fast, slow = ([row["row"] for row in frame.select("row").collect()] for frame in both(spark, [least], topic))
        sentences.append(
            f"{topic}, seed {seed}, record {place}: {least!r} is {fast} by both readers, {slow} by Spark's functions"
        )
    return sentences
