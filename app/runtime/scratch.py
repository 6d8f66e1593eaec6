"""Folders for Spark's scratch files, `home/spark/session-NAME`: what a process that was killed has left goes when the next one begins.

Spark removes its files when its JVM ends by itself. A JVM that is killed leaves them: shuffled rows, and a working copy of all state. Who
uses a folder holds the lock on its file `lock`, so nobody takes away what another process uses, in another container either.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp

from app.core.file_lock import file_lock, held_lock

WAIT_SECONDS = 60.0  # for another process that removes what it has found
PREFIX = "session-"
LOCK = "lock"

_held = ExitStack()  # until this process ends
_own: dict[Path, Path] = {}


def folder_of_process(home: Path) -> Path:
    """This process's folder below a home, the same at each call; the first one removes those that nobody uses any more.

    Raises InputError where another process removes such folders for longer than a minute.
    """
    parent = home.resolve() / "spark"
    if parent not in _own:
        parent.mkdir(parents=True, exist_ok=True)
        refusal = f"{parent}: another process has been removing old files of Spark for {WAIT_SECONDS:.0f} s; try again"
        with held_lock(parent / LOCK, WAIT_SECONDS, refusal):
            remove_unused(parent)
            own = Path(mkdtemp(prefix=PREFIX, dir=parent))
            _held.enter_context(file_lock(own / LOCK, 0.0))
        _own[parent] = own
    return _own[parent]


def remove_unused(parent: Path) -> None:
    """Remove the folders of processes that have ended. What cannot be removed, as it is another user's, stays."""
    for folder in filter(Path.is_dir, parent.glob(f"{PREFIX}*")):
        with suppress(OSError), file_lock(folder / LOCK, 0.0) as unused:
            if unused:
                shutil.rmtree(folder, ignore_errors=True)
