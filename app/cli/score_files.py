"""What `kappa score` does, callable from Python: the detector on the rows of files, a bounded stream without Kafka.

Each row is a window of its own, which ends at the row's time and is as long as rows are apart. Several files follow one another;
only the last one is judged, the others teach. Answers are written row by row, as the detector gives them.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console

from app.cli.progress import progress_bar
from app.cli.table_files import Wanted
from app.cli.table_order import Report, Tables, load
from app.core.atomic_files import written_whole
from app.core.timestamps import iso
from models.core.parameters import Parameters
from models.detection.host_score import HostParameters
from models.detection.table_score import RowAnswer, TableScorer

NUMBERS = ("score", "value", "typical", "lower", "upper")
COLUMNS = ("file", "row", "anomaly_score", "novelty", "kind", "since", *NUMBERS)
OF_HOST = ("top", "share")
MOST_SAID = 1000  # novelties that are kept for the summary


@dataclass
class Outcome:
    """What was found: rows that got a score, rows without a value, and what began to be novel, the first of them."""

    scored: int = 0
    missing: int = 0
    novelties: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)


def answers(source: Tables, parameters: Parameters, *, host: bool) -> Iterator[tuple[int, int, RowAnswer]]:
    """What is said of each row, in order: file, row, answer. Nothing is said of rows of files that only teach."""
    own = dataclasses.replace(parameters, window_seconds=source.period)
    metrics = source.tables[0].metrics
    scorer = TableScorer(metrics, own, host=host)
    for number, (table, times) in enumerate(zip(source.tables, source.times, strict=True)):
        order = [table.metrics.index(name) for name in metrics]
        teaches = number < len(source.tables) - 1
        for row, (at, values) in enumerate(zip(times.tolist(), table.values[:, order], strict=True)):
            answer = scorer.step(int(at), values)
            yield number, row, RowAnswer(kind="teaching", said=answer.said) if teaches else answer


def score(source: Tables, parameters: Parameters, out: TextIO, console: Console, *, host: bool) -> Outcome:
    """Write a row for each row of the files as CSV."""
    found = Outcome()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *(OF_HOST if host else ())])
    with progress_bar(console) as progress:
        task, done = progress.add_task("rows", total=source.rows), 0
        for file, row, answer in answers(source, parameters, host=host):
            since = since_row(source, file, answer)
            writer.writerow(cells(file, row, answer, since, host=host))
            note(found, source, (file, row), answer, since)
            done += 1
            if done % 500 == 0:
                progress.update(task, completed=done)
        progress.update(task, completed=done)
    return found


def cells(file: int, row: int, answer: RowAnswer, since: int | None, *, host: bool) -> list[Any]:
    """A row of the output; what is not known is blank."""
    known = np.isfinite(answer.anomaly_score)
    found: list[Any] = [file, row, number(answer.anomaly_score), int(answer.novelty) if known else "", answer.kind]
    found.append("" if since is None else since)
    found += [number(getattr(answer, name)) for name in NUMBERS]
    if host:
        found += [";".join(answer.top), ";".join(f"{share:.2f}" for share in answer.share)]
    return found


def number(value: float) -> str:
    """Seven significant digits, as the chain writes them; blank where it is not known."""
    return format(value, ".7g") if np.isfinite(value) else ""


def since_row(source: Tables, file: int, answer: RowAnswer) -> int | None:
    """The row at which began what goes on, counted in the row's own file: below 0 in an earlier one."""
    if not answer.since:
        return None
    return int(np.searchsorted(source.line, answer.since, side="right")) - source.begins[file]


def note(found: Outcome, source: Tables, where: tuple[int, int], answer: RowAnswer, since: int | None) -> None:
    """Count a row, and keep what begins with it."""
    found.scored += bool(np.isfinite(answer.anomaly_score))
    found.missing += answer.kind == "missing"
    if not answer.novelty:
        return
    found.novelties += 1
    if len(found.said) < MOST_SAID:
        file, row = where
        reasons = [n.reason for n in answer.said if n.status != "close"]
        found.said.append(
            {
                "file": file,
                "row": row,
                "time": iso(source.times[file][row]),
                "since": since,
                "kind": answer.kind,
                "score": round(answer.score, 3),
                "top": list(answer.top),
                "reason": reasons[0] if reasons else None,
            }
        )


@contextmanager
def opened(target: Path | None, sources: Sequence[Path], *, to_stdout: bool) -> Iterator[TextIO]:
    """Where rows go: a file that is whole or not there, stdout, or nowhere."""
    if target is not None:
        with written_whole(target, "score", sources) as out:
            yield out
    elif to_stdout:
        yield sys.stdout
    else:
        with Path(os.devnull).open("w") as nowhere:
            yield nowhere


def run(
    files: Sequence[Path],
    wanted: Wanted,
    period: float | None,
    parameters: Parameters,
    target: Path | None,
    console: Console,
    report: Report,
    *,
    to_stdout: bool,
) -> dict[str, Any]:
    """Score files; answer what `--json` prints."""
    began = time.monotonic()
    source, host = load(files, wanted, period, report), wanted.value is None
    with opened(target, files, to_stdout=to_stdout) as out:
        found = score(source, parameters, out, console, host=host)
    own = dataclasses.replace(parameters, window_seconds=source.period)
    return {
        "files": [{"file": str(table.file), "rows": len(table)} for table in source.tables],
        "metrics": list(source.tables[0].metrics),
        "period_seconds": source.period,
        "threshold": math.floor(1000 * (HostParameters().alarm_nats if host else own.loud_nats)) / 1000,
        "rows": source.rows,
        "scored": found.scored,
        "missing": found.missing,
        "novelties": found.novelties,
        "first_novelties": found.said,
        "out": None if target is None else str(target),
        "seconds": round(time.monotonic() - began, 2),
    }


def title(made: dict[str, Any]) -> str:
    """A sentence over the table of what was found."""
    more = made["novelties"] - len(made["first_novelties"])
    cut = f", {more:,} more not shown" if more else ""
    said = f"{made['novelties']:,} novelties in {made['rows']:,} rows, {made['scored']:,} of them judged{cut}"
    return f"{said} -> {made['out']}"


def words(novelty: dict[str, Any]) -> str:
    """Why a row is novel."""
    return novelty["reason"] or ", ".join(novelty["top"])
