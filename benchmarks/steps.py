"""What the model costs in one process: rows a second of `kappa score`, and the step of a shard."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from app.cli import score_files
from app.cli.table_files import TableColumns
from benchmarks.deployment import say
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector

ROWS, DAY_ROWS, PERIOD_SECONDS = 36_000, 1_440, 60
RUNS = 3
GAUGES = (1, 36, 1_000)  # of a shard
WINDOWS = 300  # before and in a measurement


def measure() -> dict[str, float]:
    """Medians of processor time: rows a second of a curve, and milliseconds of a step by the number of gauges."""
    figures = {"score_rows_per_second": statistics.median(scored() for _ in range(RUNS))}
    figures |= {f"step_{gauges}_ms": step(gauges) for gauges in GAUGES}
    say(", ".join(f"{name} {value:,.2f}" for name, value in figures.items()))
    return figures


def scored() -> float:
    """Rows a second of `kappa score` over a curve by the minute, from a CSV file to another; the start of the command is not in it."""
    rng, rows = np.random.default_rng(1), np.arange(ROWS)
    values = 50 + 10 * np.sin(2 * np.pi * rows / DAY_ROWS) + rng.standard_normal(ROWS)
    with TemporaryDirectory() as folder:
        curve, out = Path(folder) / "curve.csv", Path(folder) / "out.csv"
        curve.write_text("value\n" + "\n".join(f"{value:.3f}" for value in values) + "\n")
        began = time.process_time()
        columns = TableColumns("value", None, None)
        score_files.run([curve], columns, PERIOD_SECONDS, DetectorParameters(), out, lambda _: None, to_stdout=False)
        return ROWS / (time.process_time() - began)


def step(gauges: int) -> float:
    """Median milliseconds of a shard's step with so many gauges, a value of each in a window of 10 s."""
    rng, detector = np.random.default_rng(gauges), ShardDetector(DetectorParameters())
    names = np.array(sorted(f"gauge/host-{i // 36}/app/metric.{i % 36}" for i in range(gauges)), dtype=object)
    one, none, nothing = np.ones(gauges, dtype=np.int64), np.full(gauges, None, dtype=object), np.zeros(gauges)
    taken = []
    for window in range(2 * WINDOWS):
        x = 50 + rng.standard_normal(gauges)
        rows = Windows(names, one, x, nothing, x, x, x, none, none)
        began = time.process_time_ns()
        detector.step(1_800_000_000_000 + 10_000 * window, rows)
        taken.append(time.process_time_ns() - began)
    return statistics.median(taken[WINDOWS:]) / 1e6
