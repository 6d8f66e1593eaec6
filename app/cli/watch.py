"""`kappa watch`: incidents as they open and close. What is read is in `watch_log`, how it is shown in `watch_view`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import out
from app.cli.signals import stopped_by_signals
from app.core.settings import Settings
from app.versions import serving

if TYPE_CHECKING:
    from app.cli.watch_incidents import WatchView


def watch(
    days: Annotated[
        float, typer.Option(min=0.01, help="How long ago an incident that is shown may have had its last update.")
    ] = 7.0,
    version: Annotated[
        str | None, typer.Option(help="Version of the incidents. Default: whichever version serves.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="A line for each event, on a terminal as well.")] = False,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line for each event, and nothing else.")
    ] = False,
) -> None:
    """Show incidents as they open and close, and the pipeline's health, until Ctrl-C. On a pipe: a line per event."""
    own, follow = serving.chosen(config, version)
    settings = connected(own, ("kafka",))
    with stopped_by_signals() as stopping:
        show(settings, stopping, days, follow=follow, as_json=as_json, lines=lines)


def show(
    settings: Settings, stopping: threading.Event, days: float, *, follow: bool, as_json: bool, lines: bool
) -> None:
    """Watch until stopped, or until nobody reads stdout any more."""
    from app.cli.watch_incidents import watch_until_stopped  # loads Kafka's client

    try:
        with opened_view(as_json=as_json, lines=lines) as view:
            watch_until_stopped(settings, stopping, view, days, follow=follow)
    except BrokenPipeError:
        # As in `kappa watch | head`. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def opened_view(*, as_json: bool, lines: bool) -> Iterator[WatchView]:
    """Objects with `--json`, a page on a terminal, else lines."""
    from rich.live import Live

    from app.cli.watch_view import JsonView, LineView, TerminalView  # loads Kafka's client

    if as_json:
        yield JsonView(write_line)
    elif lines or not out.is_terminal:
        yield LineView(write_line)
    else:
        with Live(console=out, screen=True, auto_refresh=False) as live:
            yield TerminalView(live, out)


def write_line(text: str) -> None:
    """Write a line on stdout at once: a program that reads it may be waiting."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
