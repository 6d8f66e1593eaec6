"""Headers of records as kafka-python reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

import app.kafka.connection  # noqa: F401 - bounds headers
from app.kafka.record_batches import MOST_HEADER_BYTES, MOST_HEADERS, BoundedBatch

NONE, LZ4 = 0, 3
PART = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**40), PART, PART, st.lists(st.tuples(st.text(max_size=20), PART), max_size=5)),
    min_size=1,
    max_size=5,
)


def batch_of(records: list[tuple[int, Any, Any, list[Any]]], compression: int = LZ4) -> bytes:
    """A batch of times, keys, values and headers."""
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 1 << 30)
    for offset, (time, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp=time, key=key, value=value, headers=headers)
    return bytes(builder.build())


def read(batch: bytes) -> list[Any]:
    """What a consumer reads of it."""
    found = MemoryRecords(batch).next_batch()
    assert type(found) is BoundedBatch and found.validate_crc()
    return list(found)


@given(RECORDS, st.sampled_from([NONE, LZ4]))
def test_records_are_read_as_ever(records: list[tuple[int, Any, Any, list[Any]]], compression: int) -> None:
    batch = batch_of(records, compression)
    assert [repr(one) for one in read(batch)] == [repr(one) for one in DefaultRecordBatch(batch)]


def test_the_name_of_a_header_that_is_no_text_keeps_nobody_from_reading_on() -> None:
    batch = bytearray(batch_of([(1, b"k", b"v", [("abc", b"x")]), (2, b"k", b"w", [])], NONE))
    at = batch.index(b"abc")
    batch[at : at + 3] = b"a\xffc"
    first, second = BoundedBatch(batch)
    assert first.headers == [("a�c", b"x")] and second.value == b"w"


@pytest.mark.parametrize(
    "headers",
    [
        [("", None)] * (MOST_HEADERS + 1),
        [("", b"")] * 300_000,
        [("h", bytes(MOST_HEADER_BYTES))],
        [("h" * MOST_HEADER_BYTES, b"")],
    ],
    ids=["too many", "very many", "a large value", "a large name"],
)
def test_of_headers_that_are_too_many_or_too_large_there_are_none(headers: list[Any]) -> None:
    first, second = read(batch_of([(1, None, b"v", headers), (2, None, b"w", [("kept", b"1")])]))
    assert (first.value, first.headers) == (b"v", [])
    assert (second.value, second.headers) == (b"w", [("kept", b"1")])
