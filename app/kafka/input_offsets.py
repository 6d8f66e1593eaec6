"""The input partitions, and the offsets from which the windows after a time can be made.

A record that is admitted to a window which ends after `w` has an event time of at least `w`, so it was appended at `w - skew`
or later: who makes the windows after `w` reads from the first record with that timestamp on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import INPUTS, Settings
from app.kafka import data_loss
from app.kafka.offset_ranges import OffsetGap, OffsetRange, find_gaps_since
from app.kafka.partitions import Offsets, Partition
from pipelines.errors import InputError
from pipelines.windowing import MILLIS


def input_topics(settings: Settings) -> dict[str, str]:
    """Names of the input topics by kind."""
    return {kind: settings.topic(kind) for kind in INPUTS}


def input_partitions(settings: Settings) -> list[Partition]:
    """All partitions of the input topics."""
    return [(settings.topic(kind), p) for kind, count in settings.input_partitions.items() for p in range(count)]


def offsets_after_window(
    settings: Settings, consumer: KafkaConsumer, window_end: int, ranges: Mapping[Partition, OffsetRange]
) -> Offsets:
    """The first offset of each partition that may belong to a window after one.

    Parameters
    ----------
    settings
        `windowing` has the skew.
    consumer
        A connected consumer.
    window_end
        End of the last window that is not made, epoch milliseconds.
    ranges
        The offsets that the partitions hold.

    Returns
    -------
    dict
        Offsets by topic and partition; the end of a partition that has no such record.

    Raises
    ------
    InputError
        Some of the records have been deleted.
    """
    wanted = window_end - settings.windowing.skew_seconds * MILLIS
    refuse_gaps(settings, find_gaps_since(wanted, ranges))
    return offsets_at_time(consumer, ranges, wanted)


def offsets_at_time(consumer: KafkaConsumer, ranges: Mapping[Partition, OffsetRange], at_ms: int) -> Offsets:
    """The first offset of each partition whose record was appended at a time (epoch ms) or later; its end where there is none."""
    asked = {TopicPartition(*key): max(0, at_ms) for key in ranges}
    found = consumer.offsets_for_times(asked)
    where = {(part.topic, part.partition): one for part, one in found.items()}
    return {key: held.ends if (one := where.get(key)) is None else one.offset for key, held in ranges.items()}


def refuse_gaps(settings: Settings, gaps: Sequence[OffsetGap]) -> None:
    """Raise InputError where records have been deleted that are wanted; it names a savepoint that does not need them."""
    if gaps:
        savepoints = data_loss.savepoint_summaries(settings.home)
        raise InputError(data_loss.describe_missing(gaps, savepoints, settings.windowing.skew_seconds))
