"""When the log no longer reaches back: seen before jobs start, said in one sentence, and gone over when told to.

A gap that is accepted becomes a record of `dead-letters`, once: `gaps/JOB.json` beside the checkpoints says up to which
offset of each partition gaps have been written. The file is written before the record as well, with the place where the
record will be at the earliest, so that a start after a crash in between looks there before it writes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from app.core.atomic_files import keep_json
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import log_extents, topics
from app.kafka.connection import client_options, open_consumer, unavailable
from app.kafka.log_extents import Extent, Gap, Partition, Progress, moment
from pipelines import failures
from pipelines.errors import DeterminismViolation, ServiceUnavailable

WAIT_MS = 10_000
WATCH_SECONDS = 60.0


@dataclass(frozen=True)
class Savepoint:
    """What matters here of a savepoint: its name, the window it stands at (epoch ms), the topics that it goes on with."""

    name: str
    watermark: int
    topics: frozenset[str]


# --- what the log holds


def extents(consumer: KafkaConsumer, wanted: Iterable[Partition]) -> dict[Partition, Extent]:
    """What partitions hold; one that is not there is left out. Times are those of records at the beginning."""
    by_topic: dict[str, set[int]] = {}
    for topic, partition in wanted:
        by_topic.setdefault(topic, set()).add(partition)
    there = [
        TopicPartition(topic, partition)
        for topic, partitions in sorted(by_topic.items())
        for partition in sorted(partitions & consumer.partitions_for_topic(topic))
    ]
    if not there:
        return {}
    begins, ends = consumer.beginning_offsets(there), consumer.end_offsets(there)
    first = first_times(consumer, [part for part in there if 0 < begins[part] < ends[part]], begins)
    return {
        (part.topic, part.partition): Extent(begins[part], max(begins[part], ends[part]), first.get(part))
        for part in there
    }


def first_times(
    consumer: KafkaConsumer, parts: Sequence[TopicPartition], begins: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The time of the first record of each partition, which has one."""
    found: dict[TopicPartition, int] = {}
    left = list(parts)
    empty = 0
    while left and empty < 3:
        consumer.assign(left)
        for part in left:
            consumer.seek(part, begins[part])
        polled = consumer.poll(timeout_ms=WAIT_MS, max_records=500)
        found |= {part: records[0].timestamp for part, records in polled.items() if records}
        empty = 0 if polled else empty + 1
        left = [part for part in left if part not in found]
    return found


# --- replays


def reach(settings: Settings, wanted: Mapping[Partition, int]) -> list[Gap]:
    """What the log no longer has of what begins at these offsets, by topic and partition."""
    with open_consumer(settings) as consumer:
        return log_extents.gaps(Progress(wanted), extents(consumer, wanted))


def reach_time(settings: Settings, partitions: Iterable[Partition], wanted_ms: int) -> list[Gap]:
    """What the log no longer has of the records since a time, epoch milliseconds."""
    with open_consumer(settings) as consumer:
        return log_extents.gaps_since(wanted_ms, extents(consumer, partitions))


def savepoints(home: Path) -> list[Savepoint]:
    """The savepoints that there are, the oldest first. One that cannot be read is none here."""
    found = []
    for file in home.glob("savepoints/*/manifest.json"):
        try:
            manifest = json.loads(file.read_text())
            names = manifest.get("topics") or {}
            listed = names.values() if isinstance(names, dict) else names
            found.append(Savepoint(file.parent.name, int(manifest["tick"]), frozenset(map(str, listed))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return sorted(found, key=lambda one: (one.watermark, one.name))


def explain(gaps: Sequence[Gap], savepoints: Sequence[Savepoint], skew_seconds: float = 60.0) -> str:
    """One sentence about what a replay wants and the log no longer has: from where it can run, and with what.

    A run from a savepoint at window `w` reads records that were appended from `w` minus the skew on, so one will do whose
    `w` is later than that after every gap. `gaps` must not be empty.
    """
    gap = gaps[0]
    more = f" (and gaps in {len(gaps) - 1} more partitions)" if len(gaps) > 1 else ""
    whole = [one.until_ms for one in gaps if one.until_ms is not None]
    empty = len(whole) < len(gaps)
    start = (
        f"at the earliest it can run from {moment(max(whole), '')}" if whole and not empty else "nothing is left there"
    )
    missing = f"what would be missing is {gap.offsets} of {gap.topic}/{gap.partition}, about {gap.span}{more}"
    wanted = f"offset {gap.first}" if gap.first is not None else moment(gap.since_ms, "the beginning")
    return (
        f"the log no longer reaches back: {gap.topic}/{gap.partition} begins at offset {gap.begins}, wanted {wanted}; "
        f"{start}; {missing}; {which_savepoint(gaps, savepoints, skew_seconds)}"
    )


def which_savepoint(gaps: Sequence[Gap], savepoints: Sequence[Savepoint], skew_seconds: float) -> str:
    """The earliest savepoint that does without what is gone."""
    ends = [gap.until_ms for gap in gaps]
    names = {gap.topic for gap in gaps}
    for one in savepoints:
        reaches = all(end is not None and one.watermark - 1000 * skew_seconds >= end for end in ends)
        if reaches and (not one.topics or names <= one.topics):
            return f"savepoint {one.name} (at {moment(one.watermark, '')}) would do"
    return "no savepoint would do" if savepoints else "there is no savepoint"


# --- live jobs


def checkpoints(settings: Settings, names: Sequence[str], instance: int = 0, instances: int = 1) -> dict[str, Path]:
    """Where jobs keep how far they have read, by the names that they run under."""
    own = {"extract": "extract" if instances == 1 else f"extract-{instance}-of-{instances}"}
    found = [own.get(name, name) for name in names]
    return {name: settings.checkpoint(name) for name in found}


def before_start(
    settings: Settings,
    jobs: Mapping[str, Path],
    *,
    accept: bool = False,
    report: Report = silent,
) -> set[str]:
    """Hold checkpoints against the log. `jobs` are checkpoints by the names of jobs.

    Raises DeterminismViolation, one sentence, for a topic that has other partitions than the version began with or that was made
    anew, and for records that were deleted before a job read them. With `accept` these are written into `dead-letters`,
    each gap once; answers the jobs that have one. Without a gap nothing happens.
    """
    progress = {job: log_extents.progress_of(path) for job, path in jobs.items()}
    begun = {job: found for job, found in progress.items() if found is not None}
    if not begun:
        return set()
    with open_consumer(settings) as consumer:
        if any(job.startswith("extract") for job in begun):
            check_partitions(settings, lambda topic: len(consumer.partitions_for_topic(topic)))
        held = extents(consumer, {part for read in begun.values() for part in read.offsets})
        refuse_made_anew(settings, begun, held)
        lost = {job: log_extents.gaps(read, held) for job, read in begun.items()}
        lost = {job: gaps for job, gaps in lost.items() if gaps}
        if not lost:
            return set()
        if not accept:
            job, gaps = next(iter(lost.items()))
            raise DeterminismViolation(log_extents.say_gaps(job, settings.version, gaps))
        topics.create(settings)  # the record needs its topic
        for job, gaps in lost.items():
            ledger = Ledger(settings, job, consumer)
            for gap in gaps:
                ledger.write(gap, report)
    return set(lost)


def refuse_made_anew(settings: Settings, begun: Mapping[str, Progress], held: Mapping[Partition, Extent]) -> None:
    """Raise DeterminismViolation where a topic is not the one that was read."""
    for job, progress in begun.items():
        other = log_extents.made_anew(progress, held)
        if other:
            raise DeterminismViolation(log_extents.say_made_anew(job, settings.version, other))


def check_partitions(settings: Settings, count: Callable[[str], int]) -> None:
    """Raise DeterminismViolation where an input topic has more partitions than the version reads. `count` says how many."""
    for kind, wanted in settings.input_partitions.items():
        topic = settings.topic(kind)
        found = count(topic)
        if found > wanted and kind == "labels":
            raise DeterminismViolation(log_extents.say_more_of_labels(topic, found))
        if found > wanted:
            raise DeterminismViolation(
                log_extents.say_more_partitions(topic, found, wanted, f"topics.{kind}_partitions")
            )


@contextmanager
def explained(settings: Settings, jobs: Mapping[str, Path]) -> Iterator[None]:
    """Say in one sentence what ended a job, where that is records that the log no longer has."""
    try:
        yield
    except Exception as error:
        if not failures.is_of_deleted_records(error):
            raise
        try:
            before_start(settings, jobs)
        except DeterminismViolation as sentence:
            raise sentence from error
        raise


class PartitionWatch:
    """A thread that looks now and then whether somebody has added partitions to an input topic."""

    def __init__(self, settings: Settings, every_seconds: float = WATCH_SECONDS) -> None:
        self._settings, self._every = settings, every_seconds
        self._stop = threading.Event()
        self._found: DeterminismViolation | None = None
        self._thread = threading.Thread(target=self._run, name="partitions", daemon=True)

    def __enter__(self) -> PartitionWatch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()

    def check(self) -> None:
        """Raise DeterminismViolation once there are more partitions."""
        if self._found is not None:
            raise self._found

    def _run(self) -> None:
        while self._found is None and not self._stop.wait(self._every):
            try:
                with open_consumer(self._settings) as consumer:
                    check_partitions(self._settings, lambda topic: len(consumer.partitions_for_topic(topic)))
            except DeterminismViolation as found:
                self._found = found
            except ServiceUnavailable:
                continue  # the jobs themselves wait for the broker, or fail


# --- the record of a gap


class Ledger:
    """Writes each gap of a job into `dead-letters` once, whatever is interrupted."""

    def __init__(self, settings: Settings, job: str, consumer: KafkaConsumer) -> None:
        self._settings, self._job, self._consumer = settings, job, consumer
        self._file = settings.checkpoint("gaps") / f"{job}.json"
        self._topic = settings.topic("dead-letters")

    def write(self, gap: Gap, report: Report) -> None:
        """Append what of a gap is not accounted for, and remember."""
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
        self._append(headers_of(self._job, new), at.partition)
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
                raise unavailable(self._settings, KafkaTimeoutError())
            if any(wanted in map(tuple, record.headers or ()) for records in polled for record in records):
                return True
        return False

    def _append(self, headers: list[tuple[str, bytes]], partition: int) -> None:
        producer = KafkaProducer(**client_options(self._settings), acks="all")
        try:
            sent = producer.send(self._topic, value=b"", headers=headers, partition=partition)
            producer.flush()
            sent.get(timeout=WAIT_MS / 1000)
        except KafkaError as error:
            raise unavailable(self._settings, error) from error
        finally:
            producer.close()

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(self._file.read_text()) if self._file.exists() else {}
        return found

    def _keep(self, place: str, entry: Mapping[str, Any]) -> None:
        keep_json(self._file, self._read() | {place: entry})


def headers_of(job: str, gap: Gap) -> list[tuple[str, bytes]]:
    """Why and whence, as on every dead letter: the first offset that is lost, and about when it was appended."""
    since = gap.since_ms if gap.since_ms is not None else gap.until_ms
    values = {
        "kappa.topic": gap.topic,
        "kappa.partition": gap.partition,
        "kappa.offset": gap.first,
        "kappa.timestamp": since if since is not None else int(datetime.now(UTC).timestamp() * 1000),
        "kappa.reason": gap.reason,
        "kappa.stage": job.partition("-")[0],
    }
    return [(name, str(value).encode()) for name, value in values.items()]
