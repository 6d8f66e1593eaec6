"""A sparse table: numbers of some of the series of another table, each with the row that its series has there.

Numbers are kept in the types that they are dumped in, so a state that was dumped and loaded goes on bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.store import read_numbers, write_numbers

Table = dict[str, Floats]


class SparseTable:
    """A table of what its class says: `KINDS` are the columns' names and types, `WHAT` a word for its rows.

    Attributes
    ----------
    rows
        Rows of the series in the other table, ascending, `(n,)`.
    columns
        The numbers of each series by the names of `KINDS`, `(n,)` each.
    changed
        Whether anything has changed since the last dump.
    """

    KINDS: ClassVar[Mapping[str, str]]
    WHAT: ClassVar[str]

    def __init__(self) -> None:
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        self.columns: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in self.KINDS.items()}
        self.changed = True

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Ints) -> None:
        """Add series, all numbers 0; `rows` of the other table that are not here yet."""
        if not len(rows):
            return
        at = np.searchsorted(self.rows, np.sort(rows))
        self.rows = np.insert(self.rows, at, np.sort(rows))
        self.columns = {name: np.insert(column, at, 0) for name, column in self.columns.items()}
        self.changed = True

    def find_or_add(self, rows: Ints) -> Ints:
        """The places of series, which are added where they are missing; `rows` of the other table, `(m,)`."""
        at = np.searchsorted(self.rows, rows)
        known = at < len(self.rows)
        known[known] = self.rows[at[known]] == rows[known]
        if known.all():
            return at
        self.add(rows[~known])
        return np.searchsorted(self.rows, rows)

    def read(self, places: Ints) -> Table:
        """The numbers at `places`, in double precision, `(len(places),)` each."""
        return {name: column[places].astype(np.float64) for name, column in self.columns.items()}

    def write(self, places: Ints, table: Mapping[str, Floats]) -> None:
        """Write the numbers at `places`: the inverse of `read`."""
        for name, numbers in table.items():
            self.columns[name][places] = numbers
        self.changed = True

    def update(self, row: int, how: Callable[[Table], None]) -> None:
        """Change the numbers of the series at a row of the other table, in place; it is added where it is missing."""
        places = self.find_or_add(np.array([row]))
        table = self.read(places)
        how(table)
        self.write(places, table)

    def remove(self, chosen: Bools) -> None:
        """Remove the chosen series, `(n,)`."""
        if chosen.any():
            self.rows = self.rows[~chosen]
            self.columns = {name: column[~chosen] for name, column in self.columns.items()}
            self.changed = True

    def forget(self, rows: Ints) -> None:
        """Remove the series at `rows` of the other table."""
        self.remove(np.isin(self.rows, rows))

    def keep(self, kept: Bools) -> None:
        """Follow a removal of rows from the other table, of which those in `kept` stay and move up."""
        self.remove(~kept[self.rows])
        self.rows = (np.cumsum(kept) - 1)[self.rows]
        self.changed = True

    def dump(self) -> bytes:
        """As an Arrow part, a row for each series."""
        self.changed = False
        return write_numbers({"row": self.rows.astype(np.int32), **self.columns})

    @classmethod
    def load(cls, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> Self:
        """The inverse of `dump`, from the answer of `read_part`. Raises ValueError for other columns."""
        wanted = ["row", *cls.KINDS]
        if about.get("columns") != wanted:
            msg = f"detector state has {cls.WHAT} with {about.get('columns')}; wanted {wanted}"
            raise ValueError(msg)
        found, table = read_numbers(arrays, about), cls()
        table.rows = found["row"].astype(np.int64)
        table.columns = {name: found[name].astype(kind) for name, kind in cls.KINDS.items()}
        table.changed = False
        return table
