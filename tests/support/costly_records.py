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
        "76,000 different keys": flat(x=[{f"{i * 9_500 + j:x}": "" for j in range(9_500)} for i in range(8)]),
        "a megabyte of escapes": flat(x="\x01" * 170_000),
        "a value of 400 digits": flat(metric__value=int("1" * 400)),
        **_of_one_point(),
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
        "a path of 900,000 slashes": line(log={"file": {"path": "/" * 900_000}}),
        "a path of 900,000 letters": line(log={"file": {"path": "a" * 900_000}, "level": "l" * 100_000}),
        "a line of ECS with 9,000 members": line(event={"dataset": "d"}, **{f"k{i}": i for i in range(9_000)}),
        **_of_text(),
    }


def _of_labels() -> dict[str, Any]:
    def label(series: list[str]) -> dict[str, Any]:
        return {"label": "expected-change", "series": series}

    return {
        "a label": label(["host/a"]),
        "1,000 hosts": label([f"gauge/host-{i}//m{'x' * 200}" for i in range(1_000)]),
        "1,000 series of a host": label([f"gauge/host//m{i}{'x' * 200}" for i in range(1_000)]),
        "a series of 120 names of 2,048 characters": label([f"gauge/h/s/{i}{'m' * 2_030}" for i in range(120)]),
        "names of slashes": label(["gauge/" + "/" * 2_000] * 120),
        "a label of a megabyte": {"label": '"' * 500_000, "series": ["host/a"]},
    }


def prometheus(labels: dict[str, str], name: str = "m") -> dict[str, Any]:
    """A sample of prometheus-kafka-adapter."""
    return {"name": name, "value": "1.5", "timestamp": AT, "labels": {"instance": "poison:9100", "job": "j", **labels}}


def _of_one_point() -> dict[str, Any]:
    """Of forms that hold a point or a line each: with as much around it as they may have."""
    many = {f"k{i}": "v" for i in range(9_000)}
    return {
        "a sample of Prometheus": prometheus({"zone": "a"}),
        "a sample with long labels": prometheus(LONG_LABELS),
        "a sample with 9,000 labels": prometheus(many),
        "a sample of an instance of ports": prometheus({"instance": ":1" * 400_000}),
        "a sample with a name of 900,000 letters": prometheus({}, "m" * 900_000),
    }


def syslog(data: str, message: str, header: str = f"1 {AT} poison app 1 - ") -> str:
    """A line of syslog; RFC 5424 with this header."""
    return f"<34>{header}{data}{message}"


def _of_text() -> dict[str, str]:
    """Lines of syslog."""
    element = "[a@1 " + " ".join(f'k{i}="{i}"' for i in range(24))[:190] + "]"
    return {
        "a line of syslog": syslog("- ", EVENT),
        "a line of syslog with all of its data": syslog(element * 32 + " ", EVENT * 100),
        "escapes in its data": syslog("[" + "\\]" * 199 + "] ", EVENT),
        "data that never ends": syslog("[a]" * 32 + "[" + "\\]" * 400_000, ""),
        "a megabyte of syslog": syslog("- ", "1:" * 500_000),
        "a megabyte of RFC 3164": syslog("", "a" * 1_000_000, "Nov 21 12:00:01 poison app[1]: "),
        "a megabyte before a colon": syslog("", "a" * 1_000_000 + ":", "Nov 21 12:00:01 poison "),
        "a megabyte of spaces": syslog("", " " * 1_000_000, "Nov 21 12:00:01 poison app:"),
        "a megabyte of line feeds before a letter": syslog("- ", "\n" * 1_000_000 + "a"),
    }


def _of_changes() -> dict[str, Any]:
    change = {"change": "deployment", "service": "poison", "at": AT}
    deployment = {
        "ref": "r" * 400_000,
        "sha": "s" * 40,
        "created_at": AT,
        "environment": "e",
        "creator": {"login": "l"},
    }
    argo = {"operationState": {"phase": "Succeeded", "startedAt": AT}, "sync": {"revision": "r" * 900_000}}
    event = {"involvedObject": {"kind": "Deployment", "name": "poison"}, "reason": "SuccessfulRescale", "eventTime": AT}
    return {
        "a change": change,
        "a change with a megabyte of comment": change | {"comment": "a\x85" * 240_000},
        "a change with all texts long": change | {name: "\x7f" * 300_000 for name in ("comment", "version", "author")},
        "a change of a kind of 900,000 letters": change | {"change": '"' * 450_000},
        "a change at a time of 900,000 digits": change | {"at": "1" * 900_000},
        "a change at a time of brackets": change | {"at": "2026-01-05T" + "[" * 900_000},
        "a change with 9,000 members": change | {f"k{i}": {"a": i} for i in range(9_000)},
        "a call": {"client": "a" * 256, "server": "b" * 256},
        "a call of 450,000 slashes": {"client": "/" * 450_000, "server": "/" * 450_000},
        "a webhook of GitHub": {"deployment": deployment, "repository": {"name": "poison"}},
        "an application of Argo CD": {"kind": "Application", "metadata": {"name": "poison"}, "status": argo},
        "an event of Kubernetes": event | {"message": "\n" * 400_000},
        "a kind that is a megabyte of an array": change | {"change": [[1] * 9_000] * 40},
    }


def _of_rules() -> dict[str, Any]:
    rule = {"record": "rule", "name": "poison", "mute": True, "host": "nobody"}
    return {
        "a rule": rule,
        "a rule of 4,096 bytes": rule | {"comment": "c" * 3_990},
        "a rule of asterisks": rule | {"host": "*a" * 1_990},
        "a rule of a megabyte": rule | {"comment": "c" * 1_000_000},
        "a name of 900,000 control characters": rule | {"name": "\x85" * 170_000},
        "a rule with 9,000 members": rule | {f"k{i}": [i] for i in range(9_000)},
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
        Poison(
            name,
            topic,
            (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode(),
            None,
            key=b"poison",  # the name of the rules
        )
        for name, value in records.items()
    ] + [Poison(name, topic, value, None) for name, value in _of_protobuf().get(topic, {}).items()]


COSTLY = {
    "telemetry": _made("telemetry", _of_telemetry()),
    "logs": _made("logs", _of_logs()),
    "labels": _made("labels", _of_labels()),
    "changes": _made("changes", _of_changes()),
    "rules": _made("rules", _of_rules()),
}
