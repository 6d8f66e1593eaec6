"""Heartbeats of the input topics: records that move the watermark of a partition to which nobody writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from typing import Any, Self

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from app.core.timestamps import iso_millis, wall_clock
from app.kafka.connection import connection_error, translate_errors
from app.kafka.producer import DAY_MS, BoundedProducer
from models.records.records import Heartbeat
from pipelines.errors import KappaError
from pipelines.windowing import MILLIS, WindowingConfig

log = structlog.get_logger()

# A compacted topic, as `rules` is, refuses records without a key, and keeps one of each: no rule may have it. Names have no control characters.
HEARTBEAT_KEY = b"\x00heartbeat"
STEP_SECONDS = 5  # at most, from one heartbeat to the next
ANSWER_SECONDS = 2.0
MOST_SHOWN = 500  # characters of an error
QUIET_SECONDS = 120.0  # without a record of anybody else
QUIET_STEP_SECONDS = 60.0  # then windows are closed so far apart
Where = tuple[str, int]  # a partition of a topic


def heartbeat(milliseconds: int) -> bytes:
    """The value of a heartbeat at a time (epoch milliseconds)."""
    return f'{{"record":"{Heartbeat.KIND}","@timestamp":"{iso_millis(milliseconds)}"}}'.encode()


def queue_heartbeats(outbox: BoundedProducer, partitions: Iterable[Where], at_ms: int) -> dict[Where, Any]:
    """Queue the heartbeat of a time, epoch ms, for each of some partitions; returns kafka-python's futures. Raises as `BoundedProducer.send`."""
    value = heartbeat(at_ms)
    return {
        (topic, p): outbox.send(topic, value, key=HEARTBEAT_KEY, partition=p, timestamp_ms=at_ms)
        for topic, p in partitions
    }


def next_heartbeat_ms(now_ms: int, windows: WindowingConfig) -> int:
    """The next time of a heartbeat, epoch ms: where a window can be closed, and between two of these as often as `STEP_SECONDS` says."""
    length, delay = windows.window_seconds * MILLIS, windows.watermark_delay_seconds * MILLIS
    parts = -(-windows.window_seconds // STEP_SECONDS)
    begin = (now_ms - delay) // length * length + delay
    return next(at for i in range(1, parts + 1) if (at := begin + length * i // parts) > now_ms)


class Heartbeats:
    """A thread that appends heartbeats to every partition of the input topics: when a window can be closed, and between.

    The watermark is the least over all partitions, so a partition without records would hold all windows open. A heartbeat that
    the broker's clock has put before its time, with which it closes no window, is followed by another one. Runs from
    `start` to `stop`, or as a context manager. Goes on while the broker is away, and skips heartbeats while earlier ones are
    not acknowledged.

    When nobody else has written for `quiet_seconds`, only one partition gets all heartbeats, so that every window exists, and
    the others one each `QUIET_STEP_SECONDS`: six windows are closed by one batch, not by six. The first record of somebody else ends that
    within `STEP_SECONDS`.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        topics: Sequence[str],
        windows: WindowingConfig,
        clock: Callable[[], int] = wall_clock,
        quiet_seconds: float = QUIET_SECONDS,
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        """`options` are kafka-python's, `topics` the names of the input topics. `on_problem` gets why none are written; empty once they are again."""
        self._options, self._topics, self._windows, self._clock = options, tuple(topics), windows, clock
        self._quiet_ms, self._on_problem = quiet_seconds * MILLIS, on_problem
        self._heard = clock()  # when somebody else had written, as far as is known
        self._whole = 0  # when all partitions were due
        self._ends: dict[Where, int] = {}  # offsets after the last heartbeat of each partition
        self._stop = Event()
        self._thread: threading.Thread | None = None
        self.beats = 0
        self.problem = ""

    def start(self) -> None:
        """Begin. Raises ServiceUnavailable when Kafka or a topic cannot be reached now."""
        outbox = BoundedProducer(self._options, most=10_000, delivery_timeout_ms=DAY_MS)
        try:
            partitions = [(topic, p) for topic in self._topics for p in range(outbox.partitions(topic))]
            with translate_errors(self._options):
                consumer = KafkaConsumer(allow_auto_create_topics=False, metrics_enabled=False, **self._options)
        except KappaError:
            outbox.close(0.0)
            raise
        self._thread = threading.Thread(
            target=self._run, args=(outbox, consumer, partitions), name="heartbeats", daemon=True
        )
        self._thread.start()

    def _run(self, outbox: BoundedProducer, consumer: KafkaConsumer, partitions: list[Where]) -> None:
        due = self._clock()
        try:
            while not self._stop.is_set():
                self._beat(outbox, consumer, partitions, due)
                now = self._clock()
                due = next_heartbeat_ms(now, self._windows)
                self._stop.wait((due - now) / 1000)
        finally:
            consumer.close()
            outbox.close(5.0)

    def _beat(self, outbox: BoundedProducer, consumer: KafkaConsumer, partitions: list[Where], due: int) -> None:
        """Append the heartbeats of `due`, then or later; an error is kept in `problem` until that succeeds again."""
        try:
            if outbox.settle() > 10 * len(partitions):
                self._note("earlier heartbeats are not acknowledged")
                return
            early, patience = self._wanted(consumer, partitions, due), self._clock() + STEP_SECONDS * 1000
            while early and not self._stop.is_set() and self._clock() < patience:
                appended = self._append(outbox, early)
                early = [where for where, at in appended.items() if at < due]
                if early:
                    least = min(appended[where] for where in early)
                    self._stop.wait(min(due - least, STEP_SECONDS * 1000) / 1000)
            self.beats += 1
            self._note("")
        except KappaError as error:
            self._note(str(error))
        except Exception as error:  # whatever it is, the next ones are tried: without heartbeats no window closes
            self._note(f"{type(error).__name__}: {error}"[:MOST_SHOWN])

    def _note(self, problem: str) -> None:
        """Keep what is wrong; say so when it begins, and when it is over: partitions without heartbeats hold up all windows."""
        if problem and not self.problem:
            log.warning("heartbeats are not written, and no window closes without them", why=problem)
        elif self.problem and not problem:
            log.info("heartbeats are written again")
        if problem != self.problem:
            self._on_problem(problem)
        self.problem = problem

    def _wanted(self, consumer: KafkaConsumer, partitions: list[Where], due: int) -> list[Where]:
        """The partitions that get a heartbeat at `due`: all of them, or while nobody else writes mostly the first."""
        is_quiet = due - self._heard >= self._quiet_ms and due - self._whole < QUIET_STEP_SECONDS * MILLIS
        if is_quiet and not self._written(consumer):
            return partitions[:1]
        self._whole = due
        return partitions

    def _written(self, consumer: KafkaConsumer) -> bool:
        """Whether a partition has more records than up to its last heartbeat. Raises ServiceUnavailable when Kafka does not say."""
        try:
            ends = consumer.end_offsets([TopicPartition(*where) for where in self._ends])
        except (KafkaError, OSError) as error:
            raise connection_error(self._options, error) from error
        found = any(ends[TopicPartition(*where)] > end for where, end in self._ends.items())
        if found:
            self._heard = self._clock()
        return found

    def _append(self, outbox: BoundedProducer, partitions: list[Where]) -> dict[Where, int]:
        """Append a heartbeat to each of some partitions. Returns the append times, epoch ms."""
        now = self._clock()
        sent = queue_heartbeats(outbox, partitions, now)
        outbox.flush(ANSWER_SECONDS)
        for where, future in sent.items():
            if future.value.offset != self._ends.get(where):
                self._heard = now
            self._ends[where] = future.value.offset + 1
        return {where: future.value.timestamp for where, future in sent.items()}

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
