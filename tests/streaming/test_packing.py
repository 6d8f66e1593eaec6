"""Records of `statistics` on their way to Python: many to a row, each with its shard."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pipelines.jvm import packed_by_shard

SHARD = st.sampled_from([0, 3, 7, 1234])
NAME = st.text(max_size=12) | st.sampled_from(['"shard":9', '","shard":9', "\n", '{"watermark":1}'])
ROW = st.fixed_dictionaries({"series": NAME, "shard": SHARD, "n": st.integers(0, 5)})
WATERMARK = st.fixed_dictionaries(
    {"record": st.just("watermark"), "watermark": st.integers(0, 5), "shard": SHARD, "instance": st.integers(0, 1)}
)


def values(spark: SparkSession, records: list[bytes | None], partitions: int = 3) -> DataFrame:
    rows = spark.sparkContext.parallelize([(record,) for record in records], partitions)
    return spark.createDataFrame(rows, "value binary")


def lines(packed: DataFrame) -> Counter[tuple[int, str]]:
    """Each record that was packed, with the shard of its row."""
    return Counter(
        (row.shard, json.dumps(json.loads(line))) for row in packed.collect() for line in bytes(row.value).split(b"\n")
    )


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW | WATERMARK, max_size=60))
def test_each_record_is_packed_once_with_its_shard(spark: SparkSession, records: list[dict[str, Any]]) -> None:
    texts = [json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in records]
    packed = lines(packed_by_shard(values(spark, [*texts])))
    assert packed == Counter((record["shard"], json.dumps(record)) for record in records)


def test_a_row_has_a_bounded_size(spark: SparkSession) -> None:
    records: list[bytes | None] = [b'{"series":"%s-%d","shard":%d}' % (b"x" * 500, i, i % 2) for i in range(4000)]
    rows = packed_by_shard(values(spark, records, 1)).collect()
    sizes = {shard: [len(row.value) for row in rows if row.shard == shard] for shard in (0, 1)}
    assert all(262_144 <= size < 263_000 for found in sizes.values() for size in sorted(found)[1:])
    assert [len(found) for found in sizes.values()] == [5, 5]
    assert sum(bytes(row.value).count(b"\n") + 1 for row in rows) == 4000


@pytest.mark.parametrize(
    "record", [None, b"", b'{"series":"a"}', b'{"shard":', b'{"shard":null}', b'{"a":"\\"shard\\":5"}']
)
def test_a_record_without_a_shard_is_refused(spark: SparkSession, record: bytes | None) -> None:
    with pytest.raises(Py4JJavaError, match="of statistics without a shard"):
        packed_by_shard(values(spark, [b'{"watermark":1,"shard":2}', record], 1)).collect()
