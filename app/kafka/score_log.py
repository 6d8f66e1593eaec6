"""Scores of a few series, read from the topic `scores` on demand: the curves of pages, where scores are not indexed.

A series stands in the partition of its host's shard, and there in order of its windows. Where a time begins is found by bisection, and
the number of records up to another one is the difference of their offsets: so what a reading costs is known before it begins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.connection import client_options, translate_errors
from models.core.series import parse
from pipelines.errors import InputError, ServiceUnavailable

SPARK_SEED = 42  # of its function xxhash64, by which `extract` chooses shards
NEAR = 2_000  # records: a place is not searched for more exactly than that
FIRST_STEP = 1_000
# Several shards share a partition, and a batch writes all windows of one before those of the next one.
MARGIN = 5_000
PROBE_BYTES, READ_BYTES = 65_536, 4_194_304  # of a partition in one answer of the broker
POLL_MS = 250
SILENT_SECONDS = 5.0  # without an answer the broker counts as away
FIRST_RATE = 60_000.0  # records a second, before it has been measured
PLANNED = 0.75  # of the time: what comes last matters most, so reading should come to its end
MEASURABLE = 20_000  # records that show how fast reading is; fewer do where they have taken all of the time
TRIAL = 0.25  # of the time, after which it is known whether reading comes as far as the focus
NUMBERS = ("value", "typical", "lower", "upper")
NOT_NOVEL = ("normal", "warming")


@dataclass(frozen=True)
class Question:
    """Which series, from when to when in event time, epoch ms.

    `focus`: the moment that matters most where not all can be read in `seconds`; `points`: how many there may be of each series.
    """

    series: tuple[str, ...]
    since: int
    until: int
    focus: int
    points: int = 600
    seconds: float = 2.0


@dataclass
class CurvePoint:
    """Windows of a series that are drawn as one: numbers are means, `least` and `most` extremes, `score` the highest."""

    time: int = 0
    windows: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    least: float | None = None
    most: float | None = None
    score: float | None = None
    kind: str = "normal"

    def add(self, score: Mapping[str, Any]) -> None:
        """Take in the score of one more window."""
        self.time, self.windows = max(self.time, score["window_end"]), self.windows + 1
        for name in NUMBERS:
            if isinstance(score.get(name), int | float):
                self.sums[name] = self.sums.get(name, 0.0) + score[name]
                self.counts[name] = self.counts.get(name, 0) + 1
        value, surprise, kind = score.get("value"), score.get("score"), score.get("kind")
        if isinstance(value, int | float):
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)
        if isinstance(surprise, int | float):
            self.score = surprise if self.score is None else max(self.score, surprise)
        if isinstance(kind, str) and kind not in NOT_NOVEL:
            self.kind = kind

    def to_json(self) -> dict[str, Any]:
        """The point as JSON types; null for what is not known."""
        means = {name: self.sums[name] / self.counts[name] if name in self.sums else None for name in NUMBERS}
        own = {"time": self.time, "least": self.least, "most": self.most, "score": self.score, "kind": self.kind}
        return own | means


@dataclass(frozen=True)
class ScoreCurves:
    """The points of each series that has any, in order of time.

    `records` were read of the `wanted` ones, which all take about `seconds`: where it is fewer, the curves are cut.
    """

    series: dict[str, list[dict[str, Any]]]
    records: int
    wanted: int
    seconds: float


class ScoreLog:
    """Reads the scores of one version, whose series are in so many shards. One question at a time.

    Raises ServiceUnavailable if Kafka does not answer, InputError where it refuses us or the version has no topic.
    """

    def __init__(self, settings: Settings, shards: int) -> None:
        self._topic, self._shards = settings.topic("scores"), shards
        self._options, self._rate = client_options(settings), FIRST_RATE
        # Checksums in Python would take half of the time, and this is for pictures alone.
        more = {"fetch_max_wait_ms": 50, "check_crcs": False}
        with translate_errors(self._options):
            self._probe = KafkaConsumer(
                **self._options,
                **more,
                allow_auto_create_topics=False,
                max_partition_fetch_bytes=PROBE_BYTES,
                max_poll_records=1,
            )
            self._reader = KafkaConsumer(
                **self._options,
                **more,
                allow_auto_create_topics=False,
                max_partition_fetch_bytes=READ_BYTES,
                max_poll_records=10_000,
            )
            self._count = len(self._probe.partitions_for_topic(self._topic) or ())
        if not self._count:
            self.close()
            msg = f"there is no topic {self._topic}: the version has never run, or its topics are gone"
            raise InputError(msg)

    def close(self) -> None:
        """Close the connections."""
        self._probe.close()
        self._reader.close()

    def answer(self, asked: Question) -> ScoreCurves:
        """The curves of a question, as much of them as can be read in its time."""
        with translate_errors(self._options):
            return self._answer(asked)

    def _answer(self, asked: Question) -> ScoreCurves:
        deadline = time.monotonic() + asked.seconds
        parts = self._by_partition(asked.series)
        ranges = {part: self._range(part, asked) for part in parts}
        wanted = sum(end - start for start, _, end in ranges.values())
        points: dict[str, dict[int, CurvePoint]] = {name: {} for name in asked.series}
        read = 0
        for left, (part, names) in zip(range(len(parts), 0, -1), parts.items(), strict=True):
            own = max(deadline - time.monotonic(), 0.0) / left
            start, end = window_around_focus(*ranges[part], most=max(int(PLANNED * own * self._rate), NEAR))
            focus = min(max(start, ranges[part][1]), end)
            read += self._read(part, (start, focus, end), names, asked, points, own)
        found = {name: [own[key].to_json() for key in sorted(own)] for name, own in points.items() if own}
        return ScoreCurves(found, read, wanted, wanted / self._rate)

    def _by_partition(self, names: Iterable[str]) -> dict[TopicPartition, dict[bytes, str]]:
        """The keys of series and their names, by the partition that they stand in."""
        found: dict[TopicPartition, dict[bytes, str]] = {}
        for name in names:
            part = TopicPartition(self._topic, shard_of(parse(name).host, self._shards) % self._count)
            found.setdefault(part, {})[name.encode()] = name
        return found

    def _range(self, part: TopicPartition, asked: Question) -> tuple[int, int, int]:
        """Offsets of a partition: the first one wanted, the one of the focus, and the one after the last."""
        begin, end = self._probe.beginning_offsets([part])[part], self._probe.end_offsets([part])[part]
        self._probe.assign([part])
        start = self._locate(part, asked.since, begin, end)
        focus = self._locate(part, asked.focus, start, end)
        stop = self._locate(part, asked.until + 1, focus, end)
        return max(start - MARGIN, begin), focus, min(stop + MARGIN, end)

    def _locate(self, part: TopicPartition, time_ms: int, begin: int, end: int) -> int:
        """About the first offset whose window ends at a time or later."""
        appended = self._probe.offsets_for_times({part: time_ms})[part]
        # No record is appended before its window has ended.
        low = high = max(begin, appended.offset) if appended else end
        step = FIRST_STEP
        while high < end and self._window_at(part, high) < time_ms:
            low, high, step = high, min(high + step, end), 4 * step
        while high - low > NEAR:
            middle = (low + high) // 2
            low, high = (middle, high) if self._window_at(part, middle) < time_ms else (low, middle)
        return high

    def _window_at(self, part: TopicPartition, offset: int) -> int:
        """The end of the window of the first score at an offset or after it, epoch ms."""
        self._probe.seek(part, offset)
        until = time.monotonic() + SILENT_SECONDS
        while time.monotonic() < until:
            for record in self._probe.poll(POLL_MS).get(part, ()):
                found = score_of(record.value)
                if found is not None:
                    return int(found["window_end"])
        msg = f"Kafka gave no record of {self._topic} within {SILENT_SECONDS:g} s; see whether it runs"
        raise ServiceUnavailable(msg)

    def _read(
        self,
        part: TopicPartition,
        offsets: tuple[int, int, int],
        names: Mapping[bytes, str],
        asked: Question,
        points: Mapping[str, dict[int, CurvePoint]],
        seconds: float,
    ) -> int:
        """Take in the scores of series between the first and the last of the offsets; answers how many records were read.

        Where reading is too slow to come as far as the second one, the focus, it leaves out what is before.
        """
        at, focus, end = offsets
        bucket = max(1_000, (asked.until - asked.since) // asked.points)
        self._reader.assign([part])
        self._reader.seek(part, at)
        began, read, tried = time.monotonic(), 0, False
        while at < end and (spent := time.monotonic() - began) < seconds:
            if spent > TRIAL * seconds and not tried:
                tried, first = True, later_start(at, focus, end, most=int(read * (seconds / spent - 1)))
                if first > at:
                    self._reader.seek(part, first)
                    for known in names.values():
                        points[known].clear()  # a curve has no hole
            for record in self._reader.poll(POLL_MS).get(part, ()):
                name = names.get(record.key)
                if name is not None and record.offset < end:
                    add_score(points[name], score_of(record.value), asked, bucket)
                read += 1
            at = self._reader.position(part)
        if read > MEASURABLE or at < end:
            self._rate = max(read, 1) / max(time.monotonic() - began, 1e-3)
        return read


def add_score(points: dict[int, CurvePoint], score: Mapping[str, Any] | None, asked: Question, bucket: int) -> None:
    """Take in a score into the point of its time, if it is of the time that is asked for."""
    if score is not None and asked.since <= score["window_end"] <= asked.until:
        points.setdefault(score["window_end"] // bucket, CurvePoint()).add(score)


def window_around_focus(start: int, focus: int, end: int, *, most: int) -> tuple[int, int]:
    """The part of a range of offsets with at most so many of them that has the focus in its middle, as far as the ends permit."""
    first = max(start, min(focus - most // 2, end - most))
    return first, min(end, first + most)


def later_start(at: int, focus: int, end: int, *, most: int) -> int:
    """Where reading goes on so that so many further records have the focus in their middle: at the place where it is, or after it."""
    return window_around_focus(at, max(at, focus), end, most=max(most, NEAR))[0]


def score_of(value: bytes | None) -> Mapping[str, Any] | None:
    """The score that a record is; None for anything else."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("window_end"), int) else None


def shard_of(host: str, shards: int) -> int:
    """The shard of a host, as `extract` computes it in Spark."""
    unsigned = xxhash.xxh64_intdigest(host.encode(), seed=SPARK_SEED)
    return (unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned) % shards
