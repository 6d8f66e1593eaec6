"""`kappa run` as a process tree: the process that was started, what it started in turn, the JVM, and Spark's Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from app.core.settings import PROJECT

# The compiler for code that runs for long takes half of the processor time of a start: without it more kills fit into an hour.
# Alone, that would make the code cache smaller than what Spark compiles.
QUICK_START = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
WORKER = "pyspark.daemon"  # an argument of each Python worker
Started = TypeVar("Started", subprocess.Popen[str], subprocess.Popen[bytes])
ROLES = ("run", "child", "jvm", "worker")


class LiveJobs:
    """`kappa run` with one settings file, started again and again. Its output goes into a log file."""

    def __init__(self, file: Path, log: Path) -> None:
        """`file` has the settings."""
        self._file, self._log = file, log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.starts = 0

    def start(self, *arguments: str, names: Sequence[str] = ("all",)) -> None:
        """Start it, in a process group of its own."""
        command = [sys.executable, "-m", "app.cli", "run", *names, "--config", str(self._file), *arguments]
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, cwd=PROJECT, env=os.environ | QUICK_START
            )
        self.starts += 1

    @property
    def running(self) -> bool:
        """Whether the process that was started runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last start, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Its processes by role. Before `kappa run` has a child of its own, there is none in `child`."""
        found: dict[str, list[psutil.Process]] = {role: [] for role in ROLES}
        if self._process is None or self._process.poll() is not None:
            return found
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self._process.pid)
            found["run"].append(parent)
            _sort(parent, found, below_java=False)
        found["worker"] += _orphaned_workers(found)
        return found

    def signal(self, role: str, number: signal.Signals) -> list[int]:
        """Send a signal to all processes of a role; their pids."""
        hit = []
        for process in self.processes()[role]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
                hit.append(process.pid)
        return hit

    def last_words(self, lines: int = 3) -> str:
        """The end of the output of the last start."""
        with suppress(OSError), self._log.open("rb") as log:
            log.seek(self._log_start)
            return "\n".join(log.read().decode(errors="replace").strip().splitlines()[-lines:])
        return ""

    def stop(self, timeout: float = 120.0) -> int:
        """SIGTERM, and the exit code. Raises subprocess.TimeoutExpired where it does not end."""
        if self._process is None:
            return 0
        with suppress(ProcessLookupError):
            self._process.terminate()
        return self._process.wait(timeout)

    def end(self) -> None:
        """Kill all of its process group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> LiveJobs:
        """The jobs, not started."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of them outlives the block."""
        tree = [process for role in self.processes().values() for process in role]
        self.end()
        for process in tree:  # those with a group of their own
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _orphaned_workers(found: dict[str, list[psutil.Process]]) -> list[psutil.Process]:
    """Python workers that go on after the process that forked them was killed: nobody's children, still of the jobs' session."""
    sessions, known = set(), {process.pid for role in found.values() for process in role}
    for pid in known:
        with suppress(ProcessLookupError):
            sessions.add(os.getsid(pid))
    orphans = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            if process.pid not in known and os.getsid(process.pid) in sessions and WORKER in process.cmdline():
                orphans.append(process)
    return orphans


def _sort(parent: psutil.Process, found: dict[str, list[psutil.Process]], below_java: bool) -> None:
    for process in parent.children():
        with suppress(psutil.NoSuchProcess):
            # The shell that became Java leaves a child that has ended, for as long as that runs.
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            # What is neither Python nor Java is a script on its way to become Java.
            java = not process.name().startswith(("python", "kappa"))
            if not (below_java and java):  # a start has some scripts below the one that becomes Java
                found["worker" if below_java else "jvm" if java else "child"].append(process)
            _sort(process, found, below_java or java)


@contextmanager
def ended_with(process: Started) -> Iterator[Started]:
    """A process that does not outlive the block, whatever ends that, nor does what it has started."""
    try:
        yield process
    finally:
        kill_tree(process)


def kill_tree(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int | None:
    """Kill a process with all that it has started; the exit code that it had already, None where it was still running."""
    done = process.poll()
    if done is None:
        with suppress(psutil.NoSuchProcess):
            tree = psutil.Process(process.pid)
            for one in [*tree.children(recursive=True), tree]:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
    process.wait()
    return done
