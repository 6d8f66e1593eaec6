"""Change candidates: a sparse table with a row for each metric whose values do not fit what it has been.

Rows are in the order of the metrics' rows in the table `gauges`. Numbers are kept in the types that they are dumped in, so
a state that was dumped and loaded goes on bit for bit.
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
# Values are in units of `unit` from `anchor`, level and spread of the series when it became a candidate. Times are epoch ms.
CANDIDATE_COLUMNS: dict[str, str] = {
    "anchor": "f8",
    "unit": "f8",
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
}
Table = dict[str, Floats]


class ChangeCandidates:
    """The table of change candidates.

    Attributes
    ----------
    rows
        Rows of the series in the table `gauges`, ascending, `(n,)`.
    columns
        The numbers of each candidate by the names of `CANDIDATE_COLUMNS`, `(n,)` each.
    """

    def __init__(self) -> None:
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        self.columns: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in CANDIDATE_COLUMNS.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, rows: Ints) -> None:
        """Add candidates, all numbers 0; `rows` of `gauges` that are none yet."""
        if not len(rows):
            return
        at = np.searchsorted(self.rows, np.sort(rows))
        self.rows = np.insert(self.rows, at, np.sort(rows))
        self.columns = {name: np.insert(column, at, 0) for name, column in self.columns.items()}

    def take(self, places: Ints) -> Table:
        """The numbers of the candidates at `places`, in double precision, `(len(places),)` each."""
        return {name: column[places].astype(np.float64) for name, column in self.columns.items()}

    def put(self, places: Ints, table: Mapping[str, Floats]) -> None:
        """Write numbers of the candidates at `places`: the inverse of `take`."""
        for name, numbers in table.items():
            self.columns[name][places] = numbers

    def place(self, row: int) -> int | None:
        """The place of the series at a row of `gauges`; None if it is no candidate."""
        at = int(np.searchsorted(self.rows, row))
        return at if at < len(self.rows) and self.rows[at] == row else None

    def drop(self, chosen: Bools) -> None:
        """Remove the chosen candidates, `(n,)`."""
        if chosen.any():
            self.rows = self.rows[~chosen]
            self.columns = {name: column[~chosen] for name, column in self.columns.items()}

    def forget(self, rows: Ints) -> None:
        """Remove the series at `rows` of `gauges`."""
        self.drop(np.isin(self.rows, rows))

    def keep(self, kept: Bools) -> None:
        """Follow a removal of rows from `gauges`, of which those in `kept`, `(gauges,)`, stay and move up."""
        self.drop(~kept[self.rows])
        self.rows = (np.cumsum(kept) - 1)[self.rows]

    def dump(self) -> bytes:
        """As an Arrow part, a row for each candidate."""
        return numbers_part({"row": self.rows.astype(np.int32), **self.columns})

    @classmethod
    def load(cls, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> ChangeCandidates:
        """The inverse of `dump`, from the answer of `read_part`. Raises ValueError for other columns."""
        wanted = ["row", *CANDIDATE_COLUMNS]
        if about.get("columns") != wanted:
            msg = f"detector state has change candidates with {about.get('columns')}; wanted {wanted}"
            raise ValueError(msg)
        found, change_candidates = numbers_of(arrays, about), cls()
        change_candidates.rows = found["row"].astype(np.int64)
        change_candidates.columns = {name: found[name].astype(kind) for name, kind in CANDIDATE_COLUMNS.items()}
        return change_candidates
