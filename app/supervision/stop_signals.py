"""The signals that ask a process to stop, as something that it can wait for. One that is ignored stays ignored, as nohup has it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal is closed
Handler = Callable[[int, Any], None]


@contextmanager
def stop_pipe() -> Iterator[int]:
    """A descriptor that is readable inside the block once a signal asks to stop; after the block a duplicate of it is at its end."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def stop(_number: int, _frame: Any) -> None:
        with suppress(BlockingIOError):
            os.write(write_end, b"x")

    try:
        with handled(STOPPING, stop):
            yield read_end
    finally:
        os.close(write_end)
        os.close(read_end)


@contextmanager
def handled(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Have signals handled inside the block, those that are not ignored."""
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
