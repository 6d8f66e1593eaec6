"""Members are found wherever dots and objects put them, and times in Java are those of Spark's functions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipelines.inputs import log_lines, telemetry_points
from pipelines.inputs.fields import parse_time, parse_time_in_spark
from pipelines.inputs.members import Members

pytestmark = pytest.mark.spark

AT = "2026-01-05T00:00:10.500Z"
LINE = {"@timestamp": AT, "host.name": "h", "service.name": "s", "log.level": "info", "message": "m"}
TIMES = 20_000


def texts(spark: SparkSession, records: list[str]) -> DataFrame:
    rows = [(bytearray(record.encode()), i) for i, record in enumerate(records)]
    return spark.createDataFrame(rows, "value binary, offset long").coalesce(1)


def found(spark: SparkSession, record: str, *paths: str) -> list[str | None]:
    """Members of a log record."""
    members = Members(F.call_function("kappa_line_record", F.col("value"))["members"])
    (row,) = texts(spark, [record]).select(*(members[path].alias(str(i)) for i, path in enumerate(paths))).collect()
    return list(row)


NODE = "kubernetes.node.name"


@pytest.mark.parametrize(
    "record",
    [
        {"kubernetes": {"node": {"name": "n"}}},
        {"kubernetes.node.name": "n"},
        {"kubernetes": {"node.name": "n"}},
        {"kubernetes.node": {"name": "n"}},
        {"kubernetes": {"node": {"name": None}}, "kubernetes.node": {"name": "n"}},
        {"x": [{"kubernetes": {"node": {"name": "other"}}}], "kubernetes": {"labels": {"node": {"name": "other"}}, "node": {"name": "n"}}},
    ],
)  # fmt: skip
def test_a_dot_in_a_key_means_the_same_as_an_object(spark: SparkSession, record: dict[str, Any]) -> None:
    assert found(spark, json.dumps(record), NODE) == ["n"]


def test_a_whole_key_counts_more_than_an_object_before_or_behind_it(spark: SparkSession) -> None:
    before, behind = '{"host":{"name":"nested"},"host.name":"flat"}', '{"host.name":"flat","host":{"name":"nested"}}'
    for record in (before, behind):
        assert found(spark, record, "host.name") == ["flat"]
    assert found(spark, '{"host":{"name":"nested"},"host.name":null}', "host.name") == ["nested"]


def test_names_that_differ_in_capitals_are_different_members(spark: SparkSession) -> None:
    record = '{"HOSTNAME":"a","hostname":"b","hostName":"c","_HOSTNAME":"d"}'
    assert found(spark, record, "HOSTNAME", "hostname", "hostName", "_HOSTNAME", "Hostname") == [
        "a",
        "b",
        "c",
        "d",
        None,
    ]


def test_a_member_is_what_was_written(spark: SparkSession) -> None:
    record = '{"@timestamp": 1767571210.50, "message": {"a": [1.50, "]}"]}, "level": [3], "resourceLogs": [ ], "log": {"level": true}}'
    wanted = ["1767571210.50", '{"a": [1.50, "]}"]}', None, "[ ]", "true"]
    assert found(spark, record, "@timestamp", "message", "level", "resourceLogs", "log.level") == wanted


def rows_of(frame: DataFrame, read: Any) -> list[Row]:
    kafka = frame.select(
        "value",
        F.lit("t").alias("topic"),
        F.lit(0).alias("partition"),
        "offset",
        F.current_timestamp().alias("timestamp"),
    )
    return list(read(kafka).orderBy("offset").collect())


def test_a_document_of_metricbeat_with_a_number_that_is_none_keeps_its_others(spark: SparkSession) -> None:
    record = f'{{"@timestamp":"{AT}","host":{{"name":"h"}},"event":{{"module":"a"}},"a":{{"b":NaN,"c":1.5,"d":{{"e":2e3}}}}}}'
    rows = rows_of(texts(spark, [record]), telemetry_points)
    assert sorted((row["series"] or "", row["value"], row["reason"]) for row in rows) == [
        ("", None, "value is not a number: NaN"), ("gauge/h//a.c", 1.5, None), ("gauge/h//a.d.e", 2000.0, None),
    ]  # fmt: skip


def test_the_host_of_a_line_is_the_node_whatever_is_in_its_message(spark: SparkSession) -> None:
    line = LINE | {"host.name": "agent-7d9", "kubernetes": {"node": {"name": "n"}}}
    records = [json.dumps(line | {"message": message}) for message in ("plain", "\x1b[31mred\x1b[0m")]
    assert {row["host"] for row in rows_of(texts(spark, records), log_lines)} == {"n"}


def test_a_flat_line_with_the_name_of_a_logger_is_still_read_by_the_reader_of_flat_lines(spark: SparkSession) -> None:
    line = LINE | {"log.logger": "a.B"}
    records = [json.dumps(line), json.dumps(line | {"log.syslog.hostname": "n"})]
    quick = texts(spark, records).select(F.call_function("kappa_flat_line", "value").isNotNull()).collect()
    assert [row[0] for row in quick] == [True, False]
    assert [row["host"] for row in rows_of(texts(spark, records), log_lines)] == ["h", "n"]


def times(source: random.Random) -> Iterator[str]:
    """Texts that are times, or nearly."""
    digits = "0123456789"
    while True:
        if source.random() < 0.5:
            text = str(source.randint(0, 10 ** source.randint(1, 21)))
            text += source.choice(("", "", f".{source.randint(0, 10 ** source.randint(0, 11))}", ".", "e3", "Z", "-"))
        else:
            year, month, day = (
                source.choice((1969, 1970, 2024, 2026, 2199, 2200)),
                source.randint(0, 13),
                source.randint(0, 32),
            )
            clock = ":".join(f"{source.randint(0, most):02d}" for most in (24, 60, 60))
            text = f"{year:04d}-{month:02d}-{day:02d}{source.choice('TTTt ')}{clock}"
            text += source.choice(("", ".", ",", ".")) + "".join(
                source.choices(digits, k=source.choice((0, 0, 1, 3, 6, 9, 10)))
            )
            text += source.choice(("", "Z", "Z", "z", "+00:00", "+02:00", " Z"))
        yield source.choice(("", "", "", "", "", " ", "\n")) + text


def test_what_is_read_of_a_time_in_java_is_what_sparks_functions_read(spark: SparkSession) -> None:
    source = times(random.Random(1))
    frame = spark.createDataFrame([(next(source),) for _ in range(TIMES)], "text string").repartition(2)
    quick = F.call_function("kappa_plain_time", "text").isNotNull()
    read = frame.select(
        "text",
        parse_time(F.col("text")).alias("t"),
        parse_time_in_spark(F.col("text")).alias("slow"),
        quick.alias("quick"),
    )
    read = read.cache()
    assert read.where("quick").count() > TIMES / 10
    assert [row["text"] for row in read.where("not (t <=> slow)").collect()] == []
