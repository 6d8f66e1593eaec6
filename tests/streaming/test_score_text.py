"""Scores as text, written in Java, against Python's reader of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.spark_internals import jvm_of

pytestmark = pytest.mark.spark

SCHEMA = (
    "series string, window_end long, score double, value double, typical double, lower double, upper double, kind string, "
    "template string"
)
NAMES = [column.split()[0] for column in SCHEMA.split(", ")]
NUMBER = st.none() | st.floats() | st.floats(-1e6, 1e6) | st.integers(-(10**15), 10**15).map(float)
ROW = st.tuples(
    st.text(max_size=20),
    st.integers(0, 10**14),
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    st.text(max_size=5),
    st.none() | st.text(max_size=9),
)
EDGES = (0.0, -0.0, 1e-5, 9.99999999e-6, 0.09999999999, 9.99999996, 99999.995, 1e15, 999999999999999.9, 5e-324, 1.7e308)


def texts(spark: SparkSession, rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """What is read of the text of each row, in order."""
    numbered = spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], f"i int, {SCHEMA}")
    columns = [F.col(name).cast("binary") if name in ("series", "kind", "template") else F.col(name) for name in NAMES]
    text = F.call_function("kappa_score_text", *columns)
    return [json.loads(bytes(row.text)) for row in numbered.select("i", text.alias("text")).orderBy("i").collect()]


def shortened(x: float) -> Any:
    """What a number may become: seven digits of it, or all before the point."""
    return pytest.approx(x, rel=5.0001e-7, abs=0.0) if abs(x) < 1e7 else pytest.approx(x, abs=0.5000001, rel=1e-15)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=100))
@example([("a", i, x, -x, x / 3, x * 7, None, "normal", None) for i, x in enumerate(EDGES)])
@example([('"\\\n\x00é😀/%2F', 0, 1.0, 2.0, 3.0, 4.0, 5.0, "", 'lost "<*>" é\n')])
def test_a_record_says_what_its_row_says(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    for row, found in zip(rows, texts(spark, rows), strict=True):
        known = {
            name: shortened(x) if isinstance(x, float) else x
            for name, x in zip(NAMES, row, strict=True)
            if x is not None and not (isinstance(x, float) and not math.isfinite(x))
        }
        assert found == {"record": "score", **known}


@given(st.integers(-(10**15) + 1, 10**15 - 1))
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whole_numbers_keep_their_digits(spark: SparkSession, first: int) -> None:
    wholes = [first, first // 1000, first % 10_000_000, 9_999_999, -1, 10**15 - 1]
    rows = [("a", 0, float(x), None, None, None, None, "k", None) for x in wholes]
    assert [found["score"] for found in texts(spark, rows)] == wholes


def test_a_task_that_makes_records_is_seen_to_get_further(spark: SparkSession) -> None:
    group, nothing = "makes records", F.lit(None)
    columns = [
        F.lit(b"a"),
        F.col("id"),
        *[F.col("id").cast("double")] * 5,
        nothing.cast("binary"),
        nothing.cast("binary"),
    ]
    spark.sparkContext.setJobGroup(group, group)
    try:
        made = spark.range(0, 50_000, 1, 1).select(F.call_function("kappa_score_text", *columns).alias("text"))
        assert made.agg(F.sum(F.octet_length("text"))).collect()[0][0] > 50_000
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # takes it away
    tracker, progress = spark.sparkContext.statusTracker(), jvm_of(spark).kappa.TaskProgress
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    assert sum(progress.ofStage(stage) for job in jobs if job is not None for stage in job.stageIds) in (4, 5)
