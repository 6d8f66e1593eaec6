"""Memory and processor time of a process and all that it has started, watched by a thread."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Self

import psutil
from pyspark.sql import SparkSession

from pipelines.spark_internals import jvm_of

POLL_SECONDS = 0.5


def seconds_of_tree(process: psutil.Process) -> float:
    """Processor seconds of a process and of all that it has started, ended ones included. Raises psutil.NoSuchProcess if it has ended."""
    found = 0.0
    for one in (process, *process.children(recursive=True)):
        times = one.cpu_times()
        found += times.user + times.system + times.children_user + times.children_system
    return found


def spark_seconds(spark: SparkSession) -> float:
    """Processor seconds of the JVM of a session and of its workers, ended ones included."""
    return seconds_of_tree(psutil.Process(jvm_of(spark).java.lang.ProcessHandle.current().pid()))


class ProcessUsage:
    """The most memory that the processes had at once, and the processor time that they have used.

    Memory is the proportional set size: pages that several processes share count once. A process that ends between two looks is
    counted up to the last of them.
    """

    def __init__(self, process: psutil.Process) -> None:
        """`process` is the first of them."""
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)
        self._seconds: dict[int, tuple[str, float]] = {}
        self.memory = 0  # bytes, the most at once
        self.by_kind: dict[str, int] = {}  # the most of each kind
        self.warm: tuple[float, float] | None = None  # when, and processor time until then

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no more."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self.look()

    def look(self) -> None:
        """Look once, which the thread does twice a second."""
        found: dict[str, int] = {}
        try:
            every = [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for one in every:
            try:
                kind = "jvm" if "java" in one.name() else "python" if "pyspark" in " ".join(one.cmdline()) else "driver"
                found[kind] = found.get(kind, 0) + one.memory_full_info().pss
                times = one.cpu_times()
            except psutil.Error:
                continue
            self._seconds[one.pid] = kind, times.user + times.system
        self.memory = max(self.memory, sum(found.values()))
        for kind, size in found.items():
            self.by_kind[kind] = max(self.by_kind.get(kind, 0), size)

    def end(self) -> None:
        """Kill the processes, those that it has started first."""
        for one in (*self._process.children(recursive=True), self._process):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()

    @property
    def seconds(self) -> float:
        """Processor time that they have used so far."""
        return sum(self.seconds_by_kind.values())

    @property
    def seconds_by_kind(self) -> dict[str, float]:
        """The same of each kind: `jvm`, `python` for Spark's workers, `driver` for all other processes."""
        found: dict[str, float] = {}
        for kind, seconds in self._seconds.copy().values():
            found[kind] = found.get(kind, 0.0) + seconds
        return found

    def set_warm(self) -> None:
        """From now on what is used counts for `cores`."""
        self.warm = (time.monotonic(), self.seconds)

    @property
    def cores(self) -> float | None:
        """Processor time a second since `set_warm`."""
        if self.warm is None:
            return None
        began, before = self.warm
        return (self.seconds - before) / (time.monotonic() - began)

    def shown(self) -> dict[str, Any]:
        """Memory by kind, as JSON types."""
        return {"memory": self.memory, **self.by_kind}
