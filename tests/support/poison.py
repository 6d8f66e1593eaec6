"""Records that are made to stop the chain or to slow it down, by what they attack: each is refused, or costs little.

`POISON` is what the input topics may get; a `Poison` says the kind of topic that it is for, so that a test can send it anywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import Any

AT = "2026-11-21T12:00:01Z"
NANOSECONDS = "1795262401000000000"  # the same moment
MEGABYTE = 1 << 20
ONE_HASH = ["".join(pairs) for pairs in product(("ab", "bA"), repeat=10)]  # of h = 33 h + character
ANY = ""  # read or refused, but one of both


@dataclass(frozen=True)
class Poison:
    """A record of a kind of topic (`telemetry`, `logs`, `labels`, `changes`, `rules`), and how its reason begins: None where
    it is read, `ANY` where it may be.

    `host` is one that no other record has, where it has one: what is read of it is found by that. Rules are read under a `key` only.
    """

    name: str
    topic: str
    value: bytes | None
    reason: str | None
    host: str = ""
    key: bytes | None = None


def flat(**changes: Any) -> dict[str, Any]:
    """A good flat record with members changed; `__` stands for a dot."""
    record = {"@timestamp": AT, "host.name": "poison", "metric.name": "m", "metric.value": 1.5}
    return record | {("@timestamp" if k == "at" else k.replace("__", ".")): v for k, v in changes.items()}


def line(**changes: Any) -> dict[str, Any]:
    """A good nested log record with members changed."""
    return {"@timestamp": AT, "host": {"name": "poison"}, "message": "it works"} | changes


def otlp(points: list[dict[str, Any]], host: str = "poison") -> dict[str, Any]:
    """A record of the OpenTelemetry Collector."""
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": host}}]}
    scope = {"metrics": [{"name": "g", "gauge": {"dataPoints": points}}]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}


def metricbeat(**members: Any) -> dict[str, Any]:
    """A record of Metricbeat."""
    return {"@timestamp": AT, "event": {"module": "system"}, "host": {"name": "poison"}} | members


def telegraf(name: str, fields: dict[str, Any], **tags: str) -> dict[str, Any]:
    """A record of Telegraf."""
    return {"name": name, "fields": fields, "tags": {"host": "poison", **tags}, "timestamp": 1795262401}


def _of(topic: str, name: str, reason: str | None, value: Any) -> Poison:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value, separators=(",", ":")).encode()
    return Poison(name, topic, data, reason)


def _of_both(topic: str, good: dict[str, Any]) -> list[Poison]:
    text = json.dumps(good).encode()
    return [
        _of(topic, "time with a huge exponent", "@timestamp is not a time", good | {"@timestamp": "1E-2000000000"}),
        _of(topic, "time with a large exponent", "@timestamp is not a time", good | {"@timestamp": "1E-20000000"}),
        _of(topic, "time beyond all numbers", "@timestamp is not a time", good | {"@timestamp": "1e999999"}),
        _of(
            topic,
            "time in the year 292278994",
            "@timestamp is not a time",
            good | {"@timestamp": "+292278994-08-17T07:12:55Z"},
        ),
        _of(topic, "time at the end of longs", "event time outside", good | {"@timestamp": 2**63 - 1}),
        _of(topic, "time of many digits", "@timestamp is not a time", good | {"@timestamp": "1" * 900_000}),
        _of(topic, "zone without end", "@timestamp is not a time", good | {"@timestamp": "2026-11-21T12:00:01+99:99"}),
        _of(topic, "5 MB of one character", "a record of", good | {"x": "a" * (5 * MEGABYTE)}),
        _of(topic, "5 MB of zeros", "a record of", bytes(5 * MEGABYTE)),
        _of(topic, "a megabyte of a host", "host.name longer than 256", good | {"host.name": "h" * 900_000}),
        _of(topic, "a key of a megabyte", "a key longer than", {"k" * 1_000_000: 1}),
        _of(topic, "many keys", "more than 10000 members", {str(i): "" for i in range(60_000)}),
        _of(topic, "keys of one hash", "more than 64 keys of one hash", good | {"x": dict.fromkeys(ONE_HASH, "")}),
        _of(topic, "many arrays", "more than", {"x": [[[]] * 9_000] * 20}),
        _of(topic, "deep objects", "nested deeper", b'{"a":' * 100_000),
        _of(topic, "deep arrays", "nested deeper", b"[" * MEGABYTE),
        _of(topic, "a number of a megabyte", "a number of more", b'{"x":' + b"1" * 1_000_000 + b"}"),
        _of(topic, "no end of zeros in a number", "a number of more", b'{"x":0.' + b"0" * 1_000_000 + b"1}"),
        _of(topic, "a second record in brackets", "something after", text + b"],[" + text),
        _of(topic, "garbage behind brackets", "something after", text + b"],garbage"),
        _of(topic, "a key twice", "a key twice: host.name", text[:-1] + b',"host.name":"a","host.name":"b"}'),
        _of(topic, "zeros", "not JSON", bytes(1000)),
        _of(topic, "no value", "empty value", None),
        _of(topic, "an empty value", "empty value", b""),
        _of(topic, "compressed", "not UTF-8", b"\x1f\x8b\x08\x00" + bytes(range(256)) * 100),
        _of(topic, "text of a megabyte", "not JSON", b"a" * 1_000_000),
    ]


def _of_telemetry() -> list[Poison]:
    point = {"timeUnixNano": NANOSECONDS, "asDouble": 1.5}
    few, many = ({f"k{i}": i for i in range(count)} for count in (2_000, 9_000))
    attributes = [{"key": k, "value": {"stringValue": "v"}} for k in many]
    instance = {"instance": ":1" * 400_000}
    return [
        *_of_both("telemetry", flat()),
        _of("telemetry", "100,000 points", "more than 2048 points", otlp([{}] * 100_000)),
        _of("telemetry", "points of a long host", "host.name longer than 256", otlp([point] * 2_000, "h" * 500_000)),
        _of("telemetry", "100,000 labels", "more than", flat(labels={f"k{i}": "" for i in range(60_000)})),
        _of("telemetry", "9,000 labels", "more than 16 labels", flat(labels=dict.fromkeys(many, "v"))),
        _of("telemetry", "9,000 attributes", "more than 10000 objects", otlp([point | {"attributes": attributes}])),
        _of(
            "telemetry",
            "thousands of dimensions",
            "more than 16 labels",
            metricbeat(labels=dict.fromkeys(many, "v"), system={"a": 1}),
        ),
        _of("telemetry", "fields under a long name", "metric.name longer than 256", telegraf("n" * 500_000, few)),
        _of("telemetry", "tags for each field", "more than 16 labels", telegraf("n", few, **dict.fromkeys(many, "v"))),
        _of(
            "telemetry",
            "objects of many shapes",
            "nothing to read",
            telegraf("n", {"a": [{f"k{i}": "x"} for i in range(9_900)]}),
        ),
        _of(
            "telemetry",
            "long keys around leaves",
            "metric.name longer than 256",
            metricbeat(system={"p" * 16_000: {"q" * 16_000: few}}),
        ),
        _of(
            "telemetry",
            "an instance of ports",
            "host.name longer than 256",
            {"timestamp": AT, "name": "m", "value": "1", "labels": instance},
        ),
        _of("telemetry", "a value with a huge exponent", "value beyond 1e15", flat(metric__value="1E2000000000")),
        _of("telemetry", "a value of a megabyte", "value is not a number", flat(metric__value="1" * 1_000_000)),
    ]


def _of_logs() -> list[Poison]:
    return [
        *_of_both("logs", {"@timestamp": AT, "host.name": "poison", "message": "it works"}),
        *(
            _of("logs", f"a path of {name}", reason, line(log={"file": {"path": unit * 900_000}}))
            for name, unit, reason in (
                ("letters", "a", "service.name longer"),
                ("slashes", "/", None),
                ("dots", ".", None),
            )
        ),
        _of("logs", "a message for the masks", None, line(message="1:" * 500_000)),
        _of(
            "logs",
            "100,000 lines",
            "more than 2048 points or lines",
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [{}] * 100_000}]}]},
        ),
        _of("logs", "syslog without an end", "not JSON", b"<34>1 2026-11-21T12:00:01Z h a - - [" + b"\\]" * 500_000),
        _of("logs", "a priority again and again", "not JSON", b"<34>" * 250_000),
    ]


def _of_labels() -> list[Poison]:
    def label(series: list[str]) -> dict[str, Any]:
        return {"label": "expected-change", "series": series}

    return [
        _of("labels", "not JSON", "not a label", b"junk"),
        _of("labels", "5 MB", "not a label: a record of", b"a" * 5 * MEGABYTE),
        _of("labels", "deep", "not a label: nested", b'{"a":' * 100_000),
        _of(
            "labels",
            "names of 2,048 characters",
            "not a label: a record of",
            label(["gauge/h/s/" + "m" * 2_038] * 1_000),
        ),
        _of("labels", "10,000 names", "a label with more than 1000", label(["host/a"] * 10_000)),
        _of("labels", "no value", "not a label: empty", None),
    ]


def _of_changes() -> list[Poison]:
    def change(**more: Any) -> dict[str, Any]:
        return {"change": "deployment", "service": "poison", **more}

    return [
        _of("changes", "not JSON", "not a change", b"junk"),
        _of("changes", "5 MB", "not a change: a record of", b"a" * 5 * MEGABYTE),
        _of("changes", "deep", "not a change: nested", b'{"change":' * 100_000),
        _of("changes", "a long name", "service longer than", change(service="s" * 900_000)),
        _of("changes", "a long time", "the time of a change is not", change(at="1" * 900_000)),
        _of("changes", "long texts", None, change(comment="\x00" * 100_000, version="\U0001f600" * 10_000)),
        _of("changes", "a caller of 900,000 letters", "client longer than", {"client": "c" * 900_000, "server": "s"}),
        _of("changes", "no value", "not a change: empty", None),
    ]


def _of_rules() -> list[Poison]:
    def rule(**members: Any) -> dict[str, Any]:
        return {"record": "rule", "name": "poison", "mute": True, "host": "nobody"} | members

    return [
        _of("rules", "not JSON", "not a rule", b"junk"),
        _of("rules", "5 MB", "not a rule: a record of", b"a" * 5 * MEGABYTE),
        _of("rules", "deep", "not a rule: nested", b'{"record":' * 100_000),
        _of("rules", "a long name", "a rule of more than", rule(name="n" * 900_000)),
        _of("rules", "a long pattern", "a rule of more than", rule(host="*a" * 100_000)),
        _of("rules", "no value", "not a rule: empty", None),
    ]


POISON: tuple[Poison, ...] = (*_of_telemetry(), *_of_logs(), *_of_labels(), *_of_changes(), *_of_rules())
