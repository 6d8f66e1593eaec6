"""What it takes to read each form of record: points and lines a second on all cores, without Kafka, windows and templates' counts."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.deployment import say
from benchmarks.throughput import RUNS
from pipelines.inputs import log_lines, telemetry_points

RECORDS = 50_000
NUMBER = 700_007  # of a record, where this is
AT, SECONDS, NANOSECONDS = "2026-01-05T00:00:10.500Z", 1_767_571_210, "1767571210500000000"
MESSAGE = f"2026-01-05 00:00:10 request {NUMBER} took 12 ms"
BEAT = {
    "@timestamp": AT,
    "@metadata": {"beat": "a", "type": "_doc", "version": "8.11.0"},
    "host": {
        "name": "vm-003",
        "architecture": "x86_64",
        "os": {"platform": "debian", "version": "12"},
        "ip": ["10.0.0.3"],
    },
    "agent": {"type": "a", "version": "8.11.0", "ephemeral_id": "a-1", "id": "b-2", "name": "vm-003"},
    "ecs": {"version": "8.0.0"},
}
CPU = {name: {"pct": 0.5, "norm": {"pct": 0.25}} for name in ("user", "system", "idle", "iowait", "total")}
RESOURCE = {"attributes": [{"key": name, "value": {"stringValue": "vm-003"}} for name in ("host.name", "service.name")]}
STATE = [{"key": "cpu", "value": {"stringValue": "cpu0"}}, {"key": "state", "value": {"stringValue": "user"}}]
POINTS = [{"attributes": STATE, "timeUnixNano": NANOSECONDS, "asDouble": NUMBER} for _ in range(10)]
METRIC = {"name": "system.cpu.time", "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": POINTS}}
BODIES = [{"timeUnixNano": NANOSECONDS, "severityNumber": 9, "body": {"stringValue": MESSAGE}} for _ in range(10)]
POD = {"container_name": "cart", "namespace_name": "shop", "pod_name": "cart-7d8f", "host": "vm-003"}

TELEMETRY: dict[str, Any] = {
    "canonical, flat": {"@timestamp": AT, "host.name": "vm-003", "service.name": "web", "metric.name": "m", "metric.value": NUMBER},
    "canonical, nested": {"@timestamp": AT, "host": {"name": "vm-003"}, "metric": {"name": "m", "value": NUMBER}},
    "Metricbeat": BEAT | {"event": {"module": "system"}, "metricset": {"name": "cpu"}, "system": {"cpu": CPU | {"cores": NUMBER}}},
    "Telegraf": {"name": "cpu", "tags": {"host": "vm-003", "cpu": "cpu0"}, "fields": {"a": NUMBER, "b": 1.5, "c": 2.5, "d": 0}, "timestamp": SECONDS},
    "OpenTelemetry": {"resourceMetrics": [{"resource": RESOURCE, "scopeMetrics": [{"scope": {}, "metrics": [METRIC]}]}]},
    "Prometheus": {"name": "m", "value": str(NUMBER), "timestamp": AT, "labels": {"instance": "vm-003:9100", "job": "node", "cpu": "0"}},
    "Vector": {"name": "m_total", "tags": {"host": "vm-003", "cpu": "0"}, "timestamp": AT, "kind": "absolute", "counter": {"value": NUMBER}},
    "collectd": [{"values": [NUMBER], "dstypes": ["derive"], "dsnames": ["value"], "time": SECONDS, "host": "h", "plugin": "cpu", "type": "cpu"}],
}  # fmt: skip
LOGS: dict[str, Any] = {
    "canonical, flat": {"@timestamp": AT, "host.name": "vm-003", "service.name": "web", "log.level": "info", "message": MESSAGE},
    "canonical, nested": {"@timestamp": AT, "host": {"name": "vm-003"}, "service": {"name": "web"}, "log": {"level": "info"}, "message": MESSAGE},
    "Filebeat": BEAT | {"log": {"offset": NUMBER, "file": {"path": "/var/log/nginx/access.log"}}, "message": MESSAGE},
    "OpenTelemetry": {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": {}, "logRecords": BODIES}]}]},
    "Fluent Bit": {"@timestamp": SECONDS, "log": MESSAGE, "stream": "stdout", "hostname": "vm-003", "kubernetes": POD},
    "Vector": {"file": "/var/log/nginx/access.log", "host": "vm-003", "message": MESSAGE, "source_type": "file", "timestamp": AT},
    "syslog": f"<134>1 {AT} vm-003 nginx 123 - - {MESSAGE}",
}  # fmt: skip
Read = Callable[[DataFrame], DataFrame]
TOPICS: dict[str, tuple[Read, dict[str, Any]]] = {"points": (telemetry_points, TELEMETRY), "lines": (log_lines, LOGS)}


def key_of(what: str, form: str) -> str:
    """The name of a figure."""
    return f"forms_{what}_{form.lower().replace(', ', '_').replace(' ', '_')}_per_second"


def measure(spark: SparkSession) -> dict[str, float]:
    """Points or lines a second of each form: medians of runs over the same records, after a warm-up. Raises ValueError where a record is refused."""
    figures = {}
    for what, (read, forms) in TOPICS.items():
        for form, record in forms.items():
            figures[key_of(what, form)] = rate(spark, read, record if isinstance(record, str) else json.dumps(record))
            say(f"{what}, {form}: {figures[key_of(what, form)]:,.0f}/s")
    return figures


def rate(spark: SparkSession, read: Read, record: str) -> float:
    """Rows a second of records that differ in a number."""
    records = kafka(spark, record).persist()
    records.count()
    rows = read(records)
    many, refused = rows.agg(F.count(F.lit(1)), F.max("reason")).collect()[0]
    if refused is not None:
        msg = f"{refused}: {record}"
        raise ValueError(msg)
    taken = []
    for _ in range(RUNS + 1):
        begin = time.monotonic()
        rows.write.format("noop").mode("overwrite").save()
        taken.append(time.monotonic() - begin)
    records.unpersist()
    return float(many / statistics.median(taken[1:]))


def kafka(spark: SparkSession, record: str) -> DataFrame:
    """Kafka's columns of many records."""
    value: Column = F.replace(F.lit(record), F.lit(str(NUMBER)), (F.col("id") + NUMBER).cast("string"))
    columns = (value.cast("binary").alias("value"), F.lit("t").alias("topic"), F.lit(0).alias("partition"))
    cores = spark.sparkContext.defaultParallelism
    return spark.range(0, RECORDS, 1, cores).select(
        *columns, F.col("id").alias("offset"), F.current_timestamp().alias("timestamp")
    )
