"""The offsets that a bounded run reads, and the windows that it makes: resolved once, and kept in the run's manifest.

A record that is admitted to a window which ends after `w` has an event time of at least `w`, so its append time is at least
`w - skew`: a run that makes the windows after `w` reads from the first record with that append time. A record of a window
which ends by `w` was appended before `w + lateness`, so it reads up to the first record with that append time, which closes the
window as in a live run. Where append times of a partition may go back by `disorder`, that much more at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import FEW, Settings
from app.core.timestamps import iso_or
from app.kafka import topics
from app.kafka.checkpoints import ConsumedOffsets
from app.kafka.connection import open_consumer
from app.kafka.input_offsets import input_partitions, input_topics, offsets_after_window, offsets_at_time, refuse_gaps
from app.kafka.offset_ranges import OffsetRange, find_gaps, first_timestamps, last_timestamps, offset_ranges
from app.kafka.partitions import Offsets, Partition, by_topic
from app.versions.replay_manifest import ReplayManifest, Slice
from pipelines.errors import InputError
from pipelines.windowing import MILLIS, WindowingConfig, last_window_end, next_window_end

Find = Callable[[int], Offsets]  # the first offsets of records that were appended at a time (epoch ms) or later

# A slice reads what its neighbours read as well, for as long as records may be early or late: at most a tenth of it.
LEAST_LENGTH = 10
LEAST_WINDOWS = 30


@dataclass(frozen=True)
class RequestedRange:
    """Where a run begins and ends: offsets by partition, or windows by time (epoch ms); None for all that there is.

    `from_ms` is the end of the last window that is not made, as a savepoint's watermark is. `to_ms` is a moment of the last window that is
    made: its end, if it is one. `quarantine_until` is the offset up to
    which the topic `quarantine` counts. `asked_ms` is when the run was first asked for. `has_state`: it begins with a
    savepoint, which has the rules up to then. Without one all of `rules` is read: rules hold however old they are.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    from_offsets: Offsets | None = None
    to_offsets: Offsets | None = None
    quarantine_until: int | None = None
    asked_ms: int | None = None
    has_state: bool = False

    def record(self, *, include_late: bool) -> dict[str, Any]:
        """What a manifest keeps of it, as JSON types, with whether every late record is admitted: equal for the same request."""
        offsets = {"from_offsets": self.from_offsets, "to_offsets": self.to_offsets}
        return {
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            **{name: None if given is None else by_topic(given) for name, given in offsets.items()},
            "include_late": include_late,
        }


def resolve(settings: Settings, requested: RequestedRange) -> Slice:
    """What a run reads, and which windows it makes.

    Parameters
    ----------
    settings
        Those of the version: inputs and windowing.
    requested
        Where to begin and to end; what is None there is the beginning and the end of the log.

    Returns
    -------
    Slice
        All windows of the run, with the offsets of every input partition.

    Raises
    ------
    InputError
        Offsets or times are outside the log, records have been deleted, or no window would be complete.
    """
    windowing = settings.windowing
    with open_consumer(settings) as consumer:
        ranges = offset_ranges(consumer, input_partitions(settings))
        check_partitions(settings, consumer)
        begins = first_offsets(settings, consumer, requested, ranges)
        ends = last_offsets(windowing, consumer, requested, ranges)
        check_order(begins, ends, ranges)
        # With the record that closes the last window, where the range ends before the log.
        if requested.to_offsets is None:
            ends = {key: min(end + 1, ranges[key].ends) for key, end in ends.items()}
        until = last_closed_window(windowing, consumer, begins, ends, ranges)
    if requested.to_ms is not None:
        until = min(until, next_window_end(windowing, requested.to_ms))
    if requested.from_ms is not None and until <= requested.from_ms:
        msg = (
            f"no window after {iso_or(requested.from_ms, '')} can be closed: the records that are read close those up to "
            f"{iso_or(until, '')}; wanted a later end, or an earlier beginning"
        )
        raise InputError(msg)
    return Slice(requested.from_ms, until, begins, ends)


def resolve_unrecorded(settings: Settings, requested: RequestedRange, earlier: ReplayManifest) -> Slice:
    """As `resolve`, to resume a run whose manifest does not record the request: with the run's own beginning, if the request can have led to it.

    Raises InputError as `resolve` does, about the records that are still to be read.
    """
    whole, rest = earlier.whole, earlier.left
    with open_consumer(settings) as consumer:
        ranges = offset_ranges(consumer, input_partitions(settings))
    if requested.from_ms != whole.after or not may_have_begun_at(requested, whole.begins, ranges):
        return resolve(settings, requested)
    found = resolve(settings, dataclasses.replace(requested, from_ms=None, from_offsets=rest.begins))
    return dataclasses.replace(found, after=whole.after, begins=whole.begins)


def may_have_begun_at(requested: RequestedRange, begins: Offsets, ranges: Mapping[Partition, OffsetRange]) -> bool:
    """Whether a request may have begun at these offsets: at those that it names, or where the log began, which may have moved on since."""
    if requested.from_ms is not None:
        return True  # a time is resolved to the same offsets as long as the log holds them
    given = requested.from_offsets or {}
    return begins.keys() == ranges.keys() and all(
        given[key] == begin if key in given else ranges[key].begins >= begin for key, begin in begins.items()
    )


def check_readable(settings: Settings, part: Slice) -> None:
    """Raise InputError where the log does not hold all records of a part of a run."""
    ends = {key: end for key, end in part.ends.items() if part.begins[key] < end}
    with open_consumer(settings) as consumer:
        check_partitions(settings, consumer)
        ranges = offset_ranges(consumer, ends)
    check_inside(f"replay: version {settings.version}", ends, ranges)
    refuse_gaps(settings, find_gaps(ConsumedOffsets({key: part.begins[key] for key in ends}), ranges))


def check_partitions(settings: Settings, consumer: KafkaConsumer) -> None:
    """Raise InputError for a topic that is not there or has other partitions than the settings say."""
    for kind in topics.INPUTS:
        topic = settings.topic(kind)
        found = len(consumer.partitions_for_topic(topic) or ())
        wanted = sum(1 for name, _ in input_partitions(settings) if name == topic)
        if found != wanted:
            own = "" if kind in FEW else f"set topics.{kind}_partitions to match, or "
            msg = f"topic {topic} has {found} partitions, wanted {wanted}; {own}set topics.prefix, or `kappa topics create`"
            raise InputError(msg)


def first_offsets(
    settings: Settings, consumer: KafkaConsumer, requested: RequestedRange, ranges: Mapping[Partition, OffsetRange]
) -> Offsets:
    """Where reading begins. Raises InputError where the log no longer reaches back so far."""
    if requested.from_offsets is not None:
        check_inside("--from-offsets", requested.from_offsets, ranges)
        found = {key: requested.from_offsets.get(key, held.begins) for key, held in ranges.items()}
        refuse_gaps(settings, find_gaps(ConsumedOffsets(found), ranges))
        return found
    if requested.from_ms is not None:
        of_rules = settings.topic("rules") if not requested.has_state else None
        later = offsets_after_window(settings, consumer, requested.from_ms, ranges)
        return {key: ranges[key].begins if key[0] == of_rules else offset for key, offset in later.items()}
    return {key: held.begins for key, held in ranges.items()}


def last_offsets(
    windowing: WindowingConfig,
    consumer: KafkaConsumer,
    requested: RequestedRange,
    ranges: Mapping[Partition, OffsetRange],
) -> Offsets:
    """Where reading ends, exclusive: of a time at the first record that is too late for its window."""
    if requested.to_offsets is not None:
        check_inside("--to-offsets", requested.to_offsets, ranges)
        return {key: requested.to_offsets.get(key, held.ends) for key, held in ranges.items()}
    if requested.to_ms is None:
        return {key: held.ends for key, held in ranges.items()}
    until = next_window_end(windowing, requested.to_ms)
    return offsets_at_time(consumer, ranges, until + windowing.watermark_delay_seconds * MILLIS)


def check_inside(option: str, given: Mapping[Partition, int], ranges: Mapping[Partition, OffsetRange]) -> None:
    """Raise InputError for partitions that are not read and offsets that the log never had."""
    for (topic, partition), offset in sorted(given.items()):
        held = ranges.get((topic, partition))
        if held is None:
            known = ", ".join(f"{t}/{p}" for t, p in sorted(ranges))
            msg = f"{option}: no partition {topic}/{partition}; the inputs are {known}"
            raise InputError(msg)
        if not 0 <= offset <= held.ends:
            msg = f"{option}: offset {offset} of {topic}/{partition} is outside the log; wanted {held.begins} to {held.ends}"
            raise InputError(msg)


def check_order(begins: Offsets, ends: Offsets, ranges: Mapping[Partition, OffsetRange]) -> None:
    """Raise InputError where there is nothing to read."""
    for (topic, partition), begin in begins.items():
        if ends[topic, partition] < begin:
            msg = f"{topic}/{partition}: reading would end at {ends[topic, partition]}, before it begins at {begin}"
            raise InputError(msg)
    if not any(ends[key] > begins[key] for key in ranges):
        msg = "the inputs hold no record from there to there; wanted some: see --from-time, --to-time, or topics.prefix"
        raise InputError(msg)


def last_closed_window(
    windowing: WindowingConfig,
    consumer: KafkaConsumer,
    begins: Offsets,
    ends: Offsets,
    ranges: Mapping[Partition, OffsetRange],
) -> int:
    """The last window end that the watermark passes when all records between the offsets are read, as in a live run."""
    silent = sorted(key for key, held in ranges.items() if max(begins[key], held.begins) >= ends[key])
    if silent:
        topic, partition = silent[0]
        msg = (
            f"{topic}/{partition} has no record in what is read, so no window is known to be complete; wanted heartbeats in "
            "every partition (`kappa run` and `kappa collect` send them), or a wider range"
        )
        raise InputError(msg)
    last = last_timestamps(
        consumer,
        {TopicPartition(*key): max(begins[key], ranges[key].begins) for key in ends},
        {TopicPartition(*key): end for key, end in ends.items()},
    )
    missing = sorted(TopicPartition(*key) for key in ends if TopicPartition(*key) not in last)
    if missing:
        where = f"{missing[0].topic}/{missing[0].partition}"
        msg = f"{where}: nothing in what is read is a record, or it cannot be read; wanted a wider range, or try again"
        raise InputError(msg)
    return last_window_end(windowing, min(last.values()) - windowing.watermark_delay_seconds * MILLIS)


def cut_into_slices(settings: Settings, whole: Slice, records: int) -> list[Slice]:
    """Cut a run into slices of about `records` records, each of which can be repeated on its own."""
    windowing = settings.windowing
    with open_consumer(settings) as consumer:
        ranges = {key: OffsetRange(0, end) for key, end in whole.ends.items()}
        start = whole.after if whole.after is not None else first_window_before(windowing, consumer, whole)
        find = partial(offsets_at_time, consumer, ranges)
        cuts = find_cuts(windowing, find, whole, (start, whole.until), records)
        return slices_at(windowing, find, whole, cuts)


def slices_at(windowing: WindowingConfig, find: Find, whole: Slice, cuts: Sequence[int]) -> list[Slice]:
    """A run cut into slices at these window ends."""
    begins, ends = [whole.after, *cuts], [*cuts, whole.until]
    return [slice_between(windowing, find, whole, after, until) for after, until in zip(begins, ends, strict=True)]


def first_window_before(windowing: WindowingConfig, consumer: KafkaConsumer, whole: Slice) -> int:
    """The end of a window before all records that are read: that of the first append time, minus the lateness."""
    parts = [TopicPartition(*key) for key in sorted(whole.begins) if whole.begins[key] < whole.ends[key]]
    first = first_timestamps(consumer, parts, {part: whole.begins[part.topic, part.partition] for part in parts})
    return last_window_end(windowing, min(first.values()) - windowing.lateness_seconds * MILLIS)


def slice_between(windowing: WindowingConfig, find: Find, whole: Slice, after: int | None, until: int) -> Slice:
    """The slice of the windows after `after` and up to `until` (epoch ms; None: from the beginning), with the offsets that it reads."""
    begins, ends = dict(whole.begins), dict(whole.ends)
    if after is not None and after != whole.after:
        found = find(after - windowing.skew_seconds * MILLIS)
        begins = {key: min(ends[key], max(begin, found[key])) for key, begin in begins.items()}
    if until < whole.until:
        found = find(until + windowing.watermark_delay_seconds * MILLIS + 1)
        ends = {key: max(begins[key], min(end, found[key])) for key, end in ends.items()}
    return Slice(after, until, begins, ends)


def find_cuts(windowing: WindowingConfig, find: Find, whole: Slice, span: tuple[int, int], records: int) -> list[int]:
    """Window ends at which to cut a span: it is halved until a piece has at most `records` records, or would be too short."""
    start, stop = span
    least = max(
        LEAST_LENGTH * (windowing.skew_seconds + windowing.watermark_delay_seconds),
        LEAST_WINDOWS * windowing.window_seconds,
    )
    middle = last_window_end(windowing, (start + stop) // 2)
    if stop - start < 2 * least * MILLIS or slice_between(windowing, find, whole, start, stop).events <= records:
        return []
    left = find_cuts(windowing, find, whole, (start, middle), records)
    return [*left, middle, *find_cuts(windowing, find, whole, (middle, stop), records)]


def parse_offsets(settings: Settings, given: Mapping[str, Any], option: str) -> Offsets:
    """Offsets from JSON such as `{"telemetry": {"0": 12}}`, by kind or by the name of the topic. Raises InputError."""
    names = list(input_topics(settings).values())
    found: Offsets = {}
    try:
        for name, parts in given.items():
            topic = settings.topic(name) if name in topics.INPUTS else name
            if topic not in names:
                msg = f"{option}: no input {name!r}; there are {', '.join(topics.INPUTS)}"
                raise InputError(msg)
            found |= {(topic, int(partition)): int(offset) for partition, offset in parts.items()}
    except (AttributeError, TypeError, ValueError) as error:
        msg = f'{option}: {error}; wanted JSON such as {{"telemetry": {{"0": 1200, "1": 1180}}, "logs": {{"0": 77}}}}'
        raise InputError(msg) from error
    return found
