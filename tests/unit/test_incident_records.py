"""Records of `incidents`: nothing in them is believed, whoever reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_records import value

from app.core.timestamps import LAST_MS
from app.kafka.incident_records import MOST_BYTES, MOST_NAMES, parse_incident_record


def test_what_correlate_writes_is_read_and_the_whole_record_is_there() -> None:
    raw = value(1, "close")
    found = parse_incident_record(raw)
    assert found is not None and found.source == json.loads(raw)
    assert (found.status, found.severity, found.hosts, found.services) == ("close", "major", ("web-1",), ("shop",))
    assert found.series == ("gauge/web-1/shop/cpu{zone=a}",)


def test_a_record_of_before_had_no_severity_and_no_services() -> None:
    fields = json.loads(value(1))
    for name in ("severity", "services", "version"):
        fields.pop(name)
    found = parse_incident_record(json.dumps(fields).encode())
    assert found is not None and (found.severity, found.services, found.version) == ("info", (), "live")


@pytest.mark.parametrize(
    "more",
    [
        {"id": "../x"},
        {"id": 1},
        {"status": "gone"},
        {"status": []},
        {"kind": "x"},
        {"severity": "fatal"},
        {"severity": None},
        {"severity_points": "100"},
        {"start": True},
        {"start": "2026"},
        {"window_end": LAST_MS},
        {"window_end": -1},
        {"end": 1.5},
        {"reason": 7},
        {"hosts": "web-1"},
        {"hosts": [7]},
        {"hosts": None},
        {"services": {"a": 1}},
        {"series": [7]},
        {"series": [{}]},
        {"series": [{"series": None}]},
        {"series": "x"},
        {"series": {"series": 5}},
        {"score": None},
        {"score": float("inf")},
        {"score": 10**400},
        {"version": "../v"},
        {"reason": "\ud800"},
        {"hosts": ["\udc00"]},
        {"version": 5},
        {"causes": 5},
        {"causes": [{"kind": "change"}]},
        {"causes": ["x"]},
    ],
)
def test_what_is_no_incident_is_read_by_nobody(more: dict[str, Any]) -> None:
    assert parse_incident_record(value(**more)) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read(raw: bytes) -> None:
    assert parse_incident_record(raw) is None


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"[1]", b"[" * 1_000_000, b'{"id": ' * 100_000])
def test_what_is_no_object_is_none(raw: bytes | None) -> None:
    assert parse_incident_record(raw) is None


def test_of_more_names_and_bytes_than_there_can_be_none_is_looked_at() -> None:
    found = parse_incident_record(value(hosts=[f"h{n}" for n in range(MOST_NAMES)] + [7]))
    assert found is not None and len(found.hosts) == MOST_NAMES
    assert parse_incident_record(b" " * MOST_BYTES + value()) is None
