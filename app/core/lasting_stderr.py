"""A stderr that never ends the process: what it cannot take is lost.

Its terminal may be closed, who reads its pipe may have ended, as it does at Ctrl-C, the pipe may be full and not block, as another
process that shares it may have it, the disk of the file may be full. Without this the next line that a job or the parent of the jobs
logs would be an error, and end it.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Lossy(io.FileIO):
    """A file descriptor that takes everything."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write; what cannot be written counts as written: there is no other place to say so."""
        written: int | None = None  # as where it is full and does not block
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


def begin() -> None:
    """Make the stderr of this process one, unless a program has put its own in the place."""
    own = sys.stderr
    if own is sys.__stderr__ and isinstance(own, io.TextIOWrapper):
        taking = io.BufferedWriter(Lossy(own.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(taking, own.encoding, "backslashreplace", line_buffering=True)
