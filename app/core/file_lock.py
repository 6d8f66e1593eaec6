"""An exclusive lock between processes, which the kernel releases when its holder ends, by SIGKILL as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout, UnixFileLock

from pipelines.errors import InputError

_POLL_SECONDS = 0.1


@contextmanager
def file_lock(path: Path, wait_seconds: float) -> Iterator[bool]:
    """Hold the lock on `path` inside the block; yields False if another process still held it after `wait_seconds`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = UnixFileLock(path, mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=_POLL_SECONDS)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path`, which is not made where it is not there: its user would be the wrong one."""
    if not path.exists():
        return False
    with file_lock(path, 0.0) as free:
        return not free


@contextmanager
def held_lock(path: Path, wait_seconds: float, refusal: str) -> Iterator[None]:
    """Hold the lock on `path` inside the block. Raises InputError, `refusal`, if another process still held it after `wait_seconds`."""
    with file_lock(path, wait_seconds) as held:
        if not held:
            raise InputError(refusal)
        yield
