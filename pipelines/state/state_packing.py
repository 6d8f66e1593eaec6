"""How the model of a shard lies in the state of `detect`: its parts by name, those that every window changes in one.

A call to the state costs a Python worker a round trip to the JVM, however little it carries. What every window writes, and what every
hour does, is packed: that takes less time than moving and writing the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from models.core.store import part, read_part
from models.detection.peer_law import PART as PEERS
from models.detection.service_templates import PART as PATTERNS
from models.detection.shard_state import RULES

BUFFER = "buffer"  # the rows that wait for their watermark message; no part of the model
NOW = "now"
COLD = "cold"  # of metrics, what changes when an hour ends
# Names, texts and patterns change when series come and go, peers when hosts are compared, rules when people write some.
SELDOM = ("names", "texts", PATTERNS, COLD, PEERS, RULES)


def joined(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is to be stored of parts of a model: each of `SELDOM` that is there, and all others under `NOW`."""
    stored = {name: parts[name] for name in SELDOM if name in parts}
    if COLD in stored:
        stored[COLD] = _packed({COLD: stored[COLD]})
    return stored | {NOW: _packed({name: data for name, data in sorted(parts.items()) if name not in SELDOM})}


def parted(stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """The inverse of `joined`. Raises ValueError for another format."""
    found = dict(stored)
    for packed in (NOW, COLD):
        if packed in found:
            columns, _ = read_part(found.pop(packed))
            found |= dict(zip(columns["name"].to_pylist(), columns["bytes"].to_pylist(), strict=True))
    return found


def _packed(parts: Mapping[str, bytes]) -> bytes:
    columns = {"name": pa.array(parts), "bytes": pa.array(parts.values(), type=pa.large_binary())}
    return part(columns, {}, packed=True)
