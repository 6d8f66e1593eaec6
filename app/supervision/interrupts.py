"""Processes that Ctrl-C in a terminal does not reach: who has started them ends them.

One that ignores it by itself can do so only once its modules are loaded, and until then prints the stack of whatever import it meets.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


@contextmanager
def held_back() -> Iterator[None]:
    """A process that is started inside the block has Ctrl-C blocked from its first moment on.

    Here it is not lost: it has its effect after the block, or at once where another thread takes it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_uninterrupted(process: BaseProcess) -> None:
    """Start a process of `multiprocessing` that Ctrl-C does not reach."""
    resource_tracker.ensure_running()  # if the start below had to start it, that would let Ctrl-C through again
    with held_back():
        process.start()
