"""Rows that the watermark drops are known before their batch is committed; a stage is known to be of its query."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from pipelines.spark_internals import dropped_by_watermark, query_name

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("at", TimestampType())])


def test_a_row_behind_the_watermark_is_counted_within_its_own_batch(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[int] = []
    names: list[str] = []
    for number, seconds in enumerate([[5, 100], [200], [6, 7, 300]]):
        rows = [(datetime.fromtimestamp(second, UTC),) for second in seconds]
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "in"))
        aggregated = (
            spark.readStream.schema(SCHEMA)
            .parquet(str(tmp_path / "in"))
            .withWatermark("at", "1 second")
            .groupBy(F.window("at", "10 seconds"))
            .count()
        )

        def sink(batch: DataFrame, batch_number: int) -> None:
            batch.collect()
            seen.append(dropped_by_watermark(spark, "dropping"))
            names.append(query_name(str(spark.sparkContext.getLocalProperty("spark.job.description"))))

        writer = aggregated.writeStream.queryName("dropping").foreachBatch(sink).outputMode("append")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()
        assert sum(seen) == (1 if number == 2 else 0)  # both are partial counts of one window
    assert dropped_by_watermark(spark, "dropping") == 0, "no such query runs any more"
    assert set(names) == {"dropping"}, "stages of a query are found by the description of its jobs"
