"""The lane beside the jobs of `kappa run all`: a process of its own, so that nothing of it can hold up or end them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Self

import structlog

from app.core.settings import Settings
from app.early.service import is_running
from app.supervision.parent import PYTHON
from pipelines.jobs import early

log = structlog.get_logger()

GOODBYE_SECONDS = 30.0


class LaneBesideJobs:
    """Runs `kappa run early` in the block, where `early.enabled` is set and no other process runs it. It starts itself again."""

    def __init__(self, settings: Settings, arguments: Sequence[str]) -> None:
        """`arguments` name the settings' file and the version, as on the command line."""
        self._settings, self._arguments = settings, tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._settings.early.enabled:
            self._start()
        return self

    def _start(self) -> None:
        if not early.has_real_time_mode():
            log.warning("no early alarms: this Spark has no real-time mode", spark=early.spark_version())
            return
        if is_running(self._settings.home):
            log.info("early alarms are raised by another process")
            return
        # In the session of the jobs' process: whoever ends that one ends it too.
        self._process = subprocess.Popen(
            [*PYTHON, "app.cli", "run", "early", *self._arguments], stdin=subprocess.DEVNULL
        )

    def __exit__(self, *exception: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the lane of early alarms does not stop: it is ended", seconds=GOODBYE_SECONDS)
            self._process.kill()
