"""Rules as they come, and the rows of statistics or the dead letters that they become."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.keyed_rules import KEYED_RULES, is_rule
from support.raw_records import NOON, WINDOWING, frame, raw

from app.kafka.heartbeats import HEARTBEAT_KEY
from app.kafka.rule_topic import name_of, rule_text
from models.core.limits import LimitParameters
from models.rules.rule_log import MOST_A_WINDOW, MOST_BYTES
from pipelines.jobs import extract
from pipelines.jvm import REFUSED, pack_by_shard
from pipelines.windowing import TopicOfShards

pytestmark = pytest.mark.spark

RULE = {
    "record": "rule",
    "name": "nightly backup",
    "host": "db-*",
    "mute": True,
    "hours": "22:00-04:00",
    "comment": "ä",
}


def closed(spark: SparkSession, values: list[bytes], keys: Sequence[bytes | None] | None = None) -> Any:
    """What comes of records, under the keys that their names would be without others."""
    under = [keyed(value) for value in values] if keys is None else keys
    moments = (NOON + timedelta(seconds=i / 1000) for i in range(len(values)))
    kept = enumerate(zip(values, moments, under, strict=True))
    appended = [raw(value, i, moment, topic="rules", key=key) for i, (value, moment, key) in kept]
    nothing = frame(spark, [])
    return extract.closed_windows(nothing, nothing, WINDOWING, rules=frame(spark, appended))


def keyed(value: bytes) -> bytes | None:
    """The name of a rule in UTF-8, where it has one."""
    try:
        return str(json.loads(value)["name"]).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return HEARTBEAT_KEY


def test_a_rule_is_a_row_for_each_shard_with_all_that_it_says(spark: SparkSession) -> None:
    texts = [json.dumps(RULE).encode(), json.dumps({"record": "rule", "name": "x", "removed": True}).encode()]
    found = closed(spark, [b'{"record":"heartbeat"}', *texts])
    rows = extract.all_rows(found, WINDOWING).collect()
    assert len(rows) == 2 * WINDOWING.shards
    for row in rows:
        kind, shard, offset = row["series"].split("/")
        assert (kind, int(shard), len(offset)) == ("rule", row["shard"], 20)
        assert row["sample"] == texts[int(offset) - 1].decode()
        assert row["template"] == json.loads(row["sample"])["name"]
    assert {row["shard"] for row in rows} == set(range(WINDOWING.shards))
    assert len({row["window_end"] for row in rows}) == 1


def test_of_more_rules_than_are_read_every_shard_gets_the_same_and_one_how_many_there_were(spark: SparkSession) -> None:
    windowing, limits = (
        dataclasses.replace(WINDOWING, shards=3),
        LimitParameters(metrics_per_host=1, new_series_per_host=1, templates_per_host=1),
    )
    found = closed(spark, [json.dumps(RULE).encode()] * (MOST_A_WINDOW + 15)).persist()
    windows = extract.find_closed_windows(found, windowing, limits)
    kept = extract.statistics_rows(found, windows, windowing, limits).collect()
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
    rule = raw(json.dumps(RULE).encode(), 0, NOON, topic="rules", key=b"nightly backup")
    nothing, rules = frame(spark, []), frame(spark, [rule])
    found = extract.closed_windows(frame(spark, points), nothing, windowing, rules=rules).persist()
    windows = extract.find_closed_windows(found, windowing, limits)
    kept = extract.statistics_rows(found, windows, windowing, limits).collect()
    series = {row["series"] for row in kept}
    assert f"rule/0/{0:020d}" in series
    assert "gauge/0//m0" not in series


NO_RULES = [
    (b"junk", "not a rule"),
    (b"", "not a rule"),
    (b"[]", "not a rule"),
    (b'{"name":"a","mute":true}', 'not a rule: no JSON with "record": "rule"'),
    (b'{"record":"label","name":"b","mute":true}', 'not a rule: no JSON with "record": "rule"'),
    (b'{"record":"rule","mute":true}', "a rule without a name"),
    (b'{"record":"rule","name":"","mute":true}', "a rule without a name"),
    (b'{"record":"rule","name":null,"mute":true}', "a rule without a name"),
    (json.dumps(RULE | {"name": "a" * 101}).encode(), "more than 100 characters"),
    (json.dumps(RULE | {"name": "a\nb"}).encode(), "control characters"),
    (json.dumps(RULE | {"comment": "a" * MOST_BYTES}).encode(), f"more than {MOST_BYTES} bytes"),
    (b'{"record":"rule","name":' + b"[" * 3_000, "not a rule"),
]


def test_what_is_no_rule_is_a_dead_letter_with_a_reason(spark: SparkSession) -> None:
    rows = closed(spark, [value for value, _ in NO_RULES]).collect()
    refused = {row["refused"]["offset"]: row["refused"] for row in rows if row["refused"]}
    given = {(row["series"], row["template"], row["sample"]) for row in rows if row["series"]}
    keys = [name_of(keyed(value)) for value, _ in NO_RULES]
    assert given == {(f"rule//{at:020d}", key, None) for at, key in enumerate(keys) if key is not None}
    assert sorted(refused) == [*range(len(NO_RULES))]
    for at, (value, why) in enumerate(NO_RULES):
        one = refused[at]
        assert (one["destination"], one["topic"], one["partition"]) == ("dead-letters", "rules", 0)
        assert why in one["reason"]
        assert bytes(one["value"]) == value


def test_a_record_is_a_rule_for_the_jobs_where_it_is_one_for_the_commands_and_under_its_name_alone(
    spark: SparkSession,
) -> None:
    keys, values, expected = zip(*KEYED_RULES.values(), strict=True)
    rows = closed(spark, list(values), keys).collect()
    of_jobs = {int(row["series"].split("/")[-1]): (row["template"], row["sample"]) for row in rows if row["series"]}
    letters = {row["refused"]["offset"]: row["refused"]["reason"] for row in rows if row["refused"]}
    names = {i: name for i, key in enumerate(keys) if (name := name_of(key)) is not None}
    assert {i: name for i, (name, _) in of_jobs.items()} == names
    assert letters.keys() == {i for i in range(len(values)) if of_jobs.get(i, ("", None))[1] is None}
    assert [is_rule(of_jobs.get(i, ("", None))[1]) for i in range(len(values))] == list(expected)
    of_commands = {i: rule_text(name, values[i]) for i, name in names.items()}
    assert all(of_jobs[i][1] == text for i, text in of_commands.items() if text is not None)
    assert [is_rule(of_commands.get(i)) for i in range(len(values))] == list(expected)
    other = {name for i, name in enumerate(KEYED_RULES) if letters.get(i) == "a rule whose key is not its name"}
    assert {"no key", "no key of an end", "an empty key", "another key", "another key of an end"} <= other
    assert {"a key with a space behind", "a longer key than there is", "the key of heartbeats"} <= other


def test_detect_takes_every_row_that_is_written_of_a_record(spark: SparkSession) -> None:
    keys, values, _ = zip(*KEYED_RULES.values(), strict=True)
    found, topics = closed(spark, list(values), keys), {"statistics": "s", "late": "l", "dead-letters": "d"}
    written = extract.output_records(found, extract.find_closed_windows(found, WINDOWING), WINDOWING, topics, 2).where(
        "topic = 's'"
    )
    raws = written.select(
        "value",
        "partition",
        F.lit(0).cast("long").alias("offset"),
        F.lit(NOON + timedelta(minutes=1)).alias("timestamp"),
    )
    read = TopicOfShards("s", partitions=2, shards=WINDOWING.shards, window_ms=10_000, ahead_ms=45_000)
    rows = pack_by_shard(raws, read).collect()
    assert [row.value for row in rows if row.shard == REFUSED] == []
    texts = [json.loads(text) for row in rows for text in bytes(row.value).split(b"\n")]
    names = Counter(one["template"] for one in texts if one["record"] == "statistics")
    wanted = Counter(name for key in keys if (name := name_of(key)) is not None)
    assert names == {name: count * WINDOWING.shards for name, count in wanted.items()}
