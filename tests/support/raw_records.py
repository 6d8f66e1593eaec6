"""Records of the input topics as Kafka gives them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pipelines.windowing import WindowingConfig

WINDOWING = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=8)


NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


NOON_MS = int(NOON.timestamp() * 1000)


SOURCE = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


class Raw(NamedTuple):
    """A record as Kafka's source gives it."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime


def at(seconds: float) -> datetime:
    """A moment so long after noon."""
    return NOON + timedelta(seconds=seconds)


def utc(moment: datetime) -> str:
    """As canonical records have it: what ends in Z is read by the code that reads most."""
    return moment.isoformat().replace("+00:00", "Z")


def point(value: Any, event: datetime, host: str = "h", kind: str = "gauge", metric: str = "m") -> bytes:
    document = {
        "@timestamp": utc(event),
        "host.name": host,
        "service.name": "s",
        "metric.name": metric,
        "metric.value": value,
    }
    return json.dumps(document | ({} if kind == "gauge" else {"metric.type": kind})).encode()


def line(message: str, event: datetime, host: str = "h", level: str = "info", service: str = "s") -> bytes:
    document = {
        "@timestamp": utc(event),
        "host.name": host,
        "service.name": service,
        "log.level": level,
        "message": message,
    }
    return json.dumps(document).encode()


def raw(
    value: bytes | None,
    offset: int,
    append: datetime,
    topic: str = "telemetry",
    partition: int = 0,
    key: bytes | None = None,
) -> Raw:
    return Raw(key, value, topic, partition, offset, append)


def frame(spark: SparkSession, rows: list[Raw], partitions: int = 3) -> DataFrame:
    """Records in this order, cut into partitions."""
    return spark.createDataFrame(rows, SOURCE).repartition(partitions)
