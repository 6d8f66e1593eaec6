"""What a job has read, from Spark's checkpoint.

`offsets/N` is where batch N ends, one JSON object for each source, and `commits/N` exists once the batch is done. The next
batch begins where the last one that is done ended; a job that has never ended a batch begins at `sources/K/0`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.kafka.partitions import Partition
from pipelines.errors import InputError

NOTHING = "-"  # what Spark writes for a source that has no offset yet


@dataclass(frozen=True)
class ConsumedOffsets:
    """How far a job has read: the next offset of each partition, and about the time of the record there (epoch ms, None: unknown)."""

    offsets: Mapping[Partition, int]
    at_ms: int | None = None


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
    done = newest_batch(checkpoint / "commits")
    try:
        if done is not None:
            metadata, sources = offset_log((checkpoint / "offsets" / str(done)).read_text())
            return ConsumedOffsets(offsets_of(sources), time_reached(metadata))
        beginnings = sorted((checkpoint / "sources").glob("*/0"))
        sources = [initial_offsets(file.read_text()) for file in beginnings]
        return ConsumedOffsets(offsets_of(sources)) if sources else None
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error


def committed_watermark(checkpoint: Path) -> int | None:
    """The watermark of the last batch that is done, epoch ms: output up to it has been written. None before there is one.

    Raises InputError for a checkpoint that cannot be read.
    """
    done = newest_batch(checkpoint / "commits")
    if done is None:
        return None
    try:
        metadata, _ = offset_log((checkpoint / "offsets" / str(done)).read_text())
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error
    return metadata.get("batchWatermarkMs") or None


def unreadable(checkpoint: Path, error: Exception) -> InputError:
    """The error for a checkpoint that is not as Spark writes it."""
    return InputError(
        f"checkpoint {checkpoint} cannot be read ({error}); wanted what Spark writes: restore it from a copy, or "
        "start another version"
    )


def newest_batch(log: Path) -> int | None:
    """The number of the newest batch in `offsets` or `commits`, whose files are named by it."""
    if not log.is_dir():
        return None
    return max((int(file.name) for file in log.iterdir() if file.name.isdigit()), default=None)


def offset_log(text: str) -> tuple[dict[str, Any], list[str]]:
    """An entry of `offsets`: Spark's metadata of the batch, and a line for each source.

    Raises ValueError for another format.
    """
    version, *lines = text.splitlines()
    if version != "v1" or not lines:
        msg = f"offset log of version {version[:20]!r}, wanted 'v1'"
        raise ValueError(msg)
    return json.loads(lines[0]), lines[1:]


def initial_offsets(text: str) -> str:
    """The offsets at which a source began. Spark puts a zero byte before the version."""
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


def time_reached(metadata: Mapping[str, Any]) -> int | None:
    """About the time of the first records after a batch: its watermark, else the time at which it was planned."""
    return metadata.get("batchWatermarkMs") or metadata.get("batchTimestampMs")
