"""Early alarms on measured series: how many there are where nothing is labelled, beside what the setting promises.

    python -m benchmarks.early_curves [--only wsd nab smd] [--data DIR] [--verbose]

The series of a collection whose rows are as far apart are a fleet, a row a window. Each row is compared with the bounds of the windows before its
own. A series that has raised an alarm raises no other one until the alarm would be settled. Alarms within labelled events, and for as long after
them, do not count. An alarm is confirmed where an incident of the jobs has its host.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

from app.early.settlement import patience_ms
from benchmarks.cases import DATA, cases_of
from benchmarks.early import confirming
from benchmarks.together import TimedTable, common_windows, shift
from models.core.arrays import Bools, Texts
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse
from models.detection.alarm_bounds import EarlyParameters
from models.detection.detector import ShardDetector
from models.detection.table_score import one_point_window
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import Bound

COLLECTIONS = ("nab", "wsd", "smd")
NONE = Bound(series="", window_end=0)
DAY_SECONDS = 86_400.0


def labelled(data: Path, collection: str, table: TimedTable) -> Bools:
    """Which rows of a table are of a labelled event, `(rows,)`."""
    found = np.zeros(len(table.times), dtype=bool)
    if collection == "nab":
        for ends in json.loads((data / "nab" / "labels" / "combined_windows.json").read_text())[table.name]:
            first, last = (1000 * datetime.fromisoformat(one).replace(tzinfo=UTC).timestamp() for one in ends)
            found |= (table.times >= first) & (table.times <= last)
        return found
    name = table.name if collection == "wsd" else f"{table.name}_test"
    labels = pq.read_table(data / collection / f"{name}.parquet", columns=["label"])["label"].to_numpy()
    found[len(found) - len(labels) :] = labels > 0
    return found


@dataclasses.dataclass(frozen=True)
class CurveAlarm:
    """An early alarm of a row; `window_end` is on the clock of the fleet, epoch ms."""

    series: str
    row: int
    window_end: int
    value: float
    lower: float
    upper: float
    labelled: bool


@dataclasses.dataclass
class ManySeries:
    """Tables whose rows are as far apart, through one detector; what they gave."""

    period: float
    alarms: list[CurveAlarm] = dataclasses.field(default_factory=list)
    incidents: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    expected: float = 0.0  # alarms by the chances of the bounds, where nothing is labelled
    windows: int = 0
    compared: Counter[str] = dataclasses.field(default_factory=Counter)  # values, by host

    @property
    def patience(self) -> int:
        """How long an alarm waits, ms."""
        return patience_ms(DetectorParameters(), self.period)

    @property
    def days(self) -> float:
        """Days of the fleet."""
        return self.windows * self.period / DAY_SECONDS

    def run(self, tables: list[TimedTable], events: list[Bools], promise: float) -> None:
        """Step all rows."""
        p = dataclasses.replace(DetectorParameters(), window_seconds=self.period)
        detector = ShardDetector(p, early=EarlyParameters(promise, 1))
        correlator = Correlator(CorrelationParameters())
        known: dict[str, Bound] = {}
        quiet: dict[str, int] = {}
        clock = [table.times - shift(table.times, self.period, tables[0].times[0]) for table in tables]
        names = [names_of(i, table) for i, table in enumerate(tables)]
        for now, rows in common_windows(clock):
            taken = []
            for i, row in rows:
                values, own = tables[i].values[row], names[i]
                there = np.isfinite(values)
                taken.append((own[there], values[there]))
                for name, value in zip(own[there].tolist(), values[there].tolist(), strict=True):
                    self._compare(CurveAlarm(name, row, now, value, np.nan, np.nan, bool(events[i][row])), known, quiet)
            series, values = (np.concatenate(parts) for parts in zip(*taken, strict=True))
            if not len(series):
                continue
            self.windows += 1
            found = detector.step(now, one_point_window(series, values))[1]
            known |= {bound.series: bound for bound in detector.bounds}
            self.incidents += [one.to_record("live") for one in correlator.step(now, found, detector.watched)]

    def _compare(self, row: CurveAlarm, known: dict[str, Bound], quiet: dict[str, int]) -> None:
        bound = known.get(row.series, NONE)
        sides = int(np.isfinite(bound.lower)) + int(np.isfinite(bound.upper))
        if not sides:
            return
        if not row.labelled:
            self.expected += sides * bound.chance
        self.compared[parse(row.series).host] += 1
        if (row.value < bound.lower or row.value > bound.upper) and row.window_end > quiet.get(row.series, 0):
            self.alarms.append(dataclasses.replace(row, lower=bound.lower, upper=bound.upper))
            quiet[row.series] = row.window_end + self.patience


def names_of(number: int, table: TimedTable) -> Texts:
    """The series of a table's columns, in their order."""
    found = [build(Series("gauge", f"t{number:06d}", metric=f"m{k:04d}")) for k in range(table.values.shape[1])]
    return np.array(found, dtype=object)


def until(events: Bools, rows: int) -> Bools:
    """The rows of events, and so many after each."""
    found = events.copy()
    for by in range(1, rows + 1):
        found[by:] |= events[:-by]
    return found


def measure(data: Path, collection: str, promise: float, *, verbose: bool) -> None:
    """Print a line for each fleet of a collection."""
    tables = [case.table for case in cases_of(collection, data.parent)]
    for period in sorted({table.period for table in tables}):
        own = [table for table in tables if table.period == period]
        fleet = ManySeries(period)
        after = int(np.ceil(fleet.patience / (1000 * period)))
        events = [until(labelled(data, collection, table), after) for table in own]
        fleet.run(own, events, promise)
        alarms = [one for one in fleet.alarms if not one.labelled]
        false = [one for one in alarms if not confirming(one.series, one.window_end, fleet.incidents, fleet.patience)]
        normal = 1 - sum(map(np.sum, events)) / sum(map(len, events))
        promised = promise * fleet.days * normal
        least, most = stats.poisson.interval(0.95, promised)
        print(
            f"{collection}, {len(own)} tables with a row in {period:g} s: {len(fleet.alarms)} alarms, {len(alarms)} where nothing is labelled, "
            f"{len(false)} of those withdrawn, in {fleet.days * normal:.1f} days; promised {promised:.1f}, "
            f"95 % of Poisson {least:.0f} to {most:.0f}; by the chances of the bounds {fleet.expected:.1f}",
            flush=True,
        )
        if verbose:
            for one in fleet.alarms:
                name = own[int(parse(one.series).host[1:])].name
                word = "labelled" if one.labelled else "withdrawn" if one in false else "confirmed"
                print("   ", name, word, json.dumps(dataclasses.asdict(one)))


def main() -> None:
    """Print the figures of each collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=COLLECTIONS, default=COLLECTIONS)
    parser.add_argument("--data", type=Path, default=DATA / "data", help="the folder of the collections")
    parser.add_argument("--promise", type=float, default=1.0, help="false alarms a day in the fleet")
    parser.add_argument("--verbose", action="store_true")
    own = parser.parse_args()
    for collection in own.only:
        measure(own.data, collection, own.promise, verbose=own.verbose)


if __name__ == "__main__":
    main()
