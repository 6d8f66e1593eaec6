"""The detector on the rows of files, a bounded stream without Kafka.

Each row is a window of its own, which ends at the row's time and is as long as the rows are apart. Of several files, which
follow one another, only the last is scored; the detector learns from the others. Rows are written as the detector scores them.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.output import RowsOut, progress_bar, rows_on_stdout
from app.cli.table_files import FIRST_ROW_MS, OrderedTables, TableColumns, load
from app.core.atomic_files import atomic_text
from app.core.report import Report
from app.core.timestamps import iso
from models.core.formulas import as_text
from models.core.parameters import DetectorParameters
from models.core.wording import counted
from models.detection.host_score import HostParameters
from models.detection.table_score import RowAnswer, TableScorer

NUMBERS = ("score", "value", "typical", "lower", "upper")
COLUMNS = ("file", "row", "anomaly_score", "novelty", "kind", "since", *NUMBERS)
OF_HOST = ("top", "share")
MOST_LISTED = 1000  # novelties that the summary lists


@dataclass
class ScoreCounts:
    """How many rows got a score, had no value, or began something novel; the first of these in full."""

    scored: int = 0
    missing: int = 0
    novelties: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)


def answers(
    source: OrderedTables, parameters: DetectorParameters, *, host: bool
) -> Iterator[tuple[int, int, RowAnswer]]:
    """File, row and answer of each row, in order. Rows of files that the detector only learns from have no score."""
    own = dataclasses.replace(parameters, window_seconds=source.period)
    metrics = source.tables[0].metrics
    scorer = TableScorer(metrics, own, host=host)
    for number, (table, times) in enumerate(zip(source.tables, source.times, strict=True)):
        order = [table.metrics.index(name) for name in metrics]
        teaches = number < len(source.tables) - 1
        for row, (at, values) in enumerate(zip(times.tolist(), table.values[:, order], strict=True)):
            answer = scorer.step(int(at), values)
            yield number, row, RowAnswer(kind="teaching", events=answer.events) if teaches else answer


def score(source: OrderedTables, parameters: DetectorParameters, out: RowsOut, *, host: bool) -> ScoreCounts:
    """Write a row for each row of the files as CSV."""
    counts = ScoreCounts()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *(OF_HOST if host else ())])
    with progress_bar() as progress:
        task, done = progress.add_task("rows", total=source.rows), 0
        for file, row, answer in answers(source, parameters, host=host):
            since = since_row(source, file, answer)
            writer.writerow(cells(file, row, answer, since, host=host))
            count(counts, source, (file, row), answer, since)
            done += 1
            if done % 500 == 0:
                progress.update(task, completed=done)
        progress.update(task, completed=done)
    return counts


def cells(file: int, row: int, answer: RowAnswer, since: int | None, *, host: bool) -> list[Any]:
    """A row of the output; what is not known is blank."""
    known = np.isfinite(answer.anomaly_score)
    output: list[Any] = [file, row, number(answer.anomaly_score), int(answer.novelty) if known else "", answer.kind]
    output.append("" if since is None else since)
    output += [number(getattr(answer, name)) for name in NUMBERS]
    if host:
        output += [";".join(map(as_text, answer.top)), ";".join(f"{share:.2f}" for share in answer.share)]
    return output


def number(value: float) -> str:
    """Seven significant digits, as the chain writes them; blank where it is not known."""
    return format(value, ".7g") if np.isfinite(value) else ""


def since_row(source: OrderedTables, file: int, answer: RowAnswer) -> int | None:
    """The row at which the open episode began, counted in the row's own file: below 0 in an earlier one. None: none is open."""
    if not answer.since:
        return None
    return int(np.searchsorted(source.line, answer.since, side="right")) - source.begins[file]


def count(
    counts: ScoreCounts, source: OrderedTables, where: tuple[int, int], answer: RowAnswer, since: int | None
) -> None:
    """Count a row, and list the novelty that begins with it."""
    counts.scored += bool(np.isfinite(answer.anomaly_score))
    counts.missing += answer.kind == "missing"
    if not answer.novelty:
        return
    counts.novelties += 1
    if len(counts.first) < MOST_LISTED:
        file, row = where
        reasons = [n.reason for n in answer.events if n.status != "close"]
        counts.first.append(
            {
                "file": file,
                "row": row,
                "time": when(source, file, row),
                "since": since,
                "kind": answer.kind,
                "score": round(answer.score, 3),
                "top": list(answer.top),
                "reason": reasons[0] if reasons else None,
            }
        )


def when(source: OrderedTables, file: int, row: int) -> str:
    """The time of a row; of rows without dates that since the first one, such as +0:04:11."""
    if source.dated:
        return iso(source.times[file][row])
    return f"+{timedelta(seconds=round((source.times[file][row] - FIRST_ROW_MS) / 1000))}"


@contextmanager
def opened(target: Path | None, sources: Sequence[Path], *, to_stdout: bool) -> Iterator[RowsOut]:
    """Where rows go: a file that is written completely or not at all, stdout, or nowhere."""
    if target is not None:
        with atomic_text(target, "score", sources) as out:
            yield out
    elif to_stdout:
        yield rows_on_stdout()
    else:
        with Path(os.devnull).open("w") as nowhere:
            yield nowhere


def run(
    files: Sequence[Path],
    columns: TableColumns,
    period: float | None,
    parameters: DetectorParameters,
    target: Path | None,
    report: Report,
    *,
    to_stdout: bool,
) -> dict[str, Any]:
    """Score files, and return the object that `--json` prints. Raises InputError for files that cannot be read."""
    began = time.monotonic()
    source, host = load(files, columns, period, report), columns.value is None
    with opened(target, files, to_stdout=to_stdout) as out:
        counts = score(source, parameters, out, host=host)
    own = dataclasses.replace(parameters, window_seconds=source.period)
    return {
        "files": [{"file": str(table.file), "rows": len(table)} for table in source.tables],
        "metrics": list(source.tables[0].metrics),
        "period_seconds": source.period,
        "threshold": math.floor(1000 * (HostParameters().alarm_nats if host else own.alert_nats)) / 1000,
        "rows": source.rows,
        "scored": counts.scored,
        "missing": counts.missing,
        "novelties": counts.novelties,
        "first_novelties": counts.first,
        "out": None if target is None else str(target),
        "seconds": round(time.monotonic() - began, 2),
    }


def title(made: dict[str, Any]) -> str:
    """The title of the table of novelties."""
    more = made["novelties"] - len(made["first_novelties"])
    cut = f", {more:,} more not shown" if more else ""
    found = counted(made["novelties"], "novelty", "novelties")
    totals = f"{found} in {counted(made['rows'], 'row')}, {made['scored']:,} of them scored{cut}"
    return f"{totals} -> {made['out']}"


def reason(novelty: dict[str, Any]) -> str:
    """Why a row is novel: the reason of its episode, else the metrics that contribute."""
    return novelty["reason"] or ", ".join(novelty["top"])
