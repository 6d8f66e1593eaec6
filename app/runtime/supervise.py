"""`kappa run`: runs jobs until it is stopped; where no version is named, those of the version that serves.

When another version is promoted the process stays: heartbeats, `/metrics` and `/healthz` go on. The jobs of the old version
are stopped after their batch, those of the new one are started as soon as no other process runs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from app.core.ports import LOOPBACK
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import changed_topics, checkpoint_damage, data_loss, topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.runtime import state_server
from app.runtime.health import Ask, Health, HealthServer
from app.runtime.jobs import JobSelection
from app.runtime.metrics import Metrics
from app.runtime.run import started_jobs
from app.runtime.spark import session
from app.runtime.state_query import answers_from
from app.runtime.task_progress import TaskProgress
from app.supervision.link import Unsupervised
from app.versions import locks, serving, start_position, violations
from app.versions.accepted import NOTHING, Accepted
from pipelines.errors import InputError

POLL_SECONDS = 1.0
TASKS_SECONDS = 5.0


# From a version's settings, the session of its jobs and the health of the process to what takes its savepoints in the block.
SavepointService = Callable[[Settings, SparkSession, Health], AbstractContextManager[object]]
# From the metrics of the process to what notifies people in the block.
NotificationService = Callable[[Metrics], AbstractContextManager[object]]


@dataclass
class ProcessServices:
    """What goes on while versions change: heartbeats and the server of metrics."""

    settings: Settings
    names: tuple[str, ...]
    heartbeats: bool
    report: Report
    health: Health
    beside: ExitStack
    savepoints: SavepointService | None = None
    notifications: NotificationService | None = None
    ask: Ask | None = None
    begun: bool = field(default=False, init=False)
    server: HealthServer | None = field(default=None, init=False)

    def listen(self) -> None:
        """Take the port of metrics, before jobs start: that takes a minute, in vain if the port turns out to be in use."""
        own = self.settings.health
        if own.port is not None and self.server is None:
            ask = self.answer if "detect" in self.names else None
            self.server = HealthServer(self.health, own.host, own.port, ask, own.names)
            self.beside.callback(self.server.close)

    def begin(self) -> None:
        """Start the services, once; only when jobs may run, because heartbeats are written into the log."""
        if self.begun:
            return
        self.begun = True
        self.listen()
        if self.heartbeats:
            inputs = [self.settings.topic(kind) for kind in topics.INPUTS]
            options, windowing = client_options(self.settings), self.settings.windowing
            beats = Heartbeats(options, inputs, windowing, on_problem=self.health.heartbeats)
            self.beside.enter_context(beats)
        if self.notifications is not None:
            self.beside.enter_context(self.notifications(self.health.metrics))
        if self.server is not None:
            self.report(self.beside.enter_context(self.server).announcement)

    def answer(self, series: str) -> dict[str, Any]:
        """The state of a series in the version that runs now. Raises InputError while none does."""
        if self.ask is None:
            msg = "no version's jobs run in this process now; ask again when they do"
            raise InputError(msg)
        return self.ask(series)


def run_until_stopped(
    settings: Settings,
    selection: JobSelection,
    stopping: threading.Event,
    heartbeats: bool = True,
    report: Report = silent,
    accepted: Accepted = NOTHING,
    follow: bool = False,
    parent: Unsupervised | None = None,
    savepoints: SavepointService | None = None,
    notifications: NotificationService | None = None,
) -> None:
    """Run jobs until a signal stops them.

    Parameters
    ----------
    settings
        Those of the version.
    selection
        The jobs.
    stopping
        Set to stop; the batch in hand is finished first.
    heartbeats
        Append heartbeats to the input partitions.
    report
        Gets a line when jobs start, wait or stop.
    accepted
        What an operator accepts.
    follow
        Run the jobs of the version that serves, also when that changes; wait while another process runs them.
    parent
        Where this is the child of another process: it gets the jobs' progress.
    savepoints
        Takes savepoints of a version while its `detect` runs.
    notifications
        Tells people of incidents, from when the jobs run.

    Raises
    ------
    InputError
        Another process runs them.
    KappaError
        Whatever ends one of the jobs.
    """
    health, reported = Health(settings.health.stale_seconds, parent=parent), ""
    with ExitStack() as beside:
        services = ProcessServices(
            settings, selection.names, heartbeats, report, health, beside, savepoints, notifications
        )
        while not stopping.is_set():
            own = serving.to_run(settings) if follow else settings
            with locks.taken(own, list(selection.checkpoints(own))) as busy:
                if not busy:
                    reported = ""
                    services.listen()
                    run_version(own, selection, services, accepted, stopping, follow)
                    continue
            if not follow:
                raise locks.run_elsewhere(own, busy)
            waiting = (
                f"{', '.join(busy)} of version {own.version}, which serves, run in another process: waiting for it"
            )
            if waiting != reported:
                report(waiting)
                reported = waiting
            changed_topics.check_topics(
                own, selection.checkpoints(own)
            )  # the other process may have another topics.prefix
            topics.create(own)
            services.begin()
            health.parent.alive()
            stopping.wait(POLL_SECONDS)


def run_version(
    settings: Settings,
    selection: JobSelection,
    services: ProcessServices,
    accepted: Accepted,
    stopping: threading.Event,
    follow: bool,
) -> None:
    """Run the jobs of one version until a signal stops them, or with `follow` until another one serves."""
    names, report = selection.names, services.report
    if follow:
        serving.to_run(services.settings, report)  # says what differs
        start_position.start_after_replay(settings, report)
    checkpoints = selection.checkpoints(settings)
    services.health.violations = partial(violations.summary, settings)
    started = started_jobs(
        settings,
        selection,
        services.health,
        report=report,
        stopping_early=stopping,
        accepted=accepted,
        on_search=services.begin,
    )
    watch = data_loss.LogWatch(settings, next(iter(checkpoints)))
    serves, leave = serving.ServingVersionWatch(settings.home), threading.Event()
    work = TaskProgress(services.health.on_work, TASKS_SECONDS)

    def look() -> None:
        work.look(spark)
        watch.check()
        if stopping.is_set() or (follow and serves.version() != settings.version):
            leave.set()

    mended = checkpoint_damage.mend_on_error(settings.version, checkpoints, report)
    with mended, data_loss.explain_data_loss(settings, checkpoints), started as runner, ExitStack() as beside:
        services.begin()
        beside.enter_context(watch)
        spark = session(settings)
        services.ask = answers_from(spark, settings) if "detect" in names else None
        asked = beside.enter_context(HealthServer(services.health, LOOPBACK, 0, services.ask))
        beside.enter_context(state_server.announced(settings, asked.address, names))
        if "detect" in names and services.savepoints is not None:
            beside.enter_context(services.savepoints(settings, spark, services.health))
        whose = f" of version {settings.version}" if settings.version != serving.FIRST else ""
        if not stopping.is_set():
            report(f"running {', '.join(names)}{whose}; SIGTERM or Ctrl-C stops after the batch in hand")
        runner.wait(leave, on_poll=look)
        if not stopping.is_set():
            report(f"version {serves.version()} serves now: stopping the jobs of {settings.version}")
    services.ask = None
    services.health.forget()
