"""`kappa templates`: the template of each line of a log file, as the pipeline has it once it has seen them all.

The work is in `app.cli.template_files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.output import Json, print_json, print_table, rows_on_stdout
from models.core.wording import counted

SHOWN = 20  # templates in the table, the most frequent first


def templates(
    file: Annotated[Path, typer.Argument(help="One log file, with or without headers before the messages.")],
    out_file: Annotated[Path | None, typer.Option("--out", help="Write line, template_id, template as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Find the template of each line of one log file: the message with its variable parts masked.

    Templates are those that the jobs would give a service that has written all lines of the file. Without --out or --json: CSV on stdout.
    """
    from app.cli import template_files  # loads numba

    if out_file is None and not as_json:
        template_files.mine(file, rows_on_stdout())
        return
    counts = template_files.mine_to_file(file, out_file)
    if as_json:
        print_json(template_files.summary(file, counts, out_file))
        return
    shown = counts.templates()
    rows = [[f"{t['lines']:,}", t["template_id"], t["template"]] for t in shown[:SHOWN]]
    most = f", the {SHOWN} most frequent" if len(shown) > SHOWN else ""
    title = f"{counted(len(shown), 'template')} in {counted(counts.lines, 'line')} of {file} -> {out_file}{most}"
    print_table(title, ["lines", "id", "template"], rows)
