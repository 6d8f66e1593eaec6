"""What signals do: they end a command after its own clean-up, or set an event, so that the batch in hand is finished.

A signal that is ignored stays ignored, as nohup has it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal is closed
Handler = Callable[[int, Any], None]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, Ctrl-C and a closed terminal end the block with its clean-up: no half-written file is left.

    Ctrl-C too by SystemExit: py4j, which waits for Spark most of the time, prints a stack where it meets KeyboardInterrupt.
    """

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    with _handled(ENDING, end):
        yield


@contextmanager
def stopped_by_signals(on_stop: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM, Ctrl-C and a closed terminal set inside the block, so that the batch in hand is finished.

    `on_stop` is called once, in a thread: what the signal has interrupted may be printing itself.
    """
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        if on_stop is not None and not stopping.is_set():
            threading.Thread(target=on_stop, name="stopping", daemon=True).start()
        stopping.set()

    with _handled(ENDING, stop):
        yield stopping


@contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: Handler) -> Iterator[None]:
    """Have signals handled inside the block, those that are not ignored."""
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
