"""How the model of a shard lies in the state of `detect`: its parts by name, those that every window changes in one.

A call to the state costs a Python worker a round trip to the JVM, however little it carries. What every window writes is packed:
that takes less time than moving and writing the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from models.store import part, read_part

BUFFER = "buffer"  # the rows that wait for their tick; no part of the model
NOW = "now"
SELDOM = ("names", "texts", "cold")  # change when series come and go; of metrics, what changes when an hour ends


def joined(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is to be stored of parts of a model: each of `SELDOM` that is there, and all others under `NOW`."""
    often = {name: data for name, data in sorted(parts.items()) if name not in SELDOM}
    columns = {"name": pa.array(often), "bytes": pa.array(often.values(), type=pa.large_binary())}
    return {name: parts[name] for name in SELDOM if name in parts} | {NOW: part(columns, {}, packed=True)}


def parted(stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """The inverse of `joined`. Raises ValueError for another format."""
    found = dict(stored)
    if NOW in found:
        columns, _ = read_part(found.pop(NOW))
        found |= dict(zip(columns["name"].to_pylist(), columns["bytes"].to_pylist(), strict=True))
    return found
