"""The folder of all savepoints of a home: lists them, removes them, and deletes the drafts of processes that were killed.

A process that writes or removes a savepoint holds a shared lock on the folder, which the kernel releases however the process
ends. While no process holds it, every draft in the folder was left by one that was killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from pipelines.state.savepoint_format import NAME, check_name, read_manifest

DRAFT = re.compile(rf"\.{NAME.pattern}\.[a-z0-9_]{{8}}\.(draft|spool|gone)")


class NoStateYet(InputError):
    """A version has not come far enough for a savepoint: no shard of it, or not every one, has a complete window."""


def savepoints_folder(home: Path) -> Path:
    """The folder of all savepoints of a home."""
    return home / "savepoints"


def list_manifests(home: Path) -> list[dict[str, Any]]:
    """Manifests of all savepoints, in order of their watermarks; of one that cannot be read its name and `problem`."""
    found, broken = [], []
    for folder in list_names(home):
        try:
            found.append({**read_manifest(savepoints_folder(home) / folder), "name": folder})
        except InputError as error:
            broken.append({"name": folder, "problem": str(error)})
    return sorted(found, key=lambda m: (m["watermark"], m["name"])) + broken


def list_names(home: Path) -> list[str]:
    """Names of all savepoints. Drafts begin with a dot."""
    parent = savepoints_folder(home)
    return sorted(p.name for p in parent.iterdir() if p.is_dir() and NAME.fullmatch(p.name)) if parent.is_dir() else []


def find(home: Path, name: str) -> Path:
    """The folder of a savepoint. Raises InputError, with the names that there are."""
    check_name(name)
    folder = savepoints_folder(home) / name
    if not folder.is_dir():
        there = ", ".join(list_names(home)) or "none"
        msg = f"no savepoint {name} in {folder.parent}; there are: {there}"
        raise InputError(msg)
    return folder


def drop(home: Path, name: str) -> Path:
    """Remove a savepoint; returns the folder where it was."""
    folder = find(home, name)
    with shared_lock(folder.parent):
        # Renamed first, so that one that is half removed has no name.
        gone = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".gone", dir=folder.parent))
        folder.rename(gone)
        shutil.rmtree(gone)
    return folder


@contextmanager
def shared_lock(parent: Path) -> Iterator[None]:
    """Hold the shared lock: while the block runs, drafts in the folder are in use."""
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def remove_stale_drafts(parent: Path) -> None:
    """Remove the drafts that killed processes have left in a folder, unless a process writes one now."""
    try:
        descriptor = os.open(parent, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a process does, or the file system has no locks
        return
    else:
        for left in parent.iterdir():
            if DRAFT.fullmatch(left.name):
                shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(descriptor)
