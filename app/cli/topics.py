"""`kappa topics`: the topics of the log."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.settings import load
from pipelines.errors import InputError

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


Principals = Annotated[
    list[str] | None, typer.Option(help="A principal such as User:NAME or User:CN=NAME; several times.")
]


@topics_app.command("acls")
def acls(
    agents: Principals = None,
    people: Principals = None,
    responders: Principals = None,
    jobs: Principals = None,
    readers: Principals = None,
    operators: Principals = None,
    notifiers: Principals = None,
    lanes: Principals = None,
    config: Config = None,
) -> None:
    """Commands of kafka-acls.sh that give users the least rights: agents write inputs, and only jobs what jobs write."""
    from app.kafka.acls import commands  # loads Kafka's client

    inside = {"jobs": jobs, "readers": readers, "operators": operators, "notifiers": notifiers, "lanes": lanes}
    named = {"agents": agents, "people": people, "responders": responders} | inside
    users = {kind: names for kind, names in named.items() if names}
    if not users:
        msg = "topics acls: name a user, such as --agents User:agents; docs/security.md says who needs what"
        raise InputError(msg)
    for line in commands(load(config), users):
        print_line(line)
