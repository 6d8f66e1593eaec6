"""The plan of a stream is optimized once: what Spark does for each batch is little then, and the rows are the same."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.elasticsearch.documents import DATASETS, documents
from pipelines.spark_internals import jvm_of, optimized

pytestmark = pytest.mark.spark

KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key string, value binary>>"
)
LETTERS = [(None, f"record {n}".encode(), "late", 0, n, None, [("kappa.reason", b"late")]) for n in range(3)]


def found(spark: SparkSession) -> DataFrame:
    """The documents of some letters: the longest plan that there is."""
    raw = spark.createDataFrame(LETTERS, KAFKA).repartition(2)  # rows that the optimizer cannot compute itself
    return documents(raw, "live", {kind: kind for kind in DATASETS})


def rules_run(spark: SparkSession, frame: DataFrame) -> int:
    """How often Spark applies a rule to plan the rows."""
    rules = jvm_of(spark).org.apache.spark.sql.catalyst.rules.RuleExecutor
    rules.resetMetrics()
    frame.select("*")._jdf.queryExecution().executedPlan()
    (total,) = (line for line in rules.dumpTimeSpent().splitlines() if line.startswith("Total number of runs"))
    return int(total.rsplit(maxsplit=1)[1])


def test_an_optimized_plan_takes_half_as_many_applications_of_rules(spark: SparkSession) -> None:
    frame = found(spark)
    assert rules_run(spark, optimized(frame)) < 0.6 * rules_run(spark, frame)


def test_rows_are_the_same(spark: SparkSession) -> None:
    frame = found(spark)
    assert sorted(optimized(frame).collect()) == sorted(frame.collect())
    assert optimized(frame).columns == frame.columns


def test_a_plan_that_asks_for_the_time_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="current time"):
        optimized(found(spark).withColumn("now", F.current_timestamp()))
