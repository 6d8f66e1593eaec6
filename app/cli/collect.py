"""`kappa collect`: this machine's metrics and log files."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import print_line, report
from app.cli.signals import stopped_by_signals
from app.core.settings import load
from models.core.wording import counted


def collect(
    files: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="Log files to follow; patterns are fine.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between readings.")] = 10.0,
    host: Annotated[str | None, typer.Option(help="The host's name. Default: this machine's.")] = None,
    from_start: Annotated[bool, typer.Option(help="Read files from their start, not only new lines.")] = False,
    config: Config = None,
) -> None:
    """Send this machine's metrics, and the lines of log files, to Kafka until stopped."""
    from app.collector import collector  # loads Kafka's client
    from app.kafka import topics
    from app.kafka.connection import client_options

    settings = connected(load(config), ("kafka",))
    names = {kind: settings.topic(kind) for kind in topics.INPUTS}
    with stopped_by_signals() as stopping:
        report(f"collecting every {interval:g} s; Ctrl-C stops")
        sent = collector.collect(
            client_options(settings),
            names,
            stopping,
            interval=interval,
            files=files or [],
            host=host,
            from_start=from_start,
        )
    print_line(f"sent {counted(sent.telemetry, 'measurement')} and {counted(sent.logs, 'log line')}")
