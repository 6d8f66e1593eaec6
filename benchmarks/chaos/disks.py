"""Small file systems of their own under what writes to disk, so that each can be filled without filling the machine's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# Where each of the three writes, below the folder of a run, and how large its file system is, MiB.
DISKS = {
    "checkpoint": ("checkpoints", 512),
    "broker": ("kafka/kafka", 1024),
    "elasticsearch": ("elasticsearch/elasticsearch/data", 1024),
}
FILLER = "filler"
BLOCK = 1 << 20


def may_mount(folder: Path) -> bool:
    """Whether this process may mount a tmpfs."""
    try:
        with mounted(folder / "mount-test", 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def mounted(folder: Path, mebibytes: int) -> Iterator[Path]:
    """A tmpfs of a size while the block runs. Its content is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(folder)],
        check=True,
        capture_output=True,
    )
    try:
        yield folder
    finally:
        # Lazily: a process that is about to end may have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


@contextmanager
def small_disks(home: Path) -> Iterator[dict[str, Path]]:
    """A file system for each of `DISKS`, by its name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(mounted(home / place, size)) for name, (place, size) in DISKS.items()}


def fill(disk: Path) -> int:
    """Leave nothing free; the bytes that took."""
    block, written = os.urandom(BLOCK), 0
    with (disk / FILLER).open("ab", buffering=0) as file:
        size = BLOCK
        while size:
            try:
                written += file.write(block[:size])
            except OSError:  # there is no room for so much
                size //= 2
    return written


def fill_again(disk: Path) -> None:
    """Take what has become free meanwhile."""
    with suppress(OSError):
        fill(disk)


def empty(disk: Path) -> None:
    """Give back what `fill` took."""
    (disk / FILLER).unlink(missing_ok=True)
