"""`kappa state`: what the model knows about a series."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config
from app.cli.output import Json, print_json, print_table, report
from app.runtime import state_server
from app.versions import serving


def state(
    series: Annotated[
        str, typer.Argument(help="Name of the series: kind/host/service/rest, as in scores and novelties.")
    ],
    version: Annotated[str | None, typer.Option(help="Version of the model. Default: the version that serves.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the model's state of a series: what it expects now, and which decisions are pending."""
    answer = state_server.ask(serving.of_version(config, version), series, report)
    if as_json:
        print_json(answer)
        return
    print_table(series, ["", ""], state_server.rows(answer))
