"""Creates a savepoint of a version from its checkpoints, while its jobs run or after they have stopped.

Spark's files of state never change once they are written, they are only deleted: they are linked into a folder of the
savepoint, and read from there as of one committed batch. Jobs are not disturbed, and may delete their files meanwhile.

`detect` and `correlate` are at different windows. Episode events that `detect` has written and `correlate` has not read yet
are read from `novelties` and added to those that wait: a run from the savepoint begins after the last windows of `detect`, so
they would not be written again.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import data_loss, log_marks, quarantine
from app.kafka.checkpoints import committed_batches, last_committed, link_checkpoint, offsets_after
from app.kafka.connection import client_options
from app.kafka.topic_marks import record_of
from app.runtime import jobs
from app.runtime.state_query import state_of, variable_of
from app.versions import violations
from app.versions.pinned_configuration import as_begun, read_pinned, started_versions
from app.versions.start_position import start_position
from models.core.parameters import DetectorParameters
from models.incidents.correlator import Correlator
from pipelines.errors import InputError, ServiceUnavailable
from pipelines.failures import reading_state
from pipelines.jobs.correlate import (
    NO_WINDOW,
    REFUSALS,
    EpisodeEventBuffer,
    NoveltiesTopic,
    ValidRecord,
    add_valid_records,
    shard_of_series,
)
from pipelines.quarantine import Quarantine
from pipelines.state import savepoint_format
from pipelines.state.savepoint_format import CorrelatorState
from pipelines.state.savepoint_tables import ShardParts
from pipelines.state.shard_journal import full_parts
from pipelines.state.state_packing import BUFFER
from pipelines.state.window_buffer import WindowBuffer
from replay.savepoints import savepoint_folder, savepoint_writer
from replay.savepoints.savepoint_folder import NoStateYet
from replay.savepoints.savepoint_writer import Provenance, provenance_of

TRIES = 10
PAUSE_SECONDS = 2.0
EARLIER_BATCHES = 8  # of correlate: Spark keeps ten
SILENT_POLLS = 30  # of a second, after which the broker counts as gone


def create(
    spark: SparkSession, settings: Settings, name: str, report: Report = silent, *, changed_log: bool = False
) -> dict[str, Any]:
    """Write a savepoint of a version, from its checkpoints. Never stops or changes a job.

    Parameters
    ----------
    spark
        A session, to read the state with.
    settings
        Those of the version.
    name
        Of the savepoint.
    report
        Gets a line for each step that takes long.
    changed_log
        Also where the log has lost records that the version has read or written, to go on without them.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    InputError
        The name is bad or taken, the version never ran or has a shard without a complete window, or `correlate` stays ahead
        of `detect`.
    ServiceUnavailable
        Kafka does not answer.
    DeterminismViolation
        A violation has ended the version, or its log has changed.
    """
    savepoint_format.check_name(name)
    home = savepoint_folder.savepoints_folder(settings.home)
    folder = home / name
    if folder.exists():
        raise InputError(savepoint_writer.name_taken_message(folder))
    violations.check(settings)
    provenance = provenance_of(settings, pinned_configuration(settings))
    home.mkdir(parents=True, exist_ok=True)
    savepoint_folder.remove_stale_drafts(home)
    with (
        savepoint_folder.shared_lock(home),
        # Beside the checkpoints, because links do not reach over file systems.
        tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".spool", dir=home) as spool,
    ):
        watermarks, correlator = collect_state(spark, settings, provenance, Path(spool), report)
        # Only now: the state holds no record from beyond these ends.
        provenance = dataclasses.replace(provenance, log=record_of(log_marks.mark_now(settings)))
        if not changed_log:  # its marks would hide from `kappa recover` that results of these windows are lost
            data_loss.refuse_changed_log(settings)
        report(f"writing {len(watermarks)} shards to {folder}")
        shards = read_spooled(Path(spool) / "parts", watermarks, as_begun(settings).detector)
        return savepoint_writer.write(folder, provenance, shards, correlator)


def pinned_configuration(settings: Settings) -> dict[str, Any]:
    """The configuration that a version began with. Raises InputError for one that never ran."""
    found = read_pinned(settings)
    if found is None:
        msg = (
            f"version {settings.version} has never run in {settings.home}; wanted one that has: "
            f"{', '.join(started_versions(settings)) or 'none has'}; see --version and --config"
        )
        raise InputError(msg)
    return found


def check_has_state(settings: Settings) -> None:
    """Raise InputError for a version that never ran, NoStateYet for one whose `detect` has committed no batch."""
    pinned_configuration(settings)
    violations.check(settings)
    if last_committed(settings.checkpoint("detect")) is None:
        raise NoStateYet(no_batch_message(settings))


def collect_state(
    spark: SparkSession, settings: Settings, provenance: Provenance, spool: Path, report: Report
) -> tuple[dict[int, int], CorrelatorState]:
    """Write the parts of every shard below `spool`; returns the watermarks of the shards, and the state of `correlate` at these watermarks.

    Tries again while `correlate` is ahead of what `detect` has committed. Raises InputError if it stays so, NoStateYet before there is a state.
    """
    for attempt in range(TRIES):
        # correlate first: what it has read, detect has mostly committed by the time its own files are linked.
        correlate = link_checkpoint(settings.checkpoint("correlate"), spool / f"correlate-{attempt}")
        detect = link_checkpoint(settings.checkpoint("detect"), spool / f"detect-{attempt}")
        batch = last_committed(detect)
        if batch is None:
            raise NoStateYet(no_batch_message(settings))
        report(f"reading the state of detect after batch {batch}")
        watermarks = spool_parts(state_of(spark, detect, batch), spool / "parts")
        check_complete(watermarks, provenance)
        shutil.rmtree(detect)
        begun = last_committed(correlate) is not None
        found = correlator_at(spark, correlate, min(watermarks.values())) if begun else initial_correlator(settings)
        if found is not None:
            return watermarks, with_unread_events(spark, settings, provenance, watermarks, *found)
        # detect writes before it commits, so correlate may have read windows of a batch that is not committed yet.
        report("correlate is ahead of what detect has committed; trying again")
        threading.Event().wait(PAUSE_SECONDS)
    msg = (
        f"correlate of version {settings.version} is ahead of the last batch that detect has committed, {TRIES} times "
        "over; wanted detect to end its batch: let the jobs run, then try again"
    )
    raise InputError(msg)


def no_batch_message(settings: Settings) -> str:
    """The message for a version whose `detect` has committed no batch."""
    return f"detect of version {settings.version} has ended no batch yet; wanted one: run the jobs, then try again"


def spool_parts(parts: DataFrame, folder: Path) -> dict[int, int]:
    """Write what is stored of every shard into files, partition by partition; returns each one's last window, -1 if it has no model yet.

    A run that began from a savepoint has a last window from the start, but no model of its own before the next one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    watermarks: dict[int, int] = {}
    for row in parts.toLocalIterator():
        if row.part == BUFFER:
            with reading_state(f"the state of shard {row.shard}"):
                watermarks[row.shard] = WindowBuffer.load(bytes(row.bytes)).done
            continue
        file = folder / str(row.shard) / row.part
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(row.bytes))
    return {shard: watermarks[shard] if (folder / str(shard)).is_dir() else NO_WINDOW for shard in sorted(watermarks)}


def read_spooled(folder: Path, watermarks: Mapping[int, int], parameters: DetectorParameters) -> Iterator[ShardParts]:
    """The models that `spool_parts` has written, shard by shard in ascending order."""
    for shard, done in watermarks.items():
        stored = {file.name: file.read_bytes() for file in (folder / str(shard)).iterdir()}
        with reading_state(f"the state of shard {shard}"):
            parts = full_parts(stored, done, parameters, shard)
        yield ShardParts(shard, done, parts)


def check_complete(watermarks: Mapping[int, int], provenance: Provenance) -> None:
    """Raise NoStateYet while some shard has no complete window: a run cannot begin after it."""
    begun = sum(watermark > NO_WINDOW for watermark in watermarks.values())
    if begun < provenance.shards:
        msg = (
            f"version {provenance.version} has a complete window in {begun} of {provenance.shards} shards; wanted all: try again "
            "when detect has read more"
        )
        raise NoStateYet(msg)


def correlator_at(
    spark: SparkSession, checkpoint: Path, watermark: int
) -> tuple[CorrelatorState, dict[int, int]] | None:
    """The last committed state of `correlate` whose window is no later than a watermark, and the offsets up to which it has read.

    None where every batch that Spark keeps is later.
    """
    for batch in committed_batches(checkpoint)[: -EARLIER_BATCHES - 1 : -1]:
        row = variable_of(spark, checkpoint, "correlator", batch).select("value.*").first()
        if row is not None and row.done <= watermark:
            state = CorrelatorState(row.done, bytes(row.model), bytes(row.waiting))
            return state, {partition: offset for (_, partition), offset in offsets_after(checkpoint, batch).items()}
    return None


def initial_correlator(settings: Settings) -> tuple[CorrelatorState, dict[int, int]]:
    """The state that `correlate` begins with, and the offsets from which it reads, where it has committed no batch."""
    begun = start_position(settings)
    state = None if begun is None or begun.folder is None else savepoint_format.load_correlator(begun.folder)
    if state is None:
        state = CorrelatorState(NO_WINDOW, Correlator(settings.correlation).dump(), EpisodeEventBuffer().dump())
    return state, {} if begun is None else dict(begun.offsets[settings.topic("novelties")])


def with_unread_events(
    spark: SparkSession,
    settings: Settings,
    provenance: Provenance,
    watermarks: Mapping[int, int],
    state: CorrelatorState,
    positions: Mapping[int, int],
) -> CorrelatorState:
    """The state of `correlate` with all events up to the watermarks in its buffer, those that it has not read included, and none beyond."""
    with reading_state("the state of correlate"):
        buffer = EpisodeEventBuffer.load(state.waiting)
    add_valid_records(buffer, valid_records(spark, settings, *records_after(settings, positions)))
    shards = shards_by_series(spark, {key[1] for key in buffer.waiting}, provenance.shards)
    return CorrelatorState(state.done, state.model, cut_to_watermarks(buffer, watermarks, shards).dump())


def valid_records(
    spark: SparkSession, settings: Settings, records: Sequence[Any], partitions: int
) -> Iterator[ValidRecord]:
    """The records of `novelties` that `correlate` takes for valid, in their order; about the others it will write dead letters."""
    source = jobs.topic_of_shards(NoveltiesTopic, as_begun(settings), "novelties")
    source = dataclasses.replace(source, partitions=partitions)
    series = [(one.key or b"").decode(errors="replace") for one in records]
    shards = shards_by_series(spark, set(series), source.shards)
    for record, name in zip(records, series, strict=True):
        where = {"partition": record.partition, "offset": record.offset, "timestamp": record.timestamp}
        try:
            found = source.check(SimpleNamespace(value=record.value, series=name, shard=shards[name], **where))
        except REFUSALS:
            continue
        yield found


def cut_to_watermarks(
    buffer: EpisodeEventBuffer, watermarks: Mapping[int, int], shards: Mapping[str, int]
) -> EpisodeEventBuffer:
    """A copy of a buffer that stands at the watermarks of the shards. `shards` are those of the series whose events wait."""
    kept = {key: value for key, value in buffer.waiting.items() if key[0] <= watermarks[shards[key[1]]]}
    return buffer.cut(watermarks, kept)


def shards_by_series(spark: SparkSession, series: Iterable[str], shards: int) -> dict[str, int]:
    """The shard that writes the episodes of each series; -1 of a name that is none."""
    names = F.explode(F.from_json(F.lit(json.dumps(sorted(series))), "array<string>")).alias("series")
    shard = F.coalesce(shard_of_series(F.col("series"), shards), F.lit(-1)).alias("shard")
    rows = spark.range(1).select(names).select("series", shard)
    return {row.series: int(row.shard) for row in rows.collect()}


def records_after(settings: Settings, positions: Mapping[int, int]) -> tuple[list[Any], int]:
    """Records of `novelties` from offsets to the topic's end, and how many partitions it has."""
    topic = settings.topic("novelties")
    unread = quarantine.read(settings).found.for_job("correlate", (topic,))
    try:
        consumer = KafkaConsumer(**client_options(settings), allow_auto_create_topics=False, enable_auto_commit=False)
    except (KafkaError, OSError) as error:
        raise ServiceUnavailable(no_answer_message(settings, topic)) from error
    try:
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        if not parts:
            msg = f"no topic {topic}; wanted the one that detect writes to: check kafka.bootstrap_servers and topics.prefix"
            raise InputError(msg)
        consumer.assign(parts)
        first, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
        for part in parts:
            consumer.seek(part, first_offset(part, positions, first[part]))
        return list(read_to_ends(consumer, ends, settings, unread)), len(parts)
    finally:
        consumer.close()


def first_offset(part: Any, positions: Mapping[int, int], first: int) -> int:
    """Where to begin in a partition. Raises InputError if what correlate has to read is gone."""
    wanted = positions.get(part.partition, 0)
    if part.partition in positions and wanted < first:
        msg = (
            f"topic {part.topic}, partition {part.partition}: correlate has read up to offset {wanted}, the topic begins at "
            f"{first}; what lies between would be missing: replay instead, and keep topics for longer"
        )
        raise InputError(msg)
    return max(wanted, first)


def read_to_ends(consumer: Any, ends: Mapping[Any, int], settings: Settings, unread: Quarantine) -> Iterator[Any]:
    """Records up to offsets, without those in quarantine. Raises ServiceUnavailable if the broker falls silent."""
    silent = 0
    while any(consumer.position(part) < end for part, end in ends.items()):
        batches = consumer.poll(timeout_ms=1_000)
        silent = 0 if batches else silent + 1
        if silent > SILENT_POLLS:
            raise ServiceUnavailable(no_answer_message(settings, "novelties"))
        for records in batches.values():
            yield from (
                one for one in records if not unread.contains(one.topic, one.partition, one.offset, one.timestamp)
            )


def no_answer_message(settings: Settings, topic: str) -> str:
    return (
        f"Kafka at {settings.kafka.bootstrap_servers} does not answer for topic {topic}; wanted what correlate has not "
        "read yet: start it, or run `kappa up` for the embedded one"
    )
