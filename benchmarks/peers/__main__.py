"""`make bench-peers`: other stream processors and online detectors beside ours, in one run.

Extraction: JSON in, exact statistics of each window and series, JSON out, on one topic of one broker, each a process of its own. Detection:
detectors of river, one for each series, beside the model. See docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import RESULTS
from benchmarks.deployment import deployment, machine
from benchmarks.peers import detection, extraction
from benchmarks.peers.programs import PROGRAMS

COLUMNS = {
    "events_per_second": "events/s",
    "core_seconds_per_million": "core-s / million",
    "with_start_events_per_second": "events/s, start included",
    "start_core_seconds": "core-s of a start",
    "memory_mib": "MiB",
    "events": "events",
}
DETECTION = {
    "rows_per_second": "rows/s of a core",
    "core_seconds_per_million": "core-s / million rows",
    "bytes_per_series": "bytes a series",
    "series": "series",
}


def table(title: str, rows: dict[str, dict[str, Any]], columns: dict[str, str]) -> Table:
    """Rows of figures; of what failed, why."""
    view = Table(title=title, title_justify="left")
    for column in ("", *columns.values()):
        view.add_column(column)
    for row in rows.values():
        if "error" in row:
            view.add_row(row["what"], row["error"])
        else:
            view.add_row(row["what"], *(shown(row.get(name)) for name in columns))
    return view


def shown(figure: float | None) -> str:
    """Of a table; empty where there is none."""
    return "" if figure is None else f"{figure:,.{1 if figure < 1000 else 0}f}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    names = [program.name for program in PROGRAMS]
    parser.add_argument(
        "--of", nargs="+", choices=names, default=names, help="who takes part in the extraction; kappa does"
    )
    parser.add_argument("--only", choices=["extraction", "detection"])
    chosen = parser.parse_args()
    about, found = machine(), {}
    title = f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB, load before {about['load_before']:.1f}"
    taking_part = [one for one in PROGRAMS if one.name in (*chosen.of, "kappa")]
    with deployment() as (settings, spark):
        if chosen.only != "detection":
            found["extraction"] = extraction.measure(
                spark, settings, chosen.events, chosen.series, chosen.runs, taking_part
            )
        if chosen.only != "extraction":
            found["detection"] = detection.measure(spark, settings)
    for name, columns in (("extraction", COLUMNS), ("detection", DETECTION)):
        if name in found:
            Console(width=170).print(table(f"{name}: {title}", found[name], columns))
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"peers-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}.json"
    file.write_text(json.dumps({"machine": about, "arguments": vars(chosen), **found}, indent=2) + "\n")
    Console().print(f"written to {file}")


if __name__ == "__main__":
    main()
