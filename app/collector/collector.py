"""This machine's own telemetry and log files as canonical events in Kafka."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic, time
from typing import Any

import psutil
import structlog

from app.collector.log_tail import LogTail, log_event
from app.core.errors import SettingsError
from app.core.timestamps import iso_millis, wall_clock
from app.kafka.producer import DAY_MS, BoundedProducer

log = structlog.get_logger()

Clock = Callable[[], int]  # epoch milliseconds
MOST_MOUNTS, MOST_DEVICES = 16, 32
POLL_SECONDS = 0.5
LINES_PER_POLL = 5_000
MOST_WAITING = 10_000
ROOM_SECONDS = 0.05
GOODBYE_SECONDS = 10.0


def encoded(event: Mapping[str, Any]) -> bytes:
    """Canonical JSON. Bytes of a name that are no UTF-8, which files and mounts may have, are question marks."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


@dataclass(frozen=True)
class Reading:
    """One value: percent, bytes, seconds or a count, as its name says. Counters are cumulative."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    counter: bool = False

    def event(self, host: str, at: int) -> dict[str, Any]:
        """The canonical event of this reading; `at` is epoch milliseconds."""
        event: dict[str, Any] = {
            "@timestamp": iso_millis(at),
            "host.name": host,
            "metric.name": self.name,
            "metric.value": self.value,
        }
        if self.labels:
            event["labels"] = dict(self.labels)
        if self.counter:
            event["metric.type"] = "counter"
        return event


class MachineMetrics:
    """Reads this machine. Processor shares are those since the reading before, so the first reading has none."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._cpu_before: Any = None
        self._left_out: set[str] = set()  # kinds of devices of which a warning was logged

    def read(self) -> list[Reading]:
        """All readings of this moment; what the system does not let us see is left out."""
        parts = (self._cpu, _memory, _load, self._disks, self._network, _system)
        return [reading for part in parts for reading in part()]

    def _cpu(self) -> Iterator[Reading]:
        before, now = self._cpu_before, psutil.cpu_times()
        self._cpu_before = now
        if before is None:
            return
        # Linux counts guest time within user time as well.
        spent = {
            mode: max(0.0, getattr(now, mode) - getattr(before, mode))
            for mode in now._fields
            if not mode.startswith("guest")
        }
        total = sum(spent.values())
        if total <= 0:
            return
        idle = spent.get("idle", 0.0) + spent.get("iowait", 0.0)
        yield Reading("system.cpu.utilization", round(100 * (1 - idle / total), 2))
        for mode, seconds in spent.items():
            yield Reading("system.cpu.time.percent", round(100 * seconds / total, 2), {"mode": mode})

    def _disks(self) -> Iterator[Reading]:
        devices = _mounts()
        for mount in self._measured("mounts", devices, lambda name: not is_image(devices[name]), MOST_MOUNTS):
            try:
                used = psutil.disk_usage(mount).percent
            except OSError:  # unplugged, or not ours to see
                continue
            yield Reading("system.disk.used.percent", used, {"mount": mount})
        counters = psutil.disk_io_counters(perdisk=True) or {}
        names = [name for name in counters if not name.startswith(("loop", "ram"))]
        for device in self._measured("disks", names, lambda name: has_hardware("block", name)):
            io = counters[device]
            yield Reading("system.disk.read.bytes", io.read_bytes, {"device": device}, counter=True)
            yield Reading("system.disk.write.bytes", io.write_bytes, {"device": device}, counter=True)

    def _network(self) -> Iterator[Reading]:
        counters = psutil.net_io_counters(pernic=True)
        names = [name for name in counters if name != "lo"]
        for device in self._measured("interfaces", names, lambda name: has_hardware("class/net", name)):
            io, labels = counters[device], {"device": device}
            yield Reading("system.network.receive.bytes", io.bytes_recv, labels, counter=True)
            yield Reading("system.network.transmit.bytes", io.bytes_sent, labels, counter=True)
            yield Reading("system.network.errors", io.errin + io.errout + io.dropin + io.dropout, labels, counter=True)

    def _measured(
        self, kind: str, names: Collection[str], comes_first: Callable[[str], bool], most: int = MOST_DEVICES
    ) -> list[str]:
        """What is measured of many of a kind, as `first_devices` has them; says once that there are more."""
        found = first_devices(names, comes_first, most)
        if len(found) < len(names) and kind not in self._left_out:
            self._left_out.add(kind)
            log.warning(f"some {kind} are not measured", measured=len(found), left_out=len(names) - len(found))
        return found


def first_devices(names: Iterable[str], comes_first: Callable[[str], bool], most: int = MOST_DEVICES) -> list[str]:
    """`most` at most, in the order of their names: those that come first before all others."""
    return sorted(sorted(names, key=lambda name: (not comes_first(name), name))[:most])


def has_hardware(kind: str, name: str) -> bool:
    """Whether there is hardware behind a device, as there is none behind partitions, and interfaces of containers."""
    return Path("/sys", kind, name, "device").exists()


def is_image(device: str) -> bool:
    """Whether what is mounted is a file, as a snap is: it is full however much room there is."""
    return device.startswith("/dev/loop")


def _memory() -> Iterator[Reading]:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    yield Reading("system.memory.used", memory.used)
    yield Reading("system.memory.used.percent", memory.percent)
    yield Reading("system.memory.available", memory.available)
    yield Reading("system.swap.used", swap.used)
    yield Reading("system.swap.used.percent", swap.percent)


def _load() -> Iterator[Reading]:
    for minutes, value in zip((1, 5, 15), psutil.getloadavg(), strict=True):
        yield Reading(f"system.load.{minutes}m", round(value, 2))


def _mounts() -> dict[str, str]:
    """One mount point for each device, the shortest, with the device; `/` always, because a container may list no device."""
    by_device: dict[str, str] = {}
    for part in psutil.disk_partitions(all=False):
        if os.path.isdir(part.mountpoint):  # noqa: PTH112 - a container binds single files, which are no disks
            known = by_device.get(part.device, part.mountpoint)
            by_device[part.device] = min(known, part.mountpoint, key=len)
    return {os.sep: ""} | {mount: device for device, mount in by_device.items()}


def _system() -> Iterator[Reading]:
    yield Reading("system.processes.count", len(psutil.pids()))
    yield Reading("system.uptime", round(time() - psutil.boot_time()), counter=True)


@dataclass(frozen=True)
class Collected:
    """What was handed to Kafka."""

    telemetry: int
    logs: int


def collect(
    options: Mapping[str, Any],
    topics: Mapping[str, str],
    stop: Event,
    *,
    interval: float = 10.0,
    files: Sequence[str] = (),
    host: str | None = None,
    from_start: bool = False,
    clock: Clock = wall_clock,
    on_event: Callable[[str, Mapping[str, Any]], None] | None = None,
) -> Collected:
    """Send this machine's metrics every `interval` seconds, and new lines of `files` (glob patterns), until `stop`.

    `options` are kafka-python's, `topics` the names of `telemetry` and `logs`. While Kafka is away at most 10,000
    records wait in memory; lines then stay in their files, which are opened before they are rotated away, and readings are left
    out. `on_event` is called with kind and event of whatever is sent. Raises ServiceUnavailable when Kafka cannot be reached at
    the start or, at the end, does not take within seconds what waits; SettingsError for an interval that is no length of time.
    """
    if not interval > 0:
        msg = f"collect: interval is {interval}; wanted more than 0 seconds"
        raise SettingsError(msg)
    name = host or socket.gethostname()
    counts = {"telemetry": 0, "logs": 0}
    tail = LogTail(files, from_start)
    with BoundedProducer(options, most=MOST_WAITING, linger_ms=20, delivery_timeout_ms=DAY_MS) as outbox:

        def send(kind: str, events: Iterable[Mapping[str, Any]]) -> None:
            for event in events:
                if not wait_for_room(outbox.settle, tail, stop):
                    return
                outbox.send(topics[kind], encoded(event), key=name.encode(), timestamp_ms=clock())
                counts[kind] += 1
                if on_event is not None:
                    on_event(kind, event)

        for topic in topics.values():
            outbox.partitions(topic)
        try:
            for kind, events in observed(MachineMetrics(), tail, name, interval, clock):
                send(kind, events)
                outbox.settle()
                # After readings the lines' turn comes at once, and more lines when there were as many as fit.
                idle = kind == "logs" and len(events) < LINES_PER_POLL
                if stop.wait(POLL_SECONDS if idle else 0):
                    break
        finally:
            tail.close()
        outbox.flush(GOODBYE_SECONDS)  # records wait for a day, whoever stops it does not
    return Collected(**counts)


def wait_for_room(waiting: Callable[[], int], tail: LogTail, stop: Event) -> bool:
    """Wait until fewer records wait than may; False if it is to stop first. New files are opened meanwhile, as they may be rotated away."""
    due = monotonic()
    while waiting() >= MOST_WAITING:
        if monotonic() >= due:
            tail.look()
            due = monotonic() + POLL_SECONDS
        if stop.wait(ROOM_SECONDS):
            return False
    return True


def observed(
    machine: MachineMetrics, tail: LogTail, host: str, interval: float, clock: Clock
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """For ever, in turns: readings where `interval` seconds have passed, then the lines that have come since.

    The caller says when the next turn is by asking for it; readings that were missed meanwhile are not made up for. Where the clock has
    been set back, the next reading is at once.
    """
    due, step = clock(), max(1, round(1000 * interval))
    while True:
        now = clock()
        if now < due - step:
            due = now
        if now >= due:
            due += step * (1 + (now - due) // step)
            yield "telemetry", [reading.event(host, now) for reading in machine.read()]
        yield "logs", [log_event(line, path, host, clock()) for path, line in tail.read(LINES_PER_POLL)]
