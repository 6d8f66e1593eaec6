"""`kappa export`: the newest scores of chosen series, in the form of another tool."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import report
from app.versions import serving
from pipelines.errors import InputError


def export(
    series: Annotated[
        list[str], typer.Argument(help="Names of series: kind/host/service/rest, as in scores and novelties.")
    ],
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print metrics in Prometheus' text format.")] = False,
    version: Annotated[
        str | None, typer.Option(help="Version of the scores. Default: the version that serves.")
    ] = None,
    config: Config = None,
) -> None:
    """Print value, expected values and score of each series in its newest window of the last 15 minutes."""
    from app.cli.series_metrics import exposition, named, newest, without  # loads Kafka's client

    if not prometheus:
        msg = "export: no form is named; wanted --prometheus"
        raise InputError(msg)
    names = named(series)
    settings = connected(serving.of_version(config, version), ("kafka",))
    points = newest(settings, names, round(1000 * time.time()))
    sys.stdout.write(exposition(points))
    if missing := without(names, points):
        report(missing)
