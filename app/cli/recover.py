"""`kappa recover`: brings a version back after a loss. The work is in `replay.recovery`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, report
from app.core.settings import Settings
from app.versions import serving
from pipelines.errors import InputError


def recover(
    version: Annotated[str | None, typer.Option(help="Version. Default: the one that serves.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is wrong and what would be done; change nothing.")
    ] = False,
    savepoints: Annotated[
        Path | None, typer.Option(help="A folder with further savepoints, such as a copy from another machine.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Restore a version after a lost log, topic or disk, or a damaged checkpoint; nothing is deleted."""
    from replay import recovery  # loads Kafka's client

    if savepoints is not None and not savepoints.is_dir():
        msg = f"recover: no folder {savepoints}; wanted one with savepoints in it; check --savepoints"
        raise InputError(msg)
    settings = connected(version_to_recover(config, version), ("kafka",))
    what = recovery.plan(settings, savepoints)
    name = f"recovery-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    done = what.record() if dry_run or not what.problems else recovery.recover(settings, what, take, report, name)
    if as_json:
        print_json({"version": settings.version, "dry_run": dry_run, **done})
        return
    if not what.problems:
        print_line(describe_without_problems(settings))
        return
    shown = (("found", done["problems"]), ("would do" if dry_run else "done", done["steps"]), ("lost", done["lost"]))
    for title, lines in shown:
        for line in lines or (["nothing"] if title == "lost" else []):
            print_line(f"{title + ':':<10}{line}")
    if not dry_run:
        print_line(
            f"start the jobs again: kappa run all{'' if settings.version == serving.FIRST else f' --version {settings.version}'}"
        )


def describe_without_problems(settings: Settings) -> str:
    """A sentence for a version of which nothing is to be recovered: all is well, or nothing of it is here."""
    from app.versions import start_position  # loads Kafka's client

    if start_position.is_known_here(settings):
        return f"version {settings.version}: nothing is wrong with its checkpoints and its log"
    return (
        f"version {settings.version}: nothing of it has run in this home, {settings.home.resolve()}, and there is no savepoint to begin after; "
        "wanted the home of its jobs (`home` in kappa.toml, or KAPPA_HOME); if that is lost, a folder with copies of its savepoints (--savepoints), "
        "or `kappa run all --take-over`, which begins at the beginning of the log"
    )


def version_to_recover(config: Path | None, version: str | None) -> Settings:
    """Settings of the version. Where the file of serving intervals is torn, the version has to be named."""
    try:
        return serving.of_version(config, version)
    except InputError as error:
        msg = f"{error}; or name the version with --version, which then serves alone"
        raise InputError(msg) from error


def take(settings: Settings, name: str) -> Path:
    """A savepoint of the checkpoints as they are, in a Spark session of its own."""
    from app.cli.savepoint import create_in_session  # loads Spark
    from replay.savepoints.savepoint_folder import find

    create_in_session(settings, name, changed_log=True)
    return find(settings.home, name)
