"""The curves and hosts of a collection as cases: as they are, as perturbed copies, or the part that experiments take.

A copy has other times or values than its original and may lack rows of it; its answers are put back onto the original's rows,
whose labels judge them. Rows that it lacks have no score; of hosts they have that of the row before, as all their rows are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import collections, kinds
from benchmarks.collections import BEGIN, BenchmarkSeries
from benchmarks.together import HOUR_MS, TableAnswers, TimedTable
from models.core.arrays import Array, Floats, Ints
from models.detection.table_score import make_increasing

DATA = Path(__file__).parents[2] / "shared"
COLLECTIONS = ("nab", "wsd", "tcpd", *collections.HOST_COLLECTIONS)
SIMULATED = "kinds"  # curves of `benchmarks.kinds`, which are made up and need no data
MS, DAY_MS, WEEK_DAYS = 1000, 86_400_000, 7
AS_IT_IS = "as it is"
NOISE, LOST = 0.03, 0.1  # of the width from the 10th to the 90th percentile; share of rows
PART_DAYS, PART_TAUGHT_DAYS, PART_ROWS = 8, 5, 5000
PART_SECONDS = {"nab": 300, "wsd": 180, "smd": 600, "asd": 600}


@dataclass(frozen=True)
class Case:
    """One table to be judged.

    Attributes
    ----------
    name
        Its name in the collection.
    table
        What the detector is given.
    kept
        Rows of the original that the table has, ascending, `(rows,)`.
    judged
        First row of the original that is judged, and the one after the last.
    """

    name: str
    table: TimedTable
    kept: Ints
    judged: tuple[int, int]

    def scores(self, answers: TableAnswers) -> Floats:
        """Scores of the rows that are judged, `(rows,)`."""
        first, last = self.judged
        full = self._placed(answers.score, np.nan)
        if self.table.host:
            before = np.maximum.accumulate(np.where(np.isin(np.arange(last), self.kept), np.arange(last), self.kept[0]))
            full = full[before]
        return full[first:]

    def alerts(self, answers: TableAnswers) -> Ints:
        """1 in the rows that are judged in which something novel begins, 0 in the others, `(rows,)`."""
        return self._placed(answers.alerts, 0)[self.judged[0] :]

    def _placed(self, numbers: Array, missing: float) -> Array:
        """Numbers of the table's rows at those of the original, up to the last that is judged; `missing` where the table has none."""
        last = self.judged[1]
        full = np.full(last, missing, dtype=numbers.dtype)
        full[self.kept[self.kept < last]] = numbers[self.kept < last]
        return full

    def changes(self, answers: TableAnswers) -> list[int]:
        """Rows of the original that begin a new state."""
        times = self.table.times
        found = {int(np.searchsorted(times, since, side="right")) for since in answers.changes}
        return sorted(int(self.kept[row]) for row in found if 0 < row < len(times))


def cases_of(collection: str, shared: Path = DATA) -> list[Case]:
    """The curves or hosts of a collection as they are."""
    data = shared / "data"
    if collection == SIMULATED:
        return [whole(table_of(one.series)) for one in kinds.curves()]
    if collection in collections.HOST_COLLECTIONS:
        return [
            whole(TimedTable(one.name, one.period, one.times, one.values, host=True), one.taught)
            for one in collections.hosts(data, collection)
        ]
    read = {"nab": collections.nab, "wsd": collections.curves, "tcpd": collections.changes}[collection]
    return [whole(table_of(series)) for series in read(data)]


def table_of(series: BenchmarkSeries) -> TimedTable:
    """A univariate series whose times rise; rows are as far apart as the median of their distances."""
    times = make_increasing(series.times)
    period = float(np.median(np.diff(times))) / MS
    return TimedTable(series.name, period, times, series.values[:, None], host=False)


def whole(table: TimedTable, taught: int = 0) -> Case:
    """A table of which all rows but the first `taught` are judged."""
    return Case(table.name, table, np.arange(len(table.times)), (taught, len(table.times)))


def rows_of(case: Case, rows: Ints, period: float) -> Case:
    """The same of some of its rows, `period` seconds apart."""
    table = replace(case.table, period=period, times=case.table.times[rows], values=case.table.values[rows])
    return replace(case, table=table, kept=case.kept[rows])


def shifted_clock(case: Case) -> Case:
    """The clock put on by 6.4 hours."""
    return replace(case, table=replace(case.table, times=case.table.times + 6.4 * HOUR_MS))


def every_second_row(case: Case, first: int = 0) -> Case:
    """Every second row, from row `first` on."""
    return rows_of(case, np.arange(first, len(case.kept), 2), 2 * case.table.period)


def means_of_two(case: Case) -> Case:
    """The mean of each two rows, at the second of them; where a value is missing in one of them, that of the other."""
    copy = every_second_row(case, 1)
    later = copy.table.values
    earlier = case.table.values[::2][: len(later)]
    means = (np.where(np.isnan(earlier), later, earlier) + np.where(np.isnan(later), earlier, later)) / 2
    return replace(copy, table=replace(copy.table, values=means))


def missing_rows(case: Case) -> Case:
    """Without a tenth of its rows, each on its own."""
    lost = np.random.default_rng(7).random(len(case.kept)) < LOST
    return rows_of(case, np.flatnonzero(~lost), case.table.period)


def noisy(case: Case) -> Case:
    """With normal noise of a few per cent of the usual width of each metric."""
    values = case.table.values
    wide = np.subtract(*np.nanpercentile(values, [90, 10], axis=0))
    noise = NOISE * wide * np.random.default_rng(5).standard_normal(values.shape)
    return replace(case, table=replace(case.table, values=values + noise))


def other_units(case: Case) -> Case:
    """In other units, as Fahrenheit is of Celsius."""
    return replace(case, table=replace(case.table, values=1.8 * case.table.values + 32.0))


COPIES: dict[str, Callable[[Case], Case]] = {
    "shifted clock": shifted_clock,
    "every second row": every_second_row,
    "rows between": partial(every_second_row, first=1),
    "means of two": means_of_two,
    "noise": noisy,
    "missing rows": missing_rows,
    "other units": other_units,
}


def perturbed(cases: list[Case], copy: str) -> list[Case]:
    """The copies of a kind, or the cases themselves."""
    return cases if copy == AS_IT_IS else [COPIES[copy](case) for case in cases]


def part_of(collection: str, shared: Path = DATA) -> list[Case]:
    """The part of a collection that searches and ablations take, so that they are quick.

        nab     files of at most `PART_ROWS` rows of five minutes
        wsd     two times eight days of each curve, every third row
        hosts   five days before the test part, and that; a row of ten minutes

    Clocks are put on by whole days so that all begin within one, and rows that come regularly are put onto one raster.
    """
    cases = cases_of(collection, shared)
    if collection == "nab":
        cases = [one for one in cases if len(one.kept) <= PART_ROWS and one.table.period == PART_SECONDS[collection]]
    elif collection == "wsd":
        rows = PART_DAYS * DAY_MS // (60 * MS)
        cases = [
            replace(_thinned(one, first, first + rows, PART_SECONDS[collection]), judged=(first, first + rows))
            for one in cases
            for first in (0, len(one.kept) - rows)
        ]
    elif collection in collections.HOST_COLLECTIONS:
        taught = PART_TAUGHT_DAYS * DAY_MS / MS
        cases = [
            _thinned(
                one, max(one.judged[0] - int(taught / one.table.period), 0), len(one.kept), PART_SECONDS[collection]
            )
            for one in cases
        ]
    return [_on_one_day(one) for one in cases]


def _thinned(case: Case, first: int, last: int, seconds: float) -> Case:
    """Rows from `first` to before `last`, so far apart."""
    every = max(round(seconds / case.table.period), 1)
    return rows_of(case, np.arange(first, last, every), case.table.period * every)


def _on_one_day(case: Case) -> Case:
    times, raster = case.table.times, MS * case.table.period
    times = times - DAY_MS * np.floor((times[0] - BEGIN) / DAY_MS)
    even = raster * np.floor(times / raster)
    return replace(case, table=replace(case.table, times=even if (np.diff(even) > 0).all() else times))
