"""Detectors of river, one for each series, beside the model's step; and Spark's state of a series beside shards."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from river import anomaly

from app.core.settings import Settings
from benchmarks.deployment import say
from benchmarks.peers.extraction import FailedError, Taken, run
from benchmarks.peers.programs import Program, of_kappa
from benchmarks.throughput import apart, none_refused, write_windows
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector

LEARNT, WINDOWS = 300, 20  # windows of a series before the measurement, and in it
FEW, MANY = 1, 4  # windows of the two runs whose difference counts
FIRST = 1_800_000_000_000

Step = Callable[[int], None]  # a window, by its number


def values(series: int, window: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of each series in a window."""
    return 50 + np.random.default_rng(window).standard_normal(series)


def of_model(series: int) -> Step:
    """The model: a step of all series of a shard."""
    names = np.array(
        sorted(f"gauge/host-{i % 60:05d}/app/metric.{i // 60:04d}.with.a.name" for i in range(series)), dtype=object
    )
    detector, nothing, one = ShardDetector(DetectorParameters()), np.full(series, None), np.ones(series, dtype=np.int64)

    def step(window: int) -> None:
        x = values(series, window)
        detector.step(
            FIRST + 10_000 * window, Windows(names, one, x, np.zeros(series), x, x, x, nothing, nothing.copy())
        )

    return step


def of_trees(series: int) -> Step:
    """`HalfSpaceTrees` with its defaults but for the limits of the values."""
    detectors: list[Any] = [anomaly.HalfSpaceTrees(seed=1, limits={"x": (40.0, 60.0)}) for _ in range(series)]

    def step(window: int) -> None:
        for detector, value in zip(detectors, values(series, window).tolist(), strict=True):
            detector.score_one({"x": value})
            detector.learn_one({"x": value})

    return step


def of_gaussian(series: int) -> Step:
    """`GaussianScorer` with its defaults: all that the series has been."""
    make: Any = anomaly.GaussianScorer
    detectors: list[Any] = [make() for _ in range(series)]

    def step(window: int) -> None:
        for detector, value in zip(detectors, values(series, window).tolist(), strict=True):
            detector.score_one({}, value)
            detector.learn_one({}, value)

    return step


MODELS: tuple[tuple[str, Callable[[int], Step], int], ...] = (
    ("kappa, the step of a shard of 2,000 series", of_model, 2_000),
    ("river GaussianScorer, one for each series", of_gaussian, 200),
    ("river HalfSpaceTrees, one for each series", of_trees, 20),
)
JOBS = (
    ("kappa `detect`: shards, the whole model", "detect", 20_000),
    ("applyInPandasWithState, a mean and a variance", "apply", 20_000),
    ("transformWithStateInPandas, the same", "transform", 20_000),
)


def of_python(what: str, make: Callable[[int], Step], series: int) -> dict[str, Any]:
    """Rows a second of a core, and bytes in memory a series, both after LEARNT windows."""
    step = make(series)
    for window in range(LEARNT):
        step(window)
    began = time.process_time()
    for window in range(LEARNT, LEARNT + WINDOWS):
        step(window)
    taken = time.process_time() - began
    few = max(10, series // 10)
    tracemalloc.start()
    try:
        kept = make(few)
        for window in range(LEARNT):
            kept(window)
        memory = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    rows = WINDOWS * series
    say(f"{what}: {rows / taken:,.0f} rows/s, {memory / few:,.0f} bytes a series")
    return figures(what, taken / rows, series) | {"bytes_per_series": memory / few}


def of_spark(spark: SparkSession, settings: Settings, what: str, job: str, series: int) -> dict[str, Any]:
    """What a row more takes: the difference between runs over MANY and FEW windows of the same series."""
    taken: list[Taken] = []
    for windows in (FEW, MANY):
        own = apart(settings, f"{job}-{windows}")
        write_windows(spark, own, series, windows)
        # A window is a batch, as live; `detect` reads a quarter of what the setting says.
        records = (series + own.windowing.shards) * (4 if job == "detect" else 1)
        batch = own.spark.model_copy(update={"max_records_per_batch": records})
        program = Program(job, what, 1.0, of_kappa(job))
        try:
            taken.append(run(program, own.model_copy(update={"spark": batch}), f"{job}-{windows}-out"))
        except FailedError as error:
            say(f"{what}: {error}")
            return {"what": what, "error": str(error)}
        none_refused(own)
    seconds = (taken[1].cores - taken[0].cores) / ((MANY - FEW) * series)
    say(f"{what}: {1e6 * seconds:,.1f} core-seconds per million rows")
    return figures(what, seconds, series)


def figures(what: str, seconds: float, series: int) -> dict[str, Any]:
    """A row of the table, from the processor seconds of a row."""
    return {
        "what": what,
        "rows_per_second": 1 / seconds,
        "core_seconds_per_million": 1e6 * seconds,
        "series": series,
    }


def measure(spark: SparkSession, settings: Settings) -> dict[str, dict[str, Any]]:
    """A row for each."""
    found = {what: of_python(what, make, series) for what, make, series in MODELS}
    return found | {what: of_spark(spark, settings, what, job, series) for what, job, series in JOBS}
