"""The topic `quarantine`: what is believed of it, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.quarantine import escaped, line_of, parsed_place, row
from app.kafka.quarantine import HEAD_BYTES, QuarantineLog, dead_letter_headers, parse_entry, quarantine_entry
from models.records.records import QuarantinedRecord
from models.records.schema import plain
from pipelines import failures
from pipelines.errors import InputError
from pipelines.quarantine import Quarantine

VALUE = bytes(range(256)) * 10


def record(**changes: Any) -> QuarantinedRecord:
    source = SimpleNamespace(topic="logs", partition=1, offset=7, timestamp=1_000, value=VALUE)
    return replace(
        quarantine_entry(source, job="extract", reason="why", version="live", software="1"), **{"found": 5, **changes}
    )


def test_a_record_is_read_as_it_was_written() -> None:
    one = record()
    assert parse_entry(json.dumps(plain(one)).encode()) == one
    assert (one.length, len(one.head)) == (2560, 4 * ((HEAD_BYTES + 2) // 3))
    assert one.name == "logs/1/7"


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_what_is_no_record_of_the_topic_is_none(value: bytes) -> None:
    assert parse_entry(value) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"record": "label"},
        {"status": "gone"},
        {"job": "nobody"},
        {"partition": -1},
        {"partition": 2**31},
        {"offset": -1},
        {"offset": 2**63},
        {"offset": "many"},
        {"offset": None},
        {"head": "?"},
        {"reason": "x" * 70_000},
    ],
)
def test_a_forged_record_is_none(changes: dict[str, Any]) -> None:
    assert parse_entry(json.dumps(plain(record()) | changes).encode()) is None


def test_a_job_leaves_unread_what_ended_it_and_nothing_else() -> None:
    found = Quarantine((record(), record(job="index"), record(offset=8, topic="telemetry")))
    assert found.for_job("extract", ("logs",)).records == (record(),)
    assert not found.for_job("detect", ("logs",))
    assert found.contains("logs", 1, 7, 1_000)
    assert not found.contains("logs", 1, 8, 1_000)


def test_a_record_that_two_jobs_cannot_read_is_one_record() -> None:
    kept = QuarantineLog(3, Quarantine((record(), record(job="index"), record(offset=8))))
    assert kept.kept == 2
    assert replace(kept, released=(record(status="released", released_as=99),)).kept == 1


def test_a_record_of_a_topic_that_was_made_again_is_another_one() -> None:
    """It has the place of one in quarantine, and another append time."""
    before, now = record(), record(timestamp=2_000)
    assert not Quarantine((before,)).contains(*now.identity)
    assert Quarantine((replace(before, timestamp=0),)).contains(*now.identity), "of which the time is not known"
    kept = QuarantineLog(4, Quarantine((before, now)), (replace(before, status="released", released_as=9),))
    assert (kept.kept, kept.last_at(now.place)) == (1, now)
    assert kept.release_of(before) and kept.release_of(now) is None


def test_the_letter_of_a_record_says_the_length_and_hash_of_all_of_it() -> None:
    headers = {name: value.decode() for name, value in dead_letter_headers(record(reason="x" * 5_000))}
    assert headers["kappa.length"] == "2560"
    assert headers["kappa.sha256"] == record().sha256
    assert headers["kappa.reason"].startswith("quarantined: x")
    assert len(headers["kappa.reason"]) <= 1_000


@given(st.binary(max_size=300))
def test_shown_bytes_are_printable_and_can_be_told_apart(raw: bytes) -> None:
    shown = escaped(raw)
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape").encode("latin-1") == raw


@pytest.mark.parametrize("text", ["", "logs", "logs/1", "logs/1/x", "logs/-1/2", "/1/2", "logs/1/٢", "logs/1/"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="TOPIC/PARTITION/OFFSET"):
        parsed_place(text)


def test_a_record_that_somebody_has_forged_is_listed_in_a_line_of_its_own() -> None:
    forged = record(timestamp=2**62, found=-(2**62), reason="why\nstate        released as 7")
    cells = row(QuarantineLog(), forged)
    assert cells[1:3] == [f"{2**62} ms", f"{-(2**62)} ms"] and "\n" not in "".join(cells)
    assert line_of(forged.reason) == "why?state        released as 7"


def test_a_place_is_topic_partition_and_offset() -> None:
    assert parsed_place("a.b-logs/1/22") == ("a.b-logs", 1, 22)


SPARK = """An error occurred while calling o123.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent failure: \
Lost task 1.0 in stage 0.0 (TID 1) (localhost executor driver): java.lang.ArithmeticException: Over\x1b[31mflow
\tat java.base/java.math.BigDecimal.setScale(Unknown Source)
"""
PYTHON = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 3) \
(10.0.0.1 executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "detect.py", line 1, in add_records
ValueError: a shard of 2**70
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SPARK, "java.lang.ArithmeticException: Over?[31mflow"),
        (PYTHON, "ValueError: a shard of 2**70"),
        ("one\ntwo", "one"),
        ("", "RuntimeError"),
        ("y" * 1000, "y" * 299 + "…"),
    ],
)
def test_the_reason_is_what_a_task_raised_in_one_line(text: str, line: str) -> None:
    assert failures.first_line(RuntimeError(text)) == line
