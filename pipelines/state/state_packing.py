"""How the model of a shard lies in the state of `detect`: its parts by name, those that every window changes in one.

A call to the state costs a Python worker a round trip to the JVM, however little it carries. What every window writes is packed with LZ4,
which takes less time than moving and writing the rest; what is written once an hour at most is packed with Zstandard, which is slower and smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from models.core.store import part, read_part
from models.detection.peer_law import PART as PEERS
from models.detection.recurrence import PART as RECURRENCES
from models.detection.service_templates import PART as PATTERNS
from models.detection.shard_state import REMEMBERED, RULES

BUFFER = "buffer"  # the rows that wait for their watermark message; no part of the model
NOW = "now"
# Names, texts and patterns change when series come and go, cold when an hour of metrics ends, peers when hosts are compared, rules when
# people write some, what is remembered of published episodes with these, recurrences when episodes begin or end.
SELDOM = ("names", "texts", PATTERNS, "cold", PEERS, RULES, REMEMBERED, RECURRENCES)
SMALL, FAST = pa.Codec("zstd", compression_level=3), pa.Codec("lz4")


def joined(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is to be stored of parts of a model: each of `SELDOM` that is there, and all others under `NOW`."""
    stored = {name: _packed({name: parts[name]}, SMALL) for name in SELDOM if name in parts}
    return stored | {NOW: _packed({name: data for name, data in sorted(parts.items()) if name not in SELDOM}, FAST)}


def parted(stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """The inverse of `joined`, and the buffer as it is, if it is there. Raises ValueError for another format."""
    found = {BUFFER: stored[BUFFER]} if BUFFER in stored else {}
    for data in (stored[name] for name in stored if name != BUFFER):
        columns, _ = read_part(data)
        found |= zip(columns["name"].to_pylist(), columns["bytes"].to_pylist(), strict=True)
    return found


def _packed(parts: Mapping[str, bytes], codec: pa.Codec) -> bytes:
    columns = {"name": pa.array(parts), "bytes": pa.array(parts.values(), type=pa.large_binary())}
    return part(columns, {}, codec)
