"""Bytes of state a gauge, as Spark stores them, by column and age, and what dumping and loading them costs: `python -m benchmarks.state`.

The gauges are of all sizes, with normal noise, every fourth in whole numbers, and have a row in each window. Columns are packed one by
one for the second table, so their sum differs a little from the whole, in which they lie together.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.store import read_numbers, read_part, split_bytes
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from pipelines.state.shard_journal import ShardJournal
from pipelines.state.state_packing import CODEC, SELDOM, pack_parts, unpack_parts

AGES = {"an hour": 1, "a day": 24, "nine days": 216, "five weeks": 840}  # hours
RUNS = 15
LEAST = 1.0  # bytes of a gauge: columns that take less are summed up
FIRST = 1_800_000_000_000


def windows_of(series: int) -> Iterator[Windows]:
    """Windows of so many gauges, without an end; the same ones each time."""
    rng = np.random.default_rng(1)
    names = np.array(
        sorted(f"gauge/host-{i % 160}/app/metric.{i // 160:04d}.with.a.name" for i in range(series)), dtype=object
    )
    level, spread = 10 ** rng.uniform(0, 6, series), 10 ** rng.uniform(-2, 3, series)
    nothing = np.full(series, None, dtype=object)
    while True:
        x = level + spread * rng.standard_normal(series)
        x[::4] = np.round(x[::4])
        m2 = spread**2 * rng.chisquare(9, series)
        yield Windows(names, np.full(series, 10), x, m2, x - 1, x + 1, x, nothing, nothing)


def grown(series: int, hours: Sequence[int], seconds: int = 600) -> Iterator[ShardDetector]:
    """A shard with so many gauges after so many hours of windows of `seconds`, ascending; the same one each time."""
    detector, windows = ShardDetector(DetectorParameters(window_seconds=seconds)), windows_of(series)
    for age in hours:
        for w in range(detector.steps, age * 3600 // seconds):
            detector.step(FIRST + 1000 * seconds * w, next(windows))
        yield detector


def state_bytes(series: int = 2_000, days: int = 9) -> float:
    """Bytes of state a gauge, its name included, as they are written, `days` old."""
    (detector,) = grown(series, [24 * days])
    return sum(map(len, pack_parts(detector.dump()).values())) / series


def written_bytes(series: int = 2_000, days: int = 9) -> float:
    """Bytes that `detect` writes of a gauge in a window of ten minutes, on average of eight hours, `days` old."""
    (detector,) = grown(series, [24 * days])
    detector.dump()
    written, hours = 0, 8
    for windows in islice(windows_of(series), 6 * hours):
        journal, end = ShardJournal(detector, shard=0), detector.last_window + 600_000
        journal.add(end, windows)
        detector.step(end, windows)
        written += sum(map(len, journal.changes(has_snapshot=True).values()))
    return written / (6 * hours) / series


def by_column(parts: Mapping[str, bytes], series: int) -> dict[str, float]:
    """Bytes a gauge of each column of numbers, packed by itself, and of each part that has others."""
    found: dict[str, float] = {}
    for name, data in parts.items():
        arrays, about = read_part(data)
        if "sizes" not in about:
            found[name] = len(CODEC.compress(data)) / series
            continue
        for column, numbers in read_numbers(arrays, about).items():
            (laid,) = split_bytes(np.atleast_2d(numbers))
            found[f"{name}.{column}"] = len(CODEC.compress(laid.as_buffer())) / series
    return found


def median_microseconds(work: Callable[[], object], series: int) -> float:
    """Median processor time a gauge."""
    taken = []
    for _ in range(RUNS):
        began = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - began)
    return statistics.median(taken) / 1000 / series


def costs(detector: ShardDetector, p: DetectorParameters, series: int) -> dict[str, float]:
    """Microseconds a gauge of what is dumped in a window, of what is when an hour has ended, and of loading all of it."""
    stored = pack_parts(detector.dump())
    parts = unpack_parts(stored)
    seldom = {name: data for name, data in parts.items() if name in SELDOM}
    return {
        "dump, a window": median_microseconds(lambda: pack_parts(detector.dump(only_changed=True)), series),
        "dump, all of it": median_microseconds(lambda: pack_parts(detector.dump()), series),
        "pack what changes seldom": median_microseconds(lambda: pack_parts(seldom), series),
        "load": median_microseconds(lambda: ShardDetector.load(unpack_parts(stored), p), series),
    }


def table(rows: Mapping[str, Sequence[float]], places: int) -> list[str]:
    """Rows of a table."""
    return [f"| {name} | " + " | ".join(f"{value:,.{places}f}" for value in row) + " |" for name, row in rows.items()]


def measured(series: int, seconds: int, ages: Mapping[str, int]) -> None:
    """Print all tables."""
    columns: dict[str, list[float]] = {}
    totals: dict[str, list[float]] = {}
    taken: dict[str, list[float]] = {}
    for number, detector in enumerate(grown(series, list(ages.values()), seconds)):
        parts = detector.dump()
        for name, size in by_column(parts, series).items():
            columns.setdefault(name, [0.0] * number).append(size)
        stored = {name: len(data) / series for name, data in pack_parts(parts).items()}
        for name, size in {"all": sum(stored.values()), **stored}.items():
            totals.setdefault(name, []).append(size)
        for name, cost in costs(detector, DetectorParameters(window_seconds=seconds), series).items():
            taken.setdefault(name, []).append(cost)
    small = [row for row in columns.values() if max(row) < LEAST]
    large = {name: row for name, row in columns.items() if max(row) >= LEAST}
    large["others together"] = [sum(found) for found in zip(*small, strict=True)]
    head = [f"| bytes a gauge | {' | '.join(ages)} |", "| --- |" + " ---: |" * len(ages)]
    ordered = dict(sorted(large.items(), key=lambda one: -one[1][-1]))
    for lines in (
        [*head, *table(totals, 0)],
        [*head, *table(ordered, 1)],
        [head[0].replace("bytes", "microseconds"), head[1], *table(taken, 2)],
    ):
        print("\n".join([*lines, ""]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state", description=__doc__)
    parser.add_argument("--series", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=600, help="of a window")
    parser.add_argument("--most-hours", type=int, default=max(AGES.values()))
    chosen = parser.parse_args()
    ages = {name: hours for name, hours in AGES.items() if hours <= chosen.most_hours}
    measured(chosen.series, chosen.seconds, ages)


if __name__ == "__main__":
    main()
