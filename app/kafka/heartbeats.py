"""Heartbeats of the input topics: records that move the watermark of a partition to which nobody writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Self

from app.core.timestamps import iso_millis, wall_clock
from app.kafka.producer import DAY_MS, BoundedProducer
from models.records.records import Heartbeat
from pipelines.errors import KappaError

HEARTBEAT_KEY = b"heartbeat"


def heartbeat(milliseconds: int) -> bytes:
    """The value of a heartbeat at a time (epoch milliseconds)."""
    return f'{{"record":"{Heartbeat.KIND}","@timestamp":"{iso_millis(milliseconds)}"}}'.encode()


class Heartbeats:
    """A thread that appends a heartbeat to every partition of the input topics, one each `interval`.

    The watermark is the least over all partitions, so a partition without records would hold all windows open. Runs from
    `start` to `stop`, or as a context manager. Goes on while the broker is away, and skips heartbeats while earlier ones are
    not acknowledged.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        topics: Sequence[str],
        interval: float = 0.5,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        """`options` are kafka-python's, `topics` the names of the input topics, `interval` is in seconds."""
        self._options, self._topics, self._interval, self._clock = options, tuple(topics), interval, clock
        self._stop = Event()
        self._thread: threading.Thread | None = None
        self.beats = 0
        self.problem = ""

    def start(self) -> None:
        """Begin. Raises ServiceUnavailable when Kafka or a topic cannot be reached now."""
        outbox = BoundedProducer(self._options, most=10_000, delivery_timeout_ms=DAY_MS)
        try:
            partitions = {topic: outbox.partitions(topic) for topic in self._topics}
        except KappaError:
            outbox.close(0.0)
            raise
        self._thread = threading.Thread(target=self._run, args=(outbox, partitions), name="heartbeats", daemon=True)
        self._thread.start()

    def _run(self, outbox: BoundedProducer, partitions: dict[str, int]) -> None:
        try:
            while not self._stop.is_set():
                self._beat(outbox, partitions)
                self._stop.wait(self._interval)
        finally:
            outbox.close(5.0)

    def _beat(self, outbox: BoundedProducer, partitions: dict[str, int]) -> None:
        """Append a heartbeat to every partition; an error is kept in `problem` until that succeeds again."""
        try:
            if outbox.settle() > 10 * sum(partitions.values()):
                self.problem = "earlier heartbeats are not acknowledged"
                return
            now = self._clock()
            for topic, count in partitions.items():
                for partition in range(count):
                    outbox.send(topic, heartbeat(now), key=HEARTBEAT_KEY, partition=partition, timestamp_ms=now)
            self.beats += 1
            self.problem = ""
        except KappaError as error:
            self.problem = str(error)

    def stop(self) -> None:
        """End, and wait for the thread; safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()
