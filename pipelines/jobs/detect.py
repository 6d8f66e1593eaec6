"""detect: statistics -> scores, novelties, and bounds where early alarms are on.

Reads rows and watermark messages of `statistics`, buffers rows until their window is complete, then steps the model of their shard, window by
window. The state of a shard is a handful of Arrow blobs: the waiting rows, the last snapshot of the model, and a journal of the windows since.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as json_format
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from models.core.parameters import DetectorParameters
from models.core.windows import Scores, Windows
from models.detection.alarm_bounds import EarlyParameters
from models.detection.detector import ShardDetector
from models.detection.limits import KINDS
from models.detection.logged_rules import RefusedRule
from models.records.records import PEERS, Bound, EpisodeEvent, Overflow, RefusedRecord, Score, WatermarkMessage
from models.records.schema import arrow_schema, fields_of, plain, spark_type
from pipelines import letters
from pipelines.failures import reading_state
from pipelines.jvm import REFUSED, pack_by_shard
from pipelines.spark_internals import own_workers
from pipelines.state.shard_journal import ShardJournal, check_end, restore_model
from pipelines.state.state_packing import BUFFER
from pipelines.state.window_buffer import COUNTS, NUMBERS, SCHEMA, Columns, WindowBuffer
from pipelines.windowing import TopicOfShards

SCORE = [name for name in fields_of(Score) if name != "record"]
# A row is a score; an `event`, the JSON of an episode event, watermark message, overflow or bound; or a `letter` about a refused record.
SCORE_TYPES = {name: spark_type(fields_of(Score)[name].type) for name in SCORE}
TYPES = {"shard": "int", **SCORE_TYPES, "event": "string", "letter": "string"}
COLUMNS = list(TYPES)
OUTPUT_DDL = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())

OBSERVED = "limits"  # the name of the observed metrics of a batch
RULES = "rules"
ANSWERS_AT_ONCE = 20_000  # rows: a table for each window would cost more than the models do, one of all takes memory
# How the JSON of these records begins.
WATERMARK = f'{{"record": "{WatermarkMessage.KIND}"'
OVERFLOW = f'{{"record": "{Overflow.KIND}"'
BOUND = f'{{"record": "{Bound.KIND}"'
METRICS = b"\x01"  # how rows of metrics in columns begin; no line of JSON does

# Where a shard begins: the last window that it has taken, and the parts of its model; None for one that begins from scratch.
Begin = Callable[[int], tuple[int, Mapping[str, bytes]] | None]


def detect(raw: DataFrame, processor: DetectProcessor, topic: TopicOfShards) -> DataFrame:
    """Scores, novelties and letters of a stream of `statistics`, as Kafka gives it: rows of `OUTPUT_DDL`."""
    shards = pack_by_shard(raw, topic).groupBy("shard")
    with own_workers(raw.sparkSession, "detect"):
        return shards.transformWithStateInPandas(processor, OUTPUT_DDL, outputMode="Append", timeMode="None")


def output_records(answers: DataFrame, topics: dict[str, str], partitions: int) -> DataFrame:
    """Records for Kafka from rows of `OUTPUT_DDL`: `topic, partition, key, value, headers`.

    A row with an `event` goes to `novelties` or `bounds`, or is an overflow, which is a dead letter.
    """
    refused, letter, is_event = F.col("letter").isNotNull(), F.col("letter"), F.col("event").isNotNull()
    texts = [name for name, kind in SCORE_TYPES.items() if kind == "string"]
    columns = (F.col(name).cast("binary") if name in texts else F.col(name) for name in SCORE)
    score = F.call_function("kappa_score_text", *columns)
    topic = F.when(refused | is_overflow(), F.lit(topics["dead-letters"]))
    topic = topic.when(F.col("event").startswith(BOUND), F.lit(topics["bounds"]))
    topic = topic.when(is_event, F.lit(topics["novelties"]))
    value = F.when(refused, letters.value_column(letter)).when(is_event, F.col("event").cast("binary")).otherwise(score)
    about = F.when(refused, letters.headers_column(letter)).when(is_overflow(), overflow_headers(topics, partitions))
    written = answers.select(
        topic.otherwise(F.lit(topics["scores"])).alias("topic"),
        F.when(~refused, F.pmod("shard", F.lit(partitions)).cast("int")).alias("partition"),
        F.col("series").cast("binary").alias("key"),
        value.alias("value"),
        about.alias("headers"),
    )
    return letters.replace_oversized(written, topics["dead-letters"], "detect")


def observe_progress(answers: DataFrame) -> DataFrame:
    """The same rows, with observed metrics of the batch: its oldest window, the number of series, what each limit has left out."""
    number = F.get_json_object("event", "$.left_out").cast("long")
    watched = F.when(F.col("event").startswith(WATERMARK), F.get_json_object("event", "$.watched.series").cast("long"))
    shards = F.when(watched.isNotNull(), F.get_json_object("event", "$.shards").cast("long"))
    limit = F.get_json_object("event", "$.limit")
    left_out = (F.sum(F.when(is_overflow() & (limit == kind), number)).alias(kind) for kind in KINDS)
    oldest = F.min(F.when(F.col("event").startswith(WATERMARK), F.col("window_end"))).alias("oldest_window")
    return answers.observe(OBSERVED, (F.avg(watched) * F.max(shards)).alias("series"), oldest, *left_out)


def is_overflow() -> Column:
    """Whether a row of `OUTPUT_DDL` says what a limit has left out."""
    return F.col("event").startswith(OVERFLOW)


def overflow_headers(topics: dict[str, str], partitions: int) -> Column:
    """Headers of the dead letter about an overflow. It has no offset, because it is about many rows of `statistics`."""
    fields = {
        "record": F.lit(RefusedRecord.KIND),
        "topic": F.lit(topics["statistics"]),
        "partition": F.pmod("shard", F.lit(partitions)),
        "offset": F.lit("None"),
        "timestamp": F.col("window_end"),
        "reason": F.get_json_object("event", "$.reason"),
        "stage": F.lit("detect"),
        "length": F.octet_length("event"),
        "sha256": F.sha2(F.col("event").cast("binary"), 256),
    }
    return letters.header_array(fields)


class DetectProcessor(StatefulProcessor):
    """Keeps a shard's rows until their window is complete, runs `ShardDetector.step` on each complete window, and saves its state.

    One key is one shard.
    """

    # Models that this worker has just used. The state after a window is a pure function of the log, so a model of the
    # same run that stands at the window which the state names is the model that the state holds.
    _warm: ClassVar[dict[tuple[str, int], tuple[int, ShardDetector]]] = {}

    def __init__(
        self,
        parameters: DetectorParameters,
        version: str,
        shards: int,
        begin: Begin | None = None,
        rules: str = RULES,
        early: EarlyParameters | None = None,
    ) -> None:
        """`begin` says where shards without a state begin, `rules` is the name of that topic, and with `early` bounds are published as well."""
        self._parameters = parameters
        self._version = version
        self._shards = shards
        self._begin = begin
        self._rules = rules
        self._early = early
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
        """Buffer the rows of a shard, and yield the output of each window that they complete."""
        shard = int(key[0])
        if shard == REFUSED:
            for frame in rows:
                yield pd.DataFrame(letter_rows([value.decode() for value in frame["value"]]))
            return
        saved = self._parts.getValue((BUFFER,))
        with reading_state(f"detect: the state of shard {shard}"):
            buffer = WindowBuffer.load(saved[0]) if saved else self._first_buffer(shard)
        before = buffer.done
        for frame in rows:
            add_records(buffer, frame["value"].tolist())
        if buffer.limit > before:
            detector, kept = self._detector(shard, before)
            answers, journal = WaitingAnswers(), ShardJournal(detector, shard)
            for window_end, windows in buffer.take():
                journal.add(window_end, windows)
                answers.add(step_window(detector, shard, window_end, windows, self._version, self._shards, self._rules))
                if answers.full:
                    yield from answers.take()
            yield from answers.take()
            for part, data in journal.changes(kept).items():
                self._parts.updateValue((part,), (data,))
            for other in [key for key in self._warm if key[0] != self._run]:  # of a version that ran here before
                del self._warm[other]
            self._warm[self._run, shard] = (buffer.done, detector)
        self._parts.updateValue((BUFFER,), (buffer.dump(),))

    def close(self) -> None:
        """Nothing to let go."""

    def _first_buffer(self, shard: int) -> WindowBuffer:
        """The buffer of a shard without state, which ignores windows that the savepoint it begins from has processed."""
        begun = self._begin(shard) if self._begin is not None else None
        return WindowBuffer() if begun is None else WindowBuffer(done=begun[0])

    def _detector(self, shard: int, done: int) -> tuple[ShardDetector, bool]:
        """The model of a shard after a window, and whether the state has a snapshot of it."""
        warm = self._warm.pop((self._run, shard), None)
        if warm is not None and warm[0] == done:
            return warm[1], True
        stored = {key[0]: value[0] for key, value in self._parts.iterator()}
        with reading_state(f"detect: the state of shard {shard}"):
            detector = restore_model(stored, done, self._parameters, shard, self._early)
        if detector is not None:
            return detector, True
        begun = self._begin(shard) if self._begin is not None else None
        detector = load_detector({} if begun is None else begun[1], self._parameters, shard, self._early)
        check_end(detector, done, shard)
        return detector, False


def load_detector(
    parts: Mapping[str, bytes], parameters: DetectorParameters, shard: int, early: EarlyParameters | None = None
) -> ShardDetector:
    """The model of a shard from all parts of a dump; without any, a new one."""
    if not parts:
        return ShardDetector(parameters, shard=shard, early=early)
    return ShardDetector.load(parts, parameters, shard, early)


# The columns that are read of rows and watermark messages.
INPUT_SCHEMA = pa.unify_schemas(
    [
        arrow_schema(WatermarkMessage, ("record", "watermark")),
        SCHEMA,
    ]
)
PARSING = json_format.ParseOptions(explicit_schema=INPUT_SCHEMA, unexpected_field_behavior="ignore")


def add_records(buffer: WindowBuffer, values: Sequence[bytes]) -> None:
    """Add values of `ShardPacker` to a buffer: metrics in columns, and other records as lines of JSON."""
    metrics = [decode_metric_columns(value) for value in values if value[:1] == METRICS]
    if metrics:
        buffer.add_rows(concatenate(metrics, SCHEMA.names))
    add_json_lines(buffer, [value for value in values if value[:1] != METRICS])


def decode_metric_columns(value: bytes) -> Columns:
    """Decode rows of metrics from the columns that `pipelines/jvm/MetricColumns.java` writes."""
    n = int(np.frombuffer(value, "<i4", 1, 4)[0])
    at = 8 + 8 * n * np.arange(len(COUNTS) + len(NUMBERS) + len(PEERS) + 1)
    kinds = {name: "<i8" if name in COUNTS else "<f8" for name in (*COUNTS, *NUMBERS, *PEERS)}
    found = {name: np.frombuffer(value, kind, n, place) for (name, kind), place in zip(kinds.items(), at, strict=False)}
    begins, texts = pa.py_buffer(value).slice(at[-1], 4 * n + 4), pa.py_buffer(value).slice(at[-1] + 4 * n + 4)
    series = pa.StringArray.from_buffers(n, begins, texts).to_numpy(zero_copy_only=False)
    nothing = np.full(n, None, dtype=object)
    return found | {"series": series, "template": nothing, "sample": nothing}


def add_json_lines(buffer: WindowBuffer, values: Sequence[bytes]) -> None:
    """Add records in JSON, one or more lines a value, to a buffer: rows, and watermark messages."""
    if len(values) == 0:
        return
    text = pa.py_buffer(b"\n".join(values))
    # One block, because a record must not be cut in two; one thread, because Spark has given us one core.
    reading = json_format.ReadOptions(use_threads=False, block_size=max(text.size, 1 << 20))
    table = json_format.read_json(pa.BufferReader(text), reading, PARSING)
    is_watermark = pc.fill_null(pc.equal(table["record"], WatermarkMessage.KIND), False)
    watermarks = table.filter(is_watermark)
    if len(watermarks):
        buffer.add_watermarks(watermarks["watermark"].to_numpy())
        table = table.filter(pc.invert(is_watermark))
    buffer.add_rows({name: table[name].to_numpy() for name in SCHEMA.names})


def step_window(
    detector: ShardDetector,
    shard: int,
    window_end: int,
    windows: Windows,
    version: str,
    shards: int,
    rules: str = RULES,
) -> list[Columns]:
    """Step a detector over one window; returns tables with the columns of `OUTPUT_DDL`.

    In this order: scores, dead letters about rules, episode events with the watermark message, and bounds. `rules` is the name of that topic.
    """
    scores, novelties = detector.step(window_end, windows)
    watermark = WatermarkMessage(watermark=window_end, shard=shard, shards=shards, watched=detector.watched)
    events = event_rows(novelties, watermark, version, detector.overflow)
    refused = detector.refused_rules if shard == 0 else []  # all shards read the same rules
    about = [letter_rows([rule_letter(one, rules) for one in refused])] if refused else []
    bounds = [bound_rows(shard, window_end, detector.bounds)] if detector.bounds else []
    scored = [score_rows(shard, window_end, scores)] if len(scores.series) else []
    return [*scored, *about, events, *bounds]


def bound_rows(shard: int, window_end: int, bounds: Sequence[Bound]) -> Columns:
    """Bounds as rows of `OUTPUT_DDL`."""
    texts = np.array([json.dumps(plain(one), ensure_ascii=False) for one in bounds], dtype=object)
    names = np.array([one.series for one in bounds], dtype=object)
    return answer_rows(len(texts), shard, window_end, series=names, event=texts)


def rule_letter(refused: RefusedRule, topic: str) -> str:
    """A dead letter about a refused rule; its timestamp is the beginning of the window in which the rule was appended."""
    source = {"topic": topic, "partition": 0, "offset": refused.offset, "timestamp": refused.since}
    return letters.dead_letter_text(refused.text.encode(), **source, reason=refused.reason, stage="detect")


class WaitingAnswers:
    """Output of several windows that is returned to Spark as one table: a table for each window would take longer than the models do."""

    def __init__(self) -> None:
        self._rows = 0
        self._tables: list[Columns] = []

    def add(self, tables: list[Columns]) -> None:
        """Add the output of a window, tables with the columns of `OUTPUT_DDL`."""
        self._tables += tables
        self._rows += sum(len(table["shard"]) for table in tables)

    @property
    def full(self) -> bool:
        """Whether ANSWERS_AT_ONCE rows or more wait."""
        return self._rows >= ANSWERS_AT_ONCE

    def take(self) -> Iterator[pd.DataFrame]:
        """Yield all that was added since the last call as one table; nothing if that is nothing."""
        tables, self._tables, self._rows = self._tables, [], 0
        if tables:
            yield pd.DataFrame(concatenate(tables))


def concatenate(tables: list[Columns], names: Sequence[str] = COLUMNS) -> Columns:
    """Concatenate tables, column by column: `pandas.concat` inspects every element of a column that is empty in one of them."""
    return {name: np.concatenate([columns[name] for columns in tables]) for name in names}


def answer_rows(n: int, shard: int, window_end: int, **columns: Any) -> Columns:
    """`n` rows of `OUTPUT_DDL` with the given columns; the others are missing values."""
    columns["shard"] = np.full(n, shard, dtype=np.int32)
    columns["window_end"] = np.full(n, window_end, dtype=np.int64)
    return {name: columns[name] if name in columns else missing_column(name, n) for name in COLUMNS}


def missing_column(name: str, n: int) -> Any:
    """A column of `OUTPUT_DDL` of missing values."""
    return np.full(n, np.nan) if TYPES[name] == "double" else np.full(n, None, dtype=object)


def event_rows(
    events: list[EpisodeEvent], watermark: WatermarkMessage, version: str, overflow: Sequence[Overflow] = ()
) -> Columns:
    """Episode events and overflow of a window as rows of `OUTPUT_DDL`, then the watermark message which ends the window of the shard."""
    left_out = [plain(one) | {"reason": one.reason} for one in overflow]
    found = [*(event.to_record(version) for event in events), *left_out, watermark_record(watermark)]
    texts = np.array([json.dumps(record, ensure_ascii=False) for record in found], dtype=object)
    keys = np.array([*(event.series for event in events), *(None for _ in overflow), None], dtype=object)
    return answer_rows(len(texts), watermark.shard, watermark.watermark, series=keys, event=texts)


def watermark_record(watermark: WatermarkMessage) -> dict[str, Any]:
    """A watermark message of `novelties` as JSON types, without members that are null, empty or 0."""
    found = {name: value for name, value in plain(watermark).items() if value is not None}
    if watermark.watched is not None:
        for name in ("services_omitted", "calls", "changes", "topology"):
            if not found["watched"][name]:
                del found["watched"][name]
    return found


def letter_rows(texts: list[str]) -> Columns:
    """Letters as rows of `OUTPUT_DDL`."""
    return answer_rows(len(texts), REFUSED, 0, letter=np.array(texts, dtype=object))


def score_rows(shard: int, window_end: int, scores: Scores) -> Columns:
    """Scores as rows of `OUTPUT_DDL`."""
    columns = {name: getattr(scores, name) for name in SCORE if name != "window_end"}
    return answer_rows(len(scores.series), shard, window_end, **columns)
