"""What a stranger tries with OpenTelemetry's protobuf: bytes that no encoder writes, and more of everything than there may be."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator

from support.poison import ANY, NANOSECONDS, Poison

BROKEN = "OTLP protobuf: broken at byte"
TIME = int(NANOSECONDS)


def varint(number: int) -> bytes:
    """A number of seven bits a byte."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | int) -> bytes:
    """A field: bytes with their length, or a number of 64 bits."""
    if isinstance(value, int):
        return varint(number << 3 | 1) + value.to_bytes(8, "little")
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(key: str, value: str) -> bytes:
    """A KeyValue."""
    return field(1, key.encode()) + field(2, field(1, value.encode()))


def record(*elements: bytes, host: bytes = b"poison", more: bytes = b"") -> bytes:
    """A record with metrics or lines."""
    resource = field(1, field(1, field(1, b"host.name") + field(2, field(1, host))) + more)
    return field(1, resource + field(2, b"".join(field(2, element) for element in elements)))


def gauge(*points: bytes) -> bytes:
    """A metric."""
    return field(1, b"m") + field(5, b"".join(field(1, point) for point in points))


def line(*parts: bytes) -> bytes:
    """A log record at its time."""
    return field(1, TIME) + b"".join(parts)


POINT = field(3, TIME) + field(6, 7)
SPAN = field(1, bytes(16)) + field(2, bytes(8)) + field(5, b"GET /") + b"\x30\x02" + field(7, TIME) + field(8, TIME)


def deep(levels: int) -> bytes:
    """A body of lists in lists."""
    return line(field(5, nested(levels)))


def _of_wire() -> Iterator[tuple[str, bytes, str | None]]:
    good = record(gauge(POINT))
    yield "a good record", good, None
    yield "cut off", good[:-3], BROKEN
    yield "a length beyond the end", b"\x0a\xff\xff\xff\xff\x07\x12", BROKEN
    yield "a negative length", b"\x0a\xff\xff\xff\xff\x0f\x12", BROKEN
    yield "a varint without an end", b"\x0a" + b"\xff" * 100 + b"\x12", BROKEN
    yield "a varint of a megabyte", b"\x0a\x12" + b"\x80" * 1_000_000, BROKEN
    yield "field 0", record(gauge(POINT) + b"\x00\x00"), BROKEN
    yield "wire type 7", record(gauge(POINT) + b"\x7f"), BROKEN
    yield "an end of a group", record(gauge(POINT) + b"\x7c"), BROKEN
    yield "groups in groups", record(gauge(POINT) + b"\x7b" * 500_000), BROKEN
    yield "a name that is a number", record(b"\x08\x01" + gauge(POINT)), "OTLP protobuf: Metric.name has wire type 0"
    yield "a time that is text", record(gauge(field(3, b"12345678"))), "OTLP protobuf: NumberDataPoint.timeUnixNano has"
    yield (
        "a value that is a message",
        record(gauge(field(3, TIME) + field(6, b""))),
        "OTLP protobuf: NumberDataPoint.asInt",
    )
    yield "a name twice", record(field(1, b"a") + gauge(POINT)), "OTLP protobuf: Metric.name twice"
    yield "two resources", field(1, field(1, b"") * 2 + field(2, b"")), "nothing to read"
    twice = field(1, field(1, b"") + field(1, b"") + field(2, field(2, gauge(POINT))))
    yield "two resources with a point", twice, "OTLP protobuf: ResourceMetrics.resource twice"
    pieces = field(1, field(2, field(2, gauge(POINT))) + field(1, b"") + field(2, b""))
    yield "scopes in pieces", pieces, "OTLP protobuf: ResourceMetrics.scopeMetrics twice"
    yield "lines in metrics", record(gauge(POINT), line(field(5, b""))), "OTLP protobuf: Metric.name has wire type 1"
    yield "a host that is not UTF-8", record(gauge(POINT), host=b"\xff\xfe"), "not UTF-8"
    yield "a host of half a character", record(gauge(POINT), host=b"\xed\xa0\x80"), "not UTF-8"
    yield "a host with a control character", record(gauge(POINT), host=b"a\x00b"), "control character in host.name"
    yield "spans", record(SPAN), "traces are not read"
    yield "spans in JSON", b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"GET /"}]}]}]}', "traces are not read"
    yield "text behind the end of a line", b"\nhello", "not JSON"
    yield "controls behind the end of a line", b"\nhello \x12", BROKEN
    yield "nothing but a scope", field(1, field(2, b"")), "nothing to read"
    yield "nothing but scopes", field(1, field(2, b"") * 9_000), "nothing to read"
    yield "a metric without anything", record(b""), "nothing to read"
    yield "a point without anything", record(gauge(b"")), "no @timestamp"
    yield "a gauge without a value", record(gauge(field(3, TIME))), "no metric.value"
    yield "not a number", record(gauge(field(3, TIME) + b"\x21" + b"\xff" * 8)), "value is not a number: NaN"
    yield "without a sign", record(gauge(field(3, 2**64 - 1) + field(6, 1))), "event time outside"


def _of_values() -> Iterator[tuple[str, bytes, str | None]]:
    """Numbers, times and attributes at the ends of what bytes can say."""
    double = struct.Struct("<d").pack
    for name, value, why in (
        ("infinity", double(math.inf), "value is not a number"),
        ("minus infinity", double(-math.inf), "value is not a number"),
        ("a quiet NaN with a sign", b"\x01" + b"\xff" * 7, "value is not a number"),
        ("minus zero", double(-0.0), None),
        ("the least double", double(5e-324), None),
        ("the largest double", double(sys.float_info.max), "value beyond"),
    ):
        yield name, record(gauge(field(3, TIME) + b"\x21" + value)), why
    for time in (1, 2**63 - 1, 2**63):
        yield f"the time {time}", record(gauge(field(3, time) + field(6, 1))), ANY
    count = field(3, TIME) + field(4, 2**64 - 1)
    yield "as many as 64 bits hold", record(metric(9, count)), "value beyond"
    yield (
        "packed buckets of 800,000 bytes",
        record(metric(9, field(3, TIME) + field(4, 1) + field(6, bytes(800_000)))),
        None,
    )
    yield "packed buckets cut off", record(metric(9, field(3, TIME) + b"\x32\xff\xff\x03" + bytes(80))), BROKEN
    zigzag = field(3, TIME) + field(4, 1) + b"\x30" + b"\xff" * 9 + b"\x01"
    yield "a scale of ten bytes in zigzag", record(metric(10, zigzag)), None
    yield "a field of a number beyond all", record(gauge(POINT + varint((1 << 40) << 3) + b"\x00")), ANY
    yield "50,000 exemplars", record(gauge(POINT + field(5, b"") * 50_000)), None
    yield "16 members of an attribute without a key", record(gauge(POINT + field(7, field(2, b"")) * 16)), ANY
    yield "an attribute twice", record(gauge(POINT + field(7, attribute("a", "b")) * 2)), None
    yield "an attribute 5,000 deep", record(gauge(POINT + field(7, field(1, b"a") + field(2, nested(5_000))))), None


def metric(form: int, point: bytes) -> bytes:
    """A metric of another form: a histogram (9), exponential (10), a summary (11)."""
    return field(1, b"m") + field(form, field(1, point))


def nested(levels: int) -> bytes:
    """A value of lists in lists."""
    value = field(1, b"x")
    for _ in range(levels):
        value = field(5, field(1, value))
    return value


def _of_bounds() -> Iterator[tuple[str, bytes, str | None]]:
    many = [field(1, attribute(f"k{i}", "v")) for i in range(9_000)]
    yield "2,048 points", record(gauge(*[POINT] * 2_048)), None
    yield "2,049 points", record(gauge(*[POINT] * 2_049)), "more than 2048 points or lines"
    yield "100,000 points", record(gauge(*[b""] * 100_000)), "more than 2048 points or lines"
    yield "100,000 metrics", record(*[b""] * 100_000), "more than 10000"
    yield "100,000 scopes", field(1, field(2, field(2, gauge(POINT))) + field(2, b"") * 100_000), "more than 10000"
    yield "100,000 resources", record(gauge(POINT)) + field(1, b"") * 100_000, "more than 10000"
    yield "4,000 attributes", record(gauge(POINT), more=b"".join(many[:4_000])), None
    yield "9,000 attributes", record(gauge(POINT), more=b"".join(many)), "more than 10000 objects and arrays"
    yield "a host of half a megabyte", record(gauge(*[POINT] * 2_000), host=b"h" * 500_000), "host.name longer than 256"
    yield "a megabyte of control characters", record(gauge(POINT), host=b"\x01" * 1_000_000), "more than 2097152"
    yield "more than a megabyte", record(gauge(POINT), host=b"h" * 1_100_000), "a record of"


def _of_logs() -> Iterator[tuple[str, bytes, str | None]]:
    text = field(5, field(1, b"it works"))
    yield "a good line", record(line(text)), None
    yield "100,000 lines", record(line(), *[b""] * 100_000), "more than 2048 points or lines"
    yield "a body of lists", record(deep(4)), None
    yield "a deep body", record(deep(40)), "nested deeper than 32"
    yield "a body without an end of lists", record(line(b"\x2a\xff\xff\x3f" + b"\x2a\xff\xff\x3f" * 100_000)), BROKEN
    yield "a body of bytes", record(line(field(5, field(7, b"\xff" * 100)))), "no message"
    yield "no body", record(line(b"\x10\x09")), "no message"
    yield "a severity of ten bytes", record(line(b"\x10" + b"\xff" * 9 + b"\x01", text)), None
    yield "a body twice", record(line(text, text)), "OTLP protobuf: LogRecord.body twice"
    yield "spans", record(SPAN), "traces are not read"
    yield "a message of a megabyte", record(line(field(5, field(1, b"1:" * 500_000)))), None
    yield "a time in seconds", record(field(1, TIME // 10**9) + text), ANY


OTLP_ATTACKS: tuple[Poison, ...] = (
    *(
        Poison(f"OTLP protobuf: {name}", "telemetry", value, why)
        for name, value, why in (*_of_wire(), *_of_values(), *_of_bounds())
    ),
    *(Poison(f"OTLP protobuf: {name}", "logs", value, why) for name, value, why in _of_logs()),
    Poison("OTLP protobuf", "labels", record(gauge(POINT)), "not a label"),
    Poison("OTLP protobuf", "changes", record(gauge(POINT)), "not a change"),
)
