"""Up to where the topics of incidents have been dealt with: before the first record of which a notification waits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from kafka import TopicPartition

from app.notify.incident import LogPlace

POSITION_SECONDS = 5.0


class Positions:
    """Counts, of each record, the notifications that wait; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[TopicPartition, int] = {}
        self._waiting: Counter[tuple[TopicPartition, int]] = Counter()

    def read(self, at: TopicPartition, offset: int) -> None:
        """Everything of a partition before an offset has been planned."""
        with self._lock:
            self._read[at] = offset

    def wait_for(self, place: LogPlace) -> None:
        """A notification of a record waits."""
        with self._lock:
            self._waiting[TopicPartition(place.topic, place.partition), place.offset] += 1

    def settle(self, places: Iterable[LogPlace]) -> None:
        """Notifications of these records have been recorded."""
        with self._lock:
            for place in places:
                key = TopicPartition(place.topic, place.partition), place.offset
                self._waiting[key] -= 1
                if self._waiting[key] <= 0:
                    del self._waiting[key]

    def until(self) -> dict[TopicPartition, int]:
        """By partition the first offset that has not been dealt with."""
        with self._lock:
            found = dict(self._read)
            for at, offset in self._waiting:
                found[at] = min(offset, found.get(at, offset))
            return found


class RecordedPositions:
    """Which positions the log of deliveries has. What is old is deleted there, so all are recorded anew from time to time."""

    def __init__(self, recorded: Mapping[TopicPartition, int], anew_seconds: float) -> None:
        """`recorded`: what the log has; `anew_seconds`: how often all are recorded, and at the start."""
        self._recorded, self._anew_seconds = dict(recorded), anew_seconds
        self._at = self._anew_at = float("-inf")  # monotonic seconds

    def due(self, until: Mapping[TopicPartition, int], now: float) -> dict[TopicPartition, int]:
        """What is to be recorded: what has changed, every few seconds, or all."""
        if now - self._anew_at >= self._anew_seconds:
            return dict(until)
        if now - self._at < POSITION_SECONDS:
            return {}
        return {at: offset for at, offset in until.items() if self._recorded.get(at) != offset}

    def written(self, positions: Mapping[TopicPartition, int], now: float) -> None:
        """These are recorded, as they were due."""
        if now - self._anew_at >= self._anew_seconds:
            self._anew_at = now
        self._recorded |= positions
        self._at = now
