"""The labelled collections that accuracy is measured on, as arrays. They lie outside of the project: see `data/README.md`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.core.arrays import Floats

MS = 1000
BEGIN = 1_700_006_400_000  # where rows without a time begin: a midnight
HOST_COLLECTIONS = ("smd", "asd")
NEZHA_DAY = "2023-01-30"


@dataclass(frozen=True)
class BenchmarkSeries:
    """One univariate series: `times` in epoch milliseconds `(rows,)`, read as UTC, and `values` `(rows,)`."""

    name: str
    times: Floats
    values: Floats


@dataclass(frozen=True)
class Host:
    """One host: `values` `(rows, metrics)`, `period` seconds apart; the first `taught` rows are not scored."""

    name: str
    period: float
    taught: int
    values: Floats

    @property
    def times(self) -> Floats:
        """Epoch milliseconds of every row, from a midnight on."""
        return BEGIN + MS * self.period * np.arange(1.0, len(self.values) + 1)


def nab(data: Path) -> Iterator[BenchmarkSeries]:
    """The univariate series, by the names that the labels have."""
    folder = data / "nab"
    for name in sorted(json.loads((folder / "labels" / "combined_windows.json").read_text())):
        with (folder / "data" / name).open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        times = [datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp() * MS for row in rows]
        yield BenchmarkSeries(name, np.array(times), np.array([float(row["value"]) for row in rows]))


def hosts(data: Path, collection: str) -> Iterator[Host]:
    """The hosts of `smd` or `asd`, both parts after each other."""
    folder = data / collection
    period = float(json.loads((folder / "meta.json").read_text())["row_seconds"])
    for path in sorted(folder.glob("*_test.parquet")):
        name = path.name.removesuffix("_test.parquet")
        parts = [_metrics(folder / f"{name}_{part}.parquet") for part in ("train", "test")]
        yield Host(name, period, len(parts[0]), np.concatenate(parts))


def _metrics(path: Path) -> Floats:
    table = pq.read_table(path)
    names = sorted(name for name in table.column_names if name.startswith("m"))
    return np.stack([table[name].to_numpy().astype(np.float64) for name in names], axis=1)


def curves(data: Path) -> Iterator[BenchmarkSeries]:
    """The service curves with labelled events, a row a minute, in the order of their numbers."""
    for path in sorted((data / "wsd").glob("*.parquet"), key=lambda path: int(path.stem)):
        table = pq.read_table(path, columns=["timestamp", "value"])
        values = table["value"].to_numpy(zero_copy_only=False).astype(np.float64)
        yield BenchmarkSeries(path.stem, table["timestamp"].to_numpy().astype(np.float64) * MS, values)


@dataclass(frozen=True)
class Point:
    """One measurement of a pod, at `at`, epoch ms."""

    pod: str
    metric: str
    value: float
    at: int


@dataclass(frozen=True)
class Line:
    """One log line of a pod, at `at`, epoch ms."""

    pod: str
    message: str
    at: int


def application(data: Path) -> tuple[list[Point], list[Line]]:
    """The metrics and lines of a day of the microservice application."""
    folder = data / "nezha"
    metrics, lines = (pq.read_table(folder / f"{NEZHA_DAY}_{what}.parquet") for what in ("metrics", "logs"))
    points = [
        Point(pod, metric, value, at)
        for pod, metric, value, at in zip(
            *(metrics[name].to_pylist() for name in ("pod", "metric", "value")), _millis(metrics["time"]), strict=True
        )
        if value is not None and np.isfinite(value)
    ]
    texts = zip(lines["pod"].to_pylist(), lines["message"].to_pylist(), _millis(lines["time"]), strict=True)
    return points, [Line(*one) for one in texts]


def _millis(times: pa.ChunkedArray) -> list[int]:
    found: list[int] = times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    return found


def changes(data: Path) -> Iterator[BenchmarkSeries]:
    """The series with annotated changes of state; rows are taken to be a minute apart."""
    folder = data / "tcpd"
    for name in sorted(json.loads((folder / "annotations.json").read_text())):
        raw = json.loads((folder / "series" / f"{name}.json").read_text())["series"][0]["raw"]
        values = np.array([np.nan if value is None else float(value) for value in raw])
        yield BenchmarkSeries(name, BEGIN + 60.0 * MS * np.arange(1.0, len(values) + 1), values)
