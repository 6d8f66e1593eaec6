"""The offsets that partitions hold, and those that retention deleted before a job read them.

Retention deletes from a partition's beginning: where its log start offset is greater than the next offset of a job, the offsets
between the two are lost to that job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

from app.core.timestamps import iso_or
from app.kafka.checkpoints import ConsumedOffsets
from app.kafka.partitions import Partition

POLL_MS = 10_000
EMPTY_POLLS = 3
SHORT_POLL_MS = 500
SHORT_POLLS = 60


@dataclass(frozen=True)
class OffsetRange:
    """The offsets that a partition holds: `begins` (log start offset) to `ends` - 1. `first_ms`: the timestamp of its first record."""

    begins: int
    ends: int
    first_ms: int | None = None


@dataclass(frozen=True)
class OffsetGap:
    """Offsets `first` to `last` of a partition that were deleted before they were read, of about `since_ms` to `until_ms`.

    `first` is None where a time was wanted and not an offset: how many records there were since then is unknown.
    `until_ms` is None where the partition is empty now.
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
        """The deleted offsets, for people."""
        return f"offsets up to {self.last}" if self.first is None else f"offsets {self.first} to {self.last}"

    @property
    def span(self) -> str:
        """About the time of the deleted records, for people."""
        return f"{iso_or(self.since_ms, 'the beginning')} to {iso_or(self.until_ms, 'now')}"

    @property
    def reason(self) -> str:
        """The reason in the header of the dead letter that records it."""
        return f"gap: {self.offsets} of {self.topic}/{self.partition} were deleted before they were read, about {self.span}"

    def after(self, last: int) -> OffsetGap | None:
        """The part of it after an offset that has been recorded already; None if nothing is left."""
        if last >= self.last:
            return None
        first = last + 1 if self.first is None else max(self.first, last + 1)
        return OffsetGap(self.topic, self.partition, first, self.last, self.since_ms, self.until_ms)


@dataclass(frozen=True)
class RecreatedPartition:
    """A partition whose end is before what was read of it: its topic was deleted and created again."""

    topic: str
    partition: int
    read: int
    ends: int


def offset_ranges(consumer: KafkaConsumer, wanted: Iterable[Partition]) -> dict[Partition, OffsetRange]:
    """The offsets that partitions hold. Partitions that do not exist are left out.

    `first_ms` is read only of partitions whose first records were deleted, as it costs a poll.
    """
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
    first = first_timestamps(consumer, [part for part in there if 0 < begins[part] < ends[part]], begins)
    return {
        (part.topic, part.partition): OffsetRange(begins[part], max(begins[part], ends[part]), first.get(part))
        for part in there
    }


def first_timestamps(
    consumer: KafkaConsumer, parts: Sequence[TopicPartition], begins: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the record at each partition's offset in `begins`; there has to be one."""
    found: dict[TopicPartition, int] = {}
    left = list(parts)
    empty = 0
    while left and empty < EMPTY_POLLS:
        consumer.assign(left)
        for part in left:
            consumer.seek(part, begins[part])
        polled = consumer.poll(timeout_ms=POLL_MS, max_records=500)
        found |= {part: records[0].timestamp for part, records in polled.items() if records}
        empty = 0 if polled else empty + 1
        left = [part for part in left if part not in found]
    return found


def last_timestamps(
    consumer: KafkaConsumer, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the last record of each partition from an offset of `begins` to before one of `ends`; none where there is no record.

    Not every offset has one: a transaction ends with a marker, and compaction takes records away. Partitions that the broker does not
    answer for are left out, too.
    """
    found: dict[TopicPartition, int] = {}
    left, back = list(ends), 1
    while left:
        starts = {part: max(begins[part], ends[part] - back) for part in left}
        found |= newest_times(consumer, starts, ends)
        left = [part for part in left if part not in found and starts[part] > begins[part]]
        back *= 2
    return found


def newest_times(
    consumer: KafkaConsumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the last record of each partition between two offsets, where there is one."""
    found: dict[TopicPartition, int] = {}
    consumer.assign(list(starts))
    for part, start in starts.items():
        consumer.seek(part, start)
    silent = 0
    while silent < SHORT_POLLS and any(consumer.position(part) < ends[part] for part in starts):
        polled = consumer.poll(timeout_ms=SHORT_POLL_MS)
        silent = 0 if polled else silent + 1
        for part, records in polled.items():
            own = [record.timestamp for record in records if record.offset < ends[part]]
            found |= {part: own[-1]} if own else {}
    return found


def find_gaps(consumed: ConsumedOffsets, ranges: Mapping[Partition, OffsetRange]) -> list[OffsetGap]:
    """The records that were deleted before they were read, in order of topics and partitions."""
    found = []
    for (topic, partition), offset in sorted(consumed.offsets.items()):
        held = ranges.get((topic, partition))
        if held is not None and held.begins > offset:
            until = held.first_ms
            since = consumed.at_ms if until is None or consumed.at_ms is None else min(consumed.at_ms, until)
            found.append(OffsetGap(topic, partition, offset, held.begins - 1, since, until))
    return found


def find_gaps_since(wanted_ms: int, ranges: Mapping[Partition, OffsetRange]) -> list[OffsetGap]:
    """The records since a time (epoch ms) that were deleted.

    A partition has such records where its first offset is not 0 and its first record is later than that time.
    """
    return [
        OffsetGap(topic, partition, None, held.begins - 1, wanted_ms, held.first_ms)
        for (topic, partition), held in sorted(ranges.items())
        if held.begins > 0 and (held.first_ms is None or held.first_ms > wanted_ms)
    ]


def find_recreated(consumed: ConsumedOffsets, ranges: Mapping[Partition, OffsetRange]) -> list[RecreatedPartition]:
    """Partitions that end before what was read of them; one that does not exist ends at 0."""
    nothing = OffsetRange(0, 0)
    return [
        RecreatedPartition(topic, partition, offset, ranges.get((topic, partition), nothing).ends)
        for (topic, partition), offset in sorted(consumed.offsets.items())
        if offset > ranges.get((topic, partition), nothing).ends
    ]


def describe_gaps(job: str, version: str, gaps: Sequence[OffsetGap]) -> str:
    """One sentence about the records that a job can no longer read, and what can be done."""
    gap = gaps[0]
    more = f" (and gaps in {len(gaps) - 1} more partitions)" if len(gaps) > 1 else ""
    command = job.split("-", maxsplit=1)[0]
    return (
        f"{job}: {gap.topic}/{gap.partition} begins at offset {gap.begins}, version {version} wanted {gap.first}: "
        f"{gap.offsets}, about {gap.span}, were deleted before they were read{more}; `kappa run {command} --accept-gap` "
        "writes the gap into the log and goes on, `kappa recover` begins again after a savepoint that needs none of them, if there is one"
    )


def describe_recreated(job: str, version: str, recreated: Sequence[RecreatedPartition]) -> str:
    """One sentence about a topic that was deleted and created again."""
    one = recreated[0]
    more = f" (and {len(recreated) - 1} more partitions)" if len(recreated) > 1 else ""
    return (
        f"{job}: {one.topic}/{one.partition} ends at offset {one.ends}, version {version} has read it up to {one.read}"
        f"{more}: the topic was deleted and created again, or has lost its end; `kappa recover --dry-run` says from where the "
        "version can go on, and what is lost; `kappa recover` does it"
    )


def describe_added_partitions(topic: str, found: int, wanted: int, setting: str) -> str:
    """One sentence about partitions that were added to an input topic."""
    return (
        f"topic {topic} has {found} partitions, the version began with {wanted}: its jobs would never read the new ones; "
        f"stop them, `kappa savepoint create NAME`, set {setting} to {found}, then `kappa run all --savepoint NAME --replace`"
    )


def describe_added_label_partitions(topic: str, found: int) -> str:
    """One sentence about partitions that were added to the topic of labels or of changes, which has one."""
    return (
        f"topic {topic} has {found} partitions, wanted 1: records in the others would never be read; use another "
        "topics.prefix and --version, or stop the jobs, delete the topic, and `kappa recover` makes it again"
    )


def describe_added_own_partitions(topic: str, found: int, wanted: int) -> str:
    """One sentence about partitions that were added to a topic of the jobs."""
    return (
        f"topic {topic} has {found} partitions, the version began with {wanted}: results of a series would be in two of them, in no "
        "order; stop the jobs, delete the topic, and `kappa recover` makes it again with what was in it"
    )
