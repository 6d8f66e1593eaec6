"""The parent of `kappa run`: starts the child, and starts it again when it ends or makes no progress.

    python -m app.supervision.parent JSON        (the command `kappa run` becomes this process, never by hand)

It imports neither Spark nor the models, so that it needs little memory and nothing in it can fail with them.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from app.core import lasting_stderr, logs
from app.supervision.link import ChildError, RestartHistory
from app.supervision.policy import RestartLimits, RestartPolicy
from app.supervision.processes import dump_stacks, end_session, python_path, wait_for_end, wake_when_parent_ends
from app.supervision.progress import ProgressWatch
from app.supervision.stop_signals import STOPPING, stop_pipe

log = structlog.get_logger()

LOOK_SECONDS = 0.5
# The parent itself may have been stopped, with the whole machine: no longer than this counts between two looks.
LONGEST_LOOK_SECONDS = 5.0
MOST_PATIENCE = 16.0  # times the limits for a job without progress
# How a process ends that others end, with 0 where it stops as it is asked to; what it ends itself by is another one.
OUTSIDE = (0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
MODULE = "app.supervision.parent"
PYTHON = (sys.executable, "-P", "-m")  # a module by its name, never one of the working directory


@dataclass(frozen=True)
class SupervisedCommand:
    """What to run, and for how long it may be silent.

    `command`           program and arguments of each start; `--supervised` and the descriptor of the connection are added.
    `until_positioned`  arguments that the first start has as well, and each until one has set the checkpoints.
    `until_progress`   arguments that each start has as well until every job has made progress.
    `stale_seconds`     how long a job may make no progress.
    `start_seconds`     the same before its first progress.
    `dump_seconds`      how long a hung child has for writing its stacks.
    `hung_seconds`      how long a hung child has for stopping, after SIGTERM.
    `stop_seconds`      how long the child has for stopping when the parent is asked to.
    `leave_seconds`     how long its JVM and workers have for ending by themselves after that.
    `log`               where the JVM's log is, for people.
    `log_format`        the form of this process's own lines.
    """

    command: tuple[str, ...]
    until_positioned: tuple[str, ...] = ()
    until_progress: tuple[str, ...] = ()
    stale_seconds: float = 120.0
    start_seconds: float = 300.0
    dump_seconds: float = 2.0
    hung_seconds: float = 10.0
    stop_seconds: float = 120.0
    leave_seconds: float = 5.0
    log: str = ""
    log_format: logs.LogFormat = "text"
    limits: RestartLimits = field(default_factory=RestartLimits)

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> SupervisedCommand:
        """The inverse."""
        raw = json.loads(text)
        arguments = {name: tuple(raw.pop(name)) for name in ("command", "until_positioned", "until_progress")}
        return cls(**raw | arguments | {"limits": RestartLimits(**raw["limits"])})


def become_parent(what: SupervisedCommand) -> None:
    """Replace this process by the parent: its memory is given back, and its id stays. A signal that comes meanwhile waits for it."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    os.environ["PYTHONPATH"] = python_path()
    os.execv(sys.executable, [*PYTHON, MODULE, what.to_json()])


class Child:
    """One run of the child."""

    def __init__(
        self,
        what: SupervisedCommand,
        extra: tuple[str, ...],
        history: RestartHistory,
        now: float,
        patience: float = 1.0,
    ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [*what.command, *extra, "--supervised", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C in a terminal then reaches the parent alone, and all that it starts can be found.
                start_new_session=True,
                preexec_fn=wake_when_parent_ends(),  # noqa: PLW1509  (the parent has no other threads)
            )
        self._socket, self._text = ours, b""
        self._socket.sendall(json.dumps(asdict(history)).encode() + b"\n")
        self._socket.setblocking(False)
        self.watch = ProgressWatch(now, patience * what.stale_seconds, patience * what.start_seconds)
        self.error: ChildError | None = None
        self.positioned = False
        self.hindrance = ""
        self._done: set[str] = set()
        self._waiting: set[str] = set()

    @property
    def session(self) -> int:
        """The session of all its processes."""
        return self.process.pid

    @property
    def all_progressed(self) -> bool:
        """Whether every job that it runs has ended a batch, or has found that there is nothing to do."""
        return bool(self.watch.jobs) and self._done >= set(self.watch.jobs)

    @property
    def was_good(self) -> bool:
        """Whether the same holds but for jobs that wait for a server: another start would not help those."""
        return bool(self._done) and bool(self.watch.jobs) and self._done | self._waiting >= set(self.watch.jobs)

    @property
    def connection(self) -> int | None:
        """What becomes readable when it sends something; None when it has closed the connection."""
        number = self._socket.fileno()
        return None if number < 0 else number

    def read(self, now: float) -> None:
        """Take in what it has sent."""
        while self.connection is not None:
            try:
                found = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                found = b""
            if not found:
                self._socket.close()
                return
            *lines, self._text = (self._text + found).split(b"\n")
            for line in lines:
                self._take(json.loads(line), now)

    def _take(self, message: dict[str, Any], now: float) -> None:
        match message.pop("event"):
            case "alive":
                self.watch.alive(now)
            case "expect":
                self.watch.expect(message["job"], now)
            case "progress":
                self.watch.progress(message["job"], now)
                if message["done"]:
                    self._done.add(message["job"])
                if message["waits"]:
                    self._waiting.add(message["job"])
            case "hindered":
                self.hindrance = message["why"]
            case "forget":
                self.watch.forget(now)
            case "positioned":
                self.positioned = True
            case "failed":
                self.error = ChildError(**message)

    def end(self) -> None:
        """End all its processes, at once."""
        end_session(self.session)
        self.process.wait()
        self._socket.close()

    def why(self) -> str:
        """What ended it, in words."""
        code = self.process.returncode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = "; the system kills so where memory ends" if -code == signal.SIGKILL else ""
            return f"killed by {name}{hint}"
        if code == 0:
            return "stopped by a signal to it alone"
        return self.error.text if self.error is not None else f"ended with code {code}"


class Parent:
    """Runs the child until it is asked to stop itself, or gives up. `stop_pipe` becomes readable when a signal asks to stop."""

    def __init__(
        self,
        what: SupervisedCommand,
        stop_pipe: int,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.what, self.stop_pipe, self._clock = what, stop_pipe, clock
        self.policy = RestartPolicy(what.limits, draw)
        self.history = RestartHistory()
        self._positioned = self._progressed = False
        self.patience = 1.0
        self._awake = 0.0
        self._looked = clock()

    def run(self) -> int:
        """Start, watch, start again; returns the exit code."""
        while True:
            child = Child(self.what, self._arguments(), self.history, self._now(), self.patience)
            try:
                hung = self._watch(child)
                if hung is None and child.process.poll() is None:
                    return self._stop(child)
                if hung is not None:
                    # What is slow and does not hang must not be ended at the same place again and again.
                    self.patience = min(MOST_PATIENCE, 2 * self.patience)
                    self._end_hung(child, hung)
                code = child.process.wait()
                child.read(self._now())
            finally:
                child.end()
            if hung is None and code == 0 and self._wait(0):  # a signal to all processes, which the child took first
                return 0
            error = child.error or ChildError("")
            if error.lasting and hung is None and code > 0:
                return code
            why = hung or child.why()
            wait = self.policy.ended(self._now(), error.waits and hung is None)
            if wait is None:
                self._give_up(why)
                return 1
            # A job that hangs while nobody can write to Kafka says nothing about what it has read.
            killed = bool(child.hindrance) if hung else error.waits or error.killed or code in OUTSIDE
            self.history = RestartHistory(self.history.restarts + 1, why, iso_now(), killed)
            if error.waits:
                log.warning("waiting for a server", why=why, next_try_seconds=round(wait, 1))
            else:
                log.error(
                    "jobs ended",
                    why=why,
                    pid=child.process.pid,
                    restarts=self.history.restarts,
                    starting_again_in_seconds=round(wait, 1),
                )
            if self._wait(wait):
                return 0
            if not error.waits:
                log.info("jobs start again", restarts=self.history.restarts)

    def _arguments(self) -> tuple[str, ...]:
        position = () if self._positioned else self.what.until_positioned
        return position + (() if self._progressed else self.what.until_progress)

    def _now(self) -> float:
        """Seconds for which this process was awake."""
        now = self._clock()
        self._awake += min(now - self._looked, LONGEST_LOOK_SECONDS)
        self._looked = now
        return self._awake

    def _watch(self, child: Child) -> str | None:
        """Until the child ends, hangs (then what does, in words) or this process is asked to stop."""
        while child.process.poll() is None:
            sources = [self.stop_pipe, *([child.connection] if child.connection is not None else [])]
            readable, _, _ = select.select(sources, [], [], LOOK_SECONDS)
            now = self._now()
            child.read(now)
            self._take_over(child, now)
            if self.stop_pipe in readable:
                return None
            hung = child.watch.hung(now)
            if hung is not None:
                return f"{hung}; {child.hindrance}" if child.hindrance else hung
            if child.connection is None:  # it is about to end
                with suppress(subprocess.TimeoutExpired):
                    child.process.wait(LOOK_SECONDS)
        return None

    def _take_over(self, child: Child, now: float) -> None:
        """What the child has done that later ones must not do again."""
        self._positioned |= child.positioned
        self._progressed |= child.all_progressed
        if child.was_good:
            self.policy.progressed(now)
            self.patience = 1.0

    def _end_hung(self, child: Child, why: str) -> None:
        """Have it write its stacks, ask it to stop, then end it in any case."""
        log.error("jobs hang: ending them", why=why, pid=child.process.pid, stacks=self.what.log)
        dump_stacks(child.session, child.process.pid)
        self._leave(child, self.what.dump_seconds)
        with suppress(ProcessLookupError):
            child.process.terminate()
        self._leave(child, self.what.hung_seconds)
        child.end()

    def _leave(self, child: Child, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(seconds)

    def _stop(self, child: Child) -> int:
        """Ask the child to stop after the batch in hand; returns the exit code."""
        log.info("stopping after the batch in hand", at_most_seconds=round(self.what.stop_seconds))
        child.process.terminate()
        deadline = self._clock() + self.what.stop_seconds
        while child.process.poll() is None and self._clock() < deadline:
            # What it sends is read on, so that it is not held up.
            if child.connection is not None:
                select.select([child.connection], [], [], 0.2)
                child.read(self._now())
            else:
                self._leave(child, 0.2)
        if child.process.poll() is None:
            log.error("jobs did not stop: ending them", after_seconds=round(self.what.stop_seconds), pid=child.session)
            return 1
        wait_for_end(child.session, self.what.leave_seconds)
        code = child.process.returncode
        if code in (-signal.SIGTERM, 128 + signal.SIGTERM):  # it had begun nothing: until it begins, the signal ends it
            return 0
        return max(code, 0) or int(code < 0)

    def _wait(self, seconds: float) -> bool:
        """Wait before a restart; True if this process is asked to stop meanwhile."""
        readable, _, _ = select.select([self.stop_pipe], [], [], seconds)
        return bool(readable)

    def _give_up(self, why: str) -> None:
        line = (
            f"gave up after {self.policy.in_vain} starts in a row without progress of every job; the last one: {why}; "
            f"Spark's log is {self.what.log}; nothing is lost: mend the cause, then run the command again"
        )
        if logs.are_json():
            log.critical(line)
        else:
            sys.stderr.write(f"kappa: {line}\n")
            sys.stderr.flush()


def iso_now() -> str:
    """The time of the clock, for people."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def main(arguments: list[str]) -> int:
    """Run the parent."""
    what = SupervisedCommand.of_json(arguments[0])
    lasting_stderr.begin()
    logs.configure(what.log_format)
    with stop_pipe() as pipe:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # since `become_parent`
        return Parent(what, pipe).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
