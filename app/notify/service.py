"""The notifier as a part of `kappa run all`, or as a process of its own. One at a time holds the lock of a `home`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import structlog

from app.core.file_lock import file_lock, held_lock, is_held
from app.core.report import Report, silent
from app.core.settings import Settings
from app.notify.channels.kinds import open_channel
from app.notify.notifier import Notifier
from app.supervision.link import Unsupervised
from app.versions import serving
from pipelines.errors import InputError, KappaError

if TYPE_CHECKING:
    from app.runtime.metrics import Metrics  # loads Spark

log = structlog.get_logger()

LOCK_SECONDS = 1.0
AGAIN_SECONDS = 5.0
GOODBYE_SECONDS = 20.0
NAME = "notify"


def lock_of(home: Path) -> Path:
    """The file that whoever notifies holds."""
    return serving.folder(home) / "notify.lock"


def is_running(home: Path) -> bool:
    """Whether a process with this `home` notifies."""
    return is_held(lock_of(home))


def check_channels(settings: Settings) -> None:
    """Raise InputError without channels, SettingsError for one that cannot be used."""
    if not settings.notify.channels:
        msg = "notify: there is no channel to tell anybody; add [notify.channels.NAME] to the settings, see docs/alerts.md"
        raise InputError(msg)
    for name in settings.notify.channels:
        open_channel(settings.notify, name).close()


def run_until_stopped(
    settings: Settings, stopping: threading.Event, parent: Unsupervised | None = None, report: Report = silent
) -> None:
    """Notify until stopped; with `health.port` metrics and health are served meanwhile.

    Raises InputError where another process notifies, SettingsError for a channel that cannot be used or a port in use, ServiceUnavailable
    without Kafka.
    """
    refusal = f"notify: another process with home {settings.home} notifies; stop that one, or remove its channels"
    with (
        held_lock(lock_of(settings.home), LOCK_SECONDS, refusal),
        progress_reports(settings, parent or Unsupervised(), report) as (progress, metrics),
    ):
        # What answers at that port is this process, of which the chain's health is not.
        watched = settings.model_copy(update={"health": settings.health.model_copy(update={"port": None})})
        Notifier(watched, stopping, progress=progress, metrics=metrics).run()


@contextmanager
def progress_reports(
    settings: Settings, parent: Unsupervised, report: Report
) -> Iterator[tuple[Callable[[], None], Metrics | None]]:
    """What is to be called where notifying goes on, which the parent and `/healthz` hear of, and what counts for `/metrics`."""
    own = settings.health
    if own.port is None:
        parent.expect(NAME)
        yield lambda: parent.progress(NAME, done=True), None
        return
    from app.runtime.health import Health, HealthServer  # loads Spark

    health = Health(own.stale_seconds, parent=parent)
    health.expect(NAME)
    with HealthServer(health, own.host, own.port, names=own.names) as server:
        report(server.announcement)
        yield lambda: health.on_idle(NAME), health.metrics


class BesideJobs:
    """A thread that notifies while jobs run, as a context manager. Whatever ends it, the jobs go on, and it begins again."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError for a channel that cannot be used."""
        if settings.notify.channels:
            check_channels(settings)
        self._settings, self._stop = settings, threading.Event()
        self._metrics: Metrics | None = None
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)

    def counted_by(self, metrics: Metrics) -> Self:
        """What becomes of notifications is counted from now on."""
        self._metrics = metrics
        return self

    def __enter__(self) -> Self:
        if self._settings.notify.channels:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(GOODBYE_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with file_lock(lock_of(self._settings.home), LOCK_SECONDS) as held:
                    if not held:
                        continue
                    Notifier(self._settings, self._stop, metrics=self._metrics).run()
            except KappaError as error:
                log.warning("notifications stopped, beginning again", error=str(error))
            except Exception as error:  # whatever it is, the jobs go on
                log.error(
                    "notifications stopped by an error, beginning again", error=f"{type(error).__name__}: {error}"[:500]
                )
            self._stop.wait(AGAIN_SECONDS)
