"""Records that no agent should send, by kind: what comes, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MEGABYTE = 1_000_000
DEEP = 5_000


@dataclass(frozen=True)
class Kind:
    """Malformed records of a topic. Refused for a `reason`, which is how the header begins, or accepted for a `cause`.

    `make` gets a moment (epoch ms) and a number that tells records apart. Accepted ones are rows of `host`.
    """

    topic: str
    name: str
    make: Callable[[int, int], bytes | None]
    reason: str = ""
    cause: str = ""

    @property
    def host(self) -> str:
        """The host that accepted records of this kind name, and nobody else."""
        return f"accepted-{self.topic}-{self.name}".replace(" ", "-")


def iso(moment: int) -> str:
    """ISO 8601 of epoch milliseconds."""
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


def document(topic: str, moment: int, i: int, **changes: Any) -> dict[str, Any]:
    """A good record as an object, with members changed; `...` leaves one out. `__` in a name stands for a dot."""
    own: dict[str, dict[str, Any]] = {
        "telemetry": {"metric.name": f"m{i % 3}", "metric.value": i + 0.5},
        "logs": {"log.level": "info", "message": f"request {i} is done"},
    }
    whole = {"@timestamp": iso(moment), "host.name": f"bad-{i % 7}", "service.name": "web"} | own[topic]
    whole |= {("@timestamp" if key == "timestamp" else key.replace("__", ".")): value for key, value in changes.items()}
    return {key: value for key, value in whole.items() if value is not ...}


def text(topic: str, moment: int, i: int, **changes: Any) -> bytes:
    """The same as JSON, without spaces and in UTF-8."""
    return json.dumps(document(topic, moment, i, **changes), separators=(",", ":"), ensure_ascii=False).encode()


def changed(topic: str, name: str, reason: str, **changes: Any) -> Kind:
    """A kind with members changed."""
    return Kind(topic, name, lambda moment, i: text(topic, moment, i, **changes), reason)


def literal(topic: str, name: str, reason: str, value: bytes | None) -> Kind:
    """A kind that is always the same bytes."""
    return Kind(topic, name, lambda moment, i: value, reason)


def rewritten(topic: str, name: str, reason: str, change: Callable[[bytes], bytes]) -> Kind:
    """A kind made from the bytes of a good record."""
    return Kind(topic, name, lambda moment, i: change(text(topic, moment, i)), reason)


def accepted(
    topic: str, name: str, cause: str, change: Callable[[bytes], bytes] = lambda good: good, **own: Any
) -> Kind:
    """A kind that counts as a good record, and why."""
    host = Kind(topic, name, lambda *_: None).host
    return Kind(topic, name, lambda moment, i: change(text(topic, moment, i, host__name=host, **own)), cause=cause)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Replace what must be there."""

    def change(good: bytes) -> bytes:
        if old not in good:
            msg = f"{old!r} is not in {good!r}"
            raise ValueError(msg)
        return good.replace(old, new)

    return change


def with_value(raw: bytes) -> Callable[[int, int], bytes]:
    """A telemetry record whose value is these bytes."""

    def make(moment: int, i: int) -> bytes:
        return text("telemetry", moment, i, metric__value="@value@").replace(b'"@value@"', raw)

    return make


def of_both(topic: str) -> list[Kind]:
    """Kinds that telemetry and logs share."""
    name = b'"bad-'
    return [
        rewritten(topic, "invalid UTF-8 in a name", "not UTF-8", replaced(name, b'"\xff\xfe\x80')),
        rewritten(topic, "overlong UTF-8", "not UTF-8", replaced(name, b'"\xc0\xaf')),
        rewritten(topic, "surrogate in UTF-8", "not UTF-8", replaced(name, b'"\xed\xa0\x80')),
        rewritten(topic, "two byte order marks", "not JSON", lambda good: 2 * b"\xef\xbb\xbf" + good),
        literal(topic, "random bytes", "not UTF-8", bytes(range(128, 256)) * 3),
        rewritten(topic, "UTF-16", "not JSON", lambda good: good.decode().encode("utf-16-le")),
        rewritten(topic, "truncated JSON", "not JSON", lambda good: good[:-1]),
        rewritten(topic, "JSON cut in a string", "not JSON", lambda good: good[: good.index(b"web") + 1]),
        rewritten(topic, "only the end of JSON", "not JSON", lambda good: good[good.rindex(b":") :]),
        literal(topic, "deep arrays", "nested deeper than 32", b"[" * DEEP + b"]" * DEEP),
        literal(topic, "deep objects", "nested deeper than 32", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        rewritten(
            topic, "deep member", "nested deeper", lambda good: good[:-1] + b',"x":' + b"[" * DEEP + b"]" * DEEP + b"}"
        ),
        literal(topic, "null bytes", "not JSON", b"\x00" * 32),
        rewritten(topic, "null byte within", "not JSON", replaced(b"web", b"w\x00b")),
        literal(topic, "empty value", "empty value", b""),
        literal(topic, "null value", "empty value", None),
        literal(topic, "spaces", "not a JSON object", b"   \n"),
        literal(topic, "JSON number", "not a JSON object", b"12"),
        literal(topic, "JSON text", "not a JSON object", b'"text"'),
        literal(topic, "JSON null", "not a JSON object", b"null"),
        literal(topic, "JSON true", "not a JSON object", b"true"),
        literal(topic, "empty array", "not a JSON object", b"[]"),
        rewritten(topic, "array of a record", "not a JSON object", lambda good: b"[" + good + b"]"),
        literal(topic, "empty object", "no @timestamp", b"{}"),
        rewritten(topic, "two JSON values", "something after", lambda good: good + good),
        rewritten(topic, "two JSON values in lines", "something after", lambda good: good + b"\n" + good),
        rewritten(topic, "two JSON values and a comma", "something after", lambda good: good + b"," + good),
        rewritten(topic, "trailing garbage", "something after", lambda good: good + b"xyz"),
        rewritten(topic, "trailing brace", "something after", lambda good: good + b"}"),
        rewritten(topic, "leading garbage", "not JSON", lambda good: b"xyz" + good),
        changed(topic, "no time", "no @timestamp", timestamp=...),
        changed(topic, "time is null", "no @timestamp", timestamp=None),
        changed(topic, "no host", "no host.name", host__name=...),
        changed(topic, "empty host", "no host.name", host__name=""),
        changed(topic, "host is null", "no host.name", host__name=None),
        changed(topic, "year 1", "event time outside", timestamp="0001-01-01T00:00:00Z"),
        changed(topic, "year 9999", "event time outside", timestamp="9999-12-31T23:59:59.999Z"),
        changed(topic, "year 10000", "@timestamp is not a time", timestamp="10000-01-01T00:00:00Z"),
        changed(topic, "year 294247", "@timestamp is not a time", timestamp="+294247-01-10T04:00:54.775Z"),
        changed(topic, "31 February", "@timestamp is not a time", timestamp="2026-02-31T00:00:00Z"),
        changed(topic, "25 o'clock", "@timestamp is not a time", timestamp="2026-02-03T25:00:00Z"),
        changed(topic, "a date alone", "@timestamp is not a time", timestamp="2026-02-03"),
        changed(topic, "a time of day", "@timestamp is not a time", timestamp="12:30:00"),
        changed(topic, "no date", "@timestamp is not a time", timestamp="yesterday"),
        changed(topic, "time is an object", "@timestamp is not a time", timestamp={"seconds": 1}),
        changed(topic, "time is true", "@timestamp is not a time", timestamp=True),
        changed(topic, "epoch without end", "@timestamp is not a time", timestamp=10**50),
        changed(topic, "negative epoch", "@timestamp is not a time", timestamp=-(10**15)),
        changed(topic, "newline in host", "control character in host.name", host__name="a\nb"),
        changed(topic, "null in host", "control character in host.name", host__name="a\x00b"),
        changed(topic, "delete in host", "control character in host.name", host__name="a\x7fb"),
        changed(topic, "C1 control in host", "control character in host.name", host__name="a\x85b"),
        changed(topic, "tab in service", "control character in service.name", service__name="a\tb"),
        changed(topic, "over-long host", "host.name longer than 256", host__name="h" * 257),
        changed(topic, "over-long service", "service.name longer than 256", service__name="ü" * 257),
        rewritten(topic, "duplicate keys", "a key twice: service.name", twice),
        rewritten(topic, "a comma and garbage", "something after", lambda good: good + b"],garbage"),
        rewritten(topic, "another value in brackets", "something after", lambda good: good + b"],[" + good),
        accepted(
            topic, "half a surrogate pair", "what is no character becomes `?`", replaced(b'"web"', b'"w\\ud800b"')
        ),
        accepted(topic, "unknown member", "more than is read is no harm", unknown={"a": [1, None, {}]}),
        accepted(topic, "service is a number", "a name is text, whatever its type in JSON", service__name=12),
        accepted(topic, "no service", "the service may be empty", service__name=...),
        accepted(topic, "spaces around", "JSON allows them", lambda good: b" \n" + good + b"\n\t "),
    ]


def twice(good: bytes) -> bytes:
    """A record with its service named once more."""
    return replaced(b'"service.name":"web"', b'"service.name":"web","service.name":"web2"')(good)


def of_telemetry() -> list[Kind]:
    """Kinds of points."""
    values = {
        "NaN": (b"NaN", "value is not a number"),
        "Infinity": (b"Infinity", "value is not a number"),
        "-Infinity": (b"-Infinity", "value is not a number"),
        "NaN as text": (b'"NaN"', "value is not a number: NaN"),
        "Infinity as text": (b'"Infinity"', "value is not a number: Infinity"),
        "1e999": (b"1e999", "value"),
        "-1e999": (b"-1e999", "value"),
        "huge integer": (b"9" * 400, "value beyond 1e15"),
        "integer of 5000 digits": (b"9" * 5000, "a number of more than 400 digits"),
        "fraction of 5000 digits": (b"0." + b"1" * 5000, "a number of more than 400 digits"),
        "hexadecimal": (b"0x10", "not JSON"),
        "text": (b'"many"', "value is not a number: many"),
        "1d": (b'"1d"', "value is not a number: 1d"),
        "true": (b"true", "value is not a number: true"),
        "object": (b'{"a":1}', "value is not a number"),
        "array": (b"[1]", "value is not a number"),
        "null": (b"null", "no metric.value"),
    }
    megabyte = "x" * MEGABYTE
    return [
        *of_both("telemetry"),
        *(Kind("telemetry", f"value {name}", with_value(raw), why) for name, (raw, why) in values.items()),
        changed("telemetry", "no metric", "no metric.name", metric__name=...),
        changed("telemetry", "no value", "no metric.value", metric__value=...),
        changed("telemetry", "over-long metric", "metric.name longer than 256", metric__name="m" * 257),
        changed("telemetry", "bell in metric", "control character in metric.name", metric__name="\x07"),
        changed("telemetry", "value too large", "value beyond 1e15", metric__value=1.1e15),
        changed("telemetry", "counter too large", "value beyond 1e18", metric__value=1.1e18, metric__type="counter"),
        changed("telemetry", "too many labels", "more than 16 labels", labels={f"k{k}": "v" for k in range(17)}),
        changed("telemetry", "long label", "label longer than 128", labels={"k": "v" * 129}),
        changed("telemetry", "newline in label", "label longer than 128 or with a control", labels={"k": "a\nb"}),
        changed("telemetry", "megabyte", "metric.name longer than 256", metric__name=megabyte),
        accepted("telemetry", "number as text", "agents write numbers as text", metric__value="12.5"),
        accepted("telemetry", "no kind of number", "a metric without a type is a gauge", metric__type="sundial"),
        accepted("telemetry", "null label", "a label without a value is left out", labels={"k": None}),
    ]


def of_logs() -> list[Kind]:
    """Kinds of log lines."""
    megabyte = "x" * MEGABYTE
    return [
        *of_both("logs"),
        changed("logs", "no message", "no message", message=...),
        changed("logs", "empty message", "no message", message=""),
        changed("logs", "message is null", "no message", message=None),
        literal("logs", "plain text", "not JSON", b"something happened"),
        literal("logs", "half a syslog line", "not JSON", b"<13>1 2026-01-01T00:00:00Z"),
        literal("logs", "syslog without end", "not JSON", b"<13>1 - h s - - [" + b"a" * 9_000),
        changed("logs", "megabyte without host", "no host.name", host__name=..., message=megabyte),
        accepted("logs", "megabyte", "the first 8192 characters count", message=megabyte),
        accepted("logs", "no level", "a line without a level is info", log__level=...),
        accepted("logs", "unknown level", "a level that nobody knows is info", log__level="loud"),
        accepted("logs", "message is an object", "the message is its JSON text", message={"a": [1, 2]}),
        accepted(
            "logs", "control characters in the message", "a message may hold anything", message="a\x00\x1b[31mb\r\n"
        ),
    ]


KINDS = (*of_telemetry(), *of_logs())
