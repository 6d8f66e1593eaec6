"""Labels as they come, and the rows of statistics or the dead letters that they become."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.raw_records import NOON, WINDOWING, frame, raw

from pipelines.jobs import extract

pytestmark = pytest.mark.spark

GOOD = {"label": "false-alarm", "series": ["host/b", "gauge/a%2Fx/web/cpu", "gauge/a%2Fx/web/cpu", "logs/a%2Fx//info"]}


def closed(spark: SparkSession, values: list[bytes]) -> list[Any]:
    appended = [raw(v, i, NOON + timedelta(seconds=i / 10), topic="labels") for i, v in enumerate(values)]
    nothing = frame(spark, [])
    return extract.closed_windows(nothing, nothing, WINDOWING, labels=frame(spark, appended)).collect()


def test_a_label_is_a_row_for_each_host_that_its_series_name(spark: SparkSession) -> None:
    more = {"@timestamp": "2026-01-05T10:00:00Z", "comment": "a backup", "author": "me", "end": None, "host": ["zzz"]}
    rows = closed(spark, [b'{"record":"heartbeat"}', json.dumps(GOOD | more).encode(), json.dumps(GOOD).encode()])
    found = {row["series"]: (row["n"], row["sample"]) for row in rows if row["series"] != "heartbeat"}
    about_a = '{"label":"false-alarm","series":["gauge/a%2Fx/web/cpu","logs/a%2Fx//info"]}'
    about_b = '{"label":"false-alarm","series":["host/b"]}'
    assert found == {
        f"label/{host}/{offset:020d}": (1, text)
        for host, text in (("a%2Fx", about_a), ("b", about_b))
        for offset in (1, 2)
    }
    assert len({row["window_end"] for row in rows}) == 1


def test_a_label_may_be_about_the_log_of_a_host_that_fell_silent(spark: SparkSession) -> None:
    value = json.dumps({"label": "expected-change", "series": ["logs/a//"]}).encode()
    (row,) = [row for row in closed(spark, [b'{"record":"heartbeat"}', value]) if row["series"] != "heartbeat"]
    assert row["series"] == f"label/a/{1:020d}"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"junk", "not a label"),
        (b"", "not a label"),
        (b"[]", "not a label"),
        (b'{"series":["host/a"]}', "not a label"),
        (
            b'{"label":"maybe","series":["host/a"]}',
            "label is maybe; wanted true, false-alarm, expected-change, acknowledged",
        ),
        (b'{"label":"true"}', "a label without series"),
        (b'{"label":"true","series":[]}', "a label without series"),
        (b'{"label":"true","series":["host/a",null]}', "not the name of a series"),
        (b'{"label":"true","series":["gauge/a/cpu"]}', "not the name of a series"),
        (b'{"label":"true","series":["disk/a"]}', "not the name of a series"),
        (b'{"label":"true","series":["logs/a/shop/"]}', "not the name of a series"),
        (json.dumps({"label": "true", "series": [f"host/{i}" for i in range(1001)]}).encode(), "more than 1000"),
    ],
)
def test_what_is_no_label_is_a_dead_letter_with_a_reason(spark: SparkSession, value: bytes, why: str) -> None:
    (row,) = closed(spark, [value])
    assert row["series"] is None
    refused = row["refused"]
    assert (refused["destination"], refused["topic"], refused["partition"], refused["offset"]) == (
        "dead-letters",
        "labels",
        0,
        0,
    )
    assert why in refused["reason"]
    assert bytes(refused["value"]) == value
