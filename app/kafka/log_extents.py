"""What a log that is kept for a time means for a job: offsets that are gone before it read them, and how to say so.

Spark keeps what a job has read in its checkpoint: `offsets/N` is where batch N ends, one JSON object for each source, and
`commits/N` says that the batch is done. The next batch begins where the last one that is done ended; a job that has
never ended a batch begins at `sources/K/0`. Retention deletes from a partition's beginning. Between the two lies the gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.errors import InputError

Partition = tuple[str, int]

NOTHING = "-"  # what Spark writes for a source that has no offset yet


@dataclass(frozen=True)
class Progress:
    """How far a job has read: the next offset of each partition, and when it was there (epoch ms; None: not known)."""

    offsets: Mapping[Partition, int]
    at_ms: int | None = None


@dataclass(frozen=True)
class Extent:
    """What a partition holds: offsets `begins` to `ends` - 1. `first_ms` is the time of its first record, if any."""

    begins: int
    ends: int
    first_ms: int | None = None


@dataclass(frozen=True)
class Gap:
    """Offsets `first` to `last` of a partition that nobody can read any more, of about `since_ms` to `until_ms`.

    `first` is None where a time was asked for and not an offset: how many records there were since then is not known.
    `until_ms` is None where the partition holds nothing now.
    """

    topic: str
    partition: int
    first: int | None
    last: int
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def begins(self) -> int:
        """The first offset that can be read."""
        return self.last + 1

    @property
    def offsets(self) -> str:
        """Which offsets are gone."""
        return f"offsets up to {self.last}" if self.first is None else f"offsets {self.first} to {self.last}"

    @property
    def span(self) -> str:
        """The time that they are about."""
        return f"{moment(self.since_ms, 'the beginning')} to {moment(self.until_ms, 'now')}"

    @property
    def reason(self) -> str:
        """What is written into the log about it."""
        return f"gap: {self.offsets} of {self.topic}/{self.partition} were deleted before they were read, about {self.span}"

    def after(self, last: int) -> Gap | None:
        """What of it comes after an offset that is accounted for; None if nothing does."""
        if last >= self.last:
            return None
        first = last + 1 if self.first is None else max(self.first, last + 1)
        return Gap(self.topic, self.partition, first, self.last, self.since_ms, self.until_ms)


@dataclass(frozen=True)
class MadeAnew:
    """A partition that ends before what was read of it: it is not the one that was read."""

    topic: str
    partition: int
    read: int
    ends: int


def moment(at_ms: int | None, unknown: str) -> str:
    """A time for people, to the second."""
    if at_ms is None:
        return unknown
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def progress_of(checkpoint: Path) -> Progress | None:
    """How far a job has read, from its checkpoint; None for one that has not begun.

    Raises InputError for a checkpoint that cannot be read.
    """
    done = newest(checkpoint / "commits")
    try:
        if done is not None:
            about, sources = offset_log((checkpoint / "offsets" / str(done)).read_text())
            return Progress(offsets_of(sources), reached(about))
        beginnings = sorted((checkpoint / "sources").glob("*/0"))
        found = [initial_offsets(file.read_text()) for file in beginnings]
        return Progress(offsets_of(found)) if found else None
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error


def watermark_of(checkpoint: Path) -> int | None:
    """The watermark of the last batch that is done, epoch ms: what is up to there was written. None before there is one.

    Raises InputError for a checkpoint that cannot be read.
    """
    done = newest(checkpoint / "commits")
    if done is None:
        return None
    try:
        about, _ = offset_log((checkpoint / "offsets" / str(done)).read_text())
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error
    return about.get("batchWatermarkMs") or None


def unreadable(checkpoint: Path, error: Exception) -> InputError:
    """The error for a checkpoint that is not as Spark writes it."""
    return InputError(
        f"checkpoint {checkpoint} cannot be read ({error}); wanted what Spark writes: bring it back from a copy, or "
        "start another version"
    )


def newest(log: Path) -> int | None:
    """The last entry of one of Spark's logs: files whose names are the numbers of batches."""
    if not log.is_dir():
        return None
    return max((int(file.name) for file in log.iterdir() if file.name.isdigit()), default=None)


def offset_log(text: str) -> tuple[dict[str, Any], list[str]]:
    """An entry of `offsets`: what Spark says of the batch, and a line for each source.

    Raises ValueError for something else.
    """
    version, *lines = text.splitlines()
    if version != "v1" or not lines:
        msg = f"offset log of version {version[:20]!r}, wanted 'v1'"
        raise ValueError(msg)
    return json.loads(lines[0]), lines[1:]


def initial_offsets(text: str) -> str:
    """Where a source began: Spark puts a zero byte before the version."""
    version, _, offsets = text.lstrip("\0").partition("\n")
    if version != "v1":
        msg = f"initial offsets of version {version[:20]!r}, wanted 'v1'"
        raise ValueError(msg)
    return offsets


def offsets_of(sources: Iterable[str]) -> dict[Partition, int]:
    """Next offsets by partition, of all sources of a job together."""
    found: dict[Partition, int] = {}
    for line in sources:
        if line.strip() not in ("", NOTHING):
            for topic, partitions in json.loads(line).items():
                found |= {(topic, int(partition)): int(offset) for partition, offset in partitions.items()}
    return found


def reached(about: Mapping[str, Any]) -> int | None:
    """The time of the first records after a batch, about: the watermark, which is theirs, else when it was planned."""
    return about.get("batchWatermarkMs") or about.get("batchTimestampMs")


def gaps(progress: Progress, extents: Mapping[Partition, Extent]) -> list[Gap]:
    """What was deleted before it was read, in order of topics and partitions."""
    found = []
    for (topic, partition), offset in sorted(progress.offsets.items()):
        extent = extents.get((topic, partition))
        if extent is not None and extent.begins > offset:
            until = extent.first_ms
            since = progress.at_ms if until is None or progress.at_ms is None else min(progress.at_ms, until)
            found.append(Gap(topic, partition, offset, extent.begins - 1, since, until))
    return found


def gaps_since(wanted_ms: int, extents: Mapping[Partition, Extent]) -> list[Gap]:
    """What the log no longer has of the records since a time.

    Something is missing where records were deleted and the first one left is later than that time.
    """
    return [
        Gap(topic, partition, None, extent.begins - 1, wanted_ms, extent.first_ms)
        for (topic, partition), extent in sorted(extents.items())
        if extent.begins > 0 and (extent.first_ms is None or extent.first_ms > wanted_ms)
    ]


def made_anew(progress: Progress, extents: Mapping[Partition, Extent]) -> list[MadeAnew]:
    """Partitions that end before what was read of them; one that is gone ends at 0."""
    nothing = Extent(0, 0)
    return [
        MadeAnew(topic, partition, offset, extents.get((topic, partition), nothing).ends)
        for (topic, partition), offset in sorted(progress.offsets.items())
        if offset > extents.get((topic, partition), nothing).ends
    ]


def say_gaps(job: str, version: str, found: Sequence[Gap]) -> str:
    """One sentence about what a job can no longer read, and what can be done."""
    gap = found[0]
    more = f" (and gaps in {len(found) - 1} more partitions)" if len(found) > 1 else ""
    command = job.split("-", maxsplit=1)[0]
    return (
        f"{job}: {gap.topic}/{gap.partition} begins at offset {gap.begins}, version {version} wanted {gap.first}: "
        f"{gap.offsets}, about {gap.span}, were deleted before they were read{more}; `kappa run {command} --accept-gap` "
        "writes the gap into the log and goes on, or start from a savepoint, or replay what is left as another version"
    )


def say_made_anew(job: str, version: str, found: Sequence[MadeAnew]) -> str:
    """One sentence about a topic that is not the one that was read."""
    one = found[0]
    more = f" (and {len(found) - 1} more partitions)" if len(found) > 1 else ""
    return (
        f"{job}: {one.topic}/{one.partition} ends at offset {one.ends}, version {version} has read it up to {one.read}"
        f"{more}: the topic was deleted and made anew; results cannot go on from here, start another version, or this one "
        "from a savepoint"
    )


def say_more_partitions(topic: str, found: int, wanted: int, setting: str) -> str:
    """One sentence about partitions that somebody has added."""
    return (
        f"topic {topic} has {found} partitions, the version began with {wanted}: its jobs would never read the new ones; "
        f"stop them, `kappa savepoint create NAME`, set {setting} to {found}, then `kappa run all --savepoint NAME`"
    )


def say_more_of_labels(topic: str, found: int) -> str:
    """One sentence about partitions of the topic of labels, which has one."""
    return (
        f"topic {topic} has {found} partitions, wanted 1: labels in the others would never be read; use another "
        "topics.prefix, or delete the topic and `kappa topics create`"
    )
