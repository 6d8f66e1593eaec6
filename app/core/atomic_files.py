"""Files that are written completely or not at all, and read back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, TextIO

from pipelines.errors import InputError

DEVICES = (Path("/dev"), Path("/dev/fd"))  # their links, such as `/dev/stdout`, belong to everybody


@contextmanager
def atomic_text(target: Path, command: str, sources: Sequence[Path] = ()) -> Iterator[TextIO]:
    """A text file to write, which replaces `target` when the block ends without an error; otherwise nothing is left of it.

    A device or a pipe, such as `/dev/null` and `/dev/stdout`, is written as it is: to replace it would take it from everybody.

    `command` is named in errors. Raises InputError for a place that cannot be written, and for one of the `sources`.
    """
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            msg = f"{command}: --out {target} is the file that is read; wanted another one"
            raise InputError(msg)
    # Known before the file is there, as a signal may come at any moment; and a name that nobody has made a link of: in a folder where others
    # write it would lead to any file of ours.
    part = target.parent / f"kappa-{token_hex(8)}.part"
    try:
        if is_device(target):
            with target.open("w", encoding="utf-8", newline="") as out:
                yield out
            return
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as out:
            yield out
        part.replace(target)
    except OSError as error:
        msg = f"{command}: cannot write {target}: {error.strerror}; wanted a file in a folder that is there"
        raise InputError(msg) from error
    finally:
        with suppress(OSError):  # there may be no such folder
            part.unlink(missing_ok=True)


def draft_of(file: Path) -> Path:
    """A name beside a file for what will replace it, which no other writer has.

    A process's number is none: in containers that share a folder the same ones have the same numbers.
    """
    return file.with_name(f"{file.name}.{token_hex(8)}.draft")


def is_device(target: Path) -> bool:
    """Whether something is there that is no file to be replaced, nor a folder: a device, a pipe, a link to one, or a link of `/dev` to a file."""
    if not target.exists() or target.is_dir():
        return False
    folder = target.parent.resolve()
    return not target.is_file() or folder in DEVICES or folder.parts[:2] == ("/", "proc")


def write_json_durably(file: Path, value: Any) -> None:
    """Write a value as JSON, atomically and durably: after a crash or a power cut the file holds this value or the one before."""
    write_durably(file, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())


def write_durably(file: Path, content: bytes) -> None:
    """Write a file atomically and durably: after a crash or a power cut it has this content or the one before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(file)
    try:
        with draft.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    sync_to_disk(file.parent)


def read_json_object(file: Path, remedy: str = "bring it back from a copy") -> dict[str, Any] | None:
    """A file's JSON object; None where there is no file. Raises InputError, with the remedy, for one that holds something else."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        what = "is empty" if not file.stat().st_size else f"is not JSON ({error})"
        msg = f"{file} {what}; {remedy}"
        raise InputError(msg) from error
    if not isinstance(found, dict):
        msg = f"{file} holds {type(found).__name__}, wanted a JSON object; {remedy}"
        raise InputError(msg)
    return found


def link_or_copy(file: Path, copy: Path) -> None:
    """Make a second name for a file that never changes; a copy where the file system has no links. Raises FileNotFoundError."""
    try:
        os.link(file, copy)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, copy)


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
