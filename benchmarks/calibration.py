"""Are scores probabilities? exp(-score) of normal rows against the uniform distribution, in the body and in the tail.

    python -m benchmarks.calibration [--data DIR] [--only simulated nab smd asd] [--machines 10] [--hours 30] [--seed 1]
                                     [--json]

Normal rows are those of a simulated fleet without faults, and the rows of the collections that carry no label, once a series is
a day old. `base` is the probability in the reference distribution, `score` that in each series' own.

Rows depend on one another, so a plain test of all of them rejects correct probabilities. The body passes if the Kolmogorov-Smirnov
distance from uniform of the median series is below 0.05 (`ks`). Beside it, `right` is the distance that correct probabilities
would have in the median series with rows as dependent as these, and `refused` the share of series that the test rejects at 1 % on
rows six hours apart, which hardly depend on one another. Both are of series whose scores have a density. If one score makes more
than 5 % of all (a metric that stands still most of the time, few counts), only too small probabilities count: `too small` is the
largest excess of P(p <= x) over x, in the median one of those series. The tail passes if p is below 1e-4 between half and twice as
often as it should: those columns are rates as multiples of p, of all rows together, and `+-` is the standard error of the last one,
with a day of a series as the unit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import stats

from app.simulator import SimulatorSettings, simulate
from benchmarks import collections
from benchmarks.experiment import DATA
from benchmarks.offline import rows_of
from models.core.arrays import Floats
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters

CHANCES = (1e-2, 1e-3, 1e-4)
DAY_MS = 86_400_000
APART_MS = DAY_MS / 4  # rows so far apart hardly depend on one another
ATOM = 0.05
LEAST_ROWS = 500
EDGES, RESAMPLES = 200, 200  # of the bootstrap
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Normal:
    """Times in ms, values, and which rows are normal, all `(rows, series)`; NaN where a series has no row."""

    times: Floats
    values: Floats
    counted: Bools


def nab(data: Path) -> Iterator[Normal]:
    """Every file outside of its windows, and six hours after them."""
    windows = json.loads((data / "nab" / "labels" / "combined_windows.json").read_text())
    for series in collections.nab(data):
        normal = np.ones(len(series.times), dtype=bool)
        for begin, end in windows[series.name]:
            first, last = (datetime.fromisoformat(t).replace(tzinfo=UTC).timestamp() * 1000 for t in (begin, end))
            normal &= (series.times < first) | (series.times > last + DAY_MS / 4)
        yield Normal(series.times[:, None], series.values[:, None], normal[:, None])


def hosts(data: Path, name: str) -> Iterator[Normal]:
    """Every host, where it carries no label; the part without labels is taken to be normal."""
    for host in collections.hosts(data, name):
        label = pq.read_table(data / name / f"{host.name}_test.parquet", columns=["label"])["label"].to_numpy() > 0
        counted = ~np.concatenate([np.zeros(host.taught, dtype=bool), label])
        yield alike(host.times, host.values, counted)


def fleet(machines: int, hours: float, seed: int) -> Iterator[Normal]:
    """A simulated fleet without faults."""
    simulation = simulate(
        SimulatorSettings(hosts=machines, hours=hours, seed=seed, scenario="clean", logs_per_second=0.0)
    )
    rows = rows_of(simulation)
    gauges, counters = (rows[rows["series"].str.startswith(kind)] for kind in ("gauge/", "counter/"))
    values = gauges.pivot_table(index="window_end", columns="series", values="mean")
    totals = counters.pivot_table(index="window_end", columns="series", values="last").reindex(values.index)
    times = values.index.to_numpy(np.float64)
    rates = np.diff(totals.to_numpy(), axis=0, prepend=np.nan) / np.diff(times, prepend=np.nan)[:, None] * 1000
    rates[rates < 0] = np.nan  # a reset
    yield alike(times, np.concatenate([values.to_numpy(), rates], axis=1), np.ones(len(times), dtype=bool))


def alike(times: Floats, values: Floats, counted: Bools) -> Normal:
    """Series `(rows, series)` that share their times and what is normal, both `(rows,)`."""
    return Normal(
        np.broadcast_to(times[:, None], values.shape), values, np.broadcast_to(counted[:, None], values.shape)
    )


def together(parts: Sequence[Normal]) -> Normal:
    """All series as columns, so that the model steps them at once; shorter ones end in rows without a value."""
    longest = max(len(part.times) for part in parts)

    def padded(name: str, fill: float) -> NDArray[Any]:
        columns = [getattr(part, name) for part in parts]
        rows = [((0, longest - len(column)), (0, 0)) for column in columns]
        return np.concatenate([np.pad(c, r, constant_values=fill) for c, r in zip(columns, rows, strict=True)], axis=1)

    return Normal(padded("times", 0.0), padded("values", np.nan), padded("counted", False))


def answers(normal: Normal) -> tuple[Floats, Floats]:
    """`base` and `score` of every row, `(rows, series)`; NaN where it is not known or not normal, and on the first day."""
    model = Univariate(UnivariateParameters())
    model.state.grow(normal.values.shape[1])
    base, score = (np.full(normal.values.shape, np.nan, np.float32) for _ in range(2))
    for row, (now, x) in enumerate(zip(normal.times, normal.values, strict=True)):
        index = np.flatnonzero(np.isfinite(x))
        scores = model.step(now[index], index, np.ones(len(index), np.int64), x[index], np.zeros(len(index)))
        base[row, index], score[row, index] = scores.base, scores.score
    first = np.array([t[np.argmax(np.isfinite(x))] for t, x in zip(normal.times.T, normal.values.T, strict=True)])
    left_out = ~normal.counted | (normal.times < first + DAY_MS)
    base[left_out] = score[left_out] = np.nan
    return np.asarray(base, np.float64), np.asarray(score, np.float64)


def distance(chances: Floats) -> float:
    """Kolmogorov-Smirnov distance of probabilities from the uniform distribution."""
    return float(stats.kstest(chances, "uniform").statistic)


def days_of(times: Floats) -> NDArray[np.int64]:
    """The day of each row, counted from 0 without those that have none."""
    return np.asarray(np.unique(times // DAY_MS, return_inverse=True)[1], dtype=np.int64)


def distance_if_right(chances: Floats, times: Floats) -> float:
    """The median distance that correct probabilities would have with rows as dependent as these: a bootstrap of days (Kuensch 1989)."""
    day = days_of(times)
    edge = np.minimum((chances * EDGES).astype(np.int64), EDGES - 1)
    counts = np.zeros((day[-1] + 1, EDGES))
    np.add.at(counts, (day, edge), 1)
    days = np.random.default_rng(0).integers(len(counts), size=(RESAMPLES, len(counts)))
    shares = np.cumsum(np.array([counts[chosen].sum(axis=0) for chosen in days]), axis=1)
    below = np.cumsum(counts.sum(axis=0)) / len(chances)
    return float(np.median(np.abs(shares / shares[:, -1:] - below).max(axis=1)))


def too_small(chances: Floats) -> float:
    """How far the share of probabilities up to x is above x, at the most."""
    return float(stats.kstest(chances, "uniform", alternative="greater").statistic)


def refused(chances: Floats, times: Floats) -> bool:
    """Whether the test rejects uniform probabilities on rows that hardly depend on one another."""
    _, apart = np.unique(times // APART_MS, return_index=True)
    return bool(stats.kstest(chances[apart], "uniform").pvalue < 0.01)


def is_discrete(chances: Floats) -> bool:
    """Whether one answer makes so many that they have no density."""
    return bool(np.unique(chances, return_counts=True)[1].max() > ATOM * len(chances))


def figures(scores: Floats, bases: Floats, times: Floats) -> dict[str, float]:
    """Of the nats of rows, all arrays `(rows, series)`; series with few rows are left out."""
    known = np.isfinite(scores)
    chosen = np.flatnonzero(known.sum(axis=0) >= LEAST_ROWS)
    columns = [(np.exp(-scores[k, j].astype(float)), times[k, j]) for j in chosen for k in [known[:, j]]]
    atoms = [is_discrete(np.exp(-bases[known[:, j], j].astype(float))) for j in chosen]
    dense = [column for column, discrete in zip(columns, atoms, strict=True) if not discrete]
    others = [column for column, discrete in zip(columns, atoms, strict=True) if discrete]
    found = {
        "rows": float(sum(len(p) for p, _ in columns)),
        "series": float(len(dense)),
        "discrete": float(len(others)),
    }
    found["ks"] = float(np.median([distance(p) for p, _ in dense])) if dense else np.nan
    found["right"] = float(np.median([distance_if_right(p, t) for p, t in dense])) if dense else np.nan
    found["refused"] = float(np.mean([refused(p, t) for p, t in dense])) if dense else np.nan
    found["too small"] = float(np.median([too_small(p) for p, _ in others])) if others else np.nan
    for chance in CHANCES:
        found[f"{chance:g}"], found["+-"] = rate(columns, chance)
    return found


def rate(columns: Iterable[tuple[Floats, Floats]], chance: float) -> tuple[float, float]:
    """How often probabilities are below `chance`, as a multiple of it, and the standard error over days of series."""
    below, rows = [], []
    for chances, times in columns:
        day = days_of(times)
        below.append(np.bincount(day, weights=chances < chance))
        rows.append(np.bincount(day))
    found, all_rows = np.concatenate(below), np.concatenate(rows)
    mean = found.sum() / all_rows.sum()
    error = np.sqrt(((found - mean * all_rows) ** 2).sum()) / all_rows.sum()
    return float(mean / chance), float(error / chance)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds data/")
    parser.add_argument("--only", nargs="+", choices=("simulated", "nab", *collections.HOST_COLLECTIONS))
    parser.add_argument("--machines", type=int, default=10, help="size of the simulation")
    parser.add_argument("--hours", type=float, default=30.0, help="length of the simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    data = chosen.data / "data"
    sources = {"simulated": lambda: fleet(chosen.machines, chosen.hours, chosen.seed), "nab": lambda: nab(data)}
    sources |= {name: partial(hosts, data, name) for name in collections.HOST_COLLECTIONS}
    found: dict[str, dict[str, float]] = {}
    for name in chosen.only or sources:
        normal = together(list(sources[name]()))
        base, score = answers(normal)
        for what, nats in (("base", base), ("score", score)):
            found[f"{name}: {what}"] = figures(nats, base, normal.times)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    view = Table("", *next(iter(found.values())))
    for name, row in found.items():
        view.add_row(name, *(f"{value:.3g}" for value in row.values()))
    Console().print(view)


if __name__ == "__main__":
    main()
