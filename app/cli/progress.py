"""Progress of long work on stderr, where that is a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(console: Console, *between: TextColumn) -> Progress:
    """A bar with how much is done of how much, what is told `between`, and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *between,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
