"""`kappa doctor`: checks a deployment. The work is in `app.doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.errors import SettingsError
from app.core.settings import Settings, load
from app.doctor.finding import Finding, Status
from app.versions import serving
from models.core.wording import counted
from pipelines.errors import InputError


def doctor(
    version: Annotated[
        str | None, typer.Option(help="Version of the checkpoints. Default: the version that serves.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show checks that passed, too.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check a deployment and list what is unsafe, most dangerous first. Exit 1 for danger."""
    from app.doctor.examination import checks_of, examine  # loads Kafka's and Elasticsearch's clients

    settings = settings_to_check(config, version)
    found = examine(settings, checks_of(config))
    dangers = sum(one.status is Status.DANGER for one in found)
    if as_json:
        print_json({"version": settings.version, "dangers": dangers, "findings": [one.record() for one in found]})
    else:
        show(found, every=every)
    if dangers:
        raise typer.Exit(1)


def settings_to_check(config: Config, version: str | None) -> Settings:
    """Settings, with the embedded servers' addresses where these run; what is missing is a finding, not an error."""
    try:
        settings = serving.of_version(config, version)
    except InputError:
        settings = load(config)
    for needed in ("kafka", "elasticsearch"):
        try:
            settings = connected(settings, (needed,), again=True)  # findings say what is exposed or does not answer
        except (InputError, SettingsError):
            continue
    return settings


def show(found: list[Finding], *, every: bool) -> None:
    """Print findings, without those that are as they should be unless `every` is wanted."""
    shown = [one for one in found if every or one.status is not Status.OK]
    rows = [[one.status.name.lower(), one.check, one.found, one.wanted, one.advice] for one in shown]
    counts = ", ".join(f"{sum(one.status is status for one in found)} {status.name.lower()}" for status in Status)
    print_table(f"{counted(len(found), 'finding')}: {counts}", ["status", "check", "found", "wanted", "do"], rows)
    if not shown:
        print_line("nothing unsafe was found")
