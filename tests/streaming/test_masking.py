"""Laws of templates: what varies is masked, what is the same stays, a template is its own template."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.masking import MAX_TEMPLATE, template_id, template_of

pytestmark = pytest.mark.spark

TEMPLATES = {
    "took 12 ms": "took <num>",
    "took 1,234.5ms, 99 % idle": "took <num>, <num> % idle",
    "99% idle, 3 % busy": "<num> idle, <num> % busy",
    "a  b\t c\n": "a b c",
    "2026-01-05T10:00:03.250Z started": "<ts> started",
    "at 2026-01-05 10:00:03,250 +0100 and 10:00:03": "at <ts> and <ts>",
    "at Mon Jan  5 10:00:03 2026": "at <ts>",
    '[05/Jan/2026:10:00:03 +0000] "GET /a/b?c=1 HTTP/1.1" 200': '[<ts>] "GET <path> HTTP/<num>" <num>',
    "id 54FADB41-2c4e-40cd-baed-9335e4c35a9e": "id <uuid>",
    "id 54fadb412c4e40cdbaed9335e4c35a9e": "id <hex>",
    "at 0xDEADBEEF": "at <hex>",
    "block blk_-6952295868487656571": "block blk_<num>",
    "commit 9f4ef63 and ffffffff": "commit <num> and <num>",
    "a decade of facades": "a decade of facades",
    "from 10.0.0.1:5000 to /10.0.0.2": "from <ip> to /<ip>",
    "from fe80::1ff:fe23:4567:890a and ::1": "from <ip> and <ip>",
    "peer db-1.example.com:5432 is down": "peer <ip> is down",
    "peer 10.0.0.1 (db.example.com), 10.0.0.2": "peer <ip>",
    "link 0a:1b:2c:3d:4e:5f up": "link <mac> up",
    "mail to Ann.B@example.com": "mail to <email>",
    "open /var/lib/x.log failed": "open <path> failed",
    "open C:\\Users\\x failed": "open <path> failed",
    "see https://example.com/a?b=c#d.": "see <url>",
    "user 'ann' said \"hi there\"": "user <str> said <str>",
    "can't stop, won't stop": "can't stop, won't stop",
    "sent -5 and +7 of eth0": "sent <num> and <num> of eth<num>",
    "java.lang.NullPointerException: null": "java.lang.NullPointerException: null",
    "org.apache.kafka.Producer.send()": "org.apache.kafka.Producer.send()",
    "no 1 2 3 4": "no <num>",
    "": "",
}

HOSTILE = [
    *(
        unit * (8192 // len(unit))
        for unit in ("a", "a.", "1.", "1,", "1:", "a:", ":", "/", "/a", "\\", '"', "'", "' ", "-")
    ),
    *(
        unit * (8192 // len(unit))
        for unit in ("a-", "@", "a@", "0x", "f", "0f", "a1", "<ip>", "<ip> (", "<num> ", " ", "a b")
    ),
    *(
        unit * (8192 // len(unit))
        for unit in ("://", "a://", "(1 ", "10.1.1.", "a.com", "2026-01-", "Jan ", "é", "\U0001f600")
    ),
    "x" * 1_000_000,
]


def templates(spark: SparkSession, messages: list[str]) -> list[str]:
    frame = spark.createDataFrame([(i, m) for i, m in enumerate(messages)], "i int, m string")
    return [row["t"] for row in frame.select("i", template_of(F.col("m")).alias("t")).orderBy("i").collect()]


def test_what_varies_is_masked_and_what_is_the_same_stays(spark: SparkSession) -> None:
    assert dict(zip(TEMPLATES, templates(spark, list(TEMPLATES)), strict=True)) == TEMPLATES


PIECES = st.sampled_from(
    [*TEMPLATES, *"0123456789abcdef.:-/\\@'\"<>()[]{},=_ ", "<num>", "<ip>", "blk_", "0x", "user "]
)
LINES = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)


@given(st.lists(LINES, min_size=80, max_size=80))
@settings(max_examples=2, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_a_template_is_short_and_holds_no_digits_or_breaks(spark: SparkSession, messages: list[str]) -> None:
    for template in templates(spark, messages):
        assert len(template) <= MAX_TEMPLATE
        assert not set(template) & set("0123456789\n\t")
        assert template == template.strip(" ")


def test_a_template_is_its_own_template(spark: SparkSession) -> None:
    once = templates(spark, list(TEMPLATES))
    assert templates(spark, once) == once


def test_hostile_lines_take_time_in_proportion_to_their_length(spark: SparkSession) -> None:
    templates(spark, ["warm up"])
    started = time.monotonic()
    found = templates(spark, HOSTILE * 3)
    assert all(len(template) <= MAX_TEMPLATE for template in found)
    assert time.monotonic() - started < 60  # backtracking would take hours


def test_equal_templates_have_one_id_of_sixteen_hexadecimal_digits(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",), ("a",), ("b",), ("",)], "t string")
    ids = [row["id"] for row in frame.select(template_id(F.col("t")).alias("id")).collect()]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert all(len(i) == 16 and set(i) <= set("0123456789abcdef") for i in ids)


def test_no_message_has_no_template(spark: SparkSession) -> None:
    assert spark.range(1).select(template_of(F.lit(None).cast("string")).alias("t")).collect()[0]["t"] is None
