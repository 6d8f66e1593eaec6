"""Hosts whose records are refused for their time, in `statistics`: rows `overflow/HOST/late` and `overflow/HOST/ahead`.

A host whose clock is wrong looks like one that is silent, since nothing of it is admitted. These rows say why (`models.detection.silence`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from models.detection.limits import AHEAD, LATE
from pipelines.overflow import shard_of
from pipelines.windowing import MILLIS

MOST_HOSTS = 1_000  # of a shard in a window, those with the most such records: of hosts that somebody makes up there are no more rows


def refused_for_time(closed: DataFrame, shards: int) -> DataFrame:
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
        .withColumn("rank", ranks())
        .where(F.col("rank") <= MOST_HOSTS)
    )
    name = F.concat_ws("/", F.lit("overflow"), "host", "direction")
    return found.select("shard", "window_end", name.alias("series"), "n", "last", F.lit("[]").alias("sample"))


def ranks() -> Column:
    """The place of a host in its shard, by its records."""
    order = Window.partitionBy("window_end", "shard").orderBy(F.desc("n"), "host", "direction")
    return F.row_number().over(order)
