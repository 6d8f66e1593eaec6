"""`kappa simulate`: a labelled fleet, into a folder or into the input topics. The work is in `app.cli.simulation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line
from app.core.settings import load


def simulate(
    hosts: Annotated[int, typer.Option(help="Machines, physical and virtual.")] = 20,
    hours: Annotated[float, typer.Option(help="Length of the simulation.")] = 4.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    to_kafka: Annotated[bool, typer.Option("--to-kafka", help="Send the records to the input topics.")] = False,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write it into this folder.")] = None,
    start: Annotated[str | None, typer.Option(help="First moment, ISO 8601. Default: 2026-01-05T00:00:00Z.")] = None,
    scenario: Annotated[str, typer.Option(help="standard, faults, changes or clean.")] = "standard",
    truth: Annotated[Path | None, typer.Option(help="Where to write the truth with --to-kafka.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what is in the folder.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Generate telemetry and logs of a simulated fleet with faults and changes of state, and the ground truth."""
    from app.cli import simulation  # loads Kafka's client

    if to_kafka == (out_dir is not None):
        msg = "simulate: give either --to-kafka or --out DIR"
        raise typer.BadParameter(msg)
    if truth is not None and not to_kafka:
        msg = "simulate: --truth is for --to-kafka; with --out DIR the truth is DIR/truth.json"
        raise typer.BadParameter(msg)
    settings = simulation.settings_of(hosts, hours, seed, scenario, start)
    if out_dir is not None:
        made = simulation.to_folder(settings, out_dir, overwrite)
    else:
        made = simulation.to_log(settings, connected(load(config), ("kafka",)), truth)
    if as_json:
        print_json(made)
        return
    print_line(made["summary"])
