"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from app.errors import InputError


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
