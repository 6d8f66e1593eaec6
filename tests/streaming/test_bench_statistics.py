"""What the measurements give `detect` to read is what `extract` writes."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from app.core.settings import load
from benchmarks.throughput import statistics_of
from models.records.records import StatisticsRow, WatermarkMessage

SERIES, END = 20, 1_800_000_000_000


def test_a_window_of_gauges_is_their_rows_and_the_watermark_messages_of_all_shards(spark: SparkSession) -> None:
    settings = load()
    records = [json.loads(row["value"]) for row in statistics_of(spark, settings, SERIES, END).collect()]
    rows = [record for record in records if record["record"] == StatisticsRow.KIND]
    watermarks = [record for record in records if record["record"] == WatermarkMessage.KIND]
    assert len({row["series"] for row in rows}) == len(rows) == SERIES
    assert {row["window_end"] for row in rows} == {END}
    assert sorted(message["shard"] for message in watermarks) == list(range(settings.windowing.shards))
