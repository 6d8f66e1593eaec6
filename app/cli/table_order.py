"""The rows of several files in order of time: what follows what, and how far rows are apart."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from app.cli.table_files import NumberTable, Wanted, read
from models.core.windows import Floats
from models.detection.table_score import rising
from pipelines.errors import InputError

BEGIN = 1_700_006_400_000  # where rows without a time begin: a midnight
USUAL_PERIOD = 60.0
MOST_BACK = 0.1  # share of rows whose clock may have gone back
Report = Callable[[str], None]


@dataclass(frozen=True)
class Tables:
    """Files in order, each with the times of its rows in epoch ms, which rise over all of them; `period` in seconds."""

    tables: tuple[NumberTable, ...]
    times: tuple[Floats, ...]
    period: float

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(map(len, self.tables))

    @cached_property
    def line(self) -> Floats:
        """The times of all rows, `(rows,)`."""
        return np.concatenate(self.times)

    @cached_property
    def begins(self) -> list[int]:
        """Rows before each file."""
        return [0, *np.cumsum([len(table) for table in self.tables]).tolist()]


def load(files: Sequence[Path], wanted: Wanted, period: float | None, report: Report) -> Tables:
    """Read files and put their rows in order of time. Raises InputError for what does not fit together."""
    if period is not None and not (0.001 <= period < 1e9):
        msg = f"score: --period is {period}; wanted seconds between two rows, from 0.001"
        raise InputError(msg)
    if period is not None and wanted.timestamp is None:
        wanted = dataclasses.replace(wanted, timed=False)
    tables = tuple(read(file, wanted) for file in files)
    _alike(tables)
    if tables[0].times is None:
        return _numbered(tables, period, report)
    own = [table.times for table in tables if table.times is not None]
    _forward(tables, own, report)
    risen = rising(np.concatenate(own))
    cuts = np.cumsum([len(table) for table in tables])[:-1]
    return Tables(tables, tuple(np.split(risen, cuts)), period or period_of(tables, own))


def _alike(tables: Sequence[NumberTable]) -> None:
    first = tables[0]
    for table in tables[1:]:
        if set(table.metrics) != set(first.metrics):
            odd = sorted(set(table.metrics) ^ set(first.metrics))
            msg = f"{table.file} and {first.file} differ in column {odd[0]!r}; wanted files of the same metrics"
            raise InputError(msg)
        if (table.times is None) != (first.times is None):
            msg = (
                f"of {table.file} and {first.file} one has no times; name the column with --timestamp, or give --period"
            )
            raise InputError(msg)


def _numbered(tables: tuple[NumberTable, ...], period: float | None, report: Report) -> Tables:
    """Rows without a time are a period apart."""
    if period is None:
        period = USUAL_PERIOD
        report(f"no column of times and no --period: taking rows to be {period:g} s apart")
    end = np.cumsum([0, *map(len, tables)])
    spans = [np.arange(a + 1.0, b + 1.0) for a, b in itertools.pairwise(end.tolist())]
    return Tables(tables, tuple(np.round(BEGIN + 1000 * period * span) for span in spans), period)


def _forward(tables: Sequence[NumberTable], times: Sequence[Floats], report: Report) -> None:
    """Say how often the clock goes back; where it does so at large, the rows are not in order."""
    together = np.concatenate(times)
    back = np.flatnonzero(together[1:] <= np.maximum.accumulate(together)[:-1]) + 1
    if not len(back):
        return
    ends = np.cumsum([len(table) for table in tables])
    file = int(np.searchsorted(ends, back[0], side="right"))
    row = int(back[0] - (ends[file] - len(tables[file])))
    where = f"{tables[file].file}, row {row}"
    if len(back) > MOST_BACK * len(together):
        msg = f"{where}: {len(back)} of {len(together)} rows are not later than one before; sort them by time"
        raise InputError(msg)
    report(f"{len(back)} rows, first {where}, are not later than one before: they count as 1 ms after it")


def period_of(tables: Sequence[NumberTable], times: Sequence[Floats]) -> float:
    """Seconds between rows: the median, of repeats of a time none. Raises InputError if there is no second row."""
    steps = np.concatenate([np.diff(one) for one in times])
    steps = steps[steps > 0]
    if not len(steps):
        msg = f"{tables[0].file}: no two rows with different times, so their distance is not known; give --period"
        raise InputError(msg)
    return float(np.median(steps)) / 1000
