"""One slice of a bounded run: extract, detect and correlate over the records of some windows, written to a version's topics.

The functions are those of the live jobs, over bounded reads instead of streams. A slice begins with the savepoint of the slice before it and ends
with one of its own, so it can be repeated by itself: it then writes the same records again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.report import Report, silent
from app.core.settings import INPUTS, Settings
from app.kafka.connection import kafka_connection
from app.kafka.partitions import by_topic
from app.kafka.topics import topic_names
from app.versions.replay_manifest import Slice, SliceResult
from models.records.records import WatermarkMessage
from pipelines import runner
from pipelines.errors import DeterminismViolation
from pipelines.jobs import correlate, detect, extract
from pipelines.jobs.detect_bounded import detect_bounded
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import Kafka, write_to_kafka
from pipelines.series_columns import is_rule
from pipelines.state import savepoint_format
from pipelines.state.savepoint_format import CorrelatorState
from pipelines.state.savepoint_tables import ShardParts
from replay.savepoints import savepoint_writer
from replay.savepoints.savepoint_writer import Provenance


@dataclass(frozen=True)
class SliceContext:
    """What all slices of a run share.

    `partitions` are Spark's; `write` is off where a run only checks itself; what is in `quarantine` is refused unread.
    """

    spark: SparkSession
    settings: Settings
    provenance: Provenance
    partitions: int
    write: bool = True
    quarantine: Quarantine = NO_QUARANTINE


def read_bounded(spark: SparkSession, kafka: Kafka, part: Slice, topic: str, partitions: int) -> DataFrame:
    """The records of a topic in a slice, with the columns of a Kafka source."""
    begins, ends = by_topic(part.begins)[topic], by_topic(part.ends)[topic]
    return runner.read_bounded(spark, kafka, {topic: begins}, {topic: ends}, partitions)


def run_slice(
    context: SliceContext, part: Slice, before: Path | None, after: Path, report: Report = silent
) -> SliceResult:
    """Make the windows of a slice.

    Parameters
    ----------
    context
        What all slices of the run share.
    part
        The slice.
    before
        The savepoint to begin from; None for the beginning of the log.
    after
        Where to write the savepoint after the slice's last window.
    report
        Gets a word at the beginning of each stage.

    Returns
    -------
    SliceResult
        Numbers of records, digests of the results, seconds.
    """
    began = time.monotonic()
    report("extracting")
    topics, kafka = topic_names(context.settings), kafka_connection(context.settings)
    counts: dict[str, int] = {"events": part.events}
    with scratch_folder(after) as folder:
        closed = materialize(extract_slice(context, kafka, part, topics, with_rules=before is None), folder / "closed")
        windowing, limits = context.settings.windowing, context.settings.limits
        windows = extract.find_closed_windows(closed, windowing, limits)
        counts |= windows.refused
        rows = extract.statistics_rows(closed, windows, windowing, limits)
        shards, version = windowing.shards, context.settings.version
        begin = partial(savepoint_format.shard_start, str(before)) if before is not None else None
        report("detecting")
        detector, ends = context.settings.detector, list(windows.ends)
        answers = detect_bounded(rows, ends, detector, version, shards, context.partitions, begin, topics["rules"])
        answers = materialize(answers, folder / "answers")
        answered = output_rows(answers, part)
        records = detect.output_records(answered, topics, context.settings.topics.partitions)
        report("correlating")
        digests = digest_of_records(records, topics)
        incidents, correlator = correlate_slice(context, answered, before)
        if context.write:
            report("writing")
            write_to_kafka(extract.refused_rows(closed, topics), kafka)
            write_to_kafka(records, kafka)
            write_incidents(context, incidents, topics["incidents"], kafka)
        digests["incidents"] = digest_of_texts(context, [value for _, value in incidents])
        made = sum(part.after is None or end > part.after for end in windows.ends)
        counts |= {"windows": made, "incidents": len(incidents)}
        counts |= {kind: digests[kind]["records"] for kind in ("scores", "novelties")}
        savepoint_writer.write(after, context.provenance, shard_states(answers), correlator)
    return SliceResult(counts, digests, round(time.monotonic() - began, 3))


@contextmanager
def scratch_folder(after: Path) -> Iterator[Path]:
    """A folder for intermediate tables beside a slice's savepoint, which is removed at the end of the block."""
    folder = after.with_name(f"{after.name}.scratch")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def materialize(frame: DataFrame, folder: Path) -> DataFrame:
    """Compute a table once, into files; returns the table read from them. A persisted one would be planned again from its sources for each use."""
    frame.write.option("compression", "none").parquet(str(folder))
    return frame.sparkSession.read.schema(frame.schema).parquet(str(folder))


def extract_slice(
    context: SliceContext, kafka: Kafka, part: Slice, topics: Mapping[str, str], *, with_rules: bool
) -> DataFrame:
    """The output of `extract` for the slice's records, in the windows that `keep_windows` keeps."""
    frames = {kind: read_bounded(context.spark, kafka, part, topics[kind], context.partitions) for kind in INPUTS}
    unread = context.quarantine.for_job("extract", [topics[kind] for kind in INPUTS])
    own = context.settings
    closed = extract.closed_windows(**frames, windowing=own.windowing, quarantine=unread, limits=own.limits)
    return keep_windows(closed, part, with_rules=with_rules)


def keep_windows(closed: DataFrame, part: Slice, *, with_rules: bool = False) -> DataFrame:
    """Keep the windows of a slice. Windows beyond its edges are incomplete here, and complete in the neighbouring slices.

    `with_rules` also keeps rules of earlier windows, for a run that begins without a state: a rule holds until it ends, however old it is.
    """
    # Spark would put the filter below the parser, and parse twice; it sees through neither this nor a cast.
    end = F.col("window_end") + F.floor(F.rand() * 0)
    within = end <= part.until
    if part.after is not None:
        later = end > part.after
        within &= (later | is_rule()) if with_rules else later
    return closed.where(within)


def output_rows(answers: DataFrame, part: Slice) -> DataFrame:
    """The output of `detect` for the windows of a slice, and its dead letters. Windows before the slice hold rules alone."""
    answered = answers.where(F.col("part").isNull())
    if part.after is None:
        return answered
    return answered.where(F.col("letter").isNotNull() | (F.col("window_end") > part.after))


def shard_states(answers: DataFrame) -> Iterator[ShardParts]:
    """The state of every shard, in ascending order, a shard at a time."""
    rows = answers.where(F.col("part").isNotNull()).select("shard", "done", "part", "bytes")
    current: tuple[int, int, dict[str, bytes]] | None = None
    for row in rows.orderBy("shard", "part").toLocalIterator():
        if current is None or current[0] != row.shard:
            if current is not None:
                yield ShardParts(*current)
            current = (row.shard, row.done, {})
        current[2][row.part] = bytes(row.bytes)
    if current is not None:
        yield ShardParts(*current)


def correlate_slice(
    context: SliceContext, answers: DataFrame, before: Path | None
) -> tuple[list[tuple[str, str]], CorrelatorState]:
    """Incident events (id, value) of a slice, and the correlator after it. Computed on the driver, because episode events are rare."""
    state = savepoint_format.correlator_start(str(before)) if before is not None else None
    buffer, correlator = correlate.load_state(state, context.settings.correlation)
    rows = answers.where(F.col("event").isNotNull() & ~detect.is_overflow())
    ordered = rows.orderBy("window_end", F.col("event").startswith(detect.WATERMARK), "shard").select("event")
    found = correlate.correlate_values(buffer, correlator, (row.event for row in ordered.toLocalIterator()))
    values = [(one.id, correlate.incident_json(one, context.settings.version)) for one in found]
    return values, CorrelatorState(buffer.done, correlator.dump(), buffer.dump())


def write_incidents(context: SliceContext, incidents: list[tuple[str, str]], topic: str, kafka: Kafka) -> None:
    """Append incidents (id, value) to their topic."""
    if not incidents:
        return
    rows = context.spark.createDataFrame(incidents, "key string, value string").coalesce(1)
    write_to_kafka(
        rows.select(F.lit(topic).alias("topic"), *(F.col(c).cast("binary").alias(c) for c in ("key", "value"))), kafka
    )


def digest_of_records(records: DataFrame, topics: Mapping[str, str]) -> dict[str, Any]:
    """Number and digest of the values of `scores` and `novelties`, without watermark messages; their order does not matter."""
    value = F.col("value")
    record_kind = F.get_json_object(value.cast("string"), "$.record")
    watermark = (F.col("topic") == topics["novelties"]) & (record_kind == WatermarkMessage.KIND)
    found = records.where(~watermark).groupBy("topic").agg(F.count(F.lit(1)).alias("n"), *hash_sums(value)).collect()
    by_topic = {row.topic: row for row in found}
    answer = {}
    for kind in ("scores", "novelties"):
        row = by_topic.get(topics[kind])
        answer[kind] = {"records": row.n if row else 0, "digest": digest_text(row)}
    return answer


def digest_of_texts(context: SliceContext, values: list[str]) -> dict[str, Any]:
    """As `digest_of_records`, of a list of texts."""
    frame = context.spark.createDataFrame([(value,) for value in values], "value string")
    row = frame.agg(F.count(F.lit(1)).alias("n"), *hash_sums(F.col("value").cast("binary"))).first()
    if row is None:
        msg = "an aggregate without groups has no row"
        raise DeterminismViolation(msg)
    return {"records": row.n, "digest": digest_text(row)}


def hash_sums(value: Any) -> list[Any]:
    """Two sums of 64-bit hashes: they depend on what was summed and how often, not on the order."""
    number = F.xxhash64(value).cast("decimal(38,0)")
    other = F.xxhash64(value, F.lit("kappa")).cast("decimal(38,0)")
    return [F.sum(number).alias("one"), F.sum(other).alias("other")]


def digest_text(row: Any) -> str:
    """Two sums as one hexadecimal digest."""
    one, other = (int(row.one or 0), int(row.other or 0)) if row else (0, 0)
    return f"{one % 2**64:016x}{other % 2**64:016x}"
