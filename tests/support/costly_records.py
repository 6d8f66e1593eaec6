"""The records that cost most among those that are read, or nearly: as many points, lines, names and labels as limits allow."""

from __future__ import annotations

import json
from typing import Any

from support.otlp_attacks import POINT, field, gauge, record
from support.otlp_attacks import attribute as key_value
from support.otlp_attacks import line as otlp_line
from support.poison import AT, NANOSECONDS, Poison, flat, line, metricbeat, otlp, telegraf

POINTS = 2_048  # RecordText.MOST_POINTS
CONTAINERS = 10_000  # RecordText.MOST_CONTAINERS
LONG_LABELS = {f"k{i:02d}" + "a" * 40: "v" * 60 for i in range(16)}  # a name of a little less than 2,048 characters
TOO_LONG = {f"k{i:02d}" + "a" * 125: "v" * 128 for i in range(16)}
QUOTED = {f"k{i:02d}" + "/" * 125: "/" * 128 for i in range(14)}
EVENT = "connection from 10.0.0.7:4711 closed after 17 ms: user=alice id=0f3a-17, retrying"


def attribute(key: str, value: str) -> dict[str, Any]:
    """An attribute of OpenTelemetry."""
    return {"key": key, "value": {"stringValue": value}}


def lines(count: int, message: str) -> dict[str, Any]:
    """Lines in a record of the OpenTelemetry Collector."""
    resource = {"attributes": [attribute("host.name", "poison")]}
    found = [{"timeUnixNano": NANOSECONDS, "body": {"stringValue": f"{message} {i}"}} for i in range(count)]
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": found}]}]}


def histogram(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The same points, of a histogram."""
    made = otlp(points)
    metric = made["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    metric["histogram"] = metric.pop("gauge")
    return made


def collectd(count: int, instance: str) -> list[dict[str, Any]]:
    """Values of collectd, with as many sources."""
    sources = [f"s{i}" for i in range(count)]
    names = {"host": "poison", "plugin": "p", "plugin_instance": instance, "type": "t", "type_instance": instance}
    return [{"values": [1.5] * count, "dstypes": ["derive"] * count, "dsnames": sources, "time": 1795262401, **names}]


def _of_telemetry() -> dict[str, Any]:
    point: dict[str, Any] = {"timeUnixNano": NANOSECONDS, "asDouble": 1.5}
    fields = {f"k{i}": i for i in range(POINTS - 10)}
    labelled = [point | {"attributes": [attribute(f"k{j}", f"v{i}") for j in range(16)]} for i in range(290)]
    later = [point | {"timeUnixNano": str(int(NANOSECONDS) + i * 10**12)} for i in range(POINTS)]
    return {
        "a flat point": flat(),
        "points of OpenTelemetry": otlp([point] * POINTS),
        "points with an attribute": otlp([point | {"attributes": [attribute("a", "b")]}] * 2_000),
        "points with 16 attributes": otlp(labelled),
        "histograms": histogram([{"timeUnixNano": NANOSECONDS, "count": "1", "sum": 2.5}] * POINTS),
        "points of as many different times to come": otlp(later),
        "points without anything": otlp([{}] * POINTS),
        "9,900 resources": {"resourceMetrics": [{}] * 9_900},
        "fields of Telegraf": telegraf("n", fields),
        "fields with long labels": telegraf("n", fields, **LONG_LABELS),
        "fields with labels that are too long": telegraf("n", fields, **TOO_LONG),
        "fields with labels of slashes": telegraf("n", fields, **QUOTED),
        "thousands of tags": telegraf("n", fields, **{f"k{i}": "v" for i in range(9_000)}),
        "values of collectd": collectd(POINTS, "v"),
        "values of collectd with a long instance": collectd(POINTS, "v" * 128),
        "leaves of Metricbeat": metricbeat(system=fields),
        "leaves with long labels": metricbeat(system=fields, labels=LONG_LABELS),
        "leaves under long keys": metricbeat(system={"p" * 120: {"q" * 120: fields}}),
        "a megabyte that is not read": flat(x="a" * 1_000_000),
        "a megabyte of escapes": flat(x="\x01" * 170_000),
        "a value of 400 digits": flat(metric__value=int("1" * 400)),
    }


def _of_logs() -> dict[str, Any]:
    return {
        "a flat line": {"@timestamp": AT, "host.name": "h", "service.name": "s", "log.level": "info", "message": EVENT},
        "lines of OpenTelemetry": lines(POINTS, EVENT),
        "lines of 400 characters": lines(POINTS, (EVENT * 5)[:400]),
        "120 lines of 8,192 characters": lines(120, EVENT * 100),
        "a message for the masks": line(message="1:" * 500_000),
        "a message of addresses": line(message="10.0.0.7:4711 " * 70_000),
        "a message of quotes": line(message='"' * 500_000),
    }


def _of_labels() -> dict[str, Any]:
    def label(series: list[str]) -> dict[str, Any]:
        return {"label": "expected-change", "series": series}

    return {
        "a label": label(["host/a"]),
        "1,000 hosts": label([f"gauge/host-{i}//m{'x' * 200}" for i in range(1_000)]),
        "1,000 series of a host": label([f"gauge/host//m{i}{'x' * 200}" for i in range(1_000)]),
    }


def _of_protobuf() -> dict[str, dict[str, bytes]]:
    """Records of OpenTelemetry's protobuf, by topic."""
    labelled = POINT + b"".join(field(7, key_value(f"k{j}", "v")) for j in range(16))
    event = otlp_line(field(5, field(1, EVENT.encode())))
    return {
        "telemetry": {
            "points of protobuf": record(gauge(*[POINT] * POINTS)),
            "points of protobuf with an attribute": record(gauge(*[POINT + field(7, key_value("a", "b"))] * 2_000)),
            "points of protobuf with 16 attributes": record(gauge(*[labelled] * 290)),
            "points of protobuf without anything": record(gauge(*[b""] * POINTS)),
            "scopes of protobuf without anything": field(1, field(2, b"") * 500_000),
            "groups of protobuf": record(gauge(POINT), *[b"\x73\x74" * 30 + gauge()] * 5_000),
        },
        "logs": {"lines of protobuf": record(*[event] * POINTS)},
    }


def _made(topic: str, records: dict[str, Any]) -> list[Poison]:
    return [
        Poison(name, topic, json.dumps(value, separators=(",", ":")).encode(), None) for name, value in records.items()
    ] + [Poison(name, topic, value, None) for name, value in _of_protobuf().get(topic, {}).items()]


COSTLY = {
    "telemetry": _made("telemetry", _of_telemetry()),
    "logs": _made("logs", _of_logs()),
    "labels": _made("labels", _of_labels()),
}
