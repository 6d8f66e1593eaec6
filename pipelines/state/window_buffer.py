"""Turns records that are delivered at least once, in any interleaving, into complete windows, each once, in order.

Rows are buffered until `extract` has sent a watermark message for their window. Rows of windows up to the last one that was returned are repeats
and ignored; of several buffered rows of a series and window one is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.core.state_format import check_format
from models.core.windows import Windows
from models.records.records import PEERS, StatisticsRow
from models.records.schema import arrow_schema

FORMAT = b"4"
NO_WINDOW = -1

TEXTS = ("series", "template", "sample")
COUNTS = ("window_end", "n")
NUMBERS = ("mean", "m2", "min", "max", "last")
SCHEMA = arrow_schema(StatisticsRow, ("series", *COUNTS, *NUMBERS, *PEERS, "template", "sample"))

Columns = dict[str, NDArray[Any]]


def empty_columns() -> Columns:
    """Columns of no rows, with their types."""
    return {name: np.empty(0, dtype=dtype_of(name)) for name in SCHEMA.names}


def dtype_of(name: str) -> Any:
    return object if name in TEXTS else np.int64 if name in COUNTS else np.float64


@dataclass
class WindowBuffer:
    """Rows and watermarks of one shard whose windows are not complete.

    Parameters
    ----------
    done
        The last window that `take` has returned, epoch milliseconds.
    limit
        The last window that is closed.
    announced
        The windows after `done` that watermark messages have named.
    rows
        The waiting rows, column by column, each of shape `(n_rows,)`.
    """

    done: int = NO_WINDOW
    limit: int = NO_WINDOW
    announced: set[int] = field(default_factory=set)
    rows: Columns = field(default_factory=empty_columns)

    def add_watermarks(self, watermarks: NDArray[np.int64]) -> None:
        """Note closed windows: the `watermarks` of messages, epoch milliseconds, in any order."""
        self.announced.update(t for t in np.unique(watermarks).tolist() if t > self.done)
        self.limit = max(self.limit, int(watermarks.max()))

    def add_rows(self, rows: Columns) -> None:
        """Buffer rows that are not repeats. `rows` has the columns of `SCHEMA`."""
        fresh = rows["window_end"] > self.done
        if not fresh.all():
            rows = {name: column[fresh] for name, column in rows.items()}
        if len(self.rows["n"]):
            rows = {name: np.concatenate([self.rows[name], rows[name]]) for name in SCHEMA.names}
        self.rows = rows

    def take(self) -> Iterator[tuple[int, Windows]]:
        """Remove and yield every complete window, oldest first: its end and its rows."""
        limit = self.limit
        ready = sorted(t for t in self.announced if t <= limit)
        if not ready:
            return
        waiting, self.rows = split_rows(self.rows, self.rows["window_end"] <= limit)
        ends = waiting["window_end"]
        order = np.argsort(ends, kind="stable")
        starts = np.searchsorted(ends[order], ready, side="left")
        stops = np.searchsorted(ends[order], ready, side="right")
        for end, start, stop in zip(ready, starts.tolist(), stops.tolist(), strict=True):
            self.done = end
            self.announced.discard(end)
            yield end, to_windows(waiting, order[start:stop])

    def dump(self) -> bytes:
        """Canonical bytes: an Arrow IPC stream whose schema says the format's version."""
        about = {
            "done": self.done,
            "limit": self.limit,
            "announced": sorted(self.announced),
        }
        # Not as texts of numpy, each of which takes as much memory as the longest name.
        by_name = np.argsort(self.rows["series"], kind="stable")
        order = by_name[np.argsort(self.rows["window_end"][by_name], kind="stable")]
        arrays = [pa.array(self.rows[f.name][order], type=f.type, from_pandas=True) for f in SCHEMA]
        return encode_stream(arrays, SCHEMA, FORMAT, about)

    @classmethod
    def load(cls, data: bytes) -> WindowBuffer:
        """The inverse of `dump`. Raises ValueError for another format."""
        table, about = decode_stream(data, FORMAT, "window buffer")
        rows = {name: table.column(name).to_numpy(zero_copy_only=False) for name in SCHEMA.names}
        return cls(
            done=about["done"],
            limit=about["limit"],
            announced=set(about["announced"]),
            rows=rows,
        )


def encode_stream(
    arrays: Sequence[pa.Array],
    schema: pa.Schema,
    state_format: bytes,
    about: Mapping[str, Any],
    codec: pa.Codec | None = None,
) -> bytes:
    """Encode arrays as an Arrow IPC stream. The schema's metadata has the format's version, and `about` as JSON."""
    own = schema.with_metadata({b"format": state_format, b"about": json.dumps(about, sort_keys=True).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, own, options=pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=own))
    return bytes(sink.getvalue())


def decode_stream(data: bytes, state_format: bytes, what: str) -> tuple[pa.Table, dict[str, Any]]:
    """The inverse of `encode_stream`: the table and `about`. Raises OtherFormat for another format; `what` names the content in its message."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    check_format(what, metadata.get(b"format", b"none").decode(), state_format.decode())
    return table, json.loads(metadata[b"about"])


def split_rows(rows: Columns, chosen: NDArray[np.bool_]) -> tuple[Columns, Columns]:
    """The rows that are chosen, and the others."""
    if chosen.all():
        return rows, empty_columns()
    return {k: v[chosen] for k, v in rows.items()}, {k: v[~chosen] for k, v in rows.items()}


def to_windows(rows: Columns, chosen: NDArray[np.int64]) -> Windows:
    """The chosen rows as `Windows`, sorted by series, the first row of each series."""
    if not len(chosen):
        return NO_WINDOWS
    series = rows["series"][chosen]
    # Rows come as sorted runs, on which a stable sort is close to linear.
    order = np.argsort(series, kind="stable")
    series, chosen = series[order], chosen[order]
    if len(series) > 1:
        first = np.concatenate([[True], series[1:] != series[:-1]]).astype(bool)
        if not first.all():
            series, chosen = series[first], chosen[first]
    peers = np.stack([rows[name][chosen] for name in PEERS], axis=1).astype(np.float64)
    columns = {name: rows[name][chosen] for name in ("n", *NUMBERS, "template", "sample")}
    return Windows(series=series, peers=peers, **columns)


NO_WINDOWS = Windows(**{name: empty_columns()[name] for name in ("n", *NUMBERS, *TEXTS)})
