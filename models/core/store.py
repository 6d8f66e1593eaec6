"""Tables of numbers with a row for each series, and their form as Arrow IPC.

A part is one record batch, the columns' names and the format's version in its schema's metadata. Numbers of a type are one value, byte by
byte: the first bytes of all numbers, then the second ones. Signs and exponents of a column are alike and its last digits are not, so a
compressor finds what is alike side by side. Equal content gives equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.state_format import check_format

FORMAT = 33


class SeriesTable:
    """A growing matrix of float64, `(n_columns, n_rows)`, whose rows have names and integers beside them.

    Parameters
    ----------
    columns
        Names of the columns.
    owners
        How many integers each row has in `owner`. They follow from its name, as the index of its host does, and are not
        dumped.
    kinds
        Types that the columns are dumped as, float64 without; values must fit into them.
    """

    def __init__(self, columns: Sequence[str], owners: int = 0, kinds: Sequence[str] = ()) -> None:
        self.columns = tuple(columns)
        self.kinds = tuple(kinds) or ("f8",) * len(self.columns)
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self._matrix = np.zeros((len(self.columns), 16))
        self._owner = np.zeros((owners, 16), dtype=np.int64)
        kinds = [np.dtype(kind).str[1:] for kind in self.kinds]
        self._about = _about(self.columns, tuple(kinds), (1,) * len(kinds))
        self._by_kind = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in sorted(set(kinds))}
        self._dumped_empty = b""  # an empty table is always the same bytes

    def __len__(self) -> int:
        return len(self.names)

    @property
    def matrix(self) -> Floats:
        """All rows, `(n_columns, n_rows)`: a view."""
        return self._matrix[:, : len(self.names)]

    @property
    def storage(self) -> tuple[Floats, Ints]:
        """`matrix` and `owner` with the room for more rows behind them: contiguous, as compiled code takes them."""
        return self._matrix, self._owner

    @property
    def owner(self) -> Ints:
        """The integers beside the rows, `(owners, n_rows)`: a view."""
        return self._owner[:, : len(self.names)]

    def add(self, name: str, owners: Iterable[int] = (), **values: float) -> int:
        """Add a row, 0 but for `values` by column. Answers its index."""
        row = len(self.names)
        if row == self._matrix.shape[1]:
            self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)], axis=1)
            self._owner = np.concatenate([self._owner, np.zeros_like(self._owner)], axis=1)
        self.names.append(name)
        self.index[name] = row
        self._matrix[:, row] = 0.0
        for column, value in values.items():
            self._matrix[self.columns.index(column), row] = value
        self._owner[:, row] = list(owners)
        return row

    def keep(self, kept: Bools) -> None:
        """Remove the rows that are not in `kept`, `(n_rows,)`; the others keep their order."""
        rows = np.flatnonzero(kept)
        room = max(16, len(rows))
        matrix, owner = np.zeros((len(self.columns), room)), np.zeros((len(self._owner), room), dtype=np.int64)
        matrix[:, : len(rows)] = self.matrix[:, rows]
        owner[:, : len(rows)] = self.owner[:, rows]
        self.names = [self.names[row] for row in rows.tolist()]
        self.index = {name: row for row, name in enumerate(self.names)}
        self._matrix, self._owner = matrix, owner

    def dump(self) -> bytes:
        """The numbers as Arrow IPC."""
        if self._dumped_empty and not self.names:
            return self._dumped_empty
        matrix = self.matrix
        found = _stream(
            {kind: split_bytes(matrix[own].astype(kind)) for kind, own in self._by_kind.items()}, self._about
        )
        if not self.names:
            self._dumped_empty = found
        return found

    def load(self, names: Sequence[str], data: bytes) -> None:
        """Read what `dump` has written. Raises ValueError for another format, other columns, or another number of names."""
        arrays, about = read_part(data)
        if about.get("columns") != list(self.columns):
            msg = f"detector state has columns {about.get('columns')}; wanted {list(self.columns)}"
            raise ValueError(msg)
        found = read_numbers(arrays, about)
        rows = len(next(iter(found.values())))
        if rows != len(names):
            msg = f"detector state has {rows} rows of numbers for {len(names)} names: not one dump"
            raise ValueError(msg)
        room = max(16, len(names))
        self.names = list(names)
        self.index = {name: row for row, name in enumerate(self.names)}
        self._matrix = np.zeros((len(self.columns), room))
        self._matrix[:, : len(names)] = np.stack(list(found.values()))
        self._owner = np.zeros((len(self._owner), room), dtype=np.int64)


def write_numbers(columns: Mapping[str, Array]) -> bytes:
    """Columns of numbers, `(n,)` or `(size, n)`, as a part that has one value for each type."""
    tables = {name: np.atleast_2d(numbers) for name, numbers in columns.items()}
    kinds = tuple(numbers.dtype.str[1:] for numbers in tables.values())
    by_kind: dict[str, list[Array]] = {kind: [] for kind in sorted(set(kinds))}
    for kind, numbers in zip(kinds, tables.values(), strict=True):
        by_kind[kind].append(numbers)
    about = _about(tuple(tables), kinds, tuple(map(len, tables.values())))
    return _stream({kind: split_bytes(np.concatenate(own)) for kind, own in by_kind.items()}, about)


@lru_cache
def _about(columns: tuple[str, ...], kinds: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    return json.dumps({"columns": columns, "kinds": kinds, "sizes": sizes})


def split_bytes(numbers: Array) -> pa.Array:
    """Numbers `(size, n)` byte by byte, as one value."""
    flat = np.ascontiguousarray(numbers).reshape(-1)
    return pa.array([flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()], type=pa.large_binary())


def read_numbers(arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> dict[str, Array]:
    """The inverse of `write_numbers`, from the answer of `read_part`: `(n,)` where the size is 1."""
    found: dict[str, Array] = {}
    for kind, values in arrays.items():
        own = [
            column for column in zip(about["columns"], about["kinds"], about["sizes"], strict=True) if column[1] == kind
        ]
        sizes = [size for _, _, size in own]
        planes = np.frombuffer(values[0].as_buffer(), np.uint8).reshape(np.dtype(kind).itemsize, -1)
        flat = np.empty(planes.shape[::-1], np.uint8)
        for place, plane in enumerate(planes):
            flat[:, place] = plane  # faster than all of them at once
        numbers = flat.view(kind).reshape(sum(sizes), planes.shape[1] // sum(sizes))
        for (name, _, size), end in zip(own, np.cumsum(sizes).tolist(), strict=True):
            found[name] = numbers[end - size : end] if size > 1 else numbers[end - 1]
    return {name: found[name] for name in about["columns"]}


def write_part(columns: Mapping[str, pa.Array], about: Mapping[str, Any], codec: pa.Codec | None = None) -> bytes:
    """Arrays as one Arrow IPC stream that says its format, compressed with a codec where one is named, and read alike."""
    return _stream(columns, json.dumps(dict(about), sort_keys=True), codec)


def _stream(columns: Mapping[str, pa.Array], about: str, codec: pa.Codec | None = None) -> bytes:
    metadata = {"format": str(FORMAT), "about": about}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_part(data: bytes) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """The inverse of `write_part`. Raises OtherFormat for that of another release."""
    with pa.ipc.open_stream(data) as reader:
        metadata = reader.schema.metadata or {}
        check_format("detector state", metadata.get(b"format", b"none").decode(), str(FORMAT))
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True)), json.loads(metadata[b"about"])
