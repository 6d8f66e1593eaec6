"""A simulation into Kafka: history at full speed in order of arrival, or live at the pace of the clock."""

from __future__ import annotations

import multiprocessing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from app.core.allowance import cores
from app.core.timestamps import wall_clock
from app.kafka.heartbeats import HEARTBEAT_KEY, heartbeat
from app.kafka.producer import BoundedProducer
from app.simulator.simulation import Batch, Block, Simulation
from app.simulator.writer import OnEventCount
from app.supervision.interrupts import start_uninterrupted
from pipelines.errors import KappaError, ServiceUnavailable

if TYPE_CHECKING:
    from models.core.arrays import Ints

OnSent = Callable[[int, int], None]  # events so far, and up to when (epoch ms) all are sent
Timestamps = Literal["event", "now"]
WORTH_A_PROCESS = 150_000
SLICE_MS = 100
# Measured on one core, processor time a record: 16 us with lz4, 18 us with gzip, 39 us without compression and with the
# default batches of 16 KiB, because kafka-python computes CRC-32C in Python over whatever is sent.
FAST: dict[str, Any] = {"compression_type": "lz4", "batch_size": 262_144, "linger_ms": 50}


NOTHING = Batch(np.zeros(0, dtype=np.int64), [], [])


@dataclass(frozen=True)
class Target:
    """Where to: kafka-python's client options, and what the input topics are called. Those beside `telemetry` and `logs`
    are sent heartbeats alone."""

    options: Mapping[str, Any]
    topics: Mapping[str, str]


@dataclass(frozen=True)
class PublishResult:
    """How much went out: events, heartbeats, and the time of arrival (epoch ms) up to which that is all."""

    events: int
    heartbeats: int
    until: int


@dataclass(frozen=True)
class Routed:
    """Records of one partition in order of arrival; `beats` of them are heartbeats."""

    arrival: list[int]
    keys: list[bytes]
    values: list[bytes]
    beats: int


@cache
def partition_of(host: bytes, partitions: int) -> int:
    """The partition of a host's records: fixed here, so that every run of a simulation makes the same log."""
    return zlib.crc32(host) % partitions


def cut(block: Block, begin: int, end: int) -> Block:
    """The part of a block that arrives from `begin` up to, not including, `end`."""
    topics = {}
    for topic, batch in block.topics.items():
        low, high = np.searchsorted(batch.arrival, [begin, end]).tolist()
        topics[topic] = Batch(batch.arrival[low:high], batch.keys[low:high], batch.values[low:high])
    return Block(max(begin, block.begin), min(end, block.end), topics)


def routed(block: Block, topic: str, partitions: int, heartbeats: bool) -> list[Routed]:
    """A block's records per partition; each full second a heartbeat for every one, after what arrived by then."""
    batch = block.topics.get(topic, NOTHING)
    first = -(-block.begin // 1000) * 1000
    seconds = np.arange(first, block.end, 1000, dtype=np.int64) if heartbeats else np.zeros(0, dtype=np.int64)
    beats = [heartbeat(second) for second in seconds.tolist()]
    where = np.array([partition_of(key, partitions) for key in batch.keys], dtype=np.int64)
    return [_with_beats(batch, np.flatnonzero(where == p), seconds, beats) for p in range(partitions)]


def _with_beats(batch: Batch, chosen: Ints, seconds: Ints, beats: list[bytes]) -> Routed:
    both = np.concatenate([batch.arrival[chosen], seconds])
    order = np.argsort(both, kind="stable")
    keys = [batch.keys[i] for i in chosen.tolist()] + [HEARTBEAT_KEY] * len(beats)
    values = [batch.values[i] for i in chosen.tolist()] + beats
    places = order.tolist()
    return Routed(both[order].tolist(), [keys[i] for i in places], [values[i] for i in places], len(beats))


def to_kafka(
    simulation: Simulation,
    target: Target,
    *,
    begin: int | None = None,
    until: int | None = None,
    timestamps: Timestamps = "event",
    heartbeats: bool = True,
    processes: int | None = None,
    on_progress: OnEventCount | None = None,
) -> PublishResult:
    """Send all that arrives from `begin` and before `until` (epoch ms; None: everything) as fast as the broker takes it.

    Within a partition records are in order of arrival. With `timestamps` "event" a record's timestamp is its time of
    arrival, as history needs (topics with `message.timestamp.type=CreateTime`); with "now" it is the time of sending.
    `processes` send side by side, each to partitions of its own. Raises ServiceUnavailable when Kafka does not take it.
    """
    with BoundedProducer(target.options) as probe:
        partitions = {topic: probe.partitions(name) for topic, name in target.topics.items()}
    wanted = processes or (2 if simulation.expected_events > WORTH_A_PROCESS and cores() > 1 else 1)
    sender: _Here | _Workers = _Here(target, timestamps) if wanted == 1 else _Workers(target, timestamps, wanted)
    events = beats = 0
    first = end = simulation.settings.start if begin is None else begin
    with sender:
        for whole in simulation.blocks(begin):
            block = cut(whole, max(whole.begin, first), whole.end if until is None else until)
            events += sum(map(len, block.topics.values()))
            for topic, count in partitions.items():
                for partition, records in enumerate(routed(block, topic, count, heartbeats)):
                    beats += records.beats
                    sender.send(topic, partition, records)
            end = block.end
            if on_progress is not None:
                on_progress(events, simulation.expected_events)
            if until is not None and block.end >= until:
                break
    return PublishResult(events, beats, end)


class _Here:
    """Sends from this process."""

    def __init__(self, target: Target, timestamps: Timestamps) -> None:
        self._outbox = BoundedProducer(target.options, **FAST)
        self._topics, self._stamped = target.topics, timestamps == "event"

    def send(self, topic: str, partition: int, records: Routed) -> None:
        name, send = self._topics[topic], self._outbox.send
        for arrival, key, value in zip(records.arrival, records.keys, records.values, strict=True):
            send(name, value, key=key, partition=partition, timestamp_ms=arrival if self._stamped else None)

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *error: Any) -> None:
        self._outbox.__exit__(*error)


class _Workers:
    """Sends from several processes; each owns the partitions whose number leaves its own as the remainder."""

    def __init__(self, target: Target, timestamps: Timestamps, processes: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would break a caller's threads
        pairs = [context.Pipe() for _ in range(processes)]
        self._ends = [ours for ours, _ in pairs]
        targets = [(target, timestamps, theirs) for _, theirs in pairs]
        self._workers = [context.Process(target=_work, args=args, daemon=True) for args in targets]
        for worker, (_, theirs) in zip(self._workers, pairs, strict=True):
            start_uninterrupted(worker)  # Ctrl-C is for this process, whose end ends that one
            theirs.close()

    def send(self, topic: str, partition: int, records: Routed) -> None:
        end = self._ends[partition % len(self._ends)]
        try:
            end.send((topic, partition, records))
        except (BrokenPipeError, ConnectionResetError):
            self._finished(end)

    def _finished(self, end: Connection) -> None:
        """Wait for a worker's last word. Raises what it had to say."""
        try:
            error = end.recv()
        except EOFError:
            error = "a sending process ended early; the broker may be overloaded or out of memory"
        if error is not None:
            raise ServiceUnavailable(error)

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        try:
            if kind is None:
                for end in self._ends:
                    end.send(None)
                for end in self._ends:
                    self._finished(end)
        finally:
            for end, worker in zip(self._ends, self._workers, strict=True):
                end.close()
                if kind is not None:
                    worker.terminate()
                worker.join()


def _work(target: Target, timestamps: Timestamps, pipe: Connection) -> None:
    try:
        with _Here(target, timestamps) as sender:
            while (message := pipe.recv()) is not None:
                sender.send(*message)
        pipe.send(None)
    except KappaError as error:
        pipe.send(str(error))
    except EOFError:  # the other side is gone: nobody to tell
        return


def paced(
    blocks: Iterable[Block], begin: int, clock: Callable[[], int], wait: Callable[[float], bool]
) -> Iterator[Block]:
    """Slices of blocks, each when its last moment has come by `clock` (epoch ms); those that are overdue at once.

    `wait(seconds)` answers True to stop, as `threading.Event.wait` does.
    """
    for block in blocks:
        at = max(block.begin, begin)
        while at < block.end:
            until = min(max(at + SLICE_MS, clock()), block.end)
            if wait(max(0.0, (until - clock()) / 1000)):
                return
            yield cut(block, at, until)
            at = until


def live(
    simulation: Simulation,
    target: Target,
    stop: Event,
    *,
    begin: int | None = None,
    timestamps: Timestamps = "now",
    heartbeats: bool = False,
    clock: Callable[[], int] = wall_clock,
    on_sent: OnSent | None = None,
) -> PublishResult:
    """Send what arrives from `begin` on (None: the start of the simulation), each record at its time of arrival.

    Returns when the simulation is over or `stop` is set. `on_sent` gets the events so far, and up to when (epoch ms) all are sent.
    Heartbeats are left to `app.kafka.heartbeats.Heartbeats` unless asked for. Raises ServiceUnavailable when Kafka does not take the records.
    """
    first = simulation.settings.start if begin is None else begin
    events = beats = 0
    end = first
    with BoundedProducer(target.options, linger_ms=5) as outbox:
        partitions = {topic: outbox.partitions(name) for topic, name in target.topics.items()}
        for block in paced(simulation.blocks(first), first, clock, stop.wait):
            events += sum(map(len, block.topics.values()))
            for topic, count in partitions.items():
                for partition, records in enumerate(routed(block, topic, count, heartbeats)):
                    beats += records.beats
                    for arrival, key, value in zip(records.arrival, records.keys, records.values, strict=True):
                        stamp = arrival if timestamps == "event" else None
                        outbox.send(target.topics[topic], value, key=key, partition=partition, timestamp_ms=stamp)
            outbox.settle()
            end = block.end
            if on_sent is not None:
                on_sent(events, end)
    return PublishResult(events, beats, end)
