"""Series in doubt: a table with rows for those series alone whose values do not fit, in order of their rows in `gauges`.

Numbers are kept in the types that they are dumped in, so a state that was dumped and loaded goes on to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.store import numbers_of, numbers_part
from models.stats import regression

PART = "change_candidates"
TREND = tuple(f"trend_{name}" for name in regression.COLUMNS)
# Values are in units of `unit` from `anchor`, level and spread of the series when the doubt began. Times are epoch ms.
KINDS: dict[str, str] = {
    "anchor": "f8",
    "unit": "f8",
    "worth": "f4",  # of a row as evidence: see `dependence`
    "level_start": "f8",  # the last row before the new level
    "level_rows": "f4",
    "level_mean": "f4",
    "level_sum": "f4",
    "level_nats": "f4",
    "level_against": "f4",
    "spread_start": "f8",
    "spread_rows": "f4",
    "spread_sum": "f4",
    "spread_nats": "f4",
    "spread_against": "f4",
    **dict.fromkeys(TREND, "f4"),
    "back_until": "f8",  # the regime before is remembered until then, 0: there is none
    "back_place": "f8",
    "back_scale": "f8",
    "back_start": "f8",
    "back_rows": "f4",
    "back_nats": "f4",
}
Table = dict[str, Floats]


class ChangeCandidates:
    """`rows` are the places of the series in `gauges`, rising; `columns` the arrays of `KINDS`, `(n,)`."""

    def __init__(self) -> None:
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        self.columns: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in KINDS.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def there(self, rows: Ints) -> Bools:
        """Which of these series are in doubt."""
        return np.isin(rows, self.rows)

    def open(self, rows: Ints) -> None:
        """Begin to doubt series that are not in doubt."""
        if not len(rows):
            return
        at = np.searchsorted(self.rows, np.sort(rows))
        self.rows = np.insert(self.rows, at, np.sort(rows))
        self.columns = {name: np.insert(column, at, 0) for name, column in self.columns.items()}

    def take(self, places: Ints) -> Table:
        """The numbers of some of them, to reckon with."""
        return {name: column[places].astype(np.float64) for name, column in self.columns.items()}

    def put(self, places: Ints, table: Mapping[str, Floats]) -> None:
        """The inverse of `take`."""
        for name, numbers in table.items():
            self.columns[name][places] = numbers

    def place(self, row: int) -> int | None:
        """Where a series is, if it is in doubt."""
        at = int(np.searchsorted(self.rows, row))
        return at if at < len(self.rows) and self.rows[at] == row else None

    def drop(self, chosen: Bools) -> None:
        """Doubt some of them no more, `(n,)`."""
        if chosen.any():
            self.rows = self.rows[~chosen]
            self.columns = {name: column[~chosen] for name, column in self.columns.items()}

    def forget(self, rows: Ints) -> None:
        """Doubt these series no more."""
        self.drop(np.isin(self.rows, rows))

    def keep(self, kept: Bools) -> None:
        """Rows of `gauges` go but for these, `(gauges,)`; the others move up."""
        self.drop(~kept[self.rows])
        self.rows = (np.cumsum(kept) - 1)[self.rows]

    def dump(self) -> bytes:
        """As an Arrow part, a row for each series in doubt."""
        return numbers_part({"row": self.rows.astype(np.int32), **self.columns})

    @classmethod
    def load(cls, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> ChangeCandidates:
        """The inverse of `dump`, of what `read_part` answers. Raises ValueError for other columns."""
        wanted = ["row", *KINDS]
        if about.get("columns") != wanted:
            msg = f"detector state has change_candidates of {about.get('columns')}; wanted {wanted}"
            raise ValueError(msg)
        found, change_candidates = numbers_of(arrays, about), cls()
        change_candidates.rows = found["row"].astype(np.int64)
        change_candidates.columns = {name: found[name].astype(kind) for name, kind in KINDS.items()}
        return change_candidates
