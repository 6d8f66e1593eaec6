"""Connections between Spark's JVM and its Python workers: each task with state has one of its own, which ends with the task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

pytestmark = pytest.mark.spark

BATCHES = 6


def counting() -> StatefulProcessor:
    """Counts rows of a key. Made here, so that a worker gets the class and not its name."""

    class Counting(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._count = handle.getValueState("count", "count long")

        def handleInputRows(  # type: ignore[override]  # noqa: N802
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[pd.DataFrame]:
            before = self._count.get()
            count = sum(map(len, rows)) + (before[0] if before else 0)
            self._count.update((count,))
            yield pd.DataFrame({"value": [key[0]], "count": [count]})

        def close(self) -> None:
            """Nothing."""

    return Counting()


def left_open(spark: SparkSession) -> int:
    """How many connections the JVM keeps whose other end has closed them."""
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    return sum(one.status == psutil.CONN_CLOSE_WAIT for one in jvm.net_connections("tcp"))


def test_no_batch_leaves_a_connection_open(spark: SparkSession, tmp_path: Path) -> None:
    """Spark before 4.2.1 left one for each task, and with it a file and a port: in half a day a machine has no port left."""
    for number in range(BATCHES):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.txt").write_text("a\nb\n")
    before = left_open(spark)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
    counted = lines.groupBy("value").transformWithStateInPandas(
        counting(), "value string, count long", outputMode="Update", timeMode="None"
    )
    query = (
        counted.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None and len(query.recentProgress) == BATCHES
    assert left_open(spark) <= before
