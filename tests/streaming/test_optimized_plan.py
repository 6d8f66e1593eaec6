"""The plan of a stream is optimized once: what Spark does for each batch is little then, and the rows are the same."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pipelines.elasticsearch.documents import DATASETS, documents
from pipelines.jvm import Needed, count_flat_lines, sum_flat_points
from pipelines.spark_internals import jvm_of, optimize, precompile
from pipelines.windowing import WindowingConfig

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
    assert rules_run(spark, optimize(frame)) < 0.6 * rules_run(spark, frame)


def test_rows_are_the_same(spark: SparkSession) -> None:
    frame = found(spark)
    assert sorted(optimize(frame).collect()) == sorted(frame.collect())
    assert optimize(frame).columns == frame.columns


def test_a_plan_that_asks_for_the_time_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="current time"):
        optimize(found(spark).withColumn("now", F.current_timestamp()))


COLUMNS = StructType([StructField("text", StringType()), StructField("n", LongType())])


def test_a_prepared_column_has_the_same_values_and_nothing_in_it_for_the_planner(spark: SparkSession) -> None:
    rows = [(json.dumps({"a": [n, None, n * n]}), n) for n in range(50)] + [("broken", None), (None, 7)]
    frame = spark.createDataFrame(rows, COLUMNS).repartition(3)
    read = F.from_json(F.col("text"), "a array<long>")["a"]
    column = F.transform(read, lambda one: F.coalesce(one + F.col("n"), F.lit(-1)))
    once = precompile(spark, column, COLUMNS)
    wanted = frame.select("text", column.alias("found")).collect()
    assert sorted(map(str, frame.select("text", once.alias("found")).collect())) == sorted(map(str, wanted))
    plan = str(frame.select(once)._jdf.queryExecution().optimizedPlan())
    assert "applyfunctionexpression(" in plan
    assert "from_json" not in plan


def test_no_column_that_asks_for_the_time_is_prepared(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="current time"):
        precompile(spark, F.current_timestamp().cast("long") + F.col("n"), COLUMNS)


def test_what_comes_of_kafka_is_not_copied_before_it_is_read(spark: SparkSession) -> None:
    raw = spark.createDataFrame([], f"{KAFKA.partition(', headers')[0]}, timestampType int")
    for read in (
        sum_flat_points(raw, WindowingConfig(), Needed(10, 20)),
        count_flat_lines(raw, WindowingConfig()),
    ):
        _, below = str(read._jdf.queryExecution().optimizedPlan()).split("DeserializeToObject")
        assert "timestampType" in below
        assert "Project" not in below
