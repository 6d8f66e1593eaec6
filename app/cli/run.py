"""`kappa run`: long-running jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import report
from app.cli.signals import stopped_by_signals
from app.core.settings import Settings
from app.versions import replay_manifest, serving
from pipelines.errors import InputError
from replay.savepoints.savepoint_folder import find


def run(
    names: Annotated[list[str], typer.Argument(help="extract, detect, correlate, index, or all")],
    config: Config = None,
    instance: Annotated[int, typer.Option(help="Which of several extract jobs this one is, from 0.")] = 0,
    instances: Annotated[int, typer.Option(help="How many extract jobs share the input partitions.")] = 1,
    heartbeats: Annotated[bool, typer.Option(help="Append two heartbeats a second to every input partition.")] = True,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on where records were deleted unread; a record says which.")
    ] = False,
    version: Annotated[
        str | None, typer.Option(help="Whose jobs, and no other's. Default: whichever version serves.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(help="Begin after this savepoint: its name, or REPLAY:VERSION for a replay's end.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --savepoint: set checkpoints that are there aside.")
    ] = False,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; the batch in hand is finished first."""
    from app.runtime.jobs import selected  # loads Spark
    from app.runtime.supervise import run_until_stopped

    selection = selected(names, instance, instances)
    own, follow = serving.chosen(config, version)
    settings = connected(own, ("kafka", "elasticsearch") if "index" in selection.names else ("kafka",))
    set_start_position(serving.to_run(settings) if follow else settings, savepoint, replace=replace)
    with stopped_by_signals() as stopping:
        beats = heartbeats and "extract" in selection.names
        run_until_stopped(settings, selection, stopping, beats, report, accept_gap=accept_gap, follow=follow)


def set_start_position(settings: Settings, savepoint: str | None, *, replace: bool) -> None:
    """Note where jobs without a checkpoint begin: after a savepoint, else where the version's replay ended.

    `savepoint` is its name, or `REPLAY:VERSION`. Raises InputError for a savepoint that cannot be used.
    """
    from app.versions import start_position  # loads Kafka's client

    if savepoint is not None:
        kind, _, name = savepoint.partition(":")
        folder = (
            replay_manifest.last_savepoint(settings.model_copy(update={"version": name}))
            if name
            else find(settings.home, kind)
        )
        start_position.start_from(settings, folder, replace=replace)
        report(f"beginning after savepoint {savepoint}")
    elif replace:
        msg = "--replace is for --savepoint, which is not given"
        raise InputError(msg)
    else:
        start_position.start_after_replay(settings, report)
