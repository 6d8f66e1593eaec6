"""`kappa replay`: resolves the range, runs it, and indexes the results in Elasticsearch."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka.cut_log import describe_uneven_beginning
from app.runtime import machine_code
from app.runtime.run import index_to_end
from app.runtime.spark import own_session
from app.versions import locks, replay_manifest
from pipelines.errors import InputError
from replay import input_lateness, run
from replay.run import OnProgress, ReplayPlan
from replay.slices import RequestedRange


@dataclass(frozen=True)
class ReplayRequest:
    """What a replay is asked for, beside the settings.

    `savepoint`           the folder of a savepoint, after whose last window to begin.
    `include_late`        admit every record of the range, however late.
    `partitions`          Spark's partitions; results do not depend on them.
    `index`               write documents to Elasticsearch as well.
    """

    range: RequestedRange
    savepoint: Path | None = None
    include_late: bool = False
    partitions: int | None = None
    index: bool = True


def make_plan(settings: Settings, request: ReplayRequest, report: Report = silent) -> ReplayPlan:
    """Resolve a request to a plan. Changes nothing; starts Spark only for `include_late`. Raises InputError for what cannot be run."""
    if request.include_late:
        with own_session(settings, "kappa-replay", report) as spark:
            lateness = partial(input_lateness.largest_lateness, spark, settings)
            found = run.plan(settings, request.range, request.savepoint, lateness=lateness)
        report(f"late records are up to {found.settings.windowing.lateness_seconds} s late")
    else:
        found = run.plan(settings, request.range, request.savepoint)
    report_uneven_beginning(found, report)
    if found.unreadable is not None and not request.index:
        raise InputError(found.unreadable)
    return found


def report_uneven_beginning(found: ReplayPlan, report: Report) -> None:
    """Say so where partitions begin so far apart that hosts of those which begin later are taken for new ones."""
    if found.earlier is not None or found.manifest.complete_after is None:
        return
    line = describe_uneven_beginning(found.settings, found.whole.begins, found.whole.ends)
    if line is not None:
        report(line)


def start(
    settings: Settings,
    request: ReplayRequest,
    progress: AbstractContextManager[OnProgress],
    report: Report = silent,
) -> dict[str, Any]:
    """Run a replay, or go on with it, or check it where it is complete.

    Parameters
    ----------
    settings
        Those of the version under which the results are written.
    request
        The range, and how to run it.
    progress
        Entered when the run begins; yields the function that gets the progress.
    report
        Gets a line for each step that takes long.

    Returns
    -------
    dict
        The manifest as JSON types, with `same: true` where a complete run was checked.

    Raises
    ------
    InputError
        The range or the savepoint cannot be used, or another process indexes this version.
    DeterminismViolation
        A complete run came to other results this time.
    """
    machine_code.ensure(report)
    with ExitStack() as ending:
        if request.include_late:  # one session for the plan and for the run
            ending.enter_context(own_session(settings, "kappa-replay", report))
        what = make_plan(settings, request, report)
        spark = ending.enter_context(own_session(what.settings, "kappa-replay", report))
        if request.partitions is not None:
            spark.conf.set("spark.sql.shuffle.partitions", str(request.partitions))
        with progress as on_progress:
            made = run.replay(spark, what, request.partitions, on_progress, report)
        if request.index and not made["indexed"]:
            report("indexing")
            with locks.only_here(what.settings, ["index"]):
                index_to_end(spark, what.settings)
            made |= replay_manifest.keep_indexed(what.settings).record()
        return made
