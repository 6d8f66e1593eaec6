"""Rules that were written long before a replay begins are in effect in it, and their windows are not published."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.raw_records import NOON, NOON_MS, WINDOWING, at, frame, point, raw

from app.versions.replay_manifest import Slice
from models.core.parameters import DetectorParameters
from pipelines.jobs import detect, extract
from pipelines.jobs.detect_bounded import detect_bounded
from replay.slice_run import keep_windows, output_rows

pytestmark = pytest.mark.spark

WORK = {"record": "rule", "name": "work", "host": "h", "planned": True, "until": "2100-01-01T00:00:00Z"}
NONE = {"record": "rule", "name": "none", "mute": "yes"}  # which `detect` refuses
OLD = NOON - timedelta(days=20)
PART = Slice(NOON_MS, NOON_MS + 20_000, {}, {})  # two windows


def answered(spark: SparkSession, *, with_rules: bool) -> DataFrame:
    """What is published of a slice, of a log that holds two rules from 20 days ago and a minute of two hosts."""
    written = [(b"work", WORK), (b"none", NONE)]
    rules = [raw(json.dumps(one).encode(), i, OLD, topic="rules", key=name) for i, (name, one) in enumerate(written)]
    sent = [(at(second), host) for second in range(-30, 30) for host in ("h", "other")]
    telemetry = [raw(point(1.0, moment, host), i, moment) for i, (moment, host) in enumerate(sent)]
    closed = extract.closed_windows(
        frame(spark, telemetry), frame(spark, []), WINDOWING, rules=frame(spark, rules, partitions=1)
    )
    found = keep_windows(closed, PART, with_rules=with_rules).persist()
    windows = extract.find_closed_windows(found, WINDOWING)
    rows = extract.statistics_rows(found, windows, WINDOWING)
    answers = detect_bounded(rows, windows.ends, DetectorParameters(), "again", WINDOWING.shards, 2)
    return output_rows(answers, PART).persist()


@pytest.mark.parametrize(("with_rules", "kinds", "letters"), [(True, {"planned"}, 1), (False, {"warming"}, 0)])
def test_an_old_rule_is_in_effect_unless_the_state_has_it(
    spark: SparkSession, with_rules: bool, kinds: set[str], letters: int
) -> None:
    found = answered(spark, with_rules=with_rules)
    ends = {NOON_MS + 10_000, NOON_MS + 20_000}
    scores = found.where(F.col("series").startswith("gauge/h/") & F.col("event").isNull()).collect()
    assert {row["window_end"] for row in scores} == ends
    assert {row["kind"] for row in scores} == kinds
    watermarks = found.where(F.col("event").startswith(detect.WATERMARK))
    assert {row["window_end"] for row in watermarks.collect()} == ends, "a window before the slice is announced"
    assert watermarks.count() == 2 * WINDOWING.shards
    assert found.where(F.col("letter").isNotNull()).count() == letters
    others = found.where(F.col("event").isNotNull() & ~F.col("event").startswith(detect.WATERMARK))
    assert others.count() == 0, "a host is new, because of the window of an old rule"
