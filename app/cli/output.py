"""What commands print: results on stdout, progress and errors on stderr.

Whatever is printed for people goes through here: it may hold what others wrote, so it is made printable (`models.core.printable`).
JSON is ASCII. Rows of CSV are as they are in a file or a pipe, and printable on a terminal. With `log.format = "json"` progress and
errors are records of the log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, Protocol, TextIO

import structlog
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from app.core import logs
from models.core.printable import printable, printable_lines

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]

PIPE_COLUMNS = 250  # a table in a file or a pipe may be so wide: a program does not find a name that is broken in two

ESTIMATE_SECONDS = 86_400.0  # of progress that counts for the time left: a step may take minutes

out = Console()
err = Console(stderr=True)


def one_line(text: str) -> str:
    """A text as one line, whatever it holds: no name in it begins a line that looks like one of ours."""
    return printable(text.rstrip("\n").replace("\n", " "))


def report(line: str) -> None:
    """Print a line of progress on stderr."""
    if logs.are_json():
        structlog.get_logger().info(line)
        return
    err.print(one_line(line), style="dim", markup=False, highlight=False, soft_wrap=True)


def print_error(line: str) -> None:
    """Print an error, in one line on stderr."""
    if logs.are_json():
        structlog.get_logger().error(line)
        return
    err.print(one_line(f"kappa: {line}"), style="red", markup=False, highlight=False, soft_wrap=True)


def fail(line: str) -> NoReturn:
    """Print an error and exit with code 1."""
    print_error(line)
    sys.exit(1)


# Keys that programs know from earlier releases of `--json`, by those of the files.
JSON_KEYS = {"watermark": "tick", "watermarks": "ticks"}


def with_json_keys(value: Any) -> Any:
    """The content of a manifest with the keys that `--json` has for it."""
    if isinstance(value, list):
        return [with_json_keys(item) for item in value]
    if isinstance(value, dict):
        return {JSON_KEYS.get(key, key): with_json_keys(item) for key, item in value.items()}
    return value


def print_json(value: Any) -> None:
    """Print the one object of `--json` on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


class RowsOut(Protocol):
    """What rows of CSV are written to."""

    def write(self, text: str, /) -> object:
        """Write text."""


class PrintableRows:
    """Stdout for rows of CSV where it is a terminal: what it is given becomes printable."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str, /) -> int:
        """Write lines."""
        return self._terminal.write(printable_lines(text))


def rows_on_stdout() -> RowsOut:
    """Where rows of CSV go: unchanged into a file or a pipe."""
    return PrintableRows(sys.stdout) if sys.stdout.isatty() else sys.stdout


def print_line(line: str) -> None:
    """Print a line on stdout, however wide the terminal."""
    out.print(one_line(line), markup=False, highlight=False, soft_wrap=True)


Cell = str | list[str]


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], unbroken: Sequence[str] = ()
) -> None:
    """Print a title, and a table unless it has no rows. Lines of the columns that are to stay `unbroken` are.

    A text is one line, whatever it holds, so that nothing looks like a row that is none; of a list each text is one.
    """
    # Rich would break a title of the table's own to the width of its columns.
    out.print(printable(title), style="table.title", markup=False, highlight=False, soft_wrap=True)
    if not rows:
        return
    table = Table()
    for column in columns:
        # A name or a time that is cut short distinguishes nothing.
        table.add_column(column, overflow="fold", no_wrap=column in unbroken)
    for row in rows:
        lines = ([cell] if isinstance(cell, str) else cell for cell in row)
        # rich would obey `[...]` in a string
        table.add_row(*(Text("\n".join(map(printable, own))) for own in lines))
    (out if out.is_terminal else Console(width=PIPE_COLUMNS)).print(table)


def progress_bar(*columns: TextColumn) -> Progress:
    """A bar on stderr, where that is a terminal: the count of the total, `columns`, and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        TimeRemainingColumn(),
        console=err,
        disable=logs.are_json() or not err.is_terminal,
        speed_estimate_period=ESTIMATE_SECONDS,
    )
