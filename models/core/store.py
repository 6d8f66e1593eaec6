"""Tables of numbers with a row for each series, and their form as Arrow IPC.

A part is one record batch: a row per series, its numbers in a list of fixed size for each type, the columns' names and the
format's version in the schema's metadata. Equal content gives equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from models.core.arrays import Array, Bools, Floats, Ints

FORMAT = 17


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
        self._about = {"columns": list(self.columns), "kinds": kinds}
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
        matrix, lists = self.matrix, {}
        for kind, columns in self._by_kind.items():
            lists[kind] = row_lists(matrix[columns].astype(kind))
        found = part(lists, self._about)
        if not self.names:
            self._dumped_empty = found
        return found

    def load(self, names: Sequence[str], data: bytes, owners: Sequence[Sequence[int]] | None = None) -> None:
        """Read what `dump` has written. Raises ValueError for another format, other columns, or another number of names."""
        arrays, about = read_part(data)
        if about.get("columns") != list(self.columns):
            msg = f"detector state has columns {about.get('columns')}; wanted {list(self.columns)}"
            raise ValueError(msg)
        found = numbers_of(arrays, about)
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
        if owners is not None and len(names):
            self._owner[:, : len(names)] = owners


def numbers_part(columns: Mapping[str, Array]) -> bytes:
    """Columns of numbers, `(n,)` each, as a part that has one list for each type."""
    kinds = [numbers.dtype.str[1:] for numbers in columns.values()]
    lists = {}
    for kind in sorted(set(kinds)):
        lists[kind] = row_lists(np.stack([one for one, k in zip(columns.values(), kinds, strict=True) if k == kind]))
    return part(lists, {"columns": list(columns), "kinds": kinds})


def row_lists(columns: Array) -> pa.FixedSizeListArray:
    """Columns `(n_columns, n_rows)` as a list of fixed size for each row."""
    return pa.FixedSizeListArray.from_arrays(pa.array(columns.T.ravel()), len(columns))


def numbers_of(arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> dict[str, Array]:
    """The inverse of `numbers_part`, from the answer of `read_part`."""
    found: dict[str, Array] = {}
    for kind, lists in arrays.items():
        names = [name for name, k in zip(about["columns"], about["kinds"], strict=True) if k == kind]
        numbers = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(names))
        found |= {name: numbers[:, i] for i, name in enumerate(names)}
    return {name: found[name] for name in about["columns"]}


def part(columns: Mapping[str, pa.Array], about: Mapping[str, Any], *, packed: bool = False) -> bytes:
    """Arrays as one Arrow IPC stream that says its format; `packed` with LZ4, and read alike."""
    metadata = {"format": str(FORMAT), "about": json.dumps(dict(about), sort_keys=True)}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if packed else None, use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_part(data: bytes) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """The inverse of `part`. Raises ValueError for another format."""
    with pa.ipc.open_stream(data) as reader:
        metadata = reader.schema.metadata or {}
        found = metadata.get(b"format", b"none").decode()
        if found != str(FORMAT):
            msg = f"detector state has format {found}; wanted {FORMAT}: load it with the release that wrote it"
            raise ValueError(msg)
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True)), json.loads(metadata[b"about"])
