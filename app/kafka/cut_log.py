"""The beginning of a log from which retention has deleted: from which window on it is whole, and how far apart partitions begin.

Retention deletes whole segments: the first record of a quiet partition may be days older than that of a busy one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka import TopicPartition

from app.core.settings import FEW, Settings
from app.core.timestamps import iso
from app.kafka.connection import open_consumer
from app.kafka.offset_ranges import first_timestamps, offset_ranges
from app.kafka.partitions import Offsets
from models.core.wording import duration
from pipelines.errors import InputError
from pipelines.windowing import MILLIS, next_window_end

MINUTE_MS = 60_000


def complete_after(settings: Settings, begins: Offsets) -> int | None:
    """The end of the last window that may lack records (epoch ms), where reading begins at these offsets; None where no window does.

    Where the record at an offset is gone, the first one that the log holds counts. Raises InputError where there is none.
    """
    cut = {key: begin for key, begin in begins.items() if begin > 0}
    if not cut:
        return None
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, cut)
        starts = {TopicPartition(*key): max(begin, held[key].begins) for key, begin in cut.items() if key in held}
        there = [part for part, start in starts.items() if start < held[part.topic, part.partition].ends]
        first = first_timestamps(consumer, there, starts)
    missing = sorted(key for key in cut if TopicPartition(*key) not in first)
    if missing:
        topic, partition = missing[0]
        msg = f"{topic}/{partition}: nothing from offset {cut[missing[0]]} on is a record, or it cannot be read; try again"
        raise InputError(msg)
    return whole_after(settings, first.values())


def whole_after(settings: Settings, first: Iterable[int]) -> int:
    """The end of the last window that may lack records (epoch ms), where partitions begin with records of these append times.

    Deleted records were appended before, and may be as early as the skew allows.
    """
    early = (settings.windowing.skew_seconds + settings.windowing.disorder_seconds) * MILLIS
    return next_window_end(settings.windowing, max(first) + early + 1)


def describe_uneven_beginning(settings: Settings, begins: Offsets, ends: Offsets) -> str | None:
    """A sentence where a reader that has no state takes hosts for new ones, as their partitions begin so much later; None where it does not.

    Parameters
    ----------
    settings
        `detection.grace_minutes` is how much later that may be.
    begins, ends
        What is read of each partition of the inputs.
    """
    few = {settings.topic(kind) for kind in FEW}
    read = {TopicPartition(*key): begin for key, begin in begins.items() if key[0] not in few and begin < ends[key]}
    if not any(read.values()):
        return None  # nothing has been deleted
    with open_consumer(settings) as consumer:
        times = first_timestamps(consumer, sorted(read), read)
    # Of a partition that is whole, the hosts whose records begin late are new.
    cut = [time for part, time in times.items() if read[part] > 0]
    apart = max(cut, default=0) - min(times.values(), default=0)
    if apart <= settings.detection.grace_minutes * MINUTE_MS:
        return None
    return (
        f"retention has cut partitions up to {duration(apart / MILLIS)} apart: hosts whose records begin later are reported as new; "
        f"`kappa replay --version NAME --from-time {iso(whole_after(settings, cut))}` begins where the log is whole"
    )
