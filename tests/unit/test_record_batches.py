"""Headers of records as kafka-python reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

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


def packed(batch: bytes, codec: int, content: bytes) -> bytes:
    """The same batch with its records as others have packed them."""
    header = DefaultRecordBatch.HEADER_STRUCT
    fields = list(header.unpack_from(batch))
    fields[1] = header.size - DefaultRecordBatch.AFTER_LEN_OFFSET + len(content)
    fields[5] = codec
    made = bytearray(header.pack(*fields) + content)
    crc = calc_crc32c(memoryview(made)[DefaultRecordBatch.ATTRIBUTES_OFFSET :])
    struct.pack_into(">I", made, DefaultRecordBatch.CRC_OFFSET, crc)
    return bytes(made)


def xerial(content: bytes, size: int = 100) -> bytes:
    """Blocks of Snappy, as Kafka's Java client writes them."""
    blocks = [pa.compress(content[i : i + size], "snappy", asbytes=True) for i in range(0, len(content), size)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


PACKED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "snappy": (2, xerial),
    "a block of snappy": (2, lambda content: pa.compress(content, "snappy", asbytes=True)),
    "zstd": (4, lambda content: pa.compress(content, "zstd", asbytes=True)),
    "frames of zstd": (4, lambda content: b"".join(pa.compress(content[i : i + 50], "zstd", asbytes=True) for i in range(0, len(content), 50))),
}  # fmt: skip


def read(batch: bytes) -> list[Any]:
    """What a consumer reads of it."""
    found = MemoryRecords(batch).next_batch()
    assert type(found) is BoundedBatch and found.validate_crc()
    return list(found)


@given(RECORDS, st.sampled_from([NONE, LZ4]))
def test_records_are_read_as_ever(records: list[tuple[int, Any, Any, list[Any]]], compression: int) -> None:
    batch = batch_of(records, compression)
    assert [repr(one) for one in read(batch)] == [repr(one) for one in DefaultRecordBatch(batch)]


@given(RECORDS, st.sampled_from(sorted(PACKED)))
def test_records_are_read_in_every_compression_that_a_topic_may_have(
    records: list[tuple[int, Any, Any, list[Any]]], how: str
) -> None:
    batch, (codec, pack) = batch_of(records, NONE), PACKED[how]
    made = packed(batch, codec, pack(batch[DefaultRecordBatch.HEADER_STRUCT.size :]))
    assert [repr(one) for one in read(made)] == [repr(one) for one in DefaultRecordBatch(batch)]


@pytest.mark.parametrize("codec", [2, 4])
@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 3, b"\x05abc", b"\x82SNAPPY\0" + bytes(12), bytes(40), b"\xff" * 8 + b"\x7fa"]
)
def test_what_cannot_be_unpacked_is_a_corrupt_record(codec: int, content: bytes) -> None:
    made = packed(batch_of([(1, None, b"v", [])], NONE), codec, content)
    with pytest.raises(CorruptRecordError):
        list(BoundedBatch(made))


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
