"""`kappa topics`: the topics of the log."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.settings import load
from pipelines.errors import InputError

topics_app = typer.Typer(
    help="Create the topics of the log, and print the rights that users of them need.", no_args_is_help=True
)


@topics_app.command("create")
def create(config: Config = None, as_json: Json = False) -> None:
    """Create missing topics with the configuration that results depend on."""
    from app.kafka import topics  # loads Kafka's client

    outcomes = topics.create(connected(load(config), ("kafka",)))
    if as_json:
        print_json(outcomes)
        return
    print_table("topics", ["topic", ""], [[name, outcome] for name, outcome in outcomes.items()])


@topics_app.command("acls")
def acls(
    agents: Annotated[list[str] | None, typer.Option(help="Who writes telemetry and logs.")] = None,
    people: Annotated[list[str] | None, typer.Option(help="Who labels incidents and announces changes.")] = None,
    responders: Annotated[list[str] | None, typer.Option(help="Who does that and writes rules.")] = None,
    jobs: Annotated[list[str] | None, typer.Option(help="Who runs `kappa run`.")] = None,
    readers: Annotated[list[str] | None, typer.Option(help="Who reads results, such as `kappa dashboard`.")] = None,
    operators: Annotated[
        list[str] | None,
        typer.Option(help="Who creates and deletes topics; who runs replays needs the rights of jobs too."),
    ] = None,
    notifiers: Annotated[list[str] | None, typer.Option(help="Who runs `kappa run notify` by itself.")] = None,
    lanes: Annotated[list[str] | None, typer.Option(help="Who runs `kappa run early` by itself.")] = None,
    config: Config = None,
) -> None:
    """Print commands of kafka-acls.sh that give each user the least rights.

    A user is a principal of Kafka, User:NAME or User:CN=NAME; NAME alone is User:NAME. Each option can be given several times.
    """
    from app.kafka.acls import commands  # loads Kafka's client

    inside = {"jobs": jobs, "readers": readers, "operators": operators, "notifiers": notifiers, "lanes": lanes}
    named = {"agents": agents, "people": people, "responders": responders} | inside
    users = {kind: names for kind, names in named.items() if names}
    if not users:
        msg = "topics acls: name a user, such as --agents agents; docs/security.md says who needs what"
        raise InputError(msg)
    for line in commands(load(config), users):
        print_line(line)
