"""correlate: novelties -> incidents.

Reads episode events and watermark messages of `novelties`, keeps events until every shard of `detect` has closed their
window, then gives complete windows to the correlator, in order. All of it is one group with one state: episodes are rare,
and those that belong together may lie in any shard.
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

from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import STATUS_ORDER, EpisodeEvent, IncidentEvent, Watched, WatermarkMessage, total
from models.records.schema import plain
from pipelines.errors import DeterminismViolation

FORMAT = 3
BEGINNING = -1

OUTPUT_DDL = "key string, value string"
STATE = "done long, model binary, waiting binary"

# The state to begin with, as `STATE` has it; None for a correlator that begins from scratch.
Begin = Callable[[], tuple[int, bytes, bytes] | None]


def one_group(raw: DataFrame) -> DataFrame:
    """Records of the topic `novelties`, as Kafka gives them, as one group: `everything (0), value` (text)."""
    return raw.select(F.lit(0).alias("everything"), F.col("value").cast("string").alias("value"))


def correlate(
    raw: DataFrame, parameters: CorrelationParameters, version: str, topic: str, begin: Begin | None = None
) -> DataFrame:
    """Incidents of a stream of `novelties`, as rows for Kafka: `topic, key, value`."""
    answers = (
        one_group(raw)
        .groupBy("everything")
        .transformWithStateInPandas(
            CorrelateProcessor(parameters, version, begin), OUTPUT_DDL, outputMode="Append", timeMode="None"
        )
    )
    return answers.select(
        F.lit(topic).alias("topic"),
        F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
    )


class CorrelateProcessor(StatefulProcessor):
    """Keeps episode events until their window is complete, runs `Correlator.step` on each complete window, and saves its state.

    There is one key.
    """

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
        add_records(buffer, rows)
        incidents = advance(buffer, correlator)
        self._state.update((buffer.done, correlator.dump(), buffer.dump()))
        if incidents:
            values = [value_of(incident, self._version) for incident in incidents]
            yield pd.DataFrame({"key": [incident.id for incident in incidents], "value": values})

    def close(self) -> None:
        """Nothing to let go."""

    def _load(self) -> tuple[EpisodeEventBuffer, Correlator]:
        found = self._state.get() if self._state.exists() else self._begin() if self._begin is not None else None
        return loaded(found, self._parameters)


def loaded(
    state: tuple[int, bytes, bytes] | None, parameters: CorrelationParameters
) -> tuple[EpisodeEventBuffer, Correlator]:
    """The buffer and the correlator of a state as `STATE` has it; new ones for None."""
    if state is None:
        return EpisodeEventBuffer(), Correlator(parameters)
    return EpisodeEventBuffer.load(bytes(state[2])), Correlator.load(bytes(state[1]), parameters)


def advance(buffer: EpisodeEventBuffer, correlator: Correlator) -> list[IncidentEvent]:
    """Give the correlator every window that is complete; the incident events that it answers."""
    return [
        incident
        for window_end, complete, watched in buffer.take()
        for incident in correlator.step(window_end, complete, watched)
    ]


def event_of(value: str) -> EpisodeEvent:
    """An episode event from its JSON. Raises ValueError or AttributeError for anything else."""
    source = json.loads(value)
    if source.get("record") != EpisodeEvent.KIND:
        msg = f"record is {source.get('record')!r}; wanted {EpisodeEvent.KIND!r}"
        raise ValueError(msg)
    return EpisodeEvent.from_record(source)


def value_of(incident: IncidentEvent, version: str) -> str:
    """An incident as it is written."""
    return json.dumps(incident.to_record(version), ensure_ascii=False, allow_nan=False)


@dataclass
class EpisodeEventBuffer:
    """Episode events whose window some shard has not closed yet.

    `done` is the last window that was handed on, epoch milliseconds; `latest` each shard's watermark; `waiting` the JSON of
    events by window, series, episode and status; `watched` how much each shard watches, with the watermark from which on it
    does: oldest first, from the last one that counts at `done`.
    """

    done: int = BEGINNING
    shards: int = 1
    latest: dict[int, int] = field(default_factory=dict)
    waiting: dict[tuple[int, str, str, int], str] = field(default_factory=dict)
    watched: dict[int, list[tuple[int, Watched]]] = field(default_factory=dict)

    def add_watermark(self, shard: int, watermark: int, watched: Watched | None = None) -> None:
        """Learn that nothing with an end up to `watermark` will follow for a shard. What is no later than the last is a repeat."""
        if watermark <= self.latest.get(shard, BEGINNING):
            return
        self.latest[shard] = watermark
        known = self.watched.setdefault(shard, [])
        if watched is not None and (not known or known[-1][1] != watched):
            known.append((watermark, watched))

    def watched_at(self, window_end: int) -> Watched:
        """How much was watched in a window that every shard has closed."""
        found = [[one for watermark, one in known if watermark <= window_end] for known in self.watched.values()]
        return total(known[-1] for known in found if known)

    def cut(self, watermarks: Mapping[int, int], waiting: dict[tuple[int, str, str, int], str]) -> EpisodeEventBuffer:
        """A buffer that knows of each shard up to a watermark, with the given events."""
        watched = {
            s: [w for w in known if w[0] <= watermarks[s]] for s, known in self.watched.items() if s in watermarks
        }
        return EpisodeEventBuffer(self.done, len(watermarks), dict(watermarks), waiting, watched)

    def add_event(self, value: str) -> None:
        """Keep an event that is no repeat. Raises DeterminismViolation for a record that is none: some window would lack it."""
        try:
            found = event_of(value)
        except (ValueError, AttributeError, TypeError) as error:
            msg = f"novelties: {value[:200]!r} is neither an episode event nor a watermark message ({error}); wanted what detect writes"
            raise DeterminismViolation(msg) from error
        if found.window_end > self.done:
            self.waiting[found.window_end, found.series, found.id, STATUS_ORDER[found.status]] = value

    @property
    def limit(self) -> int:
        """The last window that every shard has closed."""
        return min(self.latest.values()) if len(self.latest) >= self.shards else BEGINNING

    def take(self) -> Iterator[tuple[int, list[EpisodeEvent], Watched]]:
        """Hand on every complete window that has events, oldest first, and the last one, so that time goes on.

        With each comes how much was watched in it.
        """
        limit = self.limit
        if limit <= self.done:
            return
        complete: dict[int, list[EpisodeEvent]] = {limit: []}
        for key in sorted(k for k in self.waiting if k[0] <= limit):
            complete.setdefault(key[0], []).append(event_of(self.waiting.pop(key)))
        for window_end in sorted(complete):
            self.done = window_end
            yield window_end, complete[window_end], self.watched_at(window_end)
        for shard, known in self.watched.items():
            counts = max((i for i, (watermark, _) in enumerate(known) if watermark <= limit), default=0)
            self.watched[shard] = known[counts:]

    def dump(self) -> bytes:
        """Canonical bytes, with the format's version."""
        state = {
            "format": FORMAT,
            "done": self.done,
            "shards": self.shards,
            "latest": sorted(self.latest.items()),
            "waiting": [self.waiting[key] for key in sorted(self.waiting)],
            "watched": [
                [s, [[watermark, plain(w)] for watermark, w in known]]
                for s, known in sorted(self.watched.items())
                if known
            ],
        }
        return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def load(cls, data: bytes) -> EpisodeEventBuffer:
        """The inverse of `dump`. Raises ValueError for another format."""
        state = json.loads(data)
        if state.get("format") != FORMAT:
            msg = f"buffer of episode events has format {state.get('format')!r}; wanted {FORMAT}"
            raise ValueError(msg)
        buffer = cls(state["done"], state["shards"], {shard: watermark for shard, watermark in state["latest"]})
        buffer.watched = {s: [(watermark, Watched(**w)) for watermark, w in known] for s, known in state["watched"]}
        for value in state["waiting"]:
            buffer.add_event(value)
        return buffer


def add_records(buffer: EpisodeEventBuffer, frames: Iterable[pd.DataFrame]) -> None:
    """Sort a batch of input, in chunks, into watermarks and episode events.

    Between batches the watermarks of a shard are in order, within one they need not be.
    """
    messages: list[WatermarkMessage] = []
    for frame in frames:
        for value in frame["value"]:
            message = WatermarkMessage.from_json(value)
            if message is None or message.shards is None:
                buffer.add_event(value or "")
            else:
                messages.append(message)
    if messages:
        buffer.shards = max(message.shards for message in messages if message.shards is not None)
    for message in sorted(messages, key=lambda found: (found.shard, found.watermark)):
        buffer.add_watermark(message.shard, message.watermark, message.watched)
