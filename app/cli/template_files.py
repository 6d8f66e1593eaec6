"""The templates of a log file, line by line: the work of `kappa templates`."""

from __future__ import annotations

import csv
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from app.cli.output import RowsOut, progress_bar
from app.cli.table_files import other_file
from app.core.atomic_files import atomic_text
from models.core.formulas import as_text
from models.templates.extraction import strip_terminal_codes, template_id, template_of
from models.templates.merging import merge_templates
from pipelines.errors import InputError

COLUMNS = ("line", "template_id", "template")

Row = tuple[int, str, str]  # the line's number from 1, the template's id, the template as text of a cell


@dataclass
class TemplateCounts:
    """How many lines each template has, and its id."""

    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)

    def templates(self) -> list[dict[str, Any]]:
        """The most frequent first; equally frequent ones by their text."""
        order = sorted(self.counts, key=lambda text: (-self.counts[text], text))
        return [{"template_id": self.ids[text], "template": text, "lines": self.counts[text]} for text in order]


@dataclass
class LineTemplates:
    """The template of each line by itself: the distinct ones in the order in which they came, and which of them a line has."""

    texts: dict[str, int] = field(default_factory=dict)
    of_line: array[int] = field(default_factory=lambda: array("q"))  # -1 of an empty one, which no job takes

    def add(self, line: str) -> None:
        """Take in the next line."""
        known = self.texts
        self.of_line.append(known.setdefault(template_of(strip_terminal_codes(line)), len(known)) if line else -1)

    def rows(self, counts: TemplateCounts) -> Iterator[Row]:
        """A row per line that is not empty, in order, with the templates merged by all lines; `counts` is updated along the way."""
        texts = merge_templates(list(self.texts))
        cells = list(map(as_text, texts))
        for number, at in enumerate(self.of_line, 1):
            if at < 0:
                continue
            text = texts[at]
            if text not in counts.ids:
                counts.ids[text] = template_id(text)
            counts.counts[text] += 1
            counts.lines += 1
            yield number, counts.ids[text], cells[at]


def mine(file: Path, out: RowsOut) -> TemplateCounts:
    """Write the rows of a file as CSV. Raises InputError if it cannot be read."""
    counts, lines = TemplateCounts(), LineTemplates()
    with _opened(file) as source, progress_bar() as progress:
        task = progress.add_task("lines", total=None)
        for line in source:
            lines.add(line.rstrip("\r\n"))
            if len(lines.of_line) % 1000 == 0:
                progress.update(task, completed=len(lines.of_line))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(lines.rows(counts))
    return counts


def mine_to_file(file: Path, target: Path | None) -> TemplateCounts:
    """Write CSV into a file, complete or not at all; without a target, only count."""
    if target is None:
        with Path(os.devnull).open("w") as nowhere:
            return mine(file, nowhere)
    with atomic_text(target, "templates", [file]) as out:
        return mine(file, out)


def _opened(file: Path) -> TextIO:
    """The file as text: a line ends with a line feed only; bytes that are no UTF-8 are replaced.

    Raises InputError for a file that cannot be read, or is compressed.
    """
    try:
        opened = file.open("rb")
        if odd := other_file(opened.peek(4)):  # a pipe is read once
            opened.close()
            msg = f"templates: cannot read {file}: {odd}; wanted a log file in UTF-8"
            raise InputError(msg)
        return TextIOWrapper(opened, encoding="utf-8-sig", errors="replace", newline="\n")
    except OSError as error:
        msg = f"templates: cannot read {file}: {error.strerror}; wanted a log file"
        raise InputError(msg) from error


def summary(file: Path, counts: TemplateCounts, target: Path | None) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "file": str(file),
        "lines": counts.lines,
        "templates": counts.templates(),
        "out": None if target is None else str(target),
    }
