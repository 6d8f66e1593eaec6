"""What signals do: they end a command after its own clean-up, or set an event, so that the batch in hand is finished.

A signal that is ignored stays ignored, as nohup has it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from py4j.protocol import Py4JError

from app.supervision.stop_signals import STOPPING, handled, stop_pipe

AGAIN_SECONDS = 0.5


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, Ctrl-C and a closed terminal end the block with its clean-up: no half-written file is left.

    Ctrl-C too by SystemExit: py4j, which waits for Spark most of the time, prints a stack where it meets KeyboardInterrupt. Python drops
    what is raised in a finalizer or in the callback of a weak reference, and goes on: it is raised again until the block ends.

    A signal to the whole process group ends Spark's JVM as well. What py4j then logs and raises in the clean-up is no error of ours.
    """
    timers, ended_by = ExitStack(), list[int]()

    def end(number: int, frame: Any) -> None:
        def again(_: int, frame: Any) -> None:
            if not _ending():
                end(number, frame)

        ended_by.append(number)
        logging.disable()  # of libraries; our own logs do not go through it
        timers.callback(logging.disable, logging.NOTSET)
        timers.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        timers.enter_context(handled([signal.SIGALRM], again))
        timers.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        raise SystemExit(128 + number)

    with timers, handled(STOPPING, end):
        try:
            yield
        except (Py4JError, ConnectionError) as error:
            if not ended_by:
                raise
            raise SystemExit(128 + ended_by[0]) from error


def _ending() -> bool:
    """Whether this thread is on its way out of a block: it handles a SystemExit, or what has come up meanwhile."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, SystemExit):
        error = error.__context__
    return error is not None


@contextmanager
def stopped_by_signals(on_stop: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM, Ctrl-C and a closed terminal set inside the block, so that the batch in hand is finished.

    The event is set, and `on_stop` called once, by a thread: a signal may interrupt its own thread while that prints, or waits for the event
    and holds the lock of it.
    """
    stopping = threading.Event()

    def follow(pipe: int) -> None:
        stops = os.read(pipe, 1)  # nothing at the end of the block
        os.close(pipe)
        if stops:
            stopping.set()
            if on_stop is not None:
                on_stop()

    with stop_pipe() as pipe:
        threading.Thread(target=follow, args=(os.dup(pipe),), name="stopping", daemon=True).start()
        yield stopping
