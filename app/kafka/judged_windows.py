"""Up to when versions have been judged, by the watermark messages at the end of their topics `novelties`.

A version in which nothing is novel writes nothing else that people could see, so this alone tells a quiet version from one that has stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.connection import client_options, translate_errors
from app.kafka.shard_watermarks import ShardWatermarks
from pipelines.errors import InputError, KappaError, ServiceUnavailable

KEPT_SECONDS = 3.0  # an answer, for all who ask
AGAIN_SECONDS = 15.0  # after Kafka did not answer
WAIT_SECONDS = 0.5  # for those who have asked before
READ_SECONDS = 1.0  # at most, for one answer
ASK_MS = 2_000
POLL_MS = 200
# So many records at the end of each partition are read at first, and more of them until every shard has a watermark message among them.
BACK = (500, 5_000, 50_000)
MOST_VERSIONS = 8


@dataclass
class JudgedVersion:
    """What is known of a version: its watermarks, and up to where each partition has been read."""

    watermarks: ShardWatermarks = field(default_factory=ShardWatermarks)
    read_to: dict[TopicPartition, int] = field(default_factory=dict)
    due: float = 0.0


class JudgedWindows:
    """Answers for any version, in a bounded time; the connection to Kafka stays open for the next question."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._consumer: KafkaConsumer | None = None
        self._known: dict[str, JudgedVersion] = {}
        self._away_until = 0.0

    def until(self, version: str) -> int | None:
        """The end of the last window that all shards have judged, epoch ms; None where none is known.

        While Kafka is away it is the last that is known: that much has been judged at any rate. Raises ServiceUnavailable where nothing is known
        and Kafka is away or others wait for it, InputError where it refuses us.
        """
        if not self._settings.kafka.bootstrap_servers:
            msg = "the dashboard was started without kafka.bootstrap_servers, and no embedded Kafka runs"
            raise InputError(msg)
        if self._lock.acquire(timeout=WAIT_SECONDS):
            try:
                self._refresh(version)
            except KappaError:
                self.close()
                self._away_until = time.monotonic() + AGAIN_SECONDS
                if version not in self._known:
                    raise
            finally:
                self._lock.release()
        known = self._known.get(version)
        if known is None:
            msg = "Kafka does not answer, or others wait for it: ask again"
            raise ServiceUnavailable(msg)
        return known.watermarks.until

    def _refresh(self, version: str) -> None:
        """Take in what has come, unless that was done or was in vain a moment ago."""
        known = self._known.get(version) or JudgedVersion()
        if time.monotonic() < max(known.due, self._away_until):
            return
        self._read(version, known)
        known.due = time.monotonic() + KEPT_SECONDS
        self._known[version] = known
        if len(self._known) > MOST_VERSIONS:
            del self._known[min(self._known, key=lambda name: self._known[name].due)]

    def _read(self, version: str, known: JudgedVersion) -> None:
        """Take in what has come since the last time, at first what stands at the end of each partition."""
        options = client_options(self._settings)
        topic = self._settings.model_copy(update={"version": version}).topic("novelties")
        with translate_errors(options):
            if self._consumer is None:
                self._consumer = KafkaConsumer(
                    **options, allow_auto_create_topics=False, max_poll_records=5_000, fetch_max_wait_ms=50
                )
            parts = [TopicPartition(topic, p) for p in sorted(self._consumer.partitions_for_topic(topic) or ())]
            if not parts:
                return
            begins = self._consumer.beginning_offsets(parts, timeout_ms=ASK_MS)
            ends = self._consumer.end_offsets(parts, timeout_ms=ASK_MS)
            if any(offset > ends.get(part, 0) for part, offset in known.read_to.items()):  # the topic was made anew
                known.watermarks, known.read_to = ShardWatermarks(), {}
            deadline = time.monotonic() + READ_SECONDS
            for back in BACK[-1:] if known.read_to else BACK:
                starts = {p: max(known.read_to.get(p, 0), begins[p], ends[p] - back) for p in parts}
                read_to = read_watermarks(self._consumer, known.watermarks, starts, ends, deadline)
                if known.watermarks.until is not None or time.monotonic() > deadline or starts == begins:
                    break
            known.read_to = {} if known.watermarks.until is None else read_to

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def read_watermarks(
    consumer: KafkaConsumer,
    watermarks: ShardWatermarks,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    deadline: float,
) -> dict[TopicPartition, int]:
    """Take in the watermark messages between offsets until a deadline; answers up to where each partition was read."""
    consumer.assign(list(starts))
    for part, start in starts.items():
        consumer.seek(part, start)
    while time.monotonic() < deadline and any(consumer.position(part) < end for part, end in ends.items()):
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                watermarks.update(record.value, record.timestamp)
    return {part: consumer.position(part) for part in starts}
