"""`kappa run`: long-running jobs. This process becomes a small parent, which starts the same command as its child."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.connection import Config, connected
from app.cli.output import report
from app.cli.signals import stopped_by_signals
from app.core import logs
from app.core.errors import SettingsError
from app.core.settings import Settings
from app.supervision.link import ChildError, ParentLink
from app.supervision.parent import PYTHON, SupervisedCommand, become_parent
from app.versions import replay_manifest, serving
from app.versions.accepted import Accepted
from pipelines import failures
from pipelines.errors import (
    CheckpointLost,
    DeterminismViolation,
    InputError,
    KappaError,
    OfAnotherRelease,
    ServiceUnavailable,
)
from replay.savepoints import savepoint_folder

if TYPE_CHECKING:
    from app.runtime.supervise import NotificationService  # loads Spark

# However often jobs are started, they end by the same.
LASTING = (SettingsError, DeterminismViolation, CheckpointLost, OfAnotherRelease)
# Shorter pauses are usual: of garbage collection, of a machine with other work.
LEAST_STALE_SECONDS = 30.0
MOST_CHARACTERS = 500
NOTIFY = "notify"  # which starts no Spark
EARLY = "early"  # which has a session of its own


def run(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB", help="extract, detect, correlate, index or all; or one of notify and early by itself."
        ),
    ],
    config: Config = None,
    heartbeats: Annotated[bool, typer.Option(help="Append heartbeats to every input partition.")] = True,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on where records were deleted unread; a record says which.")
    ] = False,
    accept_violation: Annotated[
        bool, typer.Option("--accept-violation", help="Go on after a violation of determinism; a record says which.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Start although another home has made results of this version.")
    ] = False,
    version: Annotated[
        str | None, typer.Option(help="Run the jobs of this version only. Default: of whichever version serves.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(help="Begin after this savepoint: its name, or REPLAY:VERSION for a replay's end.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --savepoint: set checkpoints that are there aside.")
    ] = False,
    supervised: Annotated[int | None, typer.Option(hidden=True, help="The connection to the parent.")] = None,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; the current batch is finished first. Jobs that end or hang are restarted."""
    own, follow = serving.chosen(config, version)
    logs.configure(own.log.format)
    named = (*(("--config", str(config)) if config else ()), *(("--version", version) if version else ()))
    accepted = Accepted(accept_gap, accept_violation, take_over)
    if supervised is None:
        if savepoint is None and not accept_violation and names not in ([NOTIFY], [EARLY]):
            refuse_after_violation(own, follow)
        position = (*(("--savepoint", savepoint) if savepoint else ()), *(("--replace",) if replace else ()))
        beats = () if heartbeats else ("--no-heartbeats",)
        become_parent(
            SupervisedCommand(
                (*PYTHON, "app.cli", "run", *names, *beats, *named),
                until_positioned=position,
                until_progress=accepted.options,
                # Between two triggers there is no progress.
                stale_seconds=max(own.health.stale_seconds, LEAST_STALE_SECONDS, 3 * own.spark.trigger_seconds),
                log=str(own.home / "logs" / "spark.log"),
                log_format=own.log.format,
            )
        )
    else:
        parent = ParentLink(supervised)
        with telling(parent):
            write_stacks_when_asked(own.home / "logs" / "stacks.log")
            if names == [NOTIFY]:
                notify(own, parent)
                return
            if names == [EARLY]:
                early(own, follow, parent)
                return
            start = (savepoint, replace)
            run_jobs(own, follow, names, heartbeats, accepted, start, parent, named)


def refuse_after_violation(own: Settings, follow: bool) -> None:
    """Raise DeterminismViolation at once for a version that a violation has ended: its jobs would be refused after their start."""
    from app.versions import violations  # loads Kafka's client

    violations.check(serving.current(own) if follow else own)


def run_jobs(
    own: Settings,
    follow: bool,
    names: list[str],
    heartbeats: bool,
    accepted: Accepted,
    position: tuple[str | None, bool],
    parent: ParentLink,
    named: tuple[str, ...],
) -> None:
    """Run the jobs in this process. `position`: savepoint and replace.

    `named`: the options for the settings' file and the version.
    """
    from app.runtime.jobs import selected  # loads Spark
    from app.runtime.supervise import run_until_stopped
    from replay.savepoints import periodic

    selection = selected(names)
    try:
        needed = ("kafka", "elasticsearch") if "index" in selection.names else ("kafka",)
        settings = connected(own, needed, again=parent.history.restarts > 0)
    except InputError as error:
        if parent.history.restarts:  # it was there before
            raise ServiceUnavailable(str(error)) from error
        raise
    set_start_position(settings, position[0], replace=position[1], follow=follow)
    parent.positioned()
    with stopped_by_signals() as stopping:
        beats = heartbeats and "extract" in selection.names
        beside = services_beside(settings, named) if "all" in names else None
        run_until_stopped(
            settings,
            selection,
            stopping,
            beats,
            report,
            accepted,
            follow,
            parent,
            periodic.periodic_savepoints,
            beside,
        )


def services_beside(settings: Settings, named: Sequence[str]) -> NotificationService:
    """What goes on beside the jobs: notifications, which are counted, and the early lane. Raises SettingsError for a channel that cannot be."""
    from app.early.beside import LaneBesideJobs  # loads Spark
    from app.notify.service import BesideJobs

    notifying, lane = BesideJobs(settings), LaneBesideJobs(settings, named)
    return lambda metrics: together(notifying.counted_by(metrics), lane)


@contextmanager
def together(*services: AbstractContextManager[object]) -> Iterator[None]:
    """All of them in the block."""
    with ExitStack() as entered:
        for service in services:
            entered.enter_context(service)
        yield


def notify(own: Settings, parent: ParentLink) -> None:
    """Tell people of incidents, in this process."""
    from app.notify.service import check_channels, run_until_stopped  # loads Kafka's client

    check_channels(own)
    settings = connected(own, ("kafka",), again=parent.history.restarts > 0)
    with stopped_by_signals() as stopping:
        report(f"notifying {', '.join(settings.notify.channels)}; SIGTERM or Ctrl-C stops")
        run_until_stopped(settings, stopping, parent, report)


def early(own: Settings, follow: bool, parent: ParentLink) -> None:
    """Raise early alarms and settle them, in this process."""
    from app.early.service import run_until_stopped  # loads Spark

    settings = connected(own, ("kafka",), again=parent.history.restarts > 0)
    with stopped_by_signals() as stopping:
        run_until_stopped(settings, stopping, parent, follow=follow, report=report)


@contextmanager
def telling(parent: ParentLink) -> Iterator[None]:
    """Tell the parent what ends the block. What a restart may mend, the parent reports: then there is no error line here."""
    try:
        yield
    except ServiceUnavailable as error:
        parent.failed(ChildError(str(error), waits=True))
        raise typer.Exit(1) from error
    except KappaError as error:
        # What is wrong with arguments and settings shows before the jobs work; what comes later may pass.
        lasting = isinstance(error, LASTING) or not parent.progressed
        parent.failed(ChildError(str(error), lasting=lasting))
        if lasting:
            raise
        raise typer.Exit(1) from error
    except PermissionError as error:  # a folder of another user: the line about it comes from `main`
        parent.failed(ChildError(str(error), lasting=not parent.progressed))
        raise
    except Exception as error:
        if failures.is_jvm_gone(error):
            from pipelines.spark_internals import was_killed  # loads Spark

            parent.failed(ChildError("Spark's JVM has ended: out of memory, or killed", killed=was_killed()))
            raise typer.Exit(1) from error
        if failures.is_broker_unavailable(error):
            parent.failed(ChildError(f"Kafka does not answer: {first_line(error)}", waits=True))
            raise typer.Exit(1) from error
        parent.failed(ChildError(first_line(error)))
        raise


def first_line(error: Exception) -> str:
    """An error in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:MOST_CHARACTERS]


def write_stacks_when_asked(file: Path) -> None:
    """Append the stacks of all threads to a file whenever SIGUSR1 comes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    faulthandler.register(signal.SIGUSR1, file=file.open("a", encoding="utf-8"), all_threads=True)


def set_start_position(settings: Settings, savepoint: str | None, *, replace: bool, follow: bool = False) -> None:
    """Note where jobs without a checkpoint begin: after a savepoint, else where the version's replay ended.

    `savepoint` is its name, or `REPLAY:VERSION`. With `follow` it is about the version that serves. Raises InputError for a savepoint that
    cannot be used, and where another process runs the jobs whose checkpoints would be set aside.
    """
    from app.versions import locks, start_position  # loads Kafka's client

    own = serving.to_run(settings) if follow else settings
    if savepoint is not None:
        # Of what a version that serves keeps, new checkpoints may have another number of Spark's partitions.
        own = own.model_copy(update={"spark": settings.spark})
        kind, _, name = savepoint.partition(":")
        folder = (
            replay_manifest.last_savepoint(settings.model_copy(update={"version": name}))
            if name
            else savepoint_folder.find(settings.home, kind)
        )
        with locks.only_here(own, start_position.JOBS_WITH_STATE), start_position.one_at_a_time(own):
            start_position.start_from(own, folder, replace=replace)
        report(f"beginning after savepoint {savepoint}")
    elif replace:
        msg = "--replace is for --savepoint, which is not given"
        raise InputError(msg)
    else:
        start_position.start_after_replay(own, report)
