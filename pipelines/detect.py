"""detect: statistics -> scores, novelties.

Reads rows and ticks of `statistics`, keeps rows until their tick, then gives each complete window to the model of its
shard, in order. The state of a shard is a handful of Arrow blobs: the waiting rows, and the parts of the model.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from math import isnan
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from models import series as names
from models.detector import Parameters, ShardDetector
from models.novelty import Novelty
from models.windows import Scores, Windows
from pipelines.ordering import NUMBERS, SCHEMA, TEXTS, WindowBuffer

RECORD = (
    "series string, window_end long, n long, mean double, m2 double, min double, max double, last double, "
    "template string, sample string, shard int, tick long, origin int, origins int"
)
ANSWER = (
    "shard int, series string, window_end long, score double, value double, typical double, lower double, "
    "upper double, kind string, statement string"
)
BUFFER = "buffer"

# Where a shard begins: the last window that it has taken, and the parts of its model; None for one that begins anew.
Begin = Callable[[int], tuple[int, Mapping[str, bytes]] | None]


def rows_and_ticks(raw: DataFrame) -> DataFrame:
    """Records of the topic `statistics`, as Kafka gives them, as columns."""
    return raw.select(F.from_json(F.col("value").cast("string"), RECORD).alias("r")).select("r.*")


def detect(raw: DataFrame, processor: DetectProcessor) -> DataFrame:
    """Scores and novelties of a stream of `statistics`: rows of `ANSWER`."""
    return (
        rows_and_ticks(raw)
        .groupBy("shard")
        .transformWithStateInPandas(processor, ANSWER, outputMode="Append", timeMode="None")
    )


def records(answers: DataFrame, topics: dict[str, str], partitions: int) -> DataFrame:
    """What is written: `topic, partition, key, value`. A row with a statement is one of `novelties`."""
    is_score = F.col("statement").isNull()
    score = F.struct("series", "window_end", "score", "value", "typical", "lower", "upper", "kind")
    return answers.select(
        F.when(is_score, F.lit(topics["scores"])).otherwise(F.lit(topics["novelties"])).alias("topic"),
        F.pmod("shard", F.lit(partitions)).cast("int").alias("partition"),
        F.col("series").cast("binary").alias("key"),
        value_of(is_score, score).alias("value"),
    )


def value_of(is_score: Column, score: Column) -> Column:
    return F.when(is_score, F.to_json(score)).otherwise(F.col("statement")).cast("binary")


class DetectProcessor(StatefulProcessor):
    """Converts, orders, calls the model, converts back. One key is one shard."""

    # Models that this worker has just used. The state after a window is a pure function of the log, so a model of the
    # same run that stands at the window which the state names is the model that the state holds.
    _warm: ClassVar[dict[tuple[str, int], tuple[int, ShardDetector]]] = {}

    def __init__(self, parameters: Parameters, version: str, shards: int, begin: Begin | None = None) -> None:
        self._parameters = parameters
        self._version = version
        self._shards = shards
        self._begin = begin
        self._run = uuid.uuid4().hex

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: parts by name."""
        self._parts = handle.getMapState("parts", "part string", "bytes binary")

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take what came for a shard, and answer for each window that it completes."""
        shard = int(key[0])
        saved = self._parts.getValue((BUFFER,)) if self._parts.exists() else None
        buffer = WindowBuffer.load(saved[0]) if saved else self._first_buffer(shard)
        before = buffer.done
        for frame in rows:
            take_in(buffer, frame)
        answers: list[pd.DataFrame] = []
        if buffer.limit > before:
            detector = self._detector(shard, before)
            for window_end, windows in buffer.take():
                answers += step(detector, shard, window_end, windows, self._version, self._shards)
            kept = self._parts.containsKey(("names",))
            for part, data in detector.dump(only_changed=kept).items():
                self._parts.updateValue((part,), (data,))
            self._warm[self._run, shard] = (buffer.done, detector)
        self._parts.updateValue((BUFFER,), (buffer.dump(),))
        if answers:
            yield pd.concat(answers, ignore_index=True)

    def close(self) -> None:
        """Nothing to let go."""

    def _first_buffer(self, shard: int) -> WindowBuffer:
        """The buffer of a shard without state: what a savepoint has taken is not taken again."""
        begun = self._begin(shard) if self._begin is not None else None
        return WindowBuffer() if begun is None else WindowBuffer(done=begun[0])

    def _detector(self, shard: int, done: int) -> ShardDetector:
        warm = self._warm.pop((self._run, shard), None)
        if warm is not None and warm[0] == done:
            return warm[1]
        parts = {key[0]: value[0] for key, value in self._parts.iterator() if key[0] != BUFFER}
        if not parts and self._begin is not None and (begun := self._begin(shard)) is not None:
            parts = dict(begun[1])
        return ShardDetector.load(parts, self._parameters) if parts else ShardDetector(self._parameters)


COLUMNS = [column.split()[0] for column in ANSWER.split(", ")]


def take_in(buffer: WindowBuffer, frame: pd.DataFrame) -> None:
    """Sort a chunk of input into rows and ticks."""
    is_tick = frame["tick"].notna().to_numpy()
    if is_tick.any():
        ticks = frame.loc[is_tick, ["tick", "origin", "origins"]].to_numpy(dtype=np.int64)
        buffer.add_ticks(ticks[:, 0], ticks[:, 1], int(ticks[:, 2].max()))
        frame = frame.loc[~is_tick]
    rows: dict[str, Any] = {name: frame[name].to_numpy(dtype=np.int64) for name in ("window_end", "n")}
    rows |= {name: frame[name].to_numpy(dtype=np.float64) for name in NUMBERS}
    rows |= {name: frame[name].to_numpy(dtype=object) for name in TEXTS}
    buffer.add_rows({name: rows[name] for name in SCHEMA.names})


def step(
    detector: ShardDetector, shard: int, window_end: int, windows: Windows, version: str, shards: int
) -> list[pd.DataFrame]:
    """Give a window to the model of its shard: frames with the columns of `ANSWER`."""
    scores, novelties = detector.step(window_end, windows)
    return [score_rows(shard, window_end, scores), statements(shard, window_end, novelties, version, shards)]


def statements(shard: int, window_end: int, novelties: list[Novelty], version: str, shards: int) -> pd.DataFrame:
    """Novelties as records, and the tick that says that the shard has spoken for this window."""
    tick = json.dumps({"tick": window_end, "shard": shard, "shards": shards})
    texts = [*(json.dumps(record(n, version), ensure_ascii=False) for n in novelties), tick]
    keys = [*(n.series for n in novelties), None]
    return pd.DataFrame({"shard": shard, "series": keys, "window_end": window_end, "statement": texts}).reindex(
        columns=COLUMNS
    )


def score_rows(shard: int, window_end: int, scores: Scores) -> pd.DataFrame:
    """Scores as rows of `ANSWER`."""
    return pd.DataFrame(
        {
            "shard": np.int32(shard),
            "series": scores.series,
            "window_end": window_end,
            "score": scores.score,
            "value": scores.value,
            "typical": scores.typical,
            "lower": scores.lower,
            "upper": scores.upper,
            "kind": scores.kind,
            "statement": None,
        }
    )


def record(novelty: Novelty, version: str) -> dict[str, Any]:
    """A novelty as it is written: its fields, whose they are, and an id that is the same on every run of any version."""
    episode = f"{novelty.series}|{novelty.start}"
    parts = names.parse(novelty.series)
    return {
        "id": hashlib.sha256(episode.encode()).hexdigest()[:20],
        "version": version,
        **{k: None if isinstance(v, float) and isnan(v) else v for k, v in asdict(novelty).items()},  # JSON has no NaN
        "host": parts.host,
        "service": parts.service,
        "metric": parts.metric,
        "level": parts.level,
    }
