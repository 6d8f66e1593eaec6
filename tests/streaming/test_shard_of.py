"""The shard of a host, computed without Spark, is the one that `extract` computes with it."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.kafka import score_log
from pipelines.series_columns import shard_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("shards", [1, 7, 64])
def test_shards_of_hosts_are_those_of_spark(spark: SparkSession, shards: int) -> None:
    hosts = ["", "a", "vm-012", "Ünï", "x" * 256, *(f"host-{n}" for n in range(200))]
    rows = spark.createDataFrame([(host,) for host in hosts], "host string").select(
        "host", shard_of(F.col("host"), shards)
    )
    found = {row[0]: row[1] for row in rows.collect()}
    assert found == {host: score_log.shard_of(host, shards) for host in hosts}
