"""detect over a bounded part of the log: the same model steps as the stream, over a sorted table.

A stream waits for watermark messages to know which windows are complete; a bounded run knows all windows beforehand. The rows of a shard are
sorted by window, so a window is complete when the next one begins, and no buffer is needed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.records.records import PEERS
from pipelines.jobs import detect
from pipelines.jobs.detect import OUTPUT_DDL, Begin, WaitingAnswers
from pipelines.state.window_buffer import NO_WINDOW, NO_WINDOWS, NUMBERS, SCHEMA, TEXTS, Columns, to_windows

STATE = "done long, part string, bytes binary"
TYPES = {**detect.TYPES, **dict(column.split() for column in STATE.split(", "))}
COLUMNS = list(TYPES)
MARKER = -1  # the window of a row that says that a shard exists


@dataclass(frozen=True)
class BoundedRun:
    """What all shards of a run share: its windows (ends, ascending, ms), and what `detect_bounded` was given."""

    windows: tuple[int, ...]
    parameters: DetectorParameters
    version: str
    shards: int
    begin: Begin | None = None
    rules: str = detect.RULES


def detect_bounded(
    rows: DataFrame,
    windows: Sequence[int],
    parameters: DetectorParameters,
    version: str,
    shards: int,
    partitions: int,
    begin: Begin | None = None,
    rules: str = detect.RULES,
) -> DataFrame:
    """Scores, episode events and watermark messages of `windows` (ends, ascending, ms), then the state of each shard after them.

    `rows` has the columns of `extract.statistics_rows`, all of them within `windows`. Answers rows of `OUTPUT_DDL` and `STATE`: a row
    with a `part` is a piece of a shard's state after window `done`. The number of `partitions` changes nothing. `rules` is the name of the
    topic of that kind.
    """
    spark = rows.sparkSession
    wanted = ["shard", *SCHEMA.names]
    markers = spark.range(shards).select(
        F.col("id").cast("int").alias("shard"), F.lit(MARKER).cast("long").alias("window_end")
    )
    table = (
        rows.select(*wanted)
        .unionByName(markers, allowMissingColumns=True)
        .repartition(partitions, "shard")
        .sortWithinPartitions("shard", "window_end", "series")
    )
    work = make_partition_function(BoundedRun(tuple(windows), parameters, version, shards, begin, rules))
    return table.mapInPandas(work, f"{OUTPUT_DDL}, {STATE}")


def make_partition_function(run: BoundedRun) -> Callable[[Iterable[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """The function that Spark applies to one partition: chunks of sorted rows -> rows of `OUTPUT_DDL` and `STATE`, shard by shard."""

    def work(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        current: ShardRun | None = None
        for shard, window_end, columns in group_by_window(frames):
            if current is None or current.shard != shard:
                if current is not None:
                    yield from current.finish()
                current = ShardRun(shard, run)
            if window_end != MARKER:
                yield from current.take(window_end, columns)
        if current is not None:
            yield from current.finish()

    return work


class ShardRun:
    """Steps the model of one shard over all windows; those without rows as well, for a series that is silent is scored too."""

    def __init__(self, shard: int, run: BoundedRun) -> None:
        self.shard, self._run = shard, run
        begun = run.begin(shard) if run.begin is not None else None
        self._done, parts = begun if begun is not None else (NO_WINDOW, {})
        self._detector = detect.load_detector(parts, run.parameters, shard)
        self._left = deque(w for w in run.windows if w > self._done)
        self._answers = WaitingAnswers()

    def take(self, window_end: int, columns: Columns) -> Iterator[pd.DataFrame]:
        """Step over the windows up to `window_end`, whose rows are `columns`; yields output when enough waits.

        Windows that the state has processed before are skipped. Raises ValueError for a window that is not of this run.
        """
        if window_end <= self._done:
            return
        while self._left and self._left[0] < window_end:
            self._step(self._left.popleft(), NO_WINDOWS)
        if not self._left or self._left[0] != window_end:
            msg = f"shard {self.shard}: rows of window {window_end}, which is none of the windows of this run"
            raise ValueError(msg)
        self._step(self._left.popleft(), to_windows(columns, np.arange(len(columns["n"]))))
        if self._answers.full:
            yield from map(with_all_columns, self._answers.take())

    def finish(self) -> Iterator[pd.DataFrame]:
        """Step over the windows that are left; yields their output, then the state."""
        while self._left:
            self._step(self._left.popleft(), NO_WINDOWS)
        yield from map(with_all_columns, self._answers.take())
        yield state_rows(self.shard, self._done, self._detector.dump())

    def _step(self, window_end: int, windows: Windows) -> None:
        run = self._run
        self._answers.add(
            detect.step_window(self._detector, self.shard, window_end, windows, run.version, run.shards, run.rules)
        )
        self._done = window_end


def state_rows(shard: int, done: int, parts: Mapping[str, bytes]) -> pd.DataFrame:
    """A shard's state as rows of `STATE`."""
    frame = pd.DataFrame({"shard": np.int32(shard), "part": list(parts), "bytes": list(parts.values())})
    return with_all_columns(frame.assign(done=done))


def with_all_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of `OUTPUT_DDL` and `STATE` that a table lacks, with nulls of a type that Arrow converts to the column's."""
    missing = {
        name: None if kind in ("string", "binary") else np.nan
        for name, kind in TYPES.items()
        if name not in frame.columns
    }
    return frame.assign(**missing)[COLUMNS]


def group_by_window(frames: Iterable[pd.DataFrame]) -> Iterator[tuple[int, int, Columns]]:
    """Group sorted chunks by shard and window: `(shard, window_end, rows)`. A group that spans chunks is concatenated."""
    pending: tuple[int, int, list[Columns]] | None = None
    for frame in frames:
        for shard, window_end, columns in split_by_window(frame):
            if pending is not None and pending[:2] == (shard, window_end):
                pending[2].append(columns)
                continue
            if pending is not None:
                yield pending[0], pending[1], concatenate(pending[2])
            pending = (shard, window_end, [columns])
    if pending is not None:
        yield pending[0], pending[1], concatenate(pending[2])


def split_by_window(frame: pd.DataFrame) -> Iterator[tuple[int, int, Columns]]:
    """Split a chunk where the shard or the window changes."""
    if not len(frame):
        return
    shard, window_end = frame["shard"].to_numpy(), frame["window_end"].to_numpy(dtype=np.int64)
    columns: Columns = {name: column_of(frame, name) for name in SCHEMA.names}
    cuts = np.flatnonzero((shard[1:] != shard[:-1]) | (window_end[1:] != window_end[:-1])) + 1
    edges = [0, *cuts.tolist(), len(frame)]
    for start, stop in itertools.pairwise(edges):
        part = {name: column[start:stop] for name, column in columns.items()}
        yield int(shard[start]), int(window_end[start]), part


def column_of(frame: pd.DataFrame, name: str) -> np.ndarray[Any, Any]:
    """A column with the type that the model takes. Rows that mark a shard (MARKER) have nulls where others have numbers."""
    if name in TEXTS:
        return frame[name].to_numpy(dtype=object)
    if name in (*NUMBERS, *PEERS):
        return frame[name].to_numpy(dtype=np.float64)
    return frame[name].fillna(0).to_numpy(dtype=np.int64)


def concatenate(parts: list[Columns]) -> Columns:
    """Concatenate tables, column by column."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in SCHEMA.names}
