"""How far jobs have processed the log: from the log and their checkpoints, without asking the processes."""

from __future__ import annotations

from collections.abc import Iterable

from kafka import TopicPartition

from app.core.settings import Settings
from app.kafka.checkpoints import consumed_offsets
from app.kafka.connection import open_consumer
from app.kafka.partitions import Partition
from replay.indexed import least_watermark_before


def ends_of(settings: Settings, kinds: Iterable[str]) -> dict[Partition, int]:
    """Where topics end now, by partition."""
    with open_consumer(settings) as consumer:
        names = [settings.topic(kind) for kind in kinds]
        parts = [TopicPartition(name, p) for name in names for p in consumer.partitions_for_topic(name) or ()]
        return {(part.topic, part.partition): end for part, end in consumer.end_offsets(parts).items()}


def share_read(settings: Settings, job: str, kinds: Iterable[str]) -> float:
    """How much of its topics a job has done with: 1 for all of it."""
    progress, ends = consumed_offsets(settings.checkpoint(job)), ends_of(settings, kinds)
    if progress is None:
        return 0.0
    return sum(progress.offsets.get(key, 0) for key in ends) / max(1, sum(ends.values()))


def announced(settings: Settings) -> int:
    """The last window end for which every shard of detect has written its watermark message, ms; -1 if a shard has written none."""
    ends = ends_of(settings, ("novelties",))
    with open_consumer(settings) as consumer:
        found = least_watermark_before(settings, consumer, "novelties", ends)
    return -1 if found is None else found
