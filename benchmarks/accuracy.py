"""`make accuracy`: the detector on the labelled collections, by their own scorers, beside published figures.

    python -m benchmarks.accuracy [--data DIR] [--only nab|hosts|changes] [--present] [--json]

DIR holds `data/` and `score/`. Thresholds are fixed beforehand and the same for every file; `best_` and published figures
chose theirs on the labels.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import collections, judges
from benchmarks.contenders import PartsContender, ShardContender
from benchmarks.published import PUBLISHED

DATA = Path(__file__).parents[2] / "shared"
PARTS = ("nab", "hosts", "changes")
Figures = dict[str, dict[str, float]]


def measure(shared: Path, parts: tuple[str, ...], contender: ShardContender) -> Figures:
    """Figures by collection."""
    figures: Figures = {}
    if "nab" in parts:
        scores = contender.score_series(list(collections.nab(shared / "data")))
        figures["nab"] = judges.judge_nab(shared, scores, contender.nab_threshold)
    for name in collections.HOST_COLLECTIONS if "hosts" in parts else ():
        scores = contender.score_hosts(list(collections.hosts(shared / "data", name)))
        figures[name] = judges.judge_hosts(shared, name, scores, contender.host_threshold)
    if "changes" in parts:
        found = {s.name: contender.changes_of(s) for s in collections.changes(shared / "data")}
        figures["changes"] = judges.judge_changes(shared, found)
    return figures


def tables(figures: Figures, name: str) -> list[Table]:
    """One table a collection: ours first, then what others published."""
    found = []
    for collection, ours in figures.items():
        view = Table(title=collection, title_justify="left")
        for column in ("", *ours):
            view.add_column(column)
        for who, row in ({f"kappa: {name}": ours} | PUBLISHED[collection]).items():
            view.add_row(who, *(f"{row[column]:.4g}" if column in row else "" for column in ours))
        found.append(view)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds data/ and score/")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--present", action="store_true", help="the detector alone, as the pipeline has it")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if not (chosen.data / "score").is_dir():
        sys.exit(f"{chosen.data}: no folder score in it; wanted the folder with data/ and score/, by --data")
    contender: ShardContender = ShardContender() if chosen.present else PartsContender()
    figures = measure(chosen.data, tuple(chosen.only or PARTS), contender)
    if chosen.json:
        print(json.dumps({"contender": contender.name, "figures": figures}, indent=1))
        return
    for view in tables(figures, contender.name):
        Console().print(view)


if __name__ == "__main__":
    main()
