"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pipelines.errors import InputError


@contextmanager
def written_whole(target: Path, what: str, sources: Sequence[Path] = ()) -> Iterator[TextIO]:
    """Text for a file that gets its name when the block ends well; no half file is left otherwise.

    `what` names the command in errors. Raises InputError for a place that cannot be written, and for one of the `sources`.
    """
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            msg = f"{what}: --out {target} is the file that is read; wanted another one"
            raise InputError(msg)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="") as out:
            yield out
        part.replace(target)
    except OSError as error:
        msg = f"{what}: cannot write {target}: {error.strerror}; wanted a file in a folder that is there"
        raise InputError(msg) from error
    finally:
        part.unlink(missing_ok=True)


def keep_json(file: Path, value: Any) -> None:
    """Keep a value as JSON: after a crash or a power cut there is this one or the one of before, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.draft")
    draft.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    to_disk(draft)
    draft.replace(file)
    to_disk(file.parent)


def to_disk(path: Path) -> None:
    """See that a file or a folder's entries survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
