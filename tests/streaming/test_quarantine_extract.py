"""A record in quarantine is refused unread by `extract`: once, in its window, and nothing else changes."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.raw_records import NOON_MS, WINDOWING, Raw, at, frame, line, point, raw

from models.records.records import QuarantinedRecord
from pipelines.inputs import log_lines
from pipelines.jobs import extract
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from replay.input_lateness import latest_in

pytestmark = pytest.mark.spark

TOPICS = {"statistics": "s", "late": "l", "dead-letters": "d"}
LABEL = b'{"label": "true", "series": ["host/h"]}'
LONG = line("x" * 100_000, at(1))


def entry(record: Raw, reason: str = "it ends the job") -> QuarantinedRecord:
    value = record.value or b""
    return QuarantinedRecord(
        status="quarantined",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=0,
        job="extract",
        reason=reason,
        length=len(value),
        sha256=hashlib.sha256(value).hexdigest(),
        head=base64.b64encode(value[:1024]).decode(),
        found=0,
        version="live",
        software="1",
    )


def of(topic: str, value: bytes, offset: int) -> Raw:
    return raw(value, offset, at(2))._replace(topic=topic)


def test_records_in_quarantine_are_dead_letters_and_the_others_are_counted(spark: SparkSession) -> None:
    telemetry = [of("telemetry", point(float(i), at(1)), i) for i in range(20)]
    logs = [of("logs", line("a", at(1)), 3), of("logs", LONG, 4), of("logs", line("a", at(1)), 5)]
    labels = [of("labels", LABEL, 0), of("labels", LABEL, 1)]
    # One that is late by its event time, as far as anybody could read it; one with quotes and brackets in its reason.
    late = of("telemetry", point(5.0, at(-100)), 77)
    bad = [telemetry[7], logs[1], labels[0], late]
    elsewhere = entry(telemetry[8]._replace(partition=1))
    unread = Quarantine((*map(entry, bad[:3]), entry(late, 'java.lang.Error: "[red]" \\ {}'), elsewhere))
    rows = extract.closed_windows(
        frame(spark, [*telemetry, late]), frame(spark, logs), WINDOWING, labels=frame(spark, labels), quarantine=unread
    )
    written = extract.output_records(rows, extract.find_closed_windows(rows, WINDOWING), WINDOWING, TOPICS, 1).collect()
    letters = [row for row in written if row["topic"] == "d"]
    assert not [row for row in written if row["topic"] == "l"]
    found: dict[tuple[str, str], Any] = {}
    for row in letters:
        headers = {one["key"]: bytes(one["value"]).decode() for one in row["headers"]}
        found[headers["kappa.topic"], headers["kappa.offset"]] = (bytes(row["value"]), headers)
    assert len(found) == len(letters) == len(bad)
    for record in bad:
        value, headers = found[record.topic, str(record.offset)]
        whole = record.value or b""
        assert value == whole[:1024]
        assert headers["kappa.length"] == str(len(whole))
        assert headers["kappa.sha256"] == hashlib.sha256(whole).hexdigest()
        assert headers["kappa.reason"].startswith("quarantined: ")
    assert found["telemetry", "77"][1]["kappa.reason"] == 'quarantined: java.lang.Error: "[red]" \\ {}'
    counts = {row["series"]: row["n"] for row in rows.where("series is not null").collect()}
    assert [n for name, n in counts.items() if name.startswith("gauge/")] == [19]
    assert [n for name, n in counts.items() if name.startswith("template/")] == [2]
    assert [name for name in counts if name.startswith("label/")] == ["label/h/00000000000000000001"]


def test_without_a_quarantine_nothing_is_added_to_the_plan(spark: SparkSession) -> None:
    rows = frame(spark, [])
    assert NO_QUARANTINE.blank_values(rows) is NO_QUARANTINE.mark_refused(rows) is NO_QUARANTINE.drop_from(rows) is rows


def test_other_jobs_leave_the_records_out(spark: SparkSession) -> None:
    rows = [of("statistics", b"{}", offset) for offset in range(5)]
    left = Quarantine((entry(rows[3]),)).drop_from(frame(spark, rows)).collect()
    assert sorted(row["offset"] for row in left) == [0, 1, 2, 4]


def test_what_has_the_place_of_a_record_since_its_topic_was_made_again_is_read(spark: SparkSession) -> None:
    points = [of("telemetry", point(float(i), at(1)), i) for i in range(4)]
    now = NOON_MS + 2_000
    before = [replace(entry(one, "of the topic before"), timestamp=now - 1) for one in points[:2]]
    unread = Quarantine((*before, replace(entry(points[0]), timestamp=now)))
    left = unread.drop_from(frame(spark, points)).collect()
    assert sorted(row["offset"] for row in left) == [1, 2, 3]
    rows = extract.closed_windows(frame(spark, points), frame(spark, []), WINDOWING, quarantine=unread).collect()
    refused = [row["refused"]["reason"] for row in rows if row["refused"] is not None]
    assert refused == ["quarantined: it ends the job"]
    assert [row["n"] for row in rows if row["series"] is not None] == [3]


def test_the_lateness_of_a_range_is_found_without_what_is_in_quarantine(spark: SparkSession) -> None:
    """What ended `extract` whenever it read it would end that search as well."""
    logs = [raw(line("a", at(own)), i, at(2))._replace(topic="logs") for i, own in enumerate((1, -40, -90))]
    after = int(at(-100).timestamp() * 1000)
    for listed, late in ((logs[:1], 92_000), (logs[2:], 42_000), (logs, 0)):
        unread = Quarantine(tuple(map(entry, listed)))
        assert latest_in(log_lines, frame(spark, logs), unread, after, 15) == late
