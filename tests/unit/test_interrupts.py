"""Processes that Ctrl-C in a terminal does not reach, from their first moment on."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

import pytest

from app.cli import demonstration
from app.simulator import publish, simulation
from app.supervision import interrupts
from app.supervision.interrupts import start_uninterrupted


def is_held_back() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


AT_FIRST = is_held_back()  # in a process that is spawned: while its modules are loaded


def tell(pipe: Connection) -> None:
    pipe.send(AT_FIRST)


def test_a_program_that_is_started_inside_never_sees_ctrl_c() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    with interrupts.held_back():
        started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert started.communicate(timeout=60)[0] == b"True\n"
    assert not is_held_back()


def test_a_ctrl_c_meanwhile_is_not_lost() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts.held_back():
        # To this thread: another one, which does not block it, would let it through at once.
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached


@pytest.mark.parametrize("tracked", [True, False])
def test_a_process_that_is_spawned_never_sees_ctrl_c_even_while_its_modules_load(tracked: bool) -> None:
    if not tracked:
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=tell, args=(sender,))
    start_uninterrupted(process)
    sender.close()
    assert receiver.recv()
    process.join(60)
    assert not is_held_back()


@pytest.mark.parametrize("module", [demonstration, publish, simulation])
def test_what_runs_beside_a_command_is_started_so(module: object) -> None:
    """Each prints a stack at Ctrl-C where it is started otherwise."""
    assert vars(module)["start_uninterrupted"] is start_uninterrupted
