"""The layout of Spark's checkpoints: which batches a job has committed, and what it has read.

    metadata       the query's id, written when the job starts for the first time
    offsets/N      where batch N ends: Spark's metadata, then a JSON object for each source
    commits/N      exists once batch N is done
    sources/K/0    where source K began
    state/         the state of each partition

The next batch begins where the last one that is done ended; a job that has never ended a batch begins at `sources/K/0`.
Spark's files never change once they are written, they are only deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.atomic_files import link_or_copy
from app.kafka.partitions import Partition
from pipelines.errors import InputError

NO_OFFSET = "-"  # what Spark writes for a source that has no offset yet


@dataclass(frozen=True)
class ConsumedOffsets:
    """How far a job has read: the next offset of each partition, and about the time of the record there (epoch ms, None: unknown)."""

    offsets: Mapping[Partition, int]
    at_ms: int | None = None


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that is planned and not committed: its number, a hash of Spark's file, and the offsets that it reads."""

    number: int
    hash: str
    begins: Mapping[Partition, int]
    ends: Mapping[Partition, int]


def planned_batch(checkpoint: Path) -> PlannedBatch | None:
    """The batch that a job begins with when it is started, as it was planned before. None where it plans a new one.

    Raises InputError for a checkpoint that is not as Spark writes it.
    """
    planned = max(batches_in(checkpoint / "offsets"), default=None)
    done = last_committed(checkpoint)
    if planned is None or (done is not None and planned <= done):
        return None
    try:
        text = (checkpoint / "offsets" / str(planned)).read_bytes()
        ends = parse_offsets(read_offset_log(checkpoint, planned)[1])
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error
    begun = consumed_offsets(checkpoint)
    begins = {} if begun is None else begun.offsets
    return PlannedBatch(planned, hashlib.sha256(text).hexdigest(), {part: begins.get(part, 0) for part in ends}, ends)


def consumed_offsets(checkpoint: Path) -> ConsumedOffsets | None:
    """Read from a job's checkpoint how far the job has read.

    Parameters
    ----------
    checkpoint
        The folder of the streaming query: `offsets`, `commits` and `sources` lie in it.

    Returns
    -------
    ConsumedOffsets or None
        The offsets at which the next batch begins; None for a job that has not begun.

    Raises
    ------
    InputError
        The checkpoint is not as Spark writes it.
    """
    done = last_committed(checkpoint)
    try:
        if done is not None:
            metadata, sources = read_offset_log(checkpoint, done)
            return ConsumedOffsets(parse_offsets(sources), time_reached_ms(metadata))
        beginnings = sorted((checkpoint / "sources").glob("*/0"))
        sources = [parse_initial_offsets(file.read_text()) for file in beginnings]
        return ConsumedOffsets(parse_offsets(sources)) if sources else None
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error


def committed_watermark(checkpoint: Path) -> int | None:
    """The watermark of the last batch that is done, epoch ms: output up to it has been written. None before there is one.

    Raises InputError for a checkpoint that cannot be read.
    """
    done = last_committed(checkpoint)
    if done is None:
        return None
    try:
        metadata, _ = read_offset_log(checkpoint, done)
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error
    return metadata.get("batchWatermarkMs") or None


def unreadable(checkpoint: Path, error: Exception) -> InputError:
    """The error for a checkpoint that is not as Spark writes it."""
    return InputError(
        f"checkpoint {checkpoint} cannot be read ({error}); wanted what Spark writes: restore it from a copy, or "
        "start another version"
    )


def has_started(checkpoint: Path) -> bool:
    """Whether the job has ever started."""
    return (checkpoint / "metadata").exists()


def committed_batches(checkpoint: Path) -> list[int]:
    """The numbers of the batches that are done and still kept, ascending."""
    return batches_in(checkpoint / "commits")


def batches_in(folder: Path) -> list[int]:
    """The numbers of the batches that have a file in a folder, ascending."""
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit()) if folder.is_dir() else []


def last_committed(checkpoint: Path) -> int | None:
    """The number of the last batch that is done; None before there is one."""
    return max(committed_batches(checkpoint), default=None)


def offsets_after(checkpoint: Path, batch: int) -> dict[Partition, int]:
    """Where a batch ended: the next offset of each partition. Raises InputError for a checkpoint that cannot be read."""
    try:
        return parse_offsets(read_offset_log(checkpoint, batch)[1])
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error


def link_checkpoint(checkpoint: Path, copy: Path) -> Path:
    """Link the files of a checkpoint into a folder, or copy them where there are no links; returns the folder.

    The job may run: logs come before state, so that the state of every batch that is in the logs is there.
    """
    for part in ("commits", "offsets", "state"):
        for parent, _, files in os.walk(checkpoint / part):
            into = copy / Path(parent).relative_to(checkpoint)
            into.mkdir(parents=True, exist_ok=True)
            for file in files:
                with suppress(FileNotFoundError):  # Spark has deleted it meanwhile
                    link_or_copy(Path(parent) / file, into / file)
    with suppress(FileNotFoundError):
        link_or_copy(checkpoint / "metadata", copy / "metadata")
    return copy


def read_offset_log(checkpoint: Path, batch: int) -> tuple[dict[str, Any], list[str]]:
    """The entry of a batch in `offsets`: Spark's metadata, and a line for each source. Raises ValueError for another format."""
    version, *lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    if version != "v1" or not lines:
        msg = f"offset log of version {version[:20]!r}, wanted 'v1'"
        raise ValueError(msg)
    return json.loads(lines[0]), lines[1:]


def parse_initial_offsets(text: str) -> str:
    """The offsets at which a source began. Spark puts a zero byte before the version."""
    version, _, offsets = text.lstrip("\0").partition("\n")
    if version != "v1":
        msg = f"initial offsets of version {version[:20]!r}, wanted 'v1'"
        raise ValueError(msg)
    return offsets


def parse_offsets(sources: Iterable[str]) -> dict[Partition, int]:
    """Next offsets by partition, of all sources of a job together."""
    found: dict[Partition, int] = {}
    for line in sources:
        if line.strip() not in ("", NO_OFFSET):
            for topic, partitions in json.loads(line).items():
                found |= {(topic, int(partition)): int(offset) for partition, offset in partitions.items()}
    return found


def time_reached_ms(metadata: Mapping[str, Any]) -> int | None:
    """About the time of the first records after a batch: its watermark, else the time at which it was planned."""
    return metadata.get("batchWatermarkMs") or metadata.get("batchTimestampMs")
