"""What signals do: they end a command after its own clean-up, or set an event, so that the batch in hand is finished.

A signal that is ignored stays ignored, as nohup has it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal is closed
Handler = Callable[[int, Any], None]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the block as Ctrl-C does, with its clean-up: no half-written file is left."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    with _handled(ENDING, end):
        yield


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM, Ctrl-C and a closed terminal set inside the block, so that the batch in hand is finished."""
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        stopping.set()

    with _handled((*ENDING, signal.SIGINT), stop):
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
