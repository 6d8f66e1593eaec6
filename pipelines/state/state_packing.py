"""Packs the parts of a shard's model for the state of `detect`: parts that every window changes together, others one by one.

A call to the state costs a Python worker a round trip to the JVM, however little it carries. A snapshot is written once in eight windows, so
all of it is packed with Zstandard, which is slower than LZ4 and a seventh smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from models.core.store import read_part, write_part
from models.detection.peer_law import PART as PEERS
from models.detection.recurrence import PART as RECURRENCES
from models.detection.service_templates import PART as PATTERNS
from models.detection.shard_state import REMEMBERED, RULES

BUFFER = "buffer"  # the rows that wait for their watermark message; no part of the model
NOW = "now"
# Parts that few windows change. Names, texts and patterns change when series come and go, cold when an hour of metrics ends, peers when hosts are
# compared, rules when people write some, what is remembered of published episodes with these, recurrences when episodes begin or end.
SELDOM = ("names", "texts", PATTERNS, "cold", PEERS, RULES, REMEMBERED, RECURRENCES)
CODEC = pa.Codec("zstd", compression_level=3)


def pack_parts(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Pack the given parts of a model: each of `SELDOM` by itself, all others together under `NOW`."""
    stored = {name: _compress({name: parts[name]}) for name in SELDOM if name in parts}
    return stored | {NOW: _compress({name: data for name, data in sorted(parts.items()) if name not in SELDOM})}


def unpack_parts(stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """The inverse of `pack_parts`, and the buffer as it is, if it is there. Raises ValueError for another format."""
    found = {BUFFER: stored[BUFFER]} if BUFFER in stored else {}
    for data in (stored[name] for name in stored if name != BUFFER):
        columns, _ = read_part(data)
        found |= zip(columns["name"].to_pylist(), columns["bytes"].to_pylist(), strict=True)
    return found


def _compress(parts: Mapping[str, bytes]) -> bytes:
    columns = {"name": pa.array(parts), "bytes": pa.array(parts.values(), type=pa.large_binary())}
    return write_part(columns, {}, CODEC)
