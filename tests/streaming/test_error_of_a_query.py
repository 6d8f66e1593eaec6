"""What is logged of an error that has ended a query."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pipelines.spark_internals import strip_plan

pytestmark = pytest.mark.spark


def test_an_error_that_has_ended_a_query_is_told_with_its_offsets_and_without_its_plan(spark: SparkSession) -> None:
    def fails(batch: DataFrame, number: int) -> None:
        msg = "the disk is full"
        raise OSError(msg)

    query = spark.readStream.format("rate").load().writeStream.foreachBatch(fails).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    error = query.exception()
    assert error is not None
    assert "Logical Plan" in str(error)
    text = str(strip_plan(error))
    assert "the disk is full" in text and "Current Committed Offsets" in text
    assert "Logical Plan" not in text and "Project" not in text
