"""Spark's own ways to keep a state for each series, with the least of models: a running normal distribution.

What they take is what Spark takes for a key: the model is three numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from app.core.settings import Settings
from pipelines.runner import Input, Job

ROW = "series string, window_end bigint, mean double"
SCORE = "series string, window_end bigint, score double"
STATE = "n bigint, mean double, m2 double"

Sums = tuple[int, float, float]
NOTHING: Sums = (0, 0.0, 0.0)


def scored(sums: Sums, rows: pd.DataFrame) -> tuple[Sums, pd.DataFrame]:
    """Scores of the rows of one series in order of time, in deviations, and what is known of it afterwards."""
    n, mean, m2 = sums
    found = []
    rows = rows.sort_values("window_end")
    for value in rows["mean"].tolist():
        found.append(abs(value - mean) / math.sqrt(m2 / n) if m2 else 0.0)
        n += 1
        step = value - mean
        mean += step / n
        m2 += step * (value - mean)
    return (n, mean, m2), rows[["series", "window_end"]].assign(score=found)


def with_group_state(key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A batch of one series, for `applyInPandasWithState`."""
    sums, answer = scored(state.get if state.exists else NOTHING, pd.concat(list(frames)))
    state.update(sums)
    yield answer


class SeriesProcessor(StatefulProcessor):
    """The same for `transformWithStateInPandas`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The state is one value."""
        self._state = handle.getValueState("sums", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """A batch of one series."""
        before: Any = self._state.get()
        sums, answer = scored(before or NOTHING, pd.concat(list(rows)))
        self._state.update(sums)
        yield answer


def apply_job(settings: Settings) -> Job:
    """statistics -> scores, a state for each series by `applyInPandasWithState`."""
    return job_of(
        settings,
        "apply",
        lambda rows: rows.groupBy("series").applyInPandasWithState(
            with_group_state, SCORE, STATE, "append", "NoTimeout"
        ),
    )


def transform_job(settings: Settings) -> Job:
    """The same by `transformWithStateInPandas`."""
    return job_of(
        settings,
        "transform",
        lambda rows: rows.groupBy("series").transformWithStateInPandas(SeriesProcessor(), SCORE, "Append", "None"),
    )


def job_of(settings: Settings, name: str, scores: Callable[[DataFrame], DataFrame]) -> Job:
    """A job from `statistics` to `scores` without watermark messages."""

    def transform(raw: DataFrame) -> DataFrame:
        rows = raw.select(F.from_json(F.col("value").cast("string"), ROW).alias("row")).select("row.*")
        answers = scores(rows.where(F.col("series").isNotNull()))
        return answers.select(
            F.lit(settings.topic("scores")).alias("topic"),
            F.col("series").cast("binary").alias("key"),
            F.to_json(F.struct("series", "window_end", "score")).cast("binary").alias("value"),
        )

    return Job(
        name=name,
        inputs=(Input((settings.topic("statistics"),)),),
        transform=transform,
        checkpoint=str(settings.home / "checkpoints" / name),
        max_records_per_batch=settings.spark.max_records_per_batch,
    )
