"""Clean stops: SIGTERM and Ctrl-C set an event instead of ending the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set inside the block, so that the batch in hand is finished."""
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        stopping.set()

    before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
