"""Savepoints that the process of `detect` takes by itself, every few hours, so that a recovery reads hours of the log at most.

Their names are `auto-VERSION-TIME`. The newest `savepoints.keep` of a version stay, others of these names are removed; what people
have named is never touched. A savepoint that fails is reported and tried again; jobs are not affected.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, Self

import structlog
from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from pipelines.errors import InputError, KappaError
from pipelines.state.savepoint_format import read_manifest
from replay.savepoints import create_savepoint, savepoint_folder

log = structlog.get_logger()

TRY_AGAIN_SECONDS = 300.0
NOT_YET_SECONDS = 30.0

Take = Callable[[Settings, str], object]


class SavepointHealth(Protocol):
    """Who is informed of savepoints: when the last one was taken (epoch ms, None: none yet), and what was wrong last."""

    def savepoint(self, taken_ms: int | None, problem: str = "") -> None:
        """Take note."""


class PeriodicSavepoints:
    """A thread that takes savepoints of a version while its jobs run, as a context manager. Does nothing if they are off."""

    def __init__(
        self,
        settings: Settings,
        health: SavepointHealth,
        take: Take,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        """`take` takes a savepoint of the settings' version under a name; `clock` is in epoch milliseconds."""
        self._settings, self._health, self._take, self._clock = settings, health, take, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="savepoints", daemon=True)

    def __enter__(self) -> Self:
        if self._settings.savepoints.every_ms is not None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Wait for a savepoint that is being taken only as long as jobs may take to stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def _run(self) -> None:
        while not self._stop.wait(self.step()):
            pass

    def step(self) -> float:
        """Take a savepoint if one is due; answers the seconds until the next look."""
        every = self._settings.savepoints.every_ms
        if every is None:
            return TRY_AGAIN_SECONDS
        last = last_taken_ms(self._settings, self._clock())
        self._health.savepoint(last)
        due = 0 if last is None else last + every - self._clock()
        if due > 0:
            return min(due / 1000, TRY_AGAIN_SECONDS)
        started = time.monotonic()
        name = automatic_name(self._settings.version, self._clock())
        try:
            create_savepoint.check_has_state(self._settings)
            self._take(self._settings, name)
            removed = remove_surplus(self._settings, self._clock())
        except Exception as error:  # whatever it is, the jobs go on
            if last is None and isinstance(error, InputError):
                return NOT_YET_SECONDS  # the version has just begun: there is no complete window yet
            problem = str(error).splitlines()[0][:300] if isinstance(error, KappaError) else type(error).__name__
            log.warning("no savepoint could be taken", savepoint=name, error=problem)
            self._health.savepoint(last, problem)
            return TRY_AGAIN_SECONDS
        log.info("savepoint taken", savepoint=name, seconds=round(time.monotonic() - started, 1), removed=len(removed))
        self._health.savepoint(self._clock())
        return TRY_AGAIN_SECONDS


def automatic_name(version: str, at_ms: int) -> str:
    """The name of a savepoint that is taken now."""
    return f"auto-{version}-{datetime.fromtimestamp(at_ms / 1000, UTC).strftime('%Y%m%dT%H%M%SZ')}"


def automatic_names(settings: Settings, now_ms: int) -> list[str]:
    """The savepoints of a version that were taken by itself, the oldest first.

    Those of a time to come were taken while the clock was ahead: they count as older than all others, or none would be due until then.
    """
    own, now = (
        re.compile(rf"auto-{re.escape(settings.version)}-\d{{8}}T\d{{6}}Z"),
        automatic_name(settings.version, now_ms),
    )
    found = (name for name in savepoint_folder.list_names(settings.home) if own.fullmatch(name))
    return sorted(found, key=lambda name: (name <= now, name))


def last_taken_ms(settings: Settings, now_ms: int) -> int | None:
    """When the newest of them was taken that can be read, epoch milliseconds; those of a time to come left out."""
    for name in reversed(automatic_names(settings, now_ms)):
        try:
            text = read_manifest(savepoint_folder.savepoints_folder(settings.home) / name)["created_at"]
            taken = int(datetime.fromisoformat(text).timestamp() * 1000)
        except (InputError, KeyError, ValueError):
            continue
        if taken <= now_ms:
            return taken
    return None


def remove_surplus(settings: Settings, now_ms: int) -> list[Path]:
    """Remove all but the newest `savepoints.keep` of them; returns where they were."""
    over = automatic_names(settings, now_ms)[: -settings.savepoints.keep]
    return [savepoint_folder.drop(settings.home, name) for name in over]


def savepoint_taker(spark: SparkSession) -> Take:
    """What takes a savepoint in a session beside that of the jobs."""
    own = spark.newSession()

    def take(settings: Settings, name: str) -> None:
        own.sparkContext.setLocalProperty("spark.scheduler.pool", "savepoints")  # a long batch must not hold it up
        create_savepoint.create(own, settings, name)

    return take


def periodic_savepoints(settings: Settings, spark: SparkSession, health: SavepointHealth) -> PeriodicSavepoints:
    """The periodic savepoints of a version whose jobs run in a session."""
    return PeriodicSavepoints(settings, health, savepoint_taker(spark))
