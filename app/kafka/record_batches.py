"""How kafka-python reads records whose headers may be anything: Kafka's broker looks at neither how many there are nor what their names hold.

A name that is no UTF-8 made kafka-python refuse the record again and again, so that nobody could read on; and of millions of empty headers,
which are next to nothing when they are compressed, it made millions of objects. So names are decoded as Java's client does it, and
where there are more than `MOST_HEADERS`, or they have more than `MOST_HEADER_BYTES`, a record has none: DefaultRecord.java does the same.
"""

from __future__ import annotations

from typing import Any

from kafka.record import memory_records
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

MOST_HEADERS = 100
MOST_HEADER_BYTES = 65_536  # with their lengths

Headers = list[tuple[str, bytes | None]]


class BoundedBatch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """A batch of records."""

    def _read_msg(self, *arguments: Any) -> Any:
        """The next record. Raises ValueError or IndexError, which become Kafka's CorruptRecordError, for what is none."""
        if self.is_control_batch:
            return super()._read_msg(*arguments)
        buffer = self._buffer
        length, begin = decode_varint(buffer, self._pos)  # type: ignore[has-type]
        end = begin + length
        if not begin < end <= len(buffer):
            msg = f"a record of {length} bytes at {begin} of {len(buffer)}"
            raise ValueError(msg)
        later, at = decode_varint(buffer, begin + 1)  # behind the attributes, a byte that means nothing yet
        offset, at = decode_varint(buffer, at)
        key, at = part(buffer, at)
        value, at = part(buffer, at)
        headers = headers_of(buffer, at, end)
        self._pos = end
        is_append_time = self.timestamp_type == self.LOG_APPEND_TIME
        time = self.max_timestamp if is_append_time else self.first_timestamp + later
        return DefaultRecord(length, self.base_offset + offset, time, self.timestamp_type, key, value, headers)


def part(buffer: Any, at: int) -> tuple[bytes | None, int]:
    """The bytes with their length before them, None for a length below 0, and where they end."""
    length, at = decode_varint(buffer, at)
    return (None, at) if length < 0 else (bytes(buffer[at : at + length]), at + length)


def headers_of(buffer: Any, at: int, end: int) -> Headers:
    """The headers from a place up to the end of their record; none where they are too many or too large."""
    count, at = decode_varint(buffer, at)
    found: Headers = []
    if 0 < count <= MOST_HEADERS and end - at <= MOST_HEADER_BYTES:
        for _ in range(count):
            name, at = part(buffer, at)
            value, at = part(buffer, at)
            found.append(((name or b"").decode(errors="replace"), value))
    return found


def bound_headers() -> None:
    """From now on every consumer of this process reads batches so. There is no setting for it."""
    memory_records.DefaultRecordBatch = BoundedBatch
