"""What commands print: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")]

out = Console()
err = Console(stderr=True)


def report(line: str) -> None:
    """Print a line of progress on stderr."""
    err.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_error(line: str) -> None:
    """Print an error, in one line on stderr."""
    err.print(f"kappa: {line}", style="red", markup=False, highlight=False, soft_wrap=True)


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


def print_line(line: str) -> None:
    """Print a line on stdout as it is, however wide the terminal."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a title, and a table unless it has no rows."""
    # Rich would break a title of the table's own to the width of its columns.
    out.print(title, style="table.title", markup=False, highlight=False, soft_wrap=True)
    if not rows:
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))  # text is shown as it is: rich would obey `[...]` in it
    out.print(table)


def progress_bar(*columns: TextColumn) -> Progress:
    """A bar on stderr, where that is a terminal: the count of the total, `columns`, and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
