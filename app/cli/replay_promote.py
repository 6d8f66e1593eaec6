"""`kappa replay promote` and `rollback`: change the version that serves. The work is in `replay.promote`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, err, print_json, print_line, report
from app.cli.signals import stopped_by_signals
from app.core import logs
from app.core.settings import load
from app.core.timestamps import iso
from app.core.user_name import user_name

if TYPE_CHECKING:
    from replay.promote import OnProgress, PromotionPlan, PromotionProgress

By = Annotated[str | None, typer.Option(help="Author, for the record. Default: the user who runs this.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")]
APART_SECONDS = 30.0  # between two lines of progress where there is no terminal


def promote(
    version: Annotated[str, typer.Argument(help="The version that is to serve: replayed to the end, or run.")],
    dry_run: DryRun = False,
    by: By = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Let a version serve: aliases and live jobs switch at a watermark once it has caught up. Run again after a crash, it continues."""
    from replay import promote as promotion  # loads Spark

    settings = connected(load(config))
    done(promotion.plan(settings, version, report), dry_run, by, as_json)


def rollback(
    to: Annotated[str | None, typer.Option(help="A version that served before. Default: the one before.")] = None,
    dry_run: DryRun = False,
    by: By = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Let a version serve again that served before."""
    from replay import promote as promotion  # loads Spark

    settings = connected(load(config))
    done(promotion.plan_back(settings, to, report), dry_run, by, as_json)


def done(what: PromotionPlan, dry_run: bool, by: str | None, as_json: bool) -> None:
    """Carry out a plan, or say what it is."""
    from replay import promote as promotion  # loads Spark

    if dry_run:
        made = promotion.dry_run_record(what)
    else:
        with stopped_by_signals() as stopping, progress() as on_progress:
            named = replace(what, by=by or user_name())
            made = promotion.take_over(named, stopping, on_progress, report)
    if as_json:
        print_json(made)
        return
    print_line(summary(made))


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[OnProgress]:
    """How far the candidate is: a line on stderr that changes where that is a terminal, else a line every 30 s."""
    if err.is_terminal and not logs.are_json():
        with err.status("starting") as status:
            yield lambda at: status.update(progress_line(at))
        return
    due = clock() + APART_SECONDS

    def on_progress(at: PromotionProgress) -> None:
        nonlocal due
        if clock() >= due:
            due = clock() + APART_SECONDS
            report(progress_line(at))

    yield on_progress


def progress_line(at: PromotionProgress) -> str:
    """The window up to which the candidate is indexed, and how far behind it is."""
    if at.new is None:
        wanted = "" if at.old is None else f"; wanted up to {iso(at.old)}"
        return f"starting: nothing is indexed yet{wanted}"
    lag = at.lag_seconds
    behind = "" if lag is None else f", {lag:,.0f} s of event time behind"
    goal = "" if at.agreed is None else f"; going over after {iso(at.agreed)}"
    return f"indexed up to {iso(at.new)}{behind}{goal}"


def summary(made: Mapping[str, Any]) -> str:
    """One line about what came of it."""
    when = f"windows after {made['after_time']}" if made.get("after_time") else "all windows"
    if made.get("dry_run"):
        return (
            f"version {made['version']} would take over from {made['previous']}: it has results of windows after "
            f"{made['covers_from_time']}, {indexed(made, 'reached')}; those of {made['previous']} are "
            f"{indexed(made, 'previous_reached')}"
        )
    if made["already"]:
        return f"version {made['version']} serves {when} already; the aliases are as they should be"
    who = "its jobs run" if made["running"] else "nobody runs its jobs: `kappa run all` does"
    return f"version {made['version']} serves {when}, as {made['previous']} did before; {who}"


def indexed(made: Mapping[str, Any], which: str) -> str:
    """How far results are in the search: `reached` or `previous_reached`."""
    return "not indexed yet" if made[which] is None else f"indexed up to {made[f'{which}_time']}"
