"""Long-running jobs in one process: session, topics, health, and a clean stop."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from elasticsearch import Elasticsearch
from pyspark.sql import SparkSession

from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import changed_topics, checkpoint_damage, data_loss, quarantine, topics
from app.kafka.connection import kafka_connection
from app.runtime import attempts, jobs, machine_code, poison
from app.runtime.health import Health
from app.runtime.jobs import JobSelection
from app.runtime.spark import session
from app.search import aliases
from app.search.connection import elasticsearch_connection
from app.search.mappings import has_templates
from app.search.old_names import refuse_old_names
from app.versions import locks, lost_checkpoints, start_position, violations
from app.versions.accepted import NOTHING, Accepted
from app.versions.pinned_configuration import pin_configuration
from pipelines.consumer_lag import QueryProgress
from pipelines.errors import DeterminismViolation, KappaError
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import Job, Runner, start, stop_after_batch

QUERY_SECONDS = 0.1  # between two looks at a query that ends by itself
STOP_SECONDS = 60.0


def prepare(settings: Settings, names: Sequence[str]) -> None:
    """Prepare what jobs need: check the pinned configuration, create topics, put index templates."""
    prepare_log(settings)
    if "index" in names:
        client = elasticsearch_connection(settings).connect()
        try:
            prepare_indices(settings, client)
        finally:
            client.close()


def prepare_log(settings: Settings) -> None:
    """Check the pinned configuration, create topics."""
    pin_configuration(settings)
    topics.create(settings)


def prepare_indices(settings: Settings, client: Elasticsearch) -> None:
    """Put index templates. Raises InputError where indices of an earlier release have to be renamed first."""
    refuse_old_names(client)
    aliases.prepare_indices(client, settings)


def make_job(
    settings: Settings,
    name: str,
    stopping: threading.Event,
    health: Health,
    unread: Quarantine = NO_QUARANTINE,
) -> Job:
    """A job by its name."""
    match name:
        case "extract":
            return jobs.extract_job(settings, health.refused, unread)
        case "detect":
            return jobs.detect_job(settings, unread)
        case "correlate":
            return jobs.correlate_job(settings, unread)

    def waits(seconds: float) -> bool:
        attempts.forget(settings, name)  # the server holds the batch up, and no record of it
        health.on_wait(name)
        return stopping.wait(seconds)

    return jobs.index_job(
        settings,
        waits,
        prepare=partial(prepare_indices, settings),
        is_prepared=partial(has_templates, version=settings.version),
        quarantine=unread,
    )


@contextmanager
def running(
    settings: Settings,
    names: Sequence[str],
    on_progress: Callable[[str, QueryProgress], None] | None = None,
    report: Report = silent,
    stopping_early: threading.Event | None = None,
    accepted: Accepted = NOTHING,
) -> Iterator[tuple[Runner, Health]]:
    """Run jobs while the block runs; they are stopped after their batch when it ends.

    Parameters
    ----------
    settings
        Those of the version.
    names
        `extract`, `detect`, `correlate`, `index`, or `all`.
    on_progress
        Called with a job's name and Spark's progress after each batch.
    report
        Gets a line for each gap and violation that is recorded.
    stopping_early
        Once it is set no more jobs are started.
    accepted
        What an operator accepts.

    Yields
    ------
    tuple of Runner and Health
        The running jobs, and their metrics.

    Raises
    ------
    InputError
        Another process runs one of them, the settings are not those that the version began with, or another home has made its results.
    DeterminismViolation
        The log no longer reaches back to where one of them stopped, or a violation has ended the version before.
    """
    selection = jobs.selected(names)
    health = Health(settings.health.stale_seconds)
    started = started_jobs(settings, selection, health, on_progress, report, stopping_early, accepted)
    with locks.only_here(settings, list(selection.checkpoints(settings))), started as runner:
        yield runner, health


@contextmanager
def started_jobs(
    settings: Settings,
    selection: JobSelection,
    health: Health,
    on_progress: Callable[[str, QueryProgress], None] | None = None,
    report: Report = silent,
    stopping_early: threading.Event | None = None,
    accepted: Accepted = NOTHING,
    on_search: Callable[[], None] = lambda: None,
) -> Iterator[Runner]:
    """As `running`, for a caller that holds the locks of the jobs; yields the runner.

    `stopping_early` ends the search through a batch that was begun twice in vain, and jobs that have not been started are not;
    `on_search` is called again and again while the search lasts.
    """
    checkpoints, ends = selection.checkpoints(settings), stopping_early or threading.Event()
    health.runs(settings.version)
    if "detect" in selection.names:
        machine_code.ensure(report, health.parent.alive, ends.is_set)
    drops, lossy = check_start(settings, checkpoints, accepted, report, health.parent.alive)

    def alive() -> None:
        health.parent.alive()
        on_search()

    killed = health.parent.history.killed
    found = poison.quarantine_before_start(settings, selection, report, ends, alive, killed=killed)
    health.quarantined(found.known.kept)
    stopping, runner = threading.Event(), make_runner(settings, checkpoints, health, on_progress)
    try:
        for name in selection.names:
            if ends.is_set():
                break
            job = make_job(settings, name, stopping, health, found.known.found)
            most = found.most_records.get(job.name, job.max_records_per_batch)
            inputs = [
                dataclasses.replace(one, skip_deleted=one.skip_deleted or job.name in lossy) for one in job.inputs
            ]
            health.expect(job.name)
            runner.start(
                dataclasses.replace(
                    job,
                    inputs=tuple(inputs),
                    max_records_per_batch=min(most, job.max_records_per_batch),
                    accepted_drops=drops[job.name],
                )
            )
        yield runner
    finally:
        stopping.set()
        runner.stop()


def check_start(
    settings: Settings, checkpoints: Mapping[str, Path], accepted: Accepted, report: Report, alive: Callable[[], None]
) -> tuple[Mapping[str, frozenset[int]], set[str]]:
    """Compare home, checkpoints and log, and make the topics that are missing, before any job starts.

    Parameters
    ----------
    settings
        Those of the version.
    checkpoints
        By the names of its jobs.
    accepted, report
        As for `running`.
    alive
        Called again and again while damage is mended.

    Returns
    -------
    tuple of Mapping and set of str
        By job the batches that may be committed although the watermark dropped rows of theirs; and the jobs that skip deleted records.

    Raises
    ------
    InputError, DeterminismViolation
        As `running`.
    """
    checkpoint_damage.mend_all(settings.version, checkpoints, report, alive)
    changed_topics.check_topics(settings, checkpoints)  # before any topic is created
    lost_checkpoints.check_home(
        settings, checkpoints, take_over=accepted.other_home
    )  # before the home knows the version
    drops = violations.check_before_start(settings, checkpoints, accept=accepted.violation, report=report)
    changed_topics.adapt_checkpoints(settings, checkpoints, report)  # what is read no longer may be deleted
    lossy = data_loss.check_before_start(settings, checkpoints, accept=accepted.gap, report=report)
    prepare_log(settings)  # `index` itself waits for Elasticsearch, which may be away for long
    if not checkpoints.keys().isdisjoint(start_position.JOBS_WITH_STATE):
        start_position.check_release(settings)
    lost_checkpoints.warn_before_start(settings, checkpoints)
    lost_checkpoints.warn_of_uneven_beginning(settings, checkpoints)
    return drops, lossy


def make_runner(
    settings: Settings,
    checkpoints: Mapping[str, Path],
    health: Health,
    on_progress: Callable[[str, QueryProgress], None] | None,
) -> Runner:
    """A runner whose jobs report to `health`, and note what ends them."""

    def on_batch(name: str, progress: QueryProgress) -> None:
        health.on_progress(name, progress)
        if on_progress is not None:
            on_progress(name, progress)

    def on_known(name: str, found: KappaError) -> None:
        if isinstance(found, DeterminismViolation):
            violations.remember(settings, name, checkpoints[name], found)
        attempts.forget(settings, name)  # it is known what ended the batch: no record is to be searched for

    trigger = settings.spark.trigger_seconds
    return Runner(session(settings), kafka_connection(settings), trigger, on_batch, health.on_idle, on_known)


def index_to_end(spark: SparkSession, settings: Settings, stopping: threading.Event | None = None) -> None:
    """Index the results of a version up to the end of its topics, or until `stopping` is set: then the batch in hand is finished.

    The caller holds the lock of `index`. Raises ServiceUnavailable where it is stopped while Elasticsearch is away.
    """
    stopping = stopping or threading.Event()
    changed_topics.adapt_checkpoints(settings, data_loss.checkpoints(settings, ("index",)))
    prepare(settings, ("index",))
    unread, kafka = quarantine.read(settings).found, kafka_connection(settings)
    runner = Runner(spark, kafka)
    try:
        query = start(spark, kafka, jobs.index_job(settings, stopping.wait, quarantine=unread), {"availableNow": True})
        while query.isActive and not stopping.wait(QUERY_SECONDS):
            pass
        stop_after_batch(query, STOP_SECONDS)
        runner.check(query)
    finally:
        runner.stop()
