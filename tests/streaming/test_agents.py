"""What agents send, read by shape: one literal record a format, one Spark job for all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.core.settings import PROJECT
from pipelines.inputs import log_lines, telemetry_points

pytestmark = pytest.mark.spark

AT = "2026-01-05T00:00:10.500Z"
MS = 1_767_571_210_500
NS = str(MS * 1_000_000)
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


def rows(spark: SparkSession, topic: str, values: list[bytes]) -> Any:
    arrival = datetime.fromtimestamp(MS / 1000 + 1, tz=UTC)
    data = [(None, bytearray(v), topic, 0, i, arrival) for i, v in enumerate(values)]
    return spark.createDataFrame(data, KAFKA)


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


OTLP_RESOURCE = {"attributes": [attribute("host.name", "h"), attribute("service.name", "shop")]}
OTLP_METRICS = {
    "resourceMetrics": [
        {
            "resource": OTLP_RESOURCE,
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": "requests",
                            "sum": {
                                "aggregationTemporality": 2,
                                "isMonotonic": True,
                                "dataPoints": [
                                    {
                                        "timeUnixNano": NS,
                                        "asInt": "9007199254740993",
                                        "attributes": [attribute("code", "200")],
                                    }
                                ],
                            },
                        },
                        {"name": "queue", "gauge": {"dataPoints": [{"timeUnixNano": NS, "asDouble": 2.5}]}},
                    ]
                }
            ],
        }
    ]
}

TELEMETRY: list[tuple[str, bytes, set[tuple[str, float]]]] = [
    (
        "canonical, flat",
        json.dumps(
            {"@timestamp": AT, "host.name": "h", "service.name": "s", "metric.name": "cpu", "metric.value": 1.5}
        ).encode(),
        {("gauge/h/s/cpu", 1.5)},
    ),
    (
        "canonical, nested, with labels and a counter",
        json.dumps(
            {
                "@timestamp": AT,
                "host": {"name": "h"},
                "metric": {"name": "bytes", "value": 7, "type": "counter"},
                "labels": {"device": "sda", "a": "1"},
            }
        ).encode(),
        {("counter/h//bytes{a=1,device=sda}", 7.0)},
    ),
    (
        "Metricbeat",
        json.dumps(
            {
                "@timestamp": AT,
                "host": {"name": "h"},
                "event": {"dataset": "system.load"},
                "metricset": {"name": "load", "period": 10000},
                "service": {"type": "system"},
                "system": {"load": {"1": 0.25, "cores": 2}},
                "ecs": {"version": "8.0.0"},
            }
        ).encode(),
        {("gauge/h/system/system.load.1", 0.25), ("gauge/h/system/system.load.cores", 2.0)},
    ),
    (
        "Telegraf, several, in seconds",
        json.dumps(
            {
                "metrics": [
                    {
                        "name": "cpu",
                        "tags": {"host": "h", "cpu": "cpu0"},
                        "fields": {"idle": 9.5},
                        "timestamp": MS // 1000,
                    },
                    {"name": "mem", "tags": {"host": "h"}, "fields": {"used": 3}, "timestamp": MS // 1000},
                ]
            }
        ).encode(),
        {("gauge/h//cpu.idle{cpu=cpu0}", 9.5), ("gauge/h//mem.used", 3.0)},
    ),
    (
        "Telegraf, single, in milliseconds",
        json.dumps({"name": "cpu", "tags": {"host": "h"}, "fields": {"idle": 9.5}, "timestamp": MS}).encode(),
        {("gauge/h//cpu.idle", 9.5)},
    ),
    (
        "OpenTelemetry Collector",
        json.dumps(OTLP_METRICS).encode(),
        {("counter/h/shop/requests{code=200}", 9007199254740992.0), ("gauge/h/shop/queue", 2.5)},
    ),
    (
        "prometheus-kafka-adapter",
        json.dumps(
            {
                "timestamp": AT,
                "value": "12.5",
                "name": "http_requests_total",
                "labels": {"__name__": "http_requests_total", "instance": "h:9100", "job": "node", "code": "200"},
            }
        ).encode(),
        {("counter/h/node/http_requests_total{code=200}", 12.5)},
    ),
]

LOGS: list[tuple[str, bytes, tuple[str, str, str, str]]] = [
    (
        "canonical",
        json.dumps(
            {
                "@timestamp": AT,
                "host.name": "h",
                "service.name": "s",
                "log.level": "WARNING",
                "message": "disk 93 % full",
            }
        ).encode(),
        ("h", "s", "warn", "disk 93 % full"),
    ),
    (
        "Filebeat",
        json.dumps(
            {
                "@timestamp": AT,
                "host": {"name": "h"},
                "message": "hello",
                "log": {"file": {"path": "/var/log/nginx/access.log"}},
                "agent": {"type": "filebeat"},
                "event": {"dataset": "nginx.access"},
            }
        ).encode(),
        ("h", "nginx.access", "info", "hello"),
    ),
    (
        "OpenTelemetry Collector",
        json.dumps(
            {
                "resourceLogs": [
                    {
                        "resource": OTLP_RESOURCE,
                        "scopeLogs": [
                            {
                                "logRecords": [
                                    {
                                        "timeUnixNano": NS,
                                        "severityNumber": 17,
                                        "severityText": "ERROR",
                                        "body": {"stringValue": "boom"},
                                    }
                                ]
                            }
                        ],
                    }
                ]
            }
        ).encode(),
        ("h", "shop", "error", "boom"),
    ),
    (
        "syslog, RFC 5424",
        b"<34>1 2026-01-05T00:00:10.500Z h su 77 ID47 - 'su root' failed",
        ("h", "su", "fatal", "'su root' failed"),
    ),
]


def test_every_agents_telemetry_becomes_points(spark: SparkSession) -> None:
    found = telemetry_points(rows(spark, "telemetry", [value for _, value, _ in TELEMETRY]))
    points: dict[int, set[tuple[str, float]]] = {}
    for row in found.select("offset", "series", "value", "reason", F.unix_millis("event_time").alias("at")).collect():
        assert row["reason"] is None, (TELEMETRY[row["offset"]][0], row["reason"])
        assert row["at"] // 1000 == MS // 1000
        points.setdefault(row["offset"], set()).add((row["series"], row["value"]))
    assert points == {i: wanted for i, (_, _, wanted) in enumerate(TELEMETRY)}


def test_a_stale_marker_of_prometheus_is_refused_with_its_reason(spark: SparkSession) -> None:
    record = {"timestamp": AT, "value": "NaN", "name": "up", "labels": {"instance": "h:9100", "job": "node"}}
    (row,) = telemetry_points(rows(spark, "telemetry", [json.dumps(record).encode()])).collect()
    assert row["series"] is None
    assert "NaN" in row["reason"]


def test_every_agents_logs_become_lines(spark: SparkSession) -> None:
    found = log_lines(rows(spark, "logs", [value for _, value, _ in LOGS]))
    lines = {}
    for row in found.select("offset", "host", "service", "level", "message", "template", "reason").collect():
        assert row["reason"] is None, (LOGS[row["offset"]][0], row["reason"])
        assert row["template"]
        lines[row["offset"]] = (row["host"], row["service"], row["level"], row["message"])
    assert lines == {i: wanted for i, (_, _, wanted) in enumerate(LOGS)}


@pytest.mark.parametrize("example", ["opentelemetry-collector.yaml", "prometheus-collector.yaml"])
def test_a_full_batch_of_the_example_is_within_the_limits(spark: SparkSession, example: str) -> None:
    """Of points with ten attributes, and of lines of 2,000 bytes: docs/inputs.md promises them."""
    text = (PROJECT / "docs" / "inputs" / example).read_text()
    (size,) = {int(found) for found in re.findall(r"send_batch(?:_max)?_size: ([0-9]+)", text)}
    labels = [attribute(f"label{i}", "v" * 40) for i in range(10)]
    points = [{"attributes": labels, "timeUnixNano": NS, "asDouble": i} for i in range(size)]
    lines = [
        {"attributes": labels[:1], "timeUnixNano": NS, "severityNumber": 9, "body": {"stringValue": "x" * 2_000}}
    ] * size
    metrics = [{"name": "m", "gauge": {"dataPoints": points}}]
    sent = {
        "telemetry": {"resourceMetrics": [{"resource": OTLP_RESOURCE, "scopeMetrics": [{"metrics": metrics}]}]},
        "logs": {"resourceLogs": [{"resource": OTLP_RESOURCE, "scopeLogs": [{"logRecords": lines}]}]},
    }
    for topic, read in (("telemetry", telemetry_points), ("logs", log_lines)):
        text = json.dumps(sent[topic])
        message = json_format.Parse(text, MetricsData() if topic == "telemetry" else LogsData())
        for record in (text.encode(), message.SerializeToString()):
            rows = read(
                spark.createDataFrame(
                    [(None, bytearray(record), "t", 0, 0, datetime.fromtimestamp(MS / 1000 + 1, tz=UTC))], KAFKA
                )
            ).collect()
            assert (len(rows), {row["reason"] for row in rows}) == (size, {None})
