"""Metrics and logs of OpenTelemetry, made from a seed with the official encoder, as protobuf and as JSON."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

Message = MetricsData | LogsData
OF_TOPIC: dict[str, type[Message]] = {"telemetry": MetricsData, "logs": LogsData}
NANOSECONDS = 1_767_571_210_500_000_000  # 2026-01-05T00:00:10.5Z
KEYS = ("host.name", "service.name", "k8s.pod.name", "host.id", "cpu", "state", "", "é", "a/b", "x" * 129)
TEXTS = ("h", "shop", "web-1", "", "100 %", "\U0001f600", "a\tb", '"quoted"\\', "\u2028", "x" * 300)
NUMBERS = (0.0, -0.0, 1.5, -2.25, 0.1, 5e-324, 1e-7, 123456789.125, 1e15, 1.1e15, 1e18, 1e21, 2.5e22, 1e308)
BEYOND = (float("nan"), float("inf"), float("-inf"))
FLAGS = (*[0] * 13, 2**32 - 2, 1, 2**32 - 1)  # the lowest bit says that there is no value
WHOLE = (0, 1, -1, 7, 10**15, 2**53 + 1, 2**63 - 1, -(2**63))


def as_json(message: Message | TracesData) -> bytes:
    """The same record as the Collector's `otlp_json` has it."""
    found = MessageToDict(message, use_integers_for_enums=True)
    return json.dumps(_numbers(found), ensure_ascii=False, separators=(",", ":")).encode()


def _numbers(value: Any) -> Any:
    """Doubles as Go writes them: the fewest digits, whole ones without a point."""
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(Decimal(repr(value)))
    return value


def message(source: random.Random, topic: str) -> Message:
    """A record of a topic: what agents write, and what they hardly do."""
    made = OF_TOPIC[topic]()
    for _ in range(source.choice((0, 1, 1, 1, 2))):
        if isinstance(made, MetricsData):
            of_metrics = made.resource_metrics.add()
            _attributes(source, of_metrics.resource.attributes, usual=True)
            for _ in range(source.choice((0, 1, 1, 2))):
                scope = of_metrics.scope_metrics.add()
                scope.scope.name = "otelcol/hostmetrics"
                for _ in range(source.choice((0, 1, 2, 3))):
                    _metric(source, scope.metrics.add())
        else:
            of_logs = made.resource_logs.add()
            _attributes(source, of_logs.resource.attributes, usual=True)
            for _ in range(source.choice((0, 1, 1, 2))):
                lines = of_logs.scope_logs.add()
                for _ in range(source.choice((0, 1, 2, 3))):
                    _line(source, lines.log_records.add())
    return made


def _attributes(source: random.Random, attributes: Any, usual: bool = False) -> None:
    if usual and source.random() < 0.9:
        attributes.add(key="host.name").value.string_value = "h"
        attributes.add(key="service.name").value.string_value = "shop"
    for _ in range(source.choice((0, 0, 0, 1, 1, 1, 2, 2, 3, 17))):
        attribute: KeyValue = attributes.add(key=source.choice(KEYS))
        _value(source, attribute.value, 0)


def _value(source: random.Random, value: AnyValue, depth: int) -> None:
    match source.randrange(9 if depth < 2 else 5):
        case 0 | 1:
            value.string_value = source.choice(TEXTS)
        case 2:
            value.int_value = source.choice(WHOLE)
        case 3:
            value.double_value = source.choice(NUMBERS)
        case 4:
            value.bool_value = source.random() < 0.5
        case 5:
            value.bytes_value = source.randbytes(source.randrange(5))
        case 6:
            value.array_value.SetInParent()
            for _ in range(source.randrange(3)):
                _value(source, value.array_value.values.add(), depth + 1)
        case 7:
            value.kvlist_value.SetInParent()
            for key in KEYS[: source.randrange(3)]:
                _value(source, value.kvlist_value.values.add(key=key).value, depth + 1)


def _time(source: random.Random) -> int:
    return source.choice((*[NANOSECONDS] * 9, NANOSECONDS + 123_456_789, 0, 2**63, 2**64 - 1))


def _number(source: random.Random) -> float:
    return source.choice(NUMBERS + BEYOND if source.random() < 0.2 else NUMBERS)


def _metric(source: random.Random, metric: Metric) -> None:
    metric.name = source.choice((*("system.cpu.time", "queue.size", "a/b") * 3, "x" * 257, ""))
    metric.unit = "s"
    kind = source.choice(("gauge", "sum", "histogram", "exponential_histogram", "summary", None))
    if kind is None:
        return
    form = getattr(metric, kind)
    form.SetInParent()
    if kind not in ("gauge", "summary"):
        form.aggregation_temporality = source.randrange(3)
    if kind == "sum":
        form.is_monotonic = source.random() < 0.5
    for _ in range(source.choice((0, 1, 2, 5))):
        point = form.data_points.add(time_unix_nano=_time(source), start_time_unix_nano=NANOSECONDS)
        _attributes(source, point.attributes)
        if kind in ("gauge", "sum"):
            _plain(source, point)
        else:
            point.flags = source.choice(FLAGS)
            point.count = source.choice((0, 1, 2**64 - 1))
            if source.random() < 0.7:
                point.sum = _number(source)


def _plain(source: random.Random, point: Any) -> None:
    point.flags = source.choice(FLAGS)
    if source.random() < 0.5:
        point.as_double = _number(source)
    elif source.random() < 0.9:
        point.as_int = source.choice(WHOLE)


def _line(source: random.Random, line: LogRecord) -> None:
    line.time_unix_nano = _time(source)
    line.observed_time_unix_nano = _time(source)
    severity: Any = source.choice((0, 1, 9, 13, 17, 21, 24, 25, 2**31 - 1, -1))
    line.severity_number = severity
    line.severity_text = source.choice(("", "WARN", "error", "unknown"))
    line.trace_id, line.span_id = source.randbytes(16), source.randbytes(8)
    _attributes(source, line.attributes)
    if source.random() < 0.9:
        _value(source, line.body, 0)


def damaged(source: random.Random, record: bytes) -> bytes:
    """A record with a few bytes changed, taken out or put in."""
    data = bytearray(record)
    for _ in range(source.choice((1, 1, 1, 1, 2, 4))):
        at, size = source.randrange(len(data) + 1), source.choice((0, 1, 1, 1, 4, 100))
        data[at : at + size] = source.randbytes(size if size == 1 else source.choice((0, 1, 2, 9)))
    return bytes(data)
