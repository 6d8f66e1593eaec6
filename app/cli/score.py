"""`kappa score`: the detector on the rows of files. The work is in `app.cli.score_files`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.connection import Config
from app.cli.output import Json, print_json, print_table, report
from app.core.settings import load


def score(
    files: Annotated[
        list[Path],
        typer.Argument(help="CSV or Parquet, read one after the other; all but the last are for learning only."),
    ],
    value: Annotated[
        str | None, typer.Option(help="The column of one metric. Default: the only one beside the times.")
    ] = None,
    values: Annotated[str | None, typer.Option(help="A pattern such as 'm*': columns of one host's metrics.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="The column of times. Default: `timestamp` or the like.")
    ] = None,
    period: Annotated[float | None, typer.Option(help="Seconds between two rows that have no times.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the results to this file as CSV, a row for each row.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Score the rows of CSV or Parquet files, without Kafka. Without --out or --json: CSV on stdout."""
    if value is not None and values is not None:
        msg = "give either --value COLUMN or --values PATTERN"
        raise typer.BadParameter(msg)
    from app.cli import score_files  # loads numba
    from app.cli.table_files import TableColumns, only_metric

    settings = load(config)
    if settings.control.rules:
        report("the rules of the settings are not followed: files have no hosts to select")
    to_stdout = out_file is None and not as_json
    columns = TableColumns(value, values, timestamp)
    if value is None and values is None:
        columns = only_metric(files[0], columns, report)
    summary = score_files.run(files, columns, period, settings.detection, out_file, report, to_stdout=to_stdout)
    if as_json:
        print_json(summary)
    elif out_file is not None:
        rows = [
            [str(n["file"]), str(n["row"]), n["time"], n["kind"], f"{n['score']:.1f}", score_files.reason(n)]
            for n in summary["first_novelties"]
        ]
        print_table(score_files.title(summary), ["file", "row", "time", "kind", "nats", "why"], rows)
