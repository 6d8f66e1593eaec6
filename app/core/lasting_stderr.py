"""A stderr that never ends the process: what it cannot take is lost.

Its terminal may be closed, who reads its pipe may have ended, as it does at Ctrl-C, the disk of the file may be full. Without this the
next line that a job or the parent of the jobs logs would be an error, and end it.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Lossy(io.FileIO):
    """A file descriptor that takes everything."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write; what cannot be written counts as written: there is no other place to say so."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def begin() -> None:
    """Make the stderr of this process one, unless a program has put its own in the place."""
    own = sys.stderr
    if own is sys.__stderr__ and isinstance(own, io.TextIOWrapper):
        taking = io.BufferedWriter(Lossy(own.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(taking, own.encoding, "backslashreplace", line_buffering=True)
