"""Counts the records of each host that were refused for their time: rows `overflow/HOST/late` and `overflow/HOST/ahead` of `statistics`.

A host whose clock is wrong looks silent, because none of its records is admitted. `models.detection.silence` names the reason by these rows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from models.detection.limits import AHEAD, LATE
from pipelines.series_columns import shard_of
from pipelines.windowing import MILLIS

MOST_HOSTS = 1_000  # of a shard in a window, those with the most such records: a bound where somebody makes up hosts


def count_by_host(closed: DataFrame, shards: int) -> DataFrame:
    """Rows of `extract.closed_windows` -> a row for each host, window and direction: `shard, window_end, series, n, last, sample`.

    `n` is how many records were refused for their time in the window of their append times, and `last` by how many seconds at least they were
    late, or ahead of it.
    """
    host, delay = F.col("refused.host"), F.col("refused.delay")
    direction = F.when(delay > 0, F.lit(LATE)).otherwise(F.lit(AHEAD))
    found = (
        closed.where(host.isNotNull())
        .groupBy("window_end", host.alias("host"), direction.alias("direction"))
        .agg(F.count(F.lit(1)).alias("n"), F.floor(F.min(F.abs(delay)) / MILLIS).cast("double").alias("last"))
        .withColumn("shard", shard_of(F.col("host"), shards))
        .withColumn("rank", rank_in_shard())
        .where(F.col("rank") <= MOST_HOSTS)
    )
    name = F.concat_ws("/", F.lit("overflow"), "host", "direction")
    return found.select("shard", "window_end", name.alias("series"), "n", "last", F.lit("[]").alias("sample"))


def rank_in_shard() -> Column:
    """The rank of a host in its shard and window, from 1: by its number of refused records, descending."""
    order = Window.partitionBy("window_end", "shard").orderBy(F.desc("n"), "host", "direction")
    return F.row_number().over(order)
