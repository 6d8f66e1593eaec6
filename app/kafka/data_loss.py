"""Data loss: records that retention deleted before a job read them, topics that were deleted or have lost their end.

It is found before jobs start, described in one sentence, and skipped with `--accept-gap`. An accepted gap becomes a record of
`dead-letters`, once: `gaps/JOB.json` beside the checkpoints has the offset of each partition up to which gaps have been
recorded. The file is written before the record as well, with the earliest offset that the record can get, so that a start
after a crash in between searches from there before it writes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import structlog
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.report import Report, silent
from app.core.settings import FEW, Settings
from app.core.timestamps import iso, iso_or
from app.kafka import log_marks, topics
from app.kafka.checkpoints import ConsumedOffsets, consumed_offsets
from app.kafka.connection import client_options, open_consumer, unavailable_error
from app.kafka.log_marks import LogChange
from app.kafka.offset_ranges import (
    OffsetGap,
    OffsetRange,
    describe_added_label_partitions,
    describe_added_own_partitions,
    describe_added_partitions,
    describe_gaps,
    describe_recreated,
    find_gaps,
    find_recreated,
    offset_ranges,
)
from app.kafka.partitions import Partition
from app.kafka.topic_marks import LogMarks
from models.records.records import RefusedRecord
from pipelines import failures
from pipelines.errors import DeterminismViolation, InputError, ServiceUnavailable

log = structlog.get_logger()

GAPS = "gaps"
WAIT_MS = 10_000
WATCH_SECONDS = 10.0


@dataclass(frozen=True)
class SavepointSummary:
    """A savepoint's name, the end of its last window (epoch ms), and the topics that its jobs go on reading."""

    name: str
    watermark: int
    topics: frozenset[str]


# --- replays


def savepoint_summaries(home: Path) -> list[SavepointSummary]:
    """All savepoints whose manifests can be read, the oldest first."""
    found = []
    for file in home.glob("savepoints/*/manifest.json"):
        try:
            manifest = json.loads(file.read_text())
            names = manifest.get("topics") or {}
            listed = names.values() if isinstance(names, dict) else names
            found.append(SavepointSummary(file.parent.name, int(manifest["watermark"]), frozenset(map(str, listed))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return sorted(found, key=lambda one: (one.watermark, one.name))


def describe_missing(
    gaps: Sequence[OffsetGap], savepoints: Sequence[SavepointSummary], skew_seconds: float = 60.0
) -> str:
    """One sentence about what a replay wants and the log no longer has: from when it can run, and from which savepoint.

    A run from a savepoint at window `w` reads records that were appended from `w` minus the skew on. So a savepoint can be
    used if `w` minus the skew is not before the end of any gap. `gaps` must not be empty.
    """
    gap = gaps[0]
    more = f" (and gaps in {len(gaps) - 1} more partitions)" if len(gaps) > 1 else ""
    ends = [one.until_ms for one in gaps if one.until_ms is not None]
    start = f"at the earliest it can run from {iso(max(ends))}" if len(ends) == len(gaps) else "nothing is left there"
    missing = f"what would be missing is {gap.offsets} of {gap.topic}/{gap.partition}, about {gap.span}{more}"
    wanted = f"offset {gap.first}" if gap.first is not None else iso_or(gap.since_ms, "the beginning")
    return (
        f"the log no longer reaches back: {gap.topic}/{gap.partition} begins at offset {gap.begins}, wanted {wanted}; "
        f"{start}; {missing}; {describe_savepoint(gaps, savepoints, skew_seconds)}"
    )


def describe_savepoint(gaps: Sequence[OffsetGap], savepoints: Sequence[SavepointSummary], skew_seconds: float) -> str:
    """The earliest savepoint that needs none of the deleted records, for people."""
    ends = [gap.until_ms for gap in gaps]
    names = {gap.topic for gap in gaps}
    for one in savepoints:
        reaches = all(end is not None and one.watermark - 1000 * skew_seconds >= end for end in ends)
        if reaches and (not one.topics or names <= one.topics):
            return f"savepoint {one.name} (at {iso(one.watermark)}) would do"
    return "no savepoint would do" if savepoints else "there is no savepoint"


# --- live jobs


def checkpoints(settings: Settings, names: Sequence[str]) -> dict[str, Path]:
    """The checkpoints of jobs, by their names."""
    return {name: settings.checkpoint(name) for name in names}


def check_before_start(
    settings: Settings,
    jobs: Mapping[str, Path],
    *,
    accept: bool = False,
    report: Report = silent,
) -> set[str]:
    """Compare the checkpoints of jobs with what the log holds.

    Parameters
    ----------
    settings
        The settings of the version whose jobs are about to start.
    jobs
        Checkpoints by the names of jobs.
    accept
        Record gaps in `dead-letters`, each once, instead of refusing to start.
    report
        Gets a line for each gap that is recorded.

    Returns
    -------
    set of str
        The jobs that have a gap; with `accept` only, otherwise it is empty.

    Raises
    ------
    DeterminismViolation
        A topic has more partitions than the version began with, or was deleted and created again, or records were deleted before a
        job read them.
    ServiceUnavailable
        Kafka does not answer.
    """
    refuse_changed_log(settings)
    refuse_other_rules(settings)
    progress = {job: consumed_offsets(path) for job, path in jobs.items()}
    begun = {job: found for job, found in progress.items() if found is not None}
    if not begun:
        return set()
    check_partitions(settings, log_marks.mark_now(settings), inputs="extract" in begun)
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, {part for read in begun.values() for part in read.offsets})
        refuse_recreated(settings, begun, held)
        lost = {job: find_gaps(read, held) for job, read in begun.items()}
        lost = {job: gaps for job, gaps in lost.items() if gaps}
        if not lost:
            return set()
        if not accept:
            job, gaps = next(iter(lost.items()))
            raise DeterminismViolation(describe_gaps(job, settings.version, gaps))
        topics.create(settings)  # the record needs its topic
        for job, gaps in lost.items():
            recorder = GapRecorder(settings, job, consumer)
            for gap in gaps:
                recorder.record(gap, report)
    return set(lost)


def refuse_changed_log(settings: Settings) -> None:
    """Raise DeterminismViolation where a topic is not what it was when the version's jobs ran."""
    raise_changes(settings, log_marks.changes_since(settings, log_marks.read_marks(settings)))


def refuse_other_rules(settings: Settings) -> None:
    """Raise DeterminismViolation where the topic of rules ends before those that the version knew beforehand: new ones would not count."""
    first, part = settings.control.rules_from, (settings.topic(topics.RULES), 0)
    if not first:
        return
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, [part]).get(part)
    ends = 0 if held is None else held.ends
    if ends < first:
        raise DeterminismViolation(describe_other_rules(settings, first, ends))


def describe_other_rules(settings: Settings, first: int, ends: int) -> str:
    """One sentence about a topic of rules that is not the one whose rules a version knew beforehand."""
    return (
        f"topic {settings.topic(topics.RULES)} ends at offset {ends}, version {settings.version} knew its rules up to {first} beforehand: it was "
        "made again, and none of its rules would count; `kappa recover` lets them count from its beginning"
    )


def raise_changes(settings: Settings, changes: Sequence[LogChange]) -> None:
    """Raise DeterminismViolation where there are any."""
    if changes:
        raise DeterminismViolation(describe_changes(settings.version, changes))


def describe_changes(version: str, changes: Sequence[LogChange]) -> str:
    """One sentence about a log that is not the one that a version has read and written."""
    more = f" (and {len(changes) - 1} more topics or partitions)" if len(changes) > 1 else ""
    return (
        f"{changes[0].sentence}{more}: version {version} cannot go on from its checkpoints; stop its jobs, then "
        "`kappa recover --dry-run` says from where it can, and what is lost; `kappa recover` does it"
    )


def refuse_recreated(
    settings: Settings, begun: Mapping[str, ConsumedOffsets], held: Mapping[Partition, OffsetRange]
) -> None:
    """Raise DeterminismViolation where a topic was deleted and created again."""
    for job, progress in begun.items():
        other = find_recreated(progress, held)
        if other:
            raise DeterminismViolation(describe_recreated(job, settings.version, other))


def check_partitions(settings: Settings, now: LogMarks, *, inputs: bool = True) -> None:
    """Raise DeterminismViolation where a topic has more partitions than the version began with; of `inputs` only if asked for."""
    ends = {topic: len(mark.ends) for topic, mark in now.items()}
    for kind in topics.OUTPUTS:
        topic, wanted = settings.topic(kind), settings.topics.partitions
        if ends.get(topic, 0) > wanted:
            raise DeterminismViolation(describe_added_own_partitions(topic, ends[topic], wanted))
    for kind, wanted in settings.input_partitions.items() if inputs else ():
        topic = settings.topic(kind)
        found = ends.get(topic, 0)
        if found > wanted and kind in FEW:
            raise DeterminismViolation(describe_added_label_partitions(topic, found))
        if found > wanted:
            raise DeterminismViolation(describe_added_partitions(topic, found, wanted, f"topics.{kind}_partitions"))


@contextmanager
def explain_data_loss(settings: Settings, jobs: Mapping[str, Path]) -> Iterator[None]:
    """Where deleted records ended a job, replace its error by one sentence about them."""
    try:
        yield
    except Exception as error:
        if not failures.is_data_loss(error):
            raise
        try:
            check_before_start(settings, jobs)
        except DeterminismViolation as sentence:
            raise sentence from error
        raise


class LogWatch:
    """A thread that looks every few seconds whether the log is still the one that a version began to read, and marks it.

    Partitions that were added to a topic, a topic that was deleted, one that has lost its end, and one whose records now get other times
    are found.
    """

    def __init__(self, settings: Settings, job: str, every_seconds: float = WATCH_SECONDS) -> None:
        self._settings, self._job, self._every = settings, job, every_seconds
        self._stop = threading.Event()
        self._found: DeterminismViolation | None = None
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def __enter__(self) -> LogWatch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Raise DeterminismViolation once the log has changed."""
        if self._found is not None:
            raise self._found

    def _run(self) -> None:
        while self._found is None:
            try:
                self._look()
            except DeterminismViolation as found:
                self._found = found
            except ServiceUnavailable:
                pass  # the jobs themselves wait for the broker
            except Exception as error:  # certificates that are being replaced, a disk that is full: it is tried again
                log.warning(
                    "the state of the log cannot be compared or kept", error=f"{type(error).__name__}: {error}"[:500]
                )
            if self._stop.wait(self._every):
                return

    def _look(self) -> None:
        """Compare the log with what it was when it was last marked, also before the start, and keep what it is."""
        now, changes = log_marks.compare_log(self._settings, log_marks.read_marks(self._settings))
        raise_changes(self._settings, changes)
        check_partitions(self._settings, now)
        try:
            topics.check_timestamps(self._settings, now)
        except InputError as error:  # of settings, at a start; now it is the log that has changed
            raise DeterminismViolation(str(error)) from error
        log_marks.write_marks(self._settings, self._job, now)


# --- the record of a gap


class GapRecorder:
    """Records each gap of a job in `dead-letters` once, whenever it is interrupted."""

    def __init__(self, settings: Settings, job: str, consumer: KafkaConsumer) -> None:
        self._settings, self._job, self._consumer = settings, job, consumer
        self._file = settings.checkpoint(GAPS) / f"{job}.json"
        self._topic = settings.topic("dead-letters")

    def record(self, gap: OffsetGap, report: Report) -> None:
        """Append the part of a gap that has not been recorded yet, and remember it."""
        place = f"{gap.topic}/{gap.partition}"
        entry = self._read().get(place, {"last": -1})
        if "next" in entry:  # a start before this one was interrupted
            entry = {"last": entry["next"] if self._is_there(entry) else entry["last"]}
        new = gap.after(entry["last"])
        if new is None:
            self._keep(place, entry)
            return
        partitions = sorted(self._consumer.partitions_for_topic(self._topic))
        at = TopicPartition(self._topic, partitions[crc32(f"{self._job} {place}".encode()) % len(partitions)])
        intent = {"next": new.last, "partition": at.partition, "from": self._consumer.end_offsets([at])[at]}
        self._keep(place, entry | intent | {"reason": new.reason})
        append_dead_letter(self._settings, gap_headers(self._job, new), at.partition)
        self._keep(place, {"last": new.last})
        report(f"{self._job}: {new.reason}; written to {self._topic}")

    def _is_there(self, entry: Mapping[str, Any]) -> bool:
        """Whether the record of an interrupted start was written."""
        at = TopicPartition(self._topic, entry["partition"])
        wanted = ("kappa.reason", entry["reason"].encode())
        ends = self._consumer.end_offsets([at])[at]
        self._consumer.assign([at])
        self._consumer.seek(at, entry["from"])
        while self._consumer.position(at) < ends:
            polled = self._consumer.poll(timeout_ms=WAIT_MS).values()
            if not polled:
                raise unavailable_error(self._settings, KafkaTimeoutError())
            if any(wanted in map(tuple, record.headers or ()) for records in polled for record in records):
                return True
        return False

    def _read(self) -> dict[str, dict[str, Any]]:
        return read_json_object(self._file, "move it away: gaps are then recorded again") or {}

    def _keep(self, place: str, entry: Mapping[str, Any]) -> None:
        write_json_durably(self._file, self._read() | {place: entry})


def append_dead_letter(settings: Settings, headers: list[tuple[str, bytes]], partition: int) -> None:
    """Append a letter without a value to `dead-letters`. Raises ServiceUnavailable if Kafka does not take it."""
    producer = KafkaProducer(**client_options(settings), allow_auto_create_topics=False, acks="all")
    try:
        sent = producer.send(settings.topic("dead-letters"), value=b"", headers=headers, partition=partition)
        producer.flush()
        sent.get(timeout=WAIT_MS / 1000)
    except KafkaError as error:
        raise unavailable_error(settings, error) from error
    finally:
        producer.close()


def record_loss(settings: Settings, topic: str, partition: int, since_ms: int, reason: str) -> None:
    """Append to `dead-letters` that records of a topic were lost, as for an accepted gap. `since_ms`: about since when."""
    lost = RefusedRecord.about(
        b"", topic=topic, partition=partition, offset=None, timestamp=since_ms, reason=f"gap: {reason}", stage="extract"
    )
    append_dead_letter(settings, lost.headers(), 0)


def gap_headers(job: str, gap: OffsetGap) -> list[tuple[str, bytes]]:
    """The headers of every dead letter: reason and source position, here the first lost offset and about its timestamp."""
    since = gap.since_ms if gap.since_ms is not None else gap.until_ms
    refused = RefusedRecord.about(
        b"",
        topic=gap.topic,
        partition=gap.partition,
        offset=gap.first,
        timestamp=since if since is not None else int(datetime.now(UTC).timestamp() * 1000),
        reason=gap.reason,
        stage=job.partition("-")[0],
    )
    return refused.headers()
