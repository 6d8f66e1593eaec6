"""What it takes to read each form of record: points and lines a second on all cores, without Kafka, windows and templates' counts."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from benchmarks.deployment import HOSTS, PARTITIONS, message, say, write
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
CPUS = [[{"key": "cpu", "value": {"stringValue": f"cpu{i}"}}] for i in range(10)]
POINTS = [{"attributes": cpu, "timeUnixNano": NANOSECONDS, "asDouble": NUMBER} for cpu in CPUS]
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
    cores, number = spark.sparkContext.defaultParallelism, (F.col("id") + NUMBER).cast("string")
    value = F.replace(F.lit(record), F.lit(str(NUMBER)), number).cast("binary")
    columns = (
        value.alias("value"),
        F.lit("t").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
    )
    records = spark.range(0, RECORDS, 1, cores).select(*columns, F.current_timestamp().alias("timestamp")).persist()
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


def fill(spark: SparkSession, settings: Settings, kind: str, form: str, records: int, length: int = 0) -> None:
    """Fill an input with records of a form from `HOSTS` hosts, evenly over a minute from now, with messages of `length` bytes."""
    record = (TELEMETRY if kind == "telemetry" else LOGS)[form]
    text = F.lit(record if isinstance(record, str) else json.dumps(record))
    number, host = F.col("id"), F.concat(F.lit("host-"), F.col("id") % HOSTS)
    at = F.unix_millis(F.current_timestamp()) + F.floor(number * 60_000 / records)
    for placeholder, value in (
        (MESSAGE, message(number, length) if length else F.lit(MESSAGE)),
        (str(NUMBER), (number + NUMBER).cast("string")),
        (AT, F.date_format(F.timestamp_millis(at), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")),
        (NANOSECONDS, F.concat(at.cast("string"), F.lit("000000"))),
        (str(SECONDS), F.floor(at / 1000).cast("string")),
        ("vm-003", host),
    ):
        text = F.replace(text, F.lit(placeholder), value)
    columns = (
        F.lit(settings.topic(kind)).alias("topic"),
        host.cast("binary").alias("key"),
        text.cast("binary").alias("value"),
    )
    write(settings, spark.range(0, records, 1, PARTITIONS).select(*columns))
