"""Up to where the topics of incidents have been dealt with: before the first record of which a notification waits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from kafka import TopicPartition

from app.notify.incident import LogPlace


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
