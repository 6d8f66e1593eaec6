"""Progress of long work, a line of text at a time, for whoever called."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str], None]


def silent(_line: str) -> None:
    """A report that prints nothing."""
