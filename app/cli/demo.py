"""`kappa demo`: the whole pipeline on this machine. The work is in `app.cli.demonstration`."""

from __future__ import annotations

import signal
from functools import partial
from typing import Annotated

import typer

from app.cli.connection import Config
from app.cli.output import Json, err, out, print_json, report
from app.cli.signals import stopped_by_signals
from app.core.settings import load

STOPPING = "stopping all that was started, about half a minute; nothing runs on"


def demo(
    minutes: Annotated[float, typer.Option(min=3, max=120, help="How long it takes, from start to table.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Which simulated fleet.")] = 1,
    until_notified: Annotated[
        bool,
        typer.Option("--until-notified", help="End once an incident was found and somebody notified of it; else fail."),
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Run the whole product on this machine with a simulated fleet that has faults, and show what was found."""
    from app.cli.demonstration import run_demo  # loads Spark

    with stopped_by_signals(partial(report, STOPPING)) as stopping:
        result = run_demo(load(config), minutes, seed, stopping, as_json, err if as_json else out, until_notified)
    if not result:
        raise typer.Exit(128 + signal.SIGINT)
    if as_json:
        print_json(result)
