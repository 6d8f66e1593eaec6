"""The processes of a session: the child of `kappa run`, its JVM, and the JVM's Python workers.

The child is the leader of a session of its own. Workers leave its process group, never its session.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

SET_PARENT_DEATH_SIGNAL = 1
POLL_SECONDS = 0.02


def python_path() -> str:
    """PYTHONPATH for a child: modules come from where this one does, whatever the working directory holds."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))


def leave_out_working_directory() -> None:
    """From now on no Python below this process, such as the workers of Spark's JVM, takes modules from its working directory.

    `python -m` would take them from there first, and the folder may be one that others write to.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


def members(session: int) -> list[psutil.Process]:
    """The processes of a session that have not ended."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) == session:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def end_session(session: int, but: int | None = None, seconds: float = 10.0) -> bool:
    """SIGKILL every process of a session except `but`; False if one is still there after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        left = [process for process in members(session) if process.pid != but]
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(POLL_SECONDS)


def wait_for_end(session: int, seconds: float) -> bool:
    """Wait until every process of a session has ended; False if one is still there after so many seconds."""
    deadline = time.monotonic() + seconds
    while members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def dump_stacks(session: int, leader: int) -> None:
    """Have the JVMs of a session write the stacks of their threads to their logs, and its leader those of Python."""
    for process in members(session):
        with suppress(psutil.Error, ProcessLookupError):
            if process.pid == leader:
                os.kill(leader, signal.SIGUSR1)
            elif process.name() == "java":
                process.send_signal(signal.SIGQUIT)


def wake_when_parent_ends() -> Callable[[], None] | None:
    """A function for a child to call before its program: Linux then wakes it, where it is stopped, when the parent ends.

    A child that runs notices by itself. The library is loaded here: after a fork nothing may be loaded.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask_the_kernel() -> None:
        prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGCONT)

    return ask_the_kernel
