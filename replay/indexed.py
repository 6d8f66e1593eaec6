"""Up to which window the results of a version are in Elasticsearch: read from checkpoints and watermark messages.

All windows up to a watermark are written once `extract` has committed a batch with a later one and `correlate` one that
holds that watermark of every shard; where scores are indexed, `detect` must have committed it as well. Where the topics end
then, the results end at the latest: when `index` has committed those offsets, all of them are documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.checkpoints import committed_watermark, consumed_offsets
from app.kafka.connection import unavailable_error
from app.kafka.partitions import Partition
from app.kafka.topics import indexed_kinds
from models.records.records import WatermarkMessage
from pipelines.windowing import last_window_end

FIRST_LOOK = 500  # records before an offset; four times as many each time that a watermark is missing
SILENT_POLLS = 10


@dataclass
class IndexedWatermark:
    """Follows how far the results of one version are indexed. `done` is the last watermark up to which all are, epoch ms; None: not known yet."""

    settings: Settings
    consumer: KafkaConsumer
    done: int | None = None
    # A later watermark up to which the jobs have written all results, and the ends of the indexed topics when that was seen.
    _ahead: tuple[int, dict[Partition, int]] | None = None

    def poll(self) -> int | None:
        """Look at the checkpoints and topics again; returns `done`."""
        self._advance()
        if self._ahead is None:
            written = written_until(self.settings, self.consumer)
            if written is not None and (self.done is None or written > self.done):
                self._ahead = written, self.ends()
                self._advance()
        return self.done

    def _advance(self) -> None:
        if self._ahead is not None and not self.unindexed():
            self.done, self._ahead = self._ahead[0], None

    def unindexed(self) -> int:
        """How many records up to the next watermark `index` has not committed."""
        wanted = self._ahead[1] if self._ahead is not None else self.ends()
        read = consumed_offsets(self.settings.checkpoint("index"))
        offsets = {} if read is None else read.offsets
        return sum(max(0, end - offsets.get(part, 0)) for part, end in wanted.items())

    def ends(self) -> dict[Partition, int]:
        """The ends of the indexed topics, by partition."""
        kinds, partitions = indexed_kinds(self.settings), range(self.settings.topics.partitions)
        parts = [(self.settings.topic(kind), p) for kind in kinds for p in partitions]
        there = [
            TopicPartition(topic, p) for topic, p in parts if p in (self.consumer.partitions_for_topic(topic) or ())
        ]
        begins, ends = self.consumer.beginning_offsets(there), self.consumer.end_offsets(there)
        # A partition whose records are all deleted holds nothing that could be indexed.
        return {(at.topic, at.partition): ends[at] for at in there if ends[at] > begins[at]}


def written_until(settings: Settings, consumer: KafkaConsumer) -> int | None:
    """The last watermark up to which every job has written its results, and knows that it has; None before there is one."""
    marks = [committed_watermark(settings.checkpoint("extract"))]
    marks.append(least_watermark(settings, consumer, "novelties", "correlate"))
    if settings.index.scores:
        marks.append(least_watermark(settings, consumer, "statistics", "detect"))
    found = [mark for mark in marks if mark is not None]
    return last_window_end(settings.windowing, min(found)) if len(found) == len(marks) else None


def least_watermark(settings: Settings, consumer: KafkaConsumer, kind: str, job: str) -> int | None:
    """The last watermark that a job has read of every shard in a topic; None while one is missing."""
    read = consumed_offsets(settings.checkpoint(job))
    return None if read is None else least_watermark_before(settings, consumer, kind, read.offsets)


def least_watermark_before(
    settings: Settings, consumer: KafkaConsumer, kind: str, offsets: Mapping[Partition, int]
) -> int | None:
    """The last watermark of every shard that stands before these offsets of a topic; None while one is missing."""
    topic, shards, partitions = settings.topic(kind), settings.windowing.shards, settings.topics.partitions
    watermarks: dict[int, int] = {}
    for partition in range(partitions):
        offset = offsets.get((topic, partition), 0)
        own = len(range(partition, shards, partitions))
        found = last_watermarks(settings, consumer, TopicPartition(topic, partition), offset, own)
        if found is None:
            return None
        watermarks |= found
    return min(watermarks.values(), default=None)


def last_watermarks(
    settings: Settings, consumer: KafkaConsumer, at: TopicPartition, offset: int, shards: int
) -> dict[int, int] | None:
    """The last watermark before an offset of each of a partition's shards; None where one has none."""
    begin = consumer.beginning_offsets([at])[at]
    look, first = FIRST_LOOK, offset
    while shards and first > begin:
        first = max(begin, offset - look)
        found: dict[int, int] = {}
        for watermark in watermarks_between(settings, consumer, at, first, offset):
            found[watermark.shard] = max(watermark.watermark, found.get(watermark.shard, -1))
        if len(found) == shards:
            return found
        look *= 4
    return None if shards else {}


def watermarks_between(
    settings: Settings, consumer: KafkaConsumer, at: TopicPartition, first: int, end: int
) -> Iterator[WatermarkMessage]:
    """The watermark messages of a partition from an offset up to another one."""
    consumer.assign([at])
    consumer.seek(at, first)
    silent = 0
    while consumer.position(at) < end:
        polled = [record for batch in consumer.poll(timeout_ms=1000, max_records=5000).values() for record in batch]
        silent = 0 if polled else silent + 1
        if silent >= SILENT_POLLS:
            raise unavailable_error(settings, TimeoutError())
        for record in polled:
            found = WatermarkMessage.from_json(record.value) if record.offset < end else None
            if found is not None:
                yield found
