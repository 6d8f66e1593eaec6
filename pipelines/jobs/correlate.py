"""correlate: novelties -> incidents.

Reads episode events and watermark messages of `novelties`, buffers events until every shard of `detect` has closed their window, then steps the
correlator, window by window. There is one group with one state: episodes are rare, and those of one incident may be in any shards.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from models.core.series import FLEET
from models.core.state_format import check_format
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import (
    EPISODE_KINDS,
    STATUS_ORDER,
    EpisodeEvent,
    IncidentEvent,
    Watched,
    WatermarkMessage,
    total,
)
from models.records.schema import parsed, plain, shown
from pipelines import letters
from pipelines.errors import DeterminismViolation
from pipelines.failures import reading_state
from pipelines.series_columns import shard_of
from pipelines.windowing import TopicOfShards

FORMAT = 4
NO_WINDOW = -1

# A row is an incident event, or a `letter` about a record that was refused, or the `summary` of the batch, which is not written.
OUTPUT_DDL = "key string, value string, letter string, summary string"
OBSERVED = "incidents"
STAGE = "correlate"
ID = re.compile(r"[0-9a-f]{20}")
LARGEST = 1e100  # of a number that is believed: what detect writes is far below it, and sums of many are finite
AT_ONCE = 10_000  # records of a bounded run: of a small fleet it has millions of watermark messages, of 1 kB in memory
REFUSALS = (ValueError, AttributeError, TypeError, RecursionError)  # what `NoveltiesTopic.check` raises
STATE = "done long, model binary, waiting binary"

# The state to begin with, as `STATE` has it; None for a correlator that begins from scratch.
Begin = Callable[[], tuple[int, bytes, bytes] | None]


@dataclass(frozen=True)
class ValidRecord:
    """A record of `novelties` that passed `NoveltiesTopic.check`: its place, its shard, its JSON as `text`, and that parsed as `record`."""

    partition: int
    offset: int
    shard: int
    text: str
    record: EpisodeEvent | WatermarkMessage


class NoveltiesTopic(TopicOfShards):
    """Checks that records of the topic `novelties` are such as `detect` writes."""

    def check(self, row: Any) -> ValidRecord:
        """The record of a row of `as_one_group`. Raises one of `REFUSALS` for a record that `detect` cannot have written; its text says why."""
        value = row.value or b""
        if len(value) > letters.MOST_BYTES:
            msg = f"not a record that detect writes: it has {len(value)} bytes, wanted at most {letters.MOST_BYTES}"
            raise ValueError(msg)
        text = bytes(value).decode()
        found = parse_record(text)
        if isinstance(found, WatermarkMessage):
            shard, end = found.shard, found.watermark
            watched = found.watched
            own = watched is None or (watched.is_sound and 1000 * watched.window_seconds in (0, self.window_ms))
            if found.shards != self.shards or not own:
                msg = f"a watermark message of {found.shards} shards or of what nobody watches; wanted {self.shards} shards"
                raise ValueError(msg)
        else:
            shard, end = int(row.shard), found.window_end
            if row.series != found.series or not (0 <= found.start <= end) or not ID.fullmatch(found.id):
                msg = f"an episode event whose key, start or id is not its own: {shown(found.series)}"
                raise ValueError(msg)
        if end <= 0 or end % self.window_ms or end > row.timestamp + self.ahead_ms:
            msg = f"window {end} is not on the grid of {self.window_ms} ms, or ends more than {self.ahead_ms} ms after the append time"
            raise ValueError(msg)
        if not 0 <= shard < self.shards or shard % self.partitions != row.partition:
            msg = f"shard {shard} of {self.shards} does not live in partition {row.partition} of {self.partitions}"
            raise ValueError(msg)
        return ValidRecord(int(row.partition), int(row.offset), shard, text, found)

    def letter(self, row: Any, error: Exception) -> str:
        """The dead letter about a record that is refused."""
        source = {"topic": self.name, "partition": int(row.partition), "offset": int(row.offset)}
        reason = " ".join(str(error).split()) or type(error).__name__
        return letters.dead_letter_text(
            bytes(row.value or b""), **source, timestamp=int(row.timestamp), reason=reason, stage=STAGE
        )


def as_one_group(raw: DataFrame, shards: int) -> DataFrame:
    """Records of the topic `novelties`, as Kafka gives them, as one group: `everything` (0), and what `NoveltiesTopic.check` reads."""
    series = F.make_valid_utf8(F.col("key").cast("string"))
    return raw.select(
        F.lit(0).alias("everything"),
        "value",
        series.alias("series"),
        F.coalesce(shard_of_series(series, shards), F.lit(-1)).alias("shard"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
    )


def shard_of_series(series: Column, shards: int) -> Column:
    """The shard that writes the episodes of a series: that of its host; what is of the whole fleet names it, or else null."""
    of_host = shard_of(F.get(F.split(series, "/", 3), F.lit(1)), shards)
    named = F.regexp_extract(series, f"^{FLEET}/.* in shard ([0-9]+)$", 1).cast("int")
    return F.when(series.startswith(f"{FLEET}/"), named).otherwise(of_host)


def correlate(
    raw: DataFrame,
    parameters: CorrelationParameters,
    version: str,
    topics: Mapping[str, str],
    source: NoveltiesTopic,
    begin: Begin | None = None,
) -> DataFrame:
    """Incidents of a stream of `novelties`, and letters about what is none, as rows for Kafka: `topic, partition, key, value, headers`."""
    answers = (
        as_one_group(raw, source.shards)
        .groupBy("everything")
        .transformWithStateInPandas(
            CorrelateProcessor(parameters, version, source, begin), OUTPUT_DDL, outputMode="Append", timeMode="None"
        )
    )
    letter, dead_letters = F.col("letter"), topics["dead-letters"]
    is_letter = letter.isNotNull()
    observed = answers.observe(OBSERVED, F.max("summary").alias("summary"))
    written = observed.where(F.col("summary").isNull()).select(
        F.when(is_letter, F.lit(dead_letters)).otherwise(F.lit(topics["incidents"])).alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.col("key").cast("binary").alias("key"),
        F.when(is_letter, letters.value_column(letter)).otherwise(F.col("value").cast("binary")).alias("value"),
        F.when(is_letter, letters.headers_column(letter)).alias("headers"),
    )
    return letters.replace_oversized(written, dead_letters, STAGE)


class CorrelateProcessor(StatefulProcessor):
    """Keeps episode events until their window is complete, runs `Correlator.step` on each complete window, and saves its state.

    There is one key.
    """

    def __init__(
        self, parameters: CorrelationParameters, version: str, source: NoveltiesTopic, begin: Begin | None = None
    ) -> None:
        self._parameters = parameters
        self._version = version
        self._source = source
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
        """Buffer the valid records, step the correlator over the windows that they complete, and yield incident events and dead letters."""
        buffer, correlator = self._load()
        valid: list[ValidRecord] = []
        for frame in rows:
            refused: list[str] = []
            for row in frame.itertuples(index=False):
                source: Any = row
                try:
                    valid.append(self._source.check(source))
                except REFUSALS as error:
                    refused.append(self._source.letter(source, error))
            if refused:
                yield pd.DataFrame({"key": None, "value": None, "letter": refused, "summary": None})
        add_valid_records(buffer, sorted(valid, key=lambda one: (one.partition, one.offset)))
        before = buffer.done
        incidents = advance(buffer, correlator)
        self._state.update((buffer.done, correlator.dump(), buffer.dump()))
        if incidents:
            values = [incident_json(incident, self._version) for incident in incidents]
            keys = [incident.id for incident in incidents]
            yield pd.DataFrame({"key": keys, "value": values, "letter": None, "summary": None})
        text = summarize_batch(before, buffer.done, correlator, incidents)
        yield pd.DataFrame({"key": [None], "value": [None], "letter": [None], "summary": [text]})

    def close(self) -> None:
        """Nothing to let go."""

    def _load(self) -> tuple[EpisodeEventBuffer, Correlator]:
        found = self._state.get() if self._state.exists() else self._begin() if self._begin is not None else None
        with reading_state("correlate: the state"):
            return load_state(found, self._parameters)


def load_state(
    state: tuple[int, bytes, bytes] | None, parameters: CorrelationParameters
) -> tuple[EpisodeEventBuffer, Correlator]:
    """The buffer and the correlator of a state as `STATE` has it; new ones for None."""
    if state is None:
        return EpisodeEventBuffer(), Correlator(parameters)
    return EpisodeEventBuffer.load(bytes(state[2])), Correlator.load(bytes(state[1]), parameters)


def advance(buffer: EpisodeEventBuffer, correlator: Correlator) -> list[IncidentEvent]:
    """Step the correlator over every complete window; returns the incident events."""
    return [
        incident
        for window_end, complete, watched in buffer.take()
        for incident in correlator.step(window_end, complete, watched)
    ]


def summarize_batch(before: int, done: int, correlator: Correlator, incidents: Iterable[IncidentEvent]) -> str:
    """Summarize what a batch has published, as JSON for `/metrics`.

    `before` and `done` are the last complete windows before and after it. `oldest_window`: the first one with an event, else the
    last one; none where no window was completed. `events`: severity and status of each. `open`: incidents by severity.
    """
    ends = [one.window_end for one in incidents if one.window_end > before]
    found = {
        "oldest_window": min(ends, default=done) if done > before else None,
        "events": [(one.severity, one.status) for one in incidents],
        "open": correlator.open_by_severity,
    }
    return json.dumps(found)


def parse_record(value: str) -> EpisodeEvent | WatermarkMessage:
    """A record of `novelties` from its JSON. Raises ValueError for anything else, RecursionError for JSON that is too deep."""
    source = json.loads(value, parse_constant=refuse_constant, parse_float=parse_bounded)
    kind = source.get("record") if isinstance(source, dict) else None
    if kind == WatermarkMessage.KIND:
        return parsed(WatermarkMessage, source)
    if kind != EpisodeEvent.KIND or source.get("kind") not in EPISODE_KINDS:
        msg = f"not a record that detect writes: {shown(value)}"
        raise ValueError(msg)
    return EpisodeEvent.from_record(source)


def refuse_constant(text: str) -> float:
    """Raise ValueError: NaN and infinity are not numbers of JSON, and `detect` writes null for an unknown number."""
    msg = f"not a number of JSON: {text}"
    raise ValueError(msg)


def parse_bounded(text: str) -> float:
    """Parse a number of JSON. Raises ValueError for one beyond `LARGEST`."""
    found = float(text)
    return found if abs(found) <= LARGEST else refuse_constant(text)


def parse_event(value: str) -> EpisodeEvent:
    """An episode event from its JSON. Raises ValueError for anything else."""
    found = parse_record(value)
    if isinstance(found, WatermarkMessage):
        msg = f"a watermark message; wanted {EpisodeEvent.KIND!r}"
        raise ValueError(msg)
    return found


def incident_json(incident: IncidentEvent, version: str) -> str:
    """An incident event as the JSON that is written."""
    return json.dumps(incident.to_record(version), ensure_ascii=False, allow_nan=False)


@dataclass
class EpisodeEventBuffer:
    """Episode events of windows that some shard has not closed yet.

    Parameters
    ----------
    done
        The last window that `take` has returned, epoch milliseconds.
    shards
        Number of shards whose watermark messages close a window.
    latest
        The watermark of each shard.
    waiting
        The JSON of events by window, series, episode and status.
    watched
        What each shard watches, with the watermark from which on it does: oldest first, from the entry that holds at `done`.
    """

    done: int = NO_WINDOW
    shards: int = 1
    latest: dict[int, int] = field(default_factory=dict)
    waiting: dict[tuple[int, str, str, int], str] = field(default_factory=dict)
    watched: dict[int, list[tuple[int, Watched]]] = field(default_factory=dict)

    def add_watermark(self, shard: int, watermark: int, watched: Watched | None = None) -> None:
        """Note that a shard has no more events of windows up to `watermark`. A watermark no later than the last one is a repeat, and ignored."""
        if watermark <= self.latest.get(shard, NO_WINDOW):
            return
        self.latest[shard] = watermark
        known = self.watched.setdefault(shard, [])
        # Announced changes and calls are events of their window, even if they equal those of the window before.
        if watched is not None and (not known or known[-1][1] != watched or watched.changes or watched.topology):
            known.append((watermark, watched))

    def watched_at(self, window_end: int) -> Watched:
        """What all shards together watched in a window that every shard has closed."""
        counts = [(known, bisect_right(known, window_end, key=itemgetter(0))) for known in self.watched.values()]
        return total(known[at - 1][1] for known, at in counts if at)

    def cut(self, watermarks: Mapping[int, int], waiting: dict[tuple[int, str, str, int], str]) -> EpisodeEventBuffer:
        """A copy that stands at these watermarks of the shards, with the given events."""
        watched = {
            s: [w for w in known if w[0] <= watermarks[s]] for s, known in self.watched.items() if s in watermarks
        }
        return EpisodeEventBuffer(self.done, len(watermarks), dict(watermarks), waiting, watched)

    def add_event(self, value: str) -> None:
        """Add an event from its JSON unless it is a repeat. Raises DeterminismViolation for anything else: some window would lack an event."""
        try:
            found = parse_event(value)
        except (ValueError, AttributeError, TypeError) as error:
            msg = f"novelties: {value[:200]!r} is neither an episode event nor a watermark message ({error}); wanted what detect writes"
            raise DeterminismViolation(msg) from error
        if found.window_end > self.done:
            self.keep(found, value)

    def keep(self, found: EpisodeEvent, value: str) -> None:
        """Buffer an event until its window is complete. Of several with the same identity the first is kept."""
        self.waiting.setdefault((found.window_end, found.series, found.id, STATUS_ORDER[found.status]), value)

    @property
    def limit(self) -> int:
        """The last window that every shard has closed."""
        return min(self.latest.values()) if len(self.latest) >= self.shards else NO_WINDOW

    def take(self) -> Iterator[tuple[int, list[EpisodeEvent], Watched]]:
        """Remove and yield every complete window with events or announcements, oldest first, and the last complete one in any case.

        Yields its end, its events, and what was watched in it. The last one is yielded so that the correlator's time advances.
        """
        limit = self.limit
        if limit <= self.done:
            return
        complete: dict[int, list[EpisodeEvent]] = {end: [] for end in (*self._announced(limit), limit)}
        for key in sorted(k for k in self.waiting if k[0] <= limit):
            complete.setdefault(key[0], []).append(parse_event(self.waiting.pop(key)))
        for window_end in sorted(complete):
            self.done = window_end
            yield window_end, complete[window_end], self.watched_at(window_end)
        for shard, known in self.watched.items():
            counts = max((i for i, (watermark, _) in enumerate(known) if watermark <= limit), default=0)
            self.watched[shard] = known[counts:]

    def _announced(self, limit: int) -> list[int]:
        """The complete windows in which changes or calls were announced."""
        known = [one for own in self.watched.values() for one in own]
        return [end for end, what in known if self.done < end <= limit and (what.changes or what.topology)]

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
        """The inverse of `dump`. Raises OtherFormat for that of another release."""
        state = json.loads(data)
        check_format("buffer of episode events", state.get("format"), FORMAT)
        buffer = cls(state["done"], state["shards"], {shard: watermark for shard, watermark in state["latest"]})
        buffer.watched = {
            s: [(watermark, parsed(Watched, w)) for watermark, w in known] for s, known in state["watched"]
        }
        for value in state["waiting"]:
            buffer.add_event(value)
        return buffer


def add_valid_records(buffer: EpisodeEventBuffer, records: Iterable[ValidRecord]) -> None:
    """Add valid records to a buffer, in the order of the log.

    An event behind the watermark message of its window is a repeat, or not of `detect`, and is ignored, in the same batch or in a later one.
    """
    for one in records:
        if isinstance(one.record, WatermarkMessage):
            buffer.shards = one.record.shards or buffer.shards
            buffer.add_watermark(one.record.shard, one.record.watermark, one.record.watched)
        elif one.record.window_end > max(buffer.done, buffer.latest.get(one.shard, NO_WINDOW)):
            buffer.keep(one.record, one.text)


def correlate_values(
    buffer: EpisodeEventBuffer, correlator: Correlator, values: Iterable[str]
) -> Iterator[IncidentEvent]:
    """The incident events of a bounded run. `values` are the JSON that `detect` has returned, by window, watermark messages last.

    They are processed in chunks of `AT_ONCE` records, which bounds the memory.
    """
    records = iter(values)
    while chunk := list(islice(records, AT_ONCE)):
        add_values(buffer, chunk)
        yield from advance(buffer, correlator)


def add_values(buffer: EpisodeEventBuffer, values: Iterable[str]) -> None:
    """Add the JSON of episode events and watermark messages, just returned by `detect` and so not checked, to a buffer."""
    for value in values:
        message = WatermarkMessage.from_json(value)
        if message is None or message.shards is None:
            buffer.add_event(value)
        else:
            buffer.shards = message.shards
            buffer.add_watermark(message.shard, message.watermark, message.watched)
