"""Are scores probabilities? exp(-score) of normal rows against the uniform law, in the body and in the tail.

    python -m benchmarks.calibration [--data DIR] [--hours 30] [--seed 1] [--json]

Normal rows are those of a simulated fleet without faults, and the rows of the collections that carry no label, once a series is
a day old. `ks` is the largest distance of all rows together from the uniform law, `median ks` that of the middle series; the
others are rates of probabilities below p, as multiples of p. `base` is by the law of normal data at large, `score`
by that of each series.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from app.simulator import SimulatorSettings, simulate
from benchmarks import collections
from benchmarks.accuracy import DATA
from benchmarks.offline import rows_of
from models.univariate import Univariate
from models.univariate_parameters import UnivariateParameters
from models.windows import Floats

CHANCES = (1e-2, 1e-3, 1e-4)
DAY_MS = 86_400_000
Bools = NDArray[np.bool_]
# times in ms `(rows,)`, values `(rows, series)`, and which rows are normal `(rows,)`
Normal = tuple[Floats, Floats, Bools]


def nab(data: Path) -> Iterator[Normal]:
    """Every file outside of its windows, and six hours after them."""
    windows = json.loads((data / "nab" / "labels" / "combined_windows.json").read_text())
    for series in collections.nab(data):
        normal = np.ones(len(series.times), dtype=bool)
        for begin, end in windows[series.name]:
            first, last = (datetime.fromisoformat(t).replace(tzinfo=UTC).timestamp() * 1000 for t in (begin, end))
            normal &= (series.times < first) | (series.times > last + DAY_MS / 4)
        yield series.times, series.values[:, None], normal


def hosts(data: Path, name: str) -> Iterator[Normal]:
    """Every host, where it carries no label; the part without labels is taken to be normal."""
    for host in collections.hosts(data, name):
        label = pq.read_table(data / name / f"{host.name}_test.parquet", columns=["label"])["label"].to_numpy() > 0
        yield host.times, host.values, ~np.concatenate([np.zeros(host.taught, dtype=bool), label])


def fleet(hours: float, seed: int) -> Iterator[Normal]:
    """A simulated fleet without faults."""
    simulation = simulate(SimulatorSettings(hosts=10, hours=hours, seed=seed, scenario="clean", logs_per_second=0.0))
    rows = rows_of(simulation)
    gauges, counters = (rows[rows["series"].str.startswith(kind)] for kind in ("gauge/", "counter/"))
    values = gauges.pivot_table(index="window_end", columns="series", values="mean")
    totals = counters.pivot_table(index="window_end", columns="series", values="last").reindex(values.index)
    times = values.index.to_numpy(np.float64)
    rates = np.diff(totals.to_numpy(), axis=0, prepend=np.nan) / np.diff(times, prepend=np.nan)[:, None] * 1000
    rates[rates < 0] = np.nan  # a reset
    together = np.concatenate([values.to_numpy(), rates], axis=1)
    yield times, together, np.ones(len(times), dtype=bool)


def answers(normal: Normal) -> tuple[Floats, Floats]:
    """`base` and `score` of every row, `(rows, series)`; NaN where it is not known or not normal, and on the first day."""
    times, values, counted = normal
    model = Univariate(UnivariateParameters())
    model.state.grow(values.shape[1])
    base, score = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    for row, (now, x) in enumerate(zip(times, values, strict=True)):
        index = np.flatnonzero(np.isfinite(x))
        said = model.step(now, index, np.ones(len(index), np.int64), x[index], np.zeros(len(index)))
        if counted[row] and now >= times[0] + DAY_MS:
            base[row, index], score[row, index] = said.base, said.score
    return base, score


def distance(nats: Floats) -> float:
    """The largest distance of exp(-nats) from the uniform law."""
    ordered = np.sort(np.exp(-nats))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(np.maximum(np.abs(ordered - steps[1:]), np.abs(ordered - steps[:-1])).max())


def figures(columns: Iterable[Floats]) -> dict[str, float]:
    """Of the rows of each series, `(rows,)`."""
    known = [x[np.isfinite(x)] for x in columns]
    known = [x for x in known if len(x) >= 500 and np.ptp(x) > 0]
    together = np.concatenate(known)
    found = {"rows": float(len(together)), "ks": distance(together)}
    found["median ks"] = float(np.median([distance(x) for x in known]))
    return found | {f"{p:g}": float(np.mean(together > -np.log(p)) / p) for p in CHANCES}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds data/")
    parser.add_argument("--hours", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    data = chosen.data / "data"
    sources = {"simulated": fleet(chosen.hours, chosen.seed), "nab": nab(data)}
    sources |= {name: hosts(data, name) for name in collections.HOST_COLLECTIONS}
    found: dict[str, dict[str, float]] = {}
    for name, source in sources.items():
        pairs = [answers(normal) for normal in source]
        for at, what in enumerate(("base", "score")):
            found[f"{name}: {what}"] = figures(column for pair in pairs for column in pair[at].T)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    view = Table("", *next(iter(found.values())))
    for name, row in found.items():
        view.add_row(name, *(f"{value:.3g}" for value in row.values()))
    Console().print(view)


if __name__ == "__main__":
    main()
