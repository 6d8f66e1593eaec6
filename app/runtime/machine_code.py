"""The models' machine code, made once by one process before jobs need it.

`make setup` and the container image make it; an installed package, an upgrade of Python or numba, or another kind of processor has none. Each Python
worker would make its own then, at the same time as the others: on two cores for longer than a job may go without progress.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

import structlog

from app.core.report import Report, silent
from app.supervision import interrupts
from app.supervision.parent import PYTHON
from app.supervision.processes import python_path
from models.core import compiled

LOOK_SECONDS = 1.0
MOST_SECONDS = 900.0  # what takes longer hangs
MODULE = "models"
UNMADE = "the models could not be compiled beforehand"

log = structlog.get_logger()


def ensure(
    report: Report = silent,
    alive: Callable[[], None] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Make the machine code of the models that are imported where it is missing and can be kept; `alive` is called each second meanwhile.

    In a process of its own, whose memory goes with it. Where that fails, or takes longer than a quarter of an hour, workers make it for
    themselves, and the log says so. Once `stopping`, it is left unmade.
    """
    if not compiled.is_missing():
        return
    deadline = time.monotonic() + MOST_SECONDS
    report("compiling the models to machine code, once: about a minute of a processor")
    with interrupts.held_back():
        made = subprocess.Popen(
            [*PYTHON, MODULE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": python_path()},
        )
    with made:
        try:
            while True:
                try:
                    _, error = made.communicate(timeout=LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    alive()
                    is_late = time.monotonic() > deadline
                    if is_late:
                        log.warning(UNMADE, why=f"no end after {MOST_SECONDS:.0f} s")
                    if is_late or stopping():
                        made.kill()
                        return
        except BaseException:
            made.kill()
            raise
    if made.returncode:
        log.warning(UNMADE, why=error.decode(errors="replace")[-500:])
