"""What `kappa templates` does, callable from Python: the template of each line of a log file."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from app.cli.progress import progress_bar
from app.core.atomic_files import written_whole
from models.templates.extraction import template_id, template_of
from pipelines.errors import InputError

COLUMNS = ("line", "template_id", "template")
SHOWN = 40  # templates in the table, the most frequent first

Row = tuple[int, str, str]  # the line's number from 1, the template's id, the template


@dataclass
class Found:
    """How many lines each template has, and its id."""

    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)

    def templates(self) -> list[dict[str, Any]]:
        """The most frequent first; equally frequent ones by their text."""
        order = sorted(self.counts, key=lambda text: (-self.counts[text], text))
        return [{"template_id": self.ids[text], "template": text, "lines": self.counts[text]} for text in order]


def rows_of(lines: Iterable[str], found: Found) -> Iterator[Row]:
    """A row per line, in order; `found` counts along. Nothing depends on the lines before."""
    for number, line in enumerate(lines, 1):
        text = template_of(line)
        if text not in found.ids:
            found.ids[text] = template_id(text)
        found.counts[text] += 1
        found.lines = number
        yield number, found.ids[text], text


def mine(file: Path, out: TextIO, console: Console) -> Found:
    """Write the rows of a file as CSV. Raises InputError if it cannot be read."""
    found = Found()
    with _opened(file) as source, progress_bar(console) as progress:
        task = progress.add_task("lines", total=None)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows_of((line.rstrip("\r\n") for line in source), found):
            writer.writerow(row)
            if row[0] % 1000 == 0:
                progress.update(task, completed=row[0])
    return found


def mine_to_file(file: Path, target: Path | None, console: Console) -> Found:
    """Write CSV into a file, complete or not at all; without a target, only count."""
    if target is None:
        with Path(os.devnull).open("w") as nowhere:
            return mine(file, nowhere, console)
    with written_whole(target, "templates", [file]) as out:
        return mine(file, out, console)


def mine_to_stdout(file: Path, console: Console) -> Found:
    """Write CSV to stdout."""
    return mine(file, sys.stdout, console)


def _opened(file: Path) -> TextIO:
    """The file as text: a line ends with a line feed only; bytes that are no UTF-8 are replaced."""
    try:
        return file.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        msg = f"templates: cannot read {file}: {error.strerror}; wanted a log file"
        raise InputError(msg) from error


def summary(file: Path, found: Found, target: Path | None) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "file": str(file),
        "lines": found.lines,
        "templates": found.templates(),
        "out": None if target is None else str(target),
    }
