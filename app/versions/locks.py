"""A job of a version runs in one process at a time, which holds the lock `home/versions/VERSION/JOB.lock`; so does a replay of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.core.file_lock import file_lock, is_held
from app.core.settings import Settings
from app.versions import serving
from pipelines.errors import InputError

REPLAY = "replay"  # held while a version is replayed, or its replay is compared with an earlier one
WAIT_SECONDS = 0.5  # longer than `busy` holds a lock


@contextmanager
def taken(settings: Settings, jobs: Sequence[str], wait_seconds: float = WAIT_SECONDS) -> Iterator[list[str]]:
    """Hold the locks of jobs (by the names that they run under) in the block; yields those that others hold.

    All or none: where another process runs one of them, none is held.
    """
    folder = serving.folder(settings.home) / settings.version
    with ExitStack() as held:
        busy = [job for job in jobs if not held.enter_context(file_lock(folder / f"{job}.lock", wait_seconds))]
        if busy:
            held.close()
        yield busy


@contextmanager
def only_here(settings: Settings, jobs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of jobs in the block. Raises InputError where another process runs one of them."""
    with taken(settings, jobs) as busy:
        if busy:
            raise run_elsewhere(settings, busy)
        yield


def run_elsewhere(settings: Settings, jobs: Sequence[str]) -> InputError:
    """The error for jobs that another process runs."""
    return InputError(
        f"{', '.join(jobs)} of version {settings.version} is run by another process with this home; wanted one at a time "
        "for each checkpoint: stop that one, or use another --version"
    )


def is_replayed(home: Path, version: str) -> bool:
    """Whether some process replays a version now."""
    return is_held(serving.folder(home) / version / f"{REPLAY}.lock")


def busy(settings: Settings, jobs: Sequence[str]) -> list[str]:
    """Those of the jobs that some process runs now."""
    found = []
    for job in jobs:
        with taken(settings, [job], 0.0) as others:
            found += others
    return found
