"""correlate: novelties -> incidents.

Reads statements and ticks of `novelties`, keeps statements until every shard of `detect` has ticked their window, then
gives complete windows to the correlator, in order. All of it is one group with one state: novelties are rare, and what
belongs together may lie in any shard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from models.incidents.correlator import STATUS_ORDER, CorrelationParameters, Correlator, Incident, Statement
from models.records.watched import Watched, together
from pipelines.errors import DeterminismViolation

FORMAT = 2
BEGINNING = -1

RECORD = "id string, series string, status string, window_end long, tick long, shard int, shards int"
ANSWER = "key string, value string"
STATE = "done long, model binary, waiting binary"

# The state to begin with, as `STATE` has it; None for a correlator that begins anew.
Begin = Callable[[], tuple[int, bytes, bytes] | None]


def statements(raw: DataFrame) -> DataFrame:
    """Records of the topic `novelties`, as Kafka gives them: the columns that order them, and a statement's JSON.

    Answers `everything (0), tick, shard, shards, window_end, value`: `tick` is null on statements.
    """
    text = F.col("value").cast("string")
    parsed = raw.select(text.alias("value"), F.from_json(text, RECORD).alias("r"))
    return parsed.select(
        F.lit(0).alias("everything"),
        "r.tick",
        "r.shard",
        "r.shards",
        "r.window_end",
        "value",
    )


def correlate(
    raw: DataFrame, parameters: CorrelationParameters, version: str, topic: str, begin: Begin | None = None
) -> DataFrame:
    """Incidents of a stream of `novelties`, as rows for Kafka: `topic, key, value`."""
    answers = (
        statements(raw)
        .groupBy("everything")
        .transformWithStateInPandas(
            CorrelateProcessor(parameters, version, begin), ANSWER, outputMode="Append", timeMode="None"
        )
    )
    return answers.select(
        F.lit(topic).alias("topic"),
        F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
    )


class CorrelateProcessor(StatefulProcessor):
    """Converts, orders, calls the correlator, converts back. Its state is that of the one key that there is."""

    def __init__(self, parameters: CorrelationParameters, version: str, begin: Begin | None = None) -> None:
        self._parameters = parameters
        self._version = version
        self._begin = begin

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: the last complete window, the correlator after it, what waits for its window."""
        self._state = handle.getValueState("correlator", STATE)

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take in what came, and answer for each window that it completes."""
        buffer, correlator = self._load()
        take_in(buffer, rows)
        said = advance(buffer, correlator)
        self._state.update((buffer.done, correlator.dump(), buffer.dump()))
        if said:
            yield pd.DataFrame({"key": [i.id for i in said], "value": [value_of(i, self._version) for i in said]})

    def close(self) -> None:
        """Nothing to let go."""

    def _load(self) -> tuple[StatementBuffer, Correlator]:
        found = self._state.get() if self._state.exists() else self._begin() if self._begin is not None else None
        return loaded(found, self._parameters)


def loaded(
    state: tuple[int, bytes, bytes] | None, parameters: CorrelationParameters
) -> tuple[StatementBuffer, Correlator]:
    """The buffer and the correlator of a state as `STATE` has it; new ones for None."""
    if state is None:
        return StatementBuffer(), Correlator(parameters)
    return StatementBuffer.load(bytes(state[2])), Correlator.load(bytes(state[1]), parameters)


def advance(buffer: StatementBuffer, correlator: Correlator) -> list[Incident]:
    """Give the correlator every window that is complete; what it says."""
    return [
        incident
        for window_end, complete, watched in buffer.take()
        for incident in correlator.step(window_end, complete, watched)
    ]


def value_of(incident: Incident, version: str) -> str:
    """An incident as it is written."""
    return json.dumps({"version": version, **incident.record()}, ensure_ascii=False, allow_nan=False)


@dataclass
class StatementBuffer:
    """Statements whose window some shard has not ticked yet.

    `done` is the last window that was handed on, epoch milliseconds; `latest` each shard's last tick; `waiting` the
    JSON of statements by window, series, episode and status; `watched` what each shard has said that it watches, with the
    tick at which it first said so: oldest first, from the last one that counts at `done`.
    """

    done: int = BEGINNING
    shards: int = 1
    latest: dict[int, int] = field(default_factory=dict)
    waiting: dict[tuple[int, str, str, int], str] = field(default_factory=dict)
    watched: dict[int, list[tuple[int, Watched]]] = field(default_factory=dict)

    def add_watermark(self, shard: int, watermark: int, watched: Watched | None = None) -> None:
        """Learn that nothing with an end up to `tick` will follow for a shard. What is no later than the last is a repeat."""
        if watermark <= self.latest.get(shard, BEGINNING):
            return
        self.latest[shard] = watermark
        told = self.watched.setdefault(shard, [])
        if watched is not None and (not told or told[-1][1] != watched):
            told.append((watermark, watched))

    def watched_at(self, window_end: int) -> Watched:
        """What was watched in a window that every shard has ticked."""
        found = [[watched for watermark, watched in told if watermark <= window_end] for told in self.watched.values()]
        return together(told[-1] for told in found if told)

    def heard_until(
        self, watermarks: Mapping[int, int], waiting: dict[tuple[int, str, str, int], str]
    ) -> StatementBuffer:
        """A buffer that has heard each shard up to its tick, and of statements those that are given."""
        watched = {s: [w for w in told if w[0] <= watermarks[s]] for s, told in self.watched.items() if s in watermarks}
        return StatementBuffer(self.done, len(watermarks), dict(watermarks), waiting, watched)

    def add_statement(self, value: str) -> None:
        """Keep a statement that is no repeat. Raises DeterminismViolation for a record that is none: some window would lack it."""
        try:
            found = Statement.of(json.loads(value))
        except (ValueError, AttributeError, TypeError) as error:
            msg = f"novelties: {value[:200]!r} is neither a statement nor a tick ({error}); wanted what detect writes"
            raise DeterminismViolation(msg) from error
        if found.window_end > self.done:
            self.waiting[found.window_end, found.series, found.id, STATUS_ORDER[found.status]] = value

    @property
    def limit(self) -> int:
        """The last window that every shard has ticked."""
        return min(self.latest.values()) if len(self.latest) >= self.shards else BEGINNING

    def take(self) -> Iterator[tuple[int, list[Statement], Watched]]:
        """Hand on every complete window that has statements, oldest first, and the last one, so that time goes on.

        With each comes what was watched in it.
        """
        limit = self.limit
        if limit <= self.done:
            return
        complete: dict[int, list[Statement]] = {limit: []}
        for key in sorted(k for k in self.waiting if k[0] <= limit):
            complete.setdefault(key[0], []).append(Statement.of(json.loads(self.waiting.pop(key))))
        for window_end in sorted(complete):
            self.done = window_end
            yield window_end, complete[window_end], self.watched_at(window_end)
        for shard, told in self.watched.items():
            counts = max((i for i, (watermark, _) in enumerate(told) if watermark <= limit), default=0)
            self.watched[shard] = told[counts:]

    def dump(self) -> bytes:
        """Canonical bytes, with the format's version."""
        state = {
            "format": FORMAT,
            "done": self.done,
            "shards": self.shards,
            "latest": sorted(self.latest.items()),
            "waiting": [self.waiting[key] for key in sorted(self.waiting)],
            "watched": [
                [s, [[watermark, w.record()] for watermark, w in told]]
                for s, told in sorted(self.watched.items())
                if told
            ],
        }
        return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def load(cls, data: bytes) -> StatementBuffer:
        """The inverse of `dump`. Raises ValueError for another format."""
        state = json.loads(data)
        if state.get("format") != FORMAT:
            msg = f"buffer of statements has format {state.get('format')!r}; wanted {FORMAT}"
            raise ValueError(msg)
        buffer = cls(state["done"], state["shards"], {shard: watermark for shard, watermark in state["latest"]})
        buffer.watched = {s: [(watermark, Watched(**w)) for watermark, w in told] for s, told in state["watched"]}
        for value in state["waiting"]:
            buffer.add_statement(value)
        return buffer


def watched_in(watermark: str | None) -> Watched | None:
    """What a tick says that its shard watches; None where it does not say."""
    found = json.loads(watermark).get("watched") if watermark else None
    return None if found is None else Watched(**found)


def take_in(buffer: StatementBuffer, frames: Iterable[pd.DataFrame]) -> None:
    """Sort a batch of input, in chunks, into ticks and statements.

    Between batches the ticks of a shard are in order, within one they need not be.
    """
    watermarks: list[tuple[int, int, str | None]] = []
    for frame in frames:
        is_watermark = frame["tick"].notna()
        found = frame.loc[is_watermark]
        if len(found):
            buffer.shards = int(found["shards"].max())
            shards, ends = found["shard"].astype(int).tolist(), found["tick"].astype(int).tolist()
            watermarks += zip(shards, ends, found["value"].tolist(), strict=True)
        for value in frame.loc[~is_watermark, "value"]:
            buffer.add_statement(value or "")
    for shard, watermark, text in sorted(watermarks, key=lambda found: found[:2]):
        buffer.add_watermark(shard, watermark, watched_in(text))
