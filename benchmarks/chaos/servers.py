"""A broker and an Elasticsearch node as processes that can be killed, and started again on the same data and port."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from threading import Event

import psutil

from app.core.errors import StackError
from app.embedded.stack import Stack, running_stack, status
from app.embedded.stack_state import address, read_state
from benchmarks.chaos.clock import SteppedClock
from benchmarks.deployment import say

NAMES = ("kafka", "elasticsearch")
RESTART_SECONDS = 240.0
POLL_SECONDS = 0.2
ENDS_SECONDS = 3.0  # a supervisor without a server that is not going to start another ends within this time


class KillableServer:
    """One embedded server with a stack of its own, which ends with this process."""

    def __init__(
        self, name: str, home: Path, jars: Path, heap_mib: int = 512, clock: SteppedClock | None = None
    ) -> None:
        """`name` is `kafka` or `elasticsearch`; `home` is its folder; `clock` is its wall clock, where that is not the machine's."""
        self.name, self.clock = name, clock
        self._stack = Stack(
            home,
            kafka=name == "kafka",
            elasticsearch=name == "elasticsearch",
            kafka_heap_mib=heap_mib,
            elasticsearch_heap_mib=heap_mib,
            jars=jars,
        )
        self._running = ExitStack()

    @property
    def home(self) -> Path:
        """The folder of its data, logs and state."""
        return self._stack.home

    @property
    def address(self) -> str:
        """Where clients connect, as in the settings; the same after every start. Raises StackError before the first one."""
        state = read_state(self.home)
        if state is None:
            msg = f"{self.name} in {self.home} was never started"
            raise StackError(msg)
        return address(self.name, state.services[self.name])

    def start(self) -> None:
        """Start it on the data and the port of the last time; returns when it answers."""
        self._running.close()
        # Once its home is known the port is asked for by number, as another one would not be noticed here.
        state = read_state(self.home)
        port = state.services[self.name].port if state and self.name in state.services else 0
        stack = dataclasses.replace(
            self._stack,
            kafka_port=port if self.name == "kafka" else 0,
            elasticsearch_port=port if self.name == "elasticsearch" else 0,
        )
        deadline = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                with self.clock.environment() if self.clock else nullcontext():
                    self._running.enter_context(running_stack(stack))
            except StackError as error:
                if time.monotonic() > deadline:
                    raise
                say(f"{self.name} does not start yet: {error}")
                Event().wait(1.0)
            else:
                return

    def stop(self) -> None:
        """Stop it cleanly."""
        self._running.close()

    def process(self) -> psutil.Process | None:
        """Its Java, if it runs."""
        state = read_state(self.home)
        service = state.services.get(self.name) if state else None
        return service.process.process() if service and service.process else None

    def signal(self, number: signal.Signals) -> bool:
        """Send its Java a signal; False if there is none."""
        process = self.process()
        if process is None:
            return False
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        return True

    def kill_hard(self) -> None:
        """Kill its supervisor, and with it the server, which nobody starts again."""
        state = read_state(self.home)
        found = [one.process() for one in (state.processes() if state else [])]
        if state is not None and state.supervisor is not None:
            with suppress(ProcessLookupError):
                os.kill(state.supervisor.pid, signal.SIGKILL)
        psutil.wait_procs([process for process in found if process is not None], timeout=ENDS_SECONDS * 10)
        with suppress(StackError, OSError):
            self._running.close()

    def recover(self) -> float:
        """Wait until it answers again after a kill, and start it where its supervisor has given up; seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < RESTART_SECONDS:
            state = read_state(self.home)
            if state is None or not state.supervised():
                self.start()
                break
            if state.phase == "ready" and self.process() is not None and self._answers():
                break
            Event().wait(POLL_SECONDS)
        else:
            msg = f"{self.name} in {self.home} did not answer within {RESTART_SECONDS:.0f} s of a kill"
            raise StackError(msg)
        return time.monotonic() - began

    def _answers(self) -> bool:
        return status(self.home).healthy

    def end(self) -> None:
        """Stop it; a suspended one is woken first."""
        self.signal(signal.SIGCONT)
        self.stop()
