"""`kappa dashboard`: the monitoring pages."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import report
from app.cli.signals import stopped_by_signals
from app.core.settings import load


def dashboard(
    config: Config = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8501,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. On any but loopback people sign in as dashboard.sign_in says, or only read."
        ),
    ] = "127.0.0.1",
) -> None:
    """Serve the dashboard for browsers until stopped."""
    from app.runtime.dashboard import serve  # loads Kafka's client

    with stopped_by_signals() as stopping:
        serve(connected(load(config), ("elasticsearch",)), port, stopping, report, host)
