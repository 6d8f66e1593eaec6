"""How kafka-python reads records whose headers may be anything: Kafka's broker looks at neither how many there are nor what their names hold.

A name that is no UTF-8 made kafka-python refuse the record again and again, so that nobody could read on; and of millions of empty headers,
which are next to nothing when they are compressed, it made millions of objects. So names are decoded as Java's client does it, and
where there are more than `MOST_HEADERS`, or they have more than `MOST_HEADER_BYTES`, a record has none: DefaultRecord.java does the same.

Snappy and Zstandard, of which kafka-python has no codec without further libraries, are unpacked by Arrow: topics may have them
(`topics.compression`), and where that is `producer`, whoever writes to a topic chooses.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from kafka.errors import CorruptRecordError
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

MOST_HEADERS = 100
MOST_HEADER_BYTES = 65_536  # with their lengths

XERIAL = b"\x82SNAPPY\0"  # how a stream of Snappy's blocks begins, as Kafka's clients write it; a version and what it is compatible with follow
XERIAL_HEADER = 16  # bytes
MOST_OF_SNAPPY = 32  # times the bytes of a block: it holds 22 at most
ZSTD_AT_ONCE = 1 << 20
MOST_OF_ZSTD = 256 << 20  # bytes of a batch: of zeros it holds many thousand times its own

Headers = list[tuple[str, bytes | None]]


class BoundedBatch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """A batch of records."""

    _buffer: bytearray
    _pos: int
    _decompressed: bool

    def _maybe_uncompress(self) -> None:
        """Unpack the records, once. Raises CorruptRecordError for what cannot be unpacked."""
        kind = self.compression_type
        if self._decompressed or kind not in UNPACK:
            super()._maybe_uncompress()
            return
        try:
            self._buffer = bytearray(UNPACK[kind](bytes(memoryview(self._buffer)[self._pos :])))
        except (pa.ArrowException, OSError, ValueError, IndexError, struct.error) as error:
            msg = f"a batch that cannot be unpacked ({error})"
            raise CorruptRecordError(msg) from error
        self._pos, self._decompressed = 0, True

    def _read_msg(self, *arguments: Any) -> Any:
        """The next record. Raises ValueError or IndexError, which become Kafka's CorruptRecordError, for what is none."""
        if self.is_control_batch:
            return super()._read_msg(*arguments)
        buffer = self._buffer
        length, begin = decode_varint(buffer, self._pos)
        end = begin + length
        if not begin < end <= len(buffer):
            msg = f"a record of {length} bytes at {begin} of {len(buffer)}"
            raise ValueError(msg)
        later, at = decode_varint(buffer, begin + 1)  # behind the attributes, a byte that means nothing yet
        offset, at = decode_varint(buffer, at)
        key, at = read_bytes(buffer, at)
        value, at = read_bytes(buffer, at)
        headers = read_headers(buffer, at, end)
        self._pos = end
        is_append_time = self.timestamp_type == self.LOG_APPEND_TIME
        time = self.max_timestamp if is_append_time else self.first_timestamp + later
        return DefaultRecord(length, self.base_offset + offset, time, self.timestamp_type, key, value, headers)


def read_bytes(buffer: Any, at: int) -> tuple[bytes | None, int]:
    """Read bytes that their length precedes; returns them (None for a length below 0) and the place behind them."""
    length, at = decode_varint(buffer, at)
    return (None, at) if length < 0 else (bytes(buffer[at : at + length]), at + length)


def read_headers(buffer: Any, at: int, end: int) -> Headers:
    """Read the headers from a place up to the end of their record; empty where they are too many or too large."""
    count, at = decode_varint(buffer, at)
    found: Headers = []
    if 0 < count <= MOST_HEADERS and end - at <= MOST_HEADER_BYTES:
        for _ in range(count):
            name, at = read_bytes(buffer, at)
            value, at = read_bytes(buffer, at)
            found.append(((name or b"").decode(errors="replace"), value))
    return found


def unpack_snappy(data: bytes) -> bytes:
    """The content of a stream of Snappy's blocks, or of one block alone."""
    if not data.startswith(XERIAL):
        return unpack_snappy_block(data)
    found, at = [], XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        found.append(unpack_snappy_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(found)


def unpack_snappy_block(block: bytes) -> bytes:
    """The content of a block, which begins with its length: seven bits in each byte, the lowest first."""
    length = shift = at = 0
    while True:
        length |= (block[at] & 0x7F) << shift
        if block[at] < 0x80 or length > MOST_OF_SNAPPY * len(block):
            break
        shift, at = shift + 7, at + 1
    if length > MOST_OF_SNAPPY * len(block):
        msg = f"{length} bytes in {len(block)}"
        raise ValueError(msg)
    return bytes(pa.decompress(block, decompressed_size=length, codec="snappy", asbytes=True))


def unpack_zstd(data: bytes) -> bytes:
    """The content of frames of Zstandard."""
    found = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while more := stream.read(ZSTD_AT_ONCE):
            found += more
            if len(found) > MOST_OF_ZSTD:
                msg = f"more than {MOST_OF_ZSTD} bytes"
                raise ValueError(msg)
    return bytes(found)


UNPACK = {BoundedBatch.CODEC_SNAPPY: unpack_snappy, BoundedBatch.CODEC_ZSTD: unpack_zstd}


def use_bounded_batches() -> None:
    """Let every consumer of this process read batches as `BoundedBatch` does. kafka-python has no setting for it."""
    memory_records.DefaultRecordBatch = BoundedBatch
