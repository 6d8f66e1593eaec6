"""Each bound of a record at its value and one beyond it, in every form of telemetry and by both readers of the flat one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.poison import AT, NANOSECONDS
from support.raw_records import WINDOWING, at, frame, raw

from pipelines.jobs import extract

pytestmark = pytest.mark.spark

Parts = dict[str, Any]
USUAL: Parts = {"host": "h", "service": "s", "metric": "m", "labels": {}, "value": 1.5}


def packed(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def flat(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    return packed(
        {"@timestamp": AT, "host.name": host, "service.name": service, "metric.name": metric, "metric.value": value}
        | {"labels": labels}
    )


def long(**parts: Any) -> bytes:
    """Too long for the readers of flat records."""
    return flat(**parts)[:-1] + b" " * (12 << 10) + b"}"


def nested(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    own = {"@timestamp": AT, "host": {"name": host}, "service": {"name": service}}
    return packed(own | {"metric": {"name": metric, "value": value}, "labels": labels})


def attributes(labels: dict[str, str]) -> list[Any]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]


def otlp(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    point = {"timeUnixNano": NANOSECONDS, "asDouble": value, "attributes": attributes(labels)}
    resource = {"attributes": attributes({"host.name": host, "service.name": service})}
    scope = {"metrics": [{"name": metric, "gauge": {"dataPoints": [point]}}]}
    return packed({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]})


def prometheus(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    own = {"instance": f"{host}:9100", "job": service} | labels
    return packed({"name": metric, "value": str(value), "timestamp": AT, "labels": own})


def telegraf(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    """Its metric is `n.` and the name of a field."""
    tags = {"host": host, "service": service} | labels
    return packed({"name": "n", "fields": {metric[2:] or "f": value}, "tags": tags, "timestamp": 1795262401})


def metricbeat(host: str, service: str, metric: str, labels: dict[str, str], value: Any) -> bytes:
    """Its metric is `x.` and the name of a member."""
    own = {"@timestamp": AT, "event": {"module": "x"}, "host": {"name": host}, "service": {"name": service}}
    return packed(own | {"labels": labels, "x": {metric[2:] or "f": value}})


FORMS: tuple[Callable[..., bytes], ...] = (flat, long, nested, otlp, prometheus, telegraf, metricbeat)
KEYS = "abcdefghijklmnop"
WIDE = ("a", "\u00e9", "\u5b57", "\U0001f600")  # letters of one to four bytes


def of_names(form: Callable[..., bytes], letter: str) -> Iterator[tuple[str, bytes, str | None]]:
    """Names and labels."""
    for part in ("host", "service", "metric"):
        begins = "x." if part == "metric" else ""
        for length, why in ((256, None), (257, f"{part}.name longer than 256")):
            name = begins + letter * (length - len(begins))
            # of telegraf and metricbeat the beginning is the form's own
            yield f"{part} of {length}", form(**USUAL | {part: name}), why
    for length, why in ((128, None), (129, "label longer than 128")):
        yield f"label of {length}", form(**USUAL | {"labels": {"k": letter * length}}), why
        yield f"key of {length}", form(**USUAL | {"labels": {letter * length: "v"}}), why
    for count, why in ((16, None), (17, "more than 16 labels")):
        yield f"{count} labels", form(**USUAL | {"labels": {f"{letter}{i}": "v" for i in range(count)}}), why


def of_series(form: Callable[..., bytes], metric: str, letter: str) -> Iterator[tuple[str, bytes, str | None]]:
    """The whole name, in bytes."""
    width, labels = len(letter.encode()), 16
    for size, why in ((2048, None), (2049, "name of a series longer than 2048 bytes")):
        left = (
            size - len(f"gauge/h/s/{metric}" + "{}") - 3 * labels + 1
        )  # of values: each has a key, a sign and a comma
        sizes = [left // labels + (i < left % labels) for i in range(labels)]
        values = [letter * (size // width) + "a" * (size % width) for size in sizes]
        yield (
            f"series of {size} bytes",
            form(**USUAL | {"metric": metric, "labels": dict(zip(KEYS, values, strict=True))}),
            why,
        )


def of_values() -> Iterator[tuple[str, bytes, str | None]]:
    """Numbers, and what bounds a whole record."""
    beyond = math.nextafter(1e15, math.inf)
    for form in (flat, long, nested, otlp, telegraf, metricbeat):
        for sign in (1, -1):
            yield f"{form.__name__} {sign}e15", form(**USUAL | {"value": sign * 1e15}), None
            yield f"{form.__name__} beyond {sign}e15", form(**USUAL | {"value": sign * beyond}), "value beyond 1e15"
    text, mega = flat(**USUAL), 1 << 20
    yield "a mebibyte", text + b" " * (mega - len(text)), None
    yield "a byte more", text + b" " * (mega + 1 - len(text)), f"a record of {mega + 1} bytes"
    for name, inner, why in (
        ("depth 32", "[" * 31 + "]" * 31, None),
        ("depth 33", "[" * 32 + "]" * 32, "nested deeper than 32"),
        ("10,000 elements", "[" + "0," * 9_999 + "0]", None),
        ("10,001 elements", "[" + "0," * 10_000 + "0]", "more than 10000 elements"),
        ("10,000 containers", "[" + "[]," * 9_996 + "[]]", None),
        ("10,001 containers", "[" + "[]," * 9_997 + "[]]", "more than 10000 objects"),
        ("400 digits", "1" * 400, None),
        ("401 digits", "1" * 401, "a number of more than 400"),
        ("2,048 numbers", "{" + ",".join(f'"{i}":1' for i in range(2_047)) + "}", None),
        ("2,049 numbers", "{" + ",".join(f'"{i}":1' for i in range(2_048)) + "}", "more than 2048 points"),
        ("10,000 members", "{" + ",".join(f'"{i}":""' for i in range(10_000)) + "}", None),
        ("10,001 members", "{" + ",".join(f'"{i}":""' for i in range(10_001)) + "}", "more than 10000 members"),
        ("a key of 16,384", '{"' + "k" * 16_384 + '":""}', None),
        ("a key of 16,385", '{"' + "k" * 16_385 + '":""}', "a key longer than 16384"),
    ):
        yield name, text[:-1] + b',"z":' + inner.encode() + b"}", why


def tried() -> list[tuple[str, bytes, str | None]]:
    rows = list(of_values())
    for form in FORMS:
        for letter in WIDE:
            metric = {"telegraf": "n.f", "metricbeat": "x.f"}.get(form.__name__, "m")
            for found in (of_names(form, letter), of_series(form, metric, letter)):
                rows += [(f"{form.__name__}, {letter}: {name}", value, why) for name, value, why in found]
    return rows


def test_a_bound_is_where_it_is_said_to_be(spark: SparkSession) -> None:
    rows = tried()
    records = frame(spark, [raw(value, i, at(2)) for i, (_, value, _) in enumerate(rows)], 2)
    nothing = records.limit(0)
    found = extract.closed_windows(records, nothing, WINDOWING).select("refused.offset", "refused.reason").collect()
    reasons = {row["offset"]: row["reason"] for row in found if row["offset"] is not None}
    wrong = [
        (name, why, reasons.get(i))
        for i, (name, _, why) in enumerate(rows)
        if not (reasons.get(i) is None if why is None else (reasons.get(i) or "").startswith(why))
    ]
    assert wrong == []
    assert sum("series of" in name for name, _, _ in rows) >= 2 * len(FORMS)
