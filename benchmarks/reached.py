"""How far jobs have come: from the log and from their checkpoints, without asking them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

from app import topics
from app.settings import Settings
from pipelines import retention
from pipelines.retention import Partition

LAST_RECORDS = 500  # of a partition: among them are ticks of all its shards


def ends_of(settings: Settings, kinds: Iterable[str]) -> dict[Partition, int]:
    """Where topics end now, by partition."""
    with closing(KafkaConsumer(**topics.client_options(settings))) as consumer:
        names = [settings.topic(kind) for kind in kinds]
        parts = [TopicPartition(name, p) for name in names for p in consumer.partitions_for_topic(name) or ()]
        return {(part.topic, part.partition): end for part, end in consumer.end_offsets(parts).items()}


def share_read(settings: Settings, job: str, kinds: Iterable[str]) -> float:
    """How much of its topics a job has done with: 1 for all of it."""
    progress, ends = retention.progress_of(settings.checkpoint(job)), ends_of(settings, kinds)
    if progress is None:
        return 0.0
    return sum(progress.offsets.get(key, 0) for key in ends) / max(1, sum(ends.values()))


def ticked(settings: Settings) -> int:
    """The last window end that every shard of detect has spoken for, ms; -1 where some shard has said nothing."""
    latest: dict[int, int] = {}
    ends = ends_of(settings, ("novelties",))
    with closing(KafkaConsumer(**topics.client_options(settings))) as consumer:
        parts = {TopicPartition(*key): end for key, end in ends.items()}
        consumer.assign(list(parts))
        for part, end in parts.items():
            consumer.seek(part, max(0, end - LAST_RECORDS))
        while any(consumer.position(part) < end for part, end in parts.items()):
            for batch in consumer.poll(timeout_ms=500).values():
                for value in (json.loads(record.value) for record in batch):
                    if "tick" in value:
                        latest[value["shard"]] = max(value["tick"], latest.get(value["shard"], -1))
    return min(latest.values()) if len(latest) == settings.law.shards else -1
