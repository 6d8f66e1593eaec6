"""What `kappa watch` reads: the topics of a version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import client_options, unavailable_error
from app.kafka.early_records import parse_alarm
from app.kafka.incident_records import parse_incident_record
from app.kafka.shard_watermarks import WATERMARKS_BACK_MS, ShardWatermarks
from models.records.records import EarlyAlarm
from pipelines.errors import InputError

log = structlog.get_logger()

POLL_MS = 500
TIMEOUT_MS = 5_000
DAY_MS = 86_400_000
# Which topics show that a job is alive, and which ones it reads, upstream first: each gets a heartbeat or a watermark message every few seconds.
WRITES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nothing has come in, not even heartbeats,": (topics.INPUTS, ()),
    "extract has written nothing": (("statistics",), topics.INPUTS),
    "detect has written nothing": (("novelties",), ("statistics",)),
}
READ = ("incidents", "novelties")
REFUSED = ("late", "dead-letters")


@dataclass(frozen=True)
class LogActivity:
    """Who has stopped writing, how far behind the scored windows are, and how many records were refused since the start."""

    stalled: tuple[str, ...]
    behind_seconds: float | None
    refused: Mapping[str, int]


class LogReader:
    """Reads `incidents` from some days ago and `novelties` from some minutes ago, then whatever comes; of `early` only that."""

    def __init__(self, settings: Settings, days: float) -> None:
        """Raises ServiceUnavailable if Kafka does not answer, InputError where the version has no topics."""
        self._settings, self._watermarks = settings, ShardWatermarks()
        self._names = {kind: settings.topic(kind) for kind in (*topics.INPUTS, *topics.OUTPUTS)}
        self._early, self._alarms = TopicPartition(settings.topic(topics.EARLY), 0), list[EarlyAlarm]()
        try:
            options = client_options(settings)
            self._consumer = KafkaConsumer(**options, allow_auto_create_topics=False, auto_offset_reset="earliest")
            self._parts = {kind: self._partitions(kind) for kind in (*topics.INPUTS, "statistics", *READ, *REFUSED)}
            now = int(time.time() * 1000)
            self._begin({"incidents": now - int(days * DAY_MS), "novelties": now - WATERMARKS_BACK_MS})
            self._refused_before = self._ends(REFUSED)
        except (KafkaError, OSError) as error:
            raise unavailable_error(settings, error) from error

    def _partitions(self, kind: str) -> list[TopicPartition]:
        """Those of a topic; none of an input that this user has no right to, as who reads results alone has none."""
        found = self._consumer.partitions_for_topic(self._names[kind])
        if not found and kind not in topics.INPUTS:
            msg = (
                f"there is no topic {self._names[kind]}: version {self._settings.version} has never run here; "
                "`kappa run all`, or check topics.prefix, --version and whether this user may read it"
            )
            raise InputError(msg)
        return [TopicPartition(self._names[kind], p) for p in sorted(found)]

    def _known(self, kinds: tuple[str, ...]) -> bool:
        """Whether any of these topics can be looked at."""
        return any(self._parts[kind] for kind in kinds)

    def _begin(self, since: Mapping[str, int]) -> None:
        """Seek to the first record of each topic after a time, to its end where there is none."""
        wanted = {part: time_ms for kind, time_ms in since.items() for part in self._parts[kind]}
        self._consumer.assign(list(wanted))
        found = self._consumer.offsets_for_times(wanted)
        self._past = self._consumer.end_offsets(list(wanted))
        early = [self._early] if self._consumer.partitions_for_topic(self._early.topic) else []
        if early:
            self._consumer.assign([*wanted, *early])
            self._consumer.seek(self._early, self._consumer.end_offsets(early)[self._early])
        for part in wanted:
            self._consumer.seek(part, found[part].offset if found.get(part) else self._past[part])

    def _ends(self, kinds: tuple[str, ...]) -> dict[str, int]:
        """The sum of the end offsets of each kind."""
        wanted = [part for kind in kinds for part in self._parts[kind]]
        ends = self._consumer.end_offsets(wanted, timeout_ms=TIMEOUT_MS)
        return {kind: sum(ends[part] for part in self._parts[kind]) for kind in kinds}

    def past(self, leave: Callable[[], bool]) -> Iterator[Mapping[str, Any]]:
        """Incidents that were there when the reader was made, oldest first within a partition."""
        while not leave() and any(self._consumer.position(part) < end for part, end in self._past.items()):
            yield from self.poll()

    def poll(self) -> list[Mapping[str, Any]]:
        """Records of incidents that have arrived; waits for half a second at the most."""
        found: list[Mapping[str, Any]] = []
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=5_000)
        except KafkaError as error:
            raise unavailable_error(self._settings, error) from error
        for part, records in polled.items():
            if part.topic == self._names["incidents"]:
                found += [one.source for record in records if (one := parse_incident_record(record.value)) is not None]
            elif part == self._early:
                self._alarms += [alarm for record in records if (alarm := parse_alarm(record.value)) is not None]
            else:
                for record in records:
                    self._watermarks.update(record.value, record.timestamp)
        return found

    def alarms(self) -> list[EarlyAlarm]:
        """Early alarms that were raised or settled since the last call."""
        found, self._alarms = self._alarms, []
        return found

    def activity(self, stale_seconds: float) -> LogActivity | None:
        """Which jobs have written nothing for `stale_seconds`, though they had something to read; None where Kafka does not answer."""
        now = time.time()
        try:
            since = int((now - stale_seconds) * 1000)
            stalled = tuple(
                words
                for words, (kinds, read) in WRITES.items()
                if self._known(kinds)
                and not self._written_after(kinds, since)
                and (not self._known(read) or self._written_before(read, since))
            )
            refused = self._ends(REFUSED)
        except (KafkaError, OSError) as error:
            log.debug("Kafka does not answer", error=repr(error))
            return None
        counts = {kind: refused[kind] - before for kind, before in self._refused_before.items()}
        return LogActivity(stalled, self._watermarks.behind(now), counts)

    def _written_after(self, kinds: tuple[str, ...], time_ms: int) -> bool:
        wanted = {part: time_ms for kind in kinds for part in self._parts[kind]}
        return any(self._consumer.offsets_for_times(wanted, timeout_ms=TIMEOUT_MS).values())

    def _written_before(self, kinds: tuple[str, ...], time_ms: int) -> bool:
        parts = [part for kind in kinds for part in self._parts[kind]]
        later = self._consumer.offsets_for_times(dict.fromkeys(parts, time_ms), timeout_ms=TIMEOUT_MS)
        first = self._consumer.beginning_offsets(parts, timeout_ms=TIMEOUT_MS)
        last = self._consumer.end_offsets(parts, timeout_ms=TIMEOUT_MS)
        return any((later[part].offset if later.get(part) else last[part]) > first[part] for part in parts)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
