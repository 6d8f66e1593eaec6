"""Rules as they come, and the rows of statistics or the dead letters that they become."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.raw_records import NOON, WINDOWING, frame, raw

from models.core.limits import LimitParameters
from models.rules.rule_log import MOST_A_WINDOW, MOST_BYTES
from pipelines.jobs import extract

pytestmark = pytest.mark.spark

RULE = {
    "record": "rule",
    "name": "nightly backup",
    "host": "db-*",
    "mute": True,
    "hours": "22:00-04:00",
    "comment": "ä",
}


def closed(spark: SparkSession, values: list[bytes]) -> Any:
    appended = [raw(v, i, NOON + timedelta(seconds=i / 1000), topic="rules") for i, v in enumerate(values)]
    nothing = frame(spark, [])
    return extract.closed_windows(nothing, nothing, WINDOWING, rules=frame(spark, appended))


def test_a_rule_is_a_row_for_each_shard_with_all_that_it_says(spark: SparkSession) -> None:
    texts = [json.dumps(RULE).encode(), json.dumps({"record": "rule", "name": "x", "removed": True}).encode()]
    found = closed(spark, [b'{"record":"heartbeat"}', *texts])
    rows = extract.statistics(found, WINDOWING).collect()
    assert len(rows) == 2 * WINDOWING.shards
    for row in rows:
        kind, shard, offset = row["series"].split("/")
        assert (kind, int(shard), len(offset)) == ("rule", row["shard"], 20)
        assert row["sample"] == texts[int(offset) - 1].decode()
    assert {row["shard"] for row in rows} == set(range(WINDOWING.shards))
    assert len({row["window_end"] for row in rows}) == 1


def test_of_more_rules_than_are_read_every_shard_gets_the_same_and_one_how_many_there_were(spark: SparkSession) -> None:
    windowing, limits = (
        dataclasses.replace(WINDOWING, shards=3),
        LimitParameters(metrics_per_host=1, new_series_per_host=1, templates_per_host=1),
    )
    found = closed(spark, [json.dumps(RULE).encode()] * (MOST_A_WINDOW + 15)).persist()
    windows = extract.windows_of(found, windowing, limits)
    kept = extract.rows_of(found, windows, windowing, limits).collect()
    assert found.count() == MOST_A_WINDOW + 15
    assert Counter(row["shard"] for row in kept) == {0: MOST_A_WINDOW + 1, 1: MOST_A_WINDOW, 2: MOST_A_WINDOW}
    for shard in range(3):
        names = [row["series"] for row in kept if row["series"].startswith(f"rule/{shard}/")]
        assert sorted(names) == [f"rule/{shard}/{offset:020d}" for offset in range(MOST_A_WINDOW)]
    (over,) = [row for row in kept if row["series"] == "overflow//rules"]
    assert (over["shard"], over["n"], over["last"]) == (0, 15, MOST_A_WINDOW + 15)
    assert json.loads(over["sample"]) == [f"rule/0/{MOST_A_WINDOW + k:020d}" for k in range(10)]


def test_a_flood_of_hosts_takes_no_rule_away(spark: SparkSession) -> None:
    """With one shard, host `0` has the name that rules have for it; it has the fewest rows, and is left out."""
    windowing = dataclasses.replace(WINDOWING, shards=1)
    limits = LimitParameters(hosts=1, metrics_per_host=1, new_series_per_host=1, templates_per_host=1)
    names = [(host, metric) for host in range(100) for metric in range(2 if host else 1)]
    texts = [
        {"@timestamp": NOON.isoformat(), "host.name": f"{h}", "metric.name": f"m{m}", "metric.value": 1}
        for h, m in names
    ]
    points = [raw(json.dumps(text).encode(), i, NOON) for i, text in enumerate(texts)]
    nothing, rule = frame(spark, []), frame(spark, [raw(json.dumps(RULE).encode(), 0, NOON, topic="rules")])
    found = extract.closed_windows(frame(spark, points), nothing, windowing, rules=rule).persist()
    windows = extract.windows_of(found, windowing, limits)
    kept = extract.rows_of(found, windows, windowing, limits).collect()
    series = {row["series"] for row in kept}
    assert f"rule/0/{0:020d}" in series
    assert "gauge/0//m0" not in series


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"junk", "not a rule"),
        (b"", "not a rule"),
        (b"[]", "not a rule"),
        (b'{"name":"a","mute":true}', 'not a rule: no JSON with "record": "rule"'),
        (b'{"record":"label","name":"a","mute":true}', 'not a rule: no JSON with "record": "rule"'),
        (b'{"record":"rule","mute":true}', "a rule without a name"),
        (b'{"record":"rule","name":"","mute":true}', "a rule without a name"),
        (b'{"record":"rule","name":null,"mute":true}', "a rule without a name"),
        (json.dumps(RULE | {"name": "a" * 101}).encode(), "more than 100 characters"),
        (json.dumps(RULE | {"name": "a\nb"}).encode(), "control characters"),
        (json.dumps(RULE | {"comment": "a" * MOST_BYTES}).encode(), f"more than {MOST_BYTES} bytes"),
        (b'{"record":"rule","name":' + b"[" * 3_000, "not a rule"),
    ],
)
def test_what_is_no_rule_is_a_dead_letter_with_a_reason(spark: SparkSession, value: bytes, why: str) -> None:
    (row,) = closed(spark, [value]).collect()
    assert row["series"] is None
    refused = row["refused"]
    place = refused["destination"], refused["topic"], refused["partition"], refused["offset"]
    assert place == ("dead-letters", "rules", 0, 0)
    assert why in refused["reason"]
    assert bytes(refused["value"]) == value
