"""`kappa run early`: raises early alarms and settles them, for the version that serves. One process at a time does, of a `home`."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from app.core.file_lock import held_lock, is_held
from app.core.report import Report, silent
from app.core.settings import Settings
from app.early import lane
from app.early.early_log import EarlyLog
from app.early.lane import BoundsTable
from app.early.metrics import LaneHealth
from app.early.settlement import Settlement, patience_ms
from app.supervision.link import Unsupervised
from app.versions import serving
from pipelines.errors import InputError
from pipelines.jobs import early

log = structlog.get_logger()

LOCK_SECONDS = 1.0


def lock_of(home: Path) -> Path:
    """The file that whoever runs the lane holds."""
    return serving.folder(home) / "early.lock"


def is_running(home: Path) -> bool:
    """Whether a process with this `home` runs the lane."""
    return is_held(lock_of(home))


def run_until_stopped(
    settings: Settings,
    stopping: threading.Event,
    parent: Unsupervised | None = None,
    *,
    follow: bool = False,
    report: Report = silent,
) -> None:
    """Run the lane until stopped; with `follow` that of whichever version serves.

    Raises InputError where `early.enabled` is not set or another process runs it, KappaError for whatever ends it.
    """
    if not settings.early.enabled:
        msg = "early: detect publishes no bounds, as early.enabled is false; set it to true for all processes, see docs/early.md"
        raise InputError(msg)
    if not early.has_real_time_mode():
        msg = f"early: Spark {early.spark_version()} has no real-time mode; wanted the pinned version, or early.enabled = false"
        raise InputError(msg)
    refusal = f"early: another process with home {settings.home} runs the lane; wanted one at a time"
    with held_lock(lock_of(settings.home), LOCK_SECONDS, refusal):
        health = LaneHealth(settings, parent)
        with ExitStack() as beside:
            server = health.server(settings, report)
            if server is not None:
                beside.enter_context(server)
            spark = beside.enter_context(lane.own_session(settings))
            while not stopping.is_set():
                own = serving.to_run(settings) if follow else settings
                run_version(spark, own, stopping, health, follow=follow, report=report)


def run_version(
    spark: SparkSession,
    settings: Settings,
    stopping: threading.Event,
    health: LaneHealth,
    *,
    follow: bool,
    report: Report,
) -> None:
    """Run the lane of one version until stopped, or with `follow` until another one serves."""
    health.health.runs(settings.version)
    serves = serving.ServingVersionWatch(settings.home)

    def leaves() -> bool:
        return stopping.is_set() or (follow and serves.version() != settings.version)

    def waits() -> bool:
        health.goes_on()
        return leaves()

    settlement = Settlement(patience_ms(settings.detection, settings.windowing.window_seconds))
    with (
        lane.bounds_table(spark, settings, waits) as table,
        closing(EarlyLog(settings, settlement, health.take_alarm)) as own,
    ):
        while not own.is_current and not waits():
            own.poll()
        settle(own, table, settings.version)
        with lane.running_query(spark, settings) as query:
            report(
                f"early alarms of version {settings.version}: bounds of {table.series:,} series, "
                f"{len(settlement.waiting)} alarms wait; records from now on are compared"
            )
            watch = Movement()
            while not leaves():
                own.poll()
                settle(own, table, settings.version)
                lane.check(query)
                table.is_ready()
                if watch.moves(table.seen, settlement.judged):
                    health.goes_on()
                health.look(table)


def settle(own: EarlyLog, table: BoundsTable, version: str) -> None:
    """Write what is settled and what was held back, and tell the table where the jobs are."""
    settlement = own.settlement
    settled = settlement.decide()
    table.judged(settlement.judged, settlement.quiet)
    held = table.held(version)
    if settled or held:
        own.append(*settled, *held)
    for alarm in settled:
        log.info("early alarm settled", series=alarm.series, status=alarm.status, incident=alarm.incident or None)


class Movement:
    """Whether records flow through the lane: there are heartbeats as long as the jobs go on."""

    def __init__(self) -> None:
        self._seen, self._judged = -1, -1

    def moves(self, seen: int, judged: int) -> bool:
        """Whether records have been seen since the last call that answered yes, or the jobs have not gone on either."""
        if seen == self._seen and judged != self._judged:
            return False
        self._seen, self._judged = seen, judged
        return True
