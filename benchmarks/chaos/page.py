"""The figures in `docs/reliability.md`, from reports of runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.core.settings import PROJECT

PAGE = PROJECT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: python -m benchmarks.chaos --publish -->", "<!-- end of figures -->"
COLUMNS = ("seed", "minutes", "faults", "of them kills", "kills an hour", "events", "compared", "differences")

Report = Mapping[str, Any]


def figures(reports: Iterable[Report]) -> str:
    """A table with a row for each run, and how often each fault came in all of them."""
    found = sorted(reports, key=lambda report: report["kills"], reverse=True)
    rows = [["---:"] * len(COLUMNS), *(row(report) for report in found)]
    lines = [f"| {' | '.join(cells)} |" for cells in (COLUMNS, *rows)]
    kinds: Counter[str] = Counter()
    for report in found:
        kinds.update(report["faults_by_kind"])
    listed = ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items()))
    total = f"Together {sum(kinds.values()):,} faults: {listed}."
    return "\n".join([*lines, "", total])


def row(report: Report) -> list[str]:
    """The cells of one run."""
    done = sum(report["faults_by_kind"].values())
    return [
        str(report["seed"]),
        f"{report['chaos_seconds'] / 60:.0f}",
        f"{done:,}",
        f"{report['kills']:,}",
        f"{report['kills_per_hour']:.0f}",
        f"{report['events']:,}",
        f"{report['compared']:,}",
        f"{report['differences']:,}" if not report["failure"] else f"failed: {report['failure'][:80]}",
    ]


def publish(files: Iterable[Path], page: Path = PAGE) -> None:
    """Write the figures of these reports into the page."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    table = figures(json.loads(file.read_text()) for file in files)
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
