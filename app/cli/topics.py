"""`kappa topics`: the topics of the log."""

from __future__ import annotations

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_table
from app.core.settings import load

topics_app = typer.Typer(help="Topics of the log.", no_args_is_help=True)


@topics_app.command("create")
def create(config: Config = None, as_json: Json = False) -> None:
    """Create the topics that are missing, with the settings that the results depend on."""
    from app.kafka import topics  # loads Kafka's client

    outcomes = topics.create(connected(load(config), ("kafka",)))
    if as_json:
        print_json(outcomes)
        return
    print_table("topics", ["topic", ""], [[name, outcome] for name, outcome in outcomes.items()])
