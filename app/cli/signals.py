"""What signals do: they end a command after its own clean-up, or set an event, so that the batch in hand is finished.

A signal that is ignored stays ignored, as nohup has it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal is closed
AGAIN_SECONDS = 0.5
Handler = Callable[[int, Any], None]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, Ctrl-C and a closed terminal end the block with its clean-up: no half-written file is left.

    Ctrl-C too by SystemExit: py4j, which waits for Spark most of the time, prints a stack where it meets KeyboardInterrupt. Python drops
    what is raised in a finalizer or in the callback of a weak reference, and goes on: it is raised again until the block ends.
    """
    timers = ExitStack()

    def end(number: int, frame: Any) -> None:
        def again(_: int, frame: Any) -> None:
            if not _ending():
                end(number, frame)

        timers.enter_context(_handled([signal.SIGALRM], again))
        timers.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        raise SystemExit(128 + number)

    with timers, _handled(ENDING, end):
        yield


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
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def stop(_number: int, _frame: Any) -> None:
        with suppress(BlockingIOError):
            os.write(write_end, b"x")

    def follow() -> None:
        stops = os.read(read_end, 1)  # nothing at the end of the block
        os.close(read_end)
        if stops:
            stopping.set()
            if on_stop is not None:
                on_stop()

    threading.Thread(target=follow, name="stopping", daemon=True).start()
    try:
        with _handled(ENDING, stop):
            yield stopping
    finally:
        os.close(write_end)


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Have signals handled inside the block, those that are not ignored."""
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
