"""The simulation as a whole: groups generate chapters of time, in one process or several; one merge orders them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from app.core.allowance import cores
from app.core.errors import StackError
from app.simulator import logs, telemetry
from app.simulator.disorder import LATE_MOST_MS, LATENESS_MS
from app.simulator.faults import CLOCK_ERROR_MS, effects_of
from app.simulator.ground_truth import truth_records
from app.simulator.metrics import Machines
from app.simulator.rhythm import time_block
from app.simulator.schedule import Placement, plan
from app.supervision.interrupts import start_uninterrupted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from app.simulator.fleet import Fleet
    from app.simulator.logs import Lines
    from app.simulator.settings import SimulatorSettings
    from models.core.arrays import Ints


TOPICS = ("telemetry", "logs")
CHAPTER_SECONDS = 300.0
BLOCK_MS = 60_000
WORTH_A_PROCESS = 300_000  # expected events below which a second process costs more than it brings


@dataclass(frozen=True)
class Batch:
    """Events of one topic in order of arrival: epoch milliseconds `(n,)`, hosts as keys, canonical JSON as values."""

    arrival: Ints
    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Block:
    """What arrives from `begin` up to, not including, `end` (epoch milliseconds), per topic."""

    begin: int
    end: int
    topics: dict[str, Batch]


@dataclass
class Counts:
    """What has been generated so far."""

    events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOPICS, 0))
    late: int = 0
    wrong_clock: int = 0


@dataclass(frozen=True)
class Part:
    """One group's events of one chapter and topic: arrival, index of the host in the fleet, JSON, and what to count."""

    arrival: Ints
    host: Ints
    values: list[bytes]
    late: int
    wrong_clock: int


Chapter = dict[str, Part]


class Simulation:
    """A deterministic labelled fleet. Iterating costs; `truth`, `fleet` and `episodes` are there at once."""

    def __init__(self, settings: SimulatorSettings, processes: int | None = None) -> None:
        """Place the episodes. `processes` None means one for each core where the simulation is large enough."""
        self.settings = settings
        placed: Placement = plan(settings)
        self.fleet: Fleet = placed.fleet
        self.episodes = placed.episodes
        self.truth: list[dict[str, Any]] = truth_records(settings, placed)
        self.counts = Counts()
        self.processes = self._processes(processes)

    @property
    def end(self) -> int:
        """Epoch milliseconds at which the last event has happened; late ones arrive up to five minutes after it."""
        return self.settings.start + 1000 * self.settings.steps * self.settings.interval_seconds

    @property
    def expected_events(self) -> int:
        """About how many events there will be."""
        s = self.settings
        return int(len(self.fleet.hosts) * s.steps * (13 + 0.8 * s.logs_per_second * s.interval_seconds))

    def _processes(self, wanted: int | None) -> int:
        most = len(self.fleet.groups)
        if wanted is not None:
            return max(1, min(wanted, most))
        return min(cores(), most) if self.expected_events > WORTH_A_PROCESS else 1

    def blocks(self, begin: int | None = None) -> Iterator[Block]:
        """Blocks of a minute of arrival time, in order, the same whatever the number of processes.

        With `begin` (epoch milliseconds) the blocks before it are not rendered, which is about ten times as fast; the
        first block is the one that holds `begin`. Counts are of what was rendered.
        """
        self.counts = Counts()
        first = self.settings.start if begin is None else begin
        chapters = self._chapters(first)
        try:
            yield from self._merged(chapters, first)
        finally:
            chapters.close()

    def _merged(self, chapters: Iterator[tuple[int, list[Chapter]]], first: int) -> Iterator[Block]:
        merge = {topic: _Merge([host.encode() for host in self.fleet.hosts]) for topic in TOPICS}
        at = self.settings.start + (first - self.settings.start) // BLOCK_MS * BLOCK_MS
        for complete, groups in chapters:
            for topic in TOPICS:
                parts = [chapter[topic] for chapter in groups]
                self._count(topic, parts)
                merge[topic].add(parts)
            while at + BLOCK_MS <= complete:
                yield Block(at, at + BLOCK_MS, {topic: merge[topic].take(at, at + BLOCK_MS) for topic in TOPICS})
                at += BLOCK_MS
        while any(len(m) for m in merge.values()):
            yield Block(at, at + BLOCK_MS, {topic: merge[topic].take(at, at + BLOCK_MS) for topic in TOPICS})
            at += BLOCK_MS

    def _count(self, topic: str, parts: list[Part]) -> None:
        self.counts.events[topic] += sum(len(part.values) for part in parts)
        self.counts.late += sum(part.late for part in parts)
        self.counts.wrong_clock += sum(part.wrong_clock for part in parts)

    def _chapters(self, first: int) -> Generator[tuple[int, list[Chapter]]]:
        """For each chapter the time (epoch ms) before which all arrivals are known, and every group's events."""
        groups = [group.index for group in self.fleet.groups]
        if self.processes == 1:
            yield from self._with_ends(zip(*(run_group(self.settings, g, first) for g in groups), strict=True))
            return
        shares = [groups[i :: self.processes] for i in range(self.processes)]
        yield from self._with_ends(_from_workers(self.settings, shares, first))

    def _with_ends(self, chapters: Iterator[Any]) -> Iterator[tuple[int, list[Chapter]]]:
        steps = chapter_steps(self.settings)
        for number, groups in enumerate(chapters):
            last = min((number + 1) * steps, self.settings.steps)
            yield self.settings.start + 1000 * last * self.settings.interval_seconds, list(groups)


class _Merge:
    """Holds what has been generated and not yet arrived; ties of arrival keep the order of groups and lines."""

    def __init__(self, hosts: list[bytes]) -> None:
        self._hosts = hosts
        self._arrival: Ints = np.zeros(0, dtype=np.int64)
        self._host: Ints = np.zeros(0, dtype=np.int64)
        self._values: list[bytes] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, parts: list[Part]) -> None:
        arrival = np.concatenate([self._arrival, *(part.arrival for part in parts)])
        order = np.argsort(arrival, kind="stable")
        values = list(self._values)
        for part in parts:
            values.extend(part.values)
        self._arrival = arrival[order]
        self._host = np.concatenate([self._host, *(part.host for part in parts)])[order]
        self._values = [values[i] for i in order.tolist()]

    def take(self, begin: int, end: int) -> Batch:
        """Remove and return what arrives before `end`; what came before `begin` is dropped."""
        low, high = np.searchsorted(self._arrival, [begin, end])
        hosts = self._hosts
        batch = Batch(
            self._arrival[low:high], [hosts[i] for i in self._host[low:high].tolist()], self._values[low:high]
        )
        self._arrival, self._host, self._values = self._arrival[high:], self._host[high:], self._values[high:]
        return batch


def chapter_steps(settings: SimulatorSettings) -> int:
    """Scrapes in a chapter, the unit in which numbers are generated; part of what fixes the bytes."""
    return max(1, round(CHAPTER_SECONDS / settings.interval_seconds))


def run_group(settings: SimulatorSettings, index: int, first: int) -> Iterator[Chapter]:
    """One group's chapters in order. Those that cannot reach `first` (epoch ms) are simulated but not rendered."""
    placed = plan(settings)
    fleet = placed.fleet
    group = fleet.groups[index]
    episodes = [e for e in placed.episodes if not set(group.hosts).isdisjoint(e.hosts)]
    machines = Machines(settings, group)
    offset = sum(len(g.hosts) for g in fleet.groups[:index])
    steps = chapter_steps(settings)
    for chapter, low in enumerate(range(0, settings.steps, steps)):
        span = time_block(chapter, low, min(low + steps, settings.steps), settings.interval_seconds)
        effects = effects_of(group, episodes, span.middle, settings.interval_seconds, settings.fault_strength)
        numbers = machines.advance(span, effects)
        until = settings.start + 1000 * (span.middle[-1] + settings.interval_seconds) + LATE_MOST_MS
        if until < first:
            yield dict.fromkeys(TOPICS, _NOTHING)
            continue
        metric_lines = telemetry.render(settings, group, span, numbers, effects)
        log_lines = logs.render(settings, group, span, numbers.load, effects)
        yield {"telemetry": _part(metric_lines, offset), "logs": _part(log_lines, offset)}


_NOTHING = Part(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), [], 0, 0)


def _part(lines: Lines, offset: int) -> Part:
    values = "\n".join(lines.text).encode().split(b"\n") if lines.text else []
    lag = lines.arrival - lines.event
    wrong = int((lag < -CLOCK_ERROR_MS // 2).sum())
    return Part(lines.arrival, lines.row + offset, values, int((lag > LATENESS_MS).sum()), wrong)


def _from_workers(settings: SimulatorSettings, shares: list[list[int]], first: int) -> Iterator[list[Chapter]]:
    """Chapters from several processes, put back into the order of the groups.

    `spawn`, because the caller may hold threads (a JVM gateway, a Kafka client) that a fork would break. A worker that
    is ahead blocks on its pipe, so memory stays bounded.
    """
    context = multiprocessing.get_context("spawn")
    receivers, workers = [], []
    for share in shares:
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(settings, share, first, sender), daemon=True)
        start_uninterrupted(worker)  # Ctrl-C is for this process, whose end ends that one
        sender.close()
        receivers.append(receiver)
        workers.append(worker)
    try:
        while True:
            answers = [_next(receiver) for receiver in receivers]
            if answers[0] is None:
                return
            found = {
                g: chapter
                for share, answer in zip(shares, answers, strict=True)
                for g, chapter in zip(share, answer, strict=True)
            }
            yield [found[g] for g in sorted(found)]
    finally:
        for worker, receiver in zip(workers, receivers, strict=True):
            receiver.close()
            worker.terminate()
            worker.join()


def _next(receiver: Connection) -> Any:
    try:
        return receiver.recv()
    except EOFError as error:
        msg = "simulate: a worker process ended early, it may have run out of memory; try fewer hosts or one process"
        raise StackError(msg) from error


def _work(settings: SimulatorSettings, share: list[int], first: int, sender: Connection) -> None:
    try:
        for chapters in zip(*(run_group(settings, g, first) for g in share), strict=True):
            sender.send(chapters)
        sender.send(None)
    except BrokenPipeError:  # the reader stopped early
        return


def simulate(settings: SimulatorSettings, processes: int | None = None) -> Simulation:
    """A simulation of these settings; nothing is generated before its blocks are asked for."""
    return Simulation(settings, processes)
