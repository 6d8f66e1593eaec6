"""`kappa run`: jobs until told to stop; without a version of its own, those of whichever version serves.

The process stays when another version takes over: its heartbeats go on, and so do `/metrics` and `/healthz`. The jobs of the
one are stopped after their batch, those of the other are started as soon as nobody else runs them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from app.core.ports import LOOPBACK
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import data_loss, topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.runtime import state_server
from app.runtime.health import Ask, Health, HealthServer
from app.runtime.run import locks_of, started_jobs
from app.runtime.spark import session
from app.runtime.state_query import answers_from
from app.versions import locks, serving, start_position
from pipelines.errors import InputError

POLL_SECONDS = 1.0


@dataclass
class ProcessServices:
    """What goes on whichever version runs: heartbeats, the server of metrics, the watch over the inputs' partitions."""

    settings: Settings
    names: Sequence[str]
    heartbeats: bool
    report: Report
    health: Health
    watch: data_loss.PartitionWatch
    beside: ExitStack
    ask: Ask | None = None
    begun: bool = field(default=False, init=False)
    server: HealthServer | None = field(default=None, init=False)

    def listen(self) -> None:
        """Take the port of metrics. Jobs take a minute to start, in vain if it turns out then that somebody has it."""
        own = self.settings.health
        if own.port is not None and self.server is None:
            ask = self.answer if "detect" in self.names else None
            self.server = HealthServer(self.health, own.host, own.port, ask)
            self.beside.callback(self.server.close)

    def begin(self) -> None:
        """Start it, once: not before it is known that jobs may run, because heartbeats are written into the log."""
        if self.begun:
            return
        self.begun = True
        self.listen()
        if self.heartbeats:
            inputs = [self.settings.topic(kind) for kind in topics.INPUTS]
            self.beside.enter_context(Heartbeats(client_options(self.settings), inputs))
        if self.server is not None:
            address = self.beside.enter_context(self.server).address
            self.report(f"metrics and health at {address}/metrics and {address}/healthz")
        if "extract" in self.names:
            self.beside.enter_context(self.watch)

    def answer(self, series: str) -> dict[str, Any]:
        """What the model of the version that runs now describe_state about a series. Raises InputError if none does."""
        if self.ask is None:
            msg = "no version's jobs run in this process now; ask again when they do"
            raise InputError(msg)
        return self.ask(series)


def run_until_stopped(
    settings: Settings,
    names: Sequence[str],
    stopping: threading.Event,
    instance: int = 0,
    instances: int = 1,
    heartbeats: bool = True,
    report: Report = silent,
    accept_gap: bool = False,
    follow: bool = False,
) -> None:
    """Run jobs until told to stop: those of the settings' version, or with `follow` of the version that serves.

    Raises what ends one of them, and InputError where another process runs them; with `follow` it waits for that one.
    """
    health, said = Health(settings.health.stale_seconds), ""
    with ExitStack() as beside:
        watch = data_loss.PartitionWatch(settings)
        services = ProcessServices(settings, names, heartbeats, report, health, watch, beside)
        while not stopping.is_set():
            own = serving.to_run(settings) if follow else settings
            with locks.taken(own, locks_of(own, names, instance, instances)) as busy:
                if not busy:
                    said = ""
                    services.listen()
                    run_version(own, services, instance, instances, accept_gap, stopping, follow)
                    continue
            if not follow:
                raise locks.run_elsewhere(own, busy)
            waiting = (
                f"{', '.join(busy)} of version {own.version}, which serves, run in another process: waiting for it"
            )
            if waiting != said:
                report(waiting)
                said = waiting
            topics.create(own)
            services.begin()
            stopping.wait(POLL_SECONDS)


def run_version(
    settings: Settings,
    services: ProcessServices,
    instance: int,
    instances: int,
    accept_gap: bool,
    stopping: threading.Event,
    follow: bool,
) -> None:
    """Run the jobs of one version until told to stop, or with `follow` until another one serves."""
    names, report = services.names, services.report
    if follow:
        serving.to_run(services.settings, report)  # says what differs
        start_position.start_after_replay(settings, report)
    checkpoints = data_loss.checkpoints(settings, names, instance, instances)
    started = started_jobs(settings, names, services.health, instance, instances, accept_gap=accept_gap, report=report)
    serves, leave = serving.ServingVersionWatch(settings.home), threading.Event()

    def look() -> None:
        services.watch.check()
        if stopping.is_set() or (follow and serves.version() != settings.version):
            leave.set()

    with data_loss.describing_data_loss(settings, checkpoints), started as runner, ExitStack() as beside:
        services.begin()
        if "detect" in names:
            services.ask = answers_from(session(settings), settings)
            asked = beside.enter_context(HealthServer(services.health, LOOPBACK, 0, services.ask))
            beside.enter_context(state_server.announced(settings, asked.address))
        whose = f" of version {settings.version}" if settings.version != serving.FIRST else ""
        report(f"running {', '.join(names)}{whose}; SIGTERM or Ctrl-C stops after the batch in hand")
        runner.wait(leave, also=look)
        if not stopping.is_set():
            report(f"version {serves.version()} serves now: stopping the jobs of {settings.version}")
    services.ask = None
    services.health.forget()
