"""`kappa watch`: chooses how to show what is seen, and ends cleanly."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from app.cli.watch import View, watch
from app.cli.watch_view import JsonLines, Lines, Page
from app.core.settings import Settings


def line(text: str) -> None:
    """A line on stdout at once: who reads it may be a program that waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def view_of(console: Console, *, as_json: bool, lines: bool) -> Iterator[View]:
    """Objects with `--json`, a page on a terminal, else lines."""
    if as_json:
        yield JsonLines(line)
    elif lines or not console.is_terminal:
        yield Lines(line)
    else:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield Page(live, console)


def run(
    settings: Settings,
    stopping: threading.Event,
    console: Console,
    days: float,
    *,
    follow: bool,
    as_json: bool,
    lines: bool,
) -> None:
    """Watch until told to stop, or until nobody reads any more."""
    try:
        with view_of(console, as_json=as_json, lines=lines) as view:
            watch(settings, stopping, view, days, follow=follow)
    except BrokenPipeError:
        # `kappa watch | head`: who has read enough is content. Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
