"""`make accuracy`: the detector on the labelled collections, by their own scorers, beside challengers and published figures.

    python -m benchmarks.accuracy [--data DIR] [--only nab|curves|hosts|changes|templates|incidents|causes] [--challengers]
                                  [--processes N] [--json]

DIR holds `data/` and `score/`. Thresholds are fixed beforehand and the same for every file; `best`, `split` and published
figures chose theirs on the labels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import causes, collections, judges
from benchmarks.application import incidents_of
from benchmarks.contenders import CHALLENGERS, DETECTOR, Contender
from benchmarks.experiment import COLLECTIONS, DATA, judged, tables_of
from benchmarks.published import PUBLISHED

SLOWEST = ("nab", "smd", "wsd", "nezha", "asd")  # begun first
# part -> the folders of data/ that it measures, each a collection with figures of its own
PARTS = {
    "nab": ("nab",),
    "curves": ("wsd",),
    "hosts": collections.HOST_COLLECTIONS,
    "changes": ("tcpd",),
    "templates": ("logs",),
    "incidents": ("nezha",),
    "causes": causes.COLLECTIONS,
}
HOSTS = {
    "auc_pr": "AUC-PR",
    "best_f1": "best F1",
    "vus_pr": "VUS-PR",
    "event_recall": "events found",
    "precision": "precision",
    "false_per_day": "false a day",
}
# collection -> heads of the columns that are printed; the rest is in --json
COLUMNS = {
    "nab": {
        "standard": "standard",
        "reward_low_FP_rate": "low FP",
        "reward_low_FN_rate": "low FN",
        "windows_found": "windows found",
        "false_rows": "false rows",
        "best_standard": "best",
        "split": "split",
        "files": "files",
    },
    "wsd": {
        "f1": "F1 of events",
        "precision": "precision",
        "recall": "recall",
        "false_per_week": "false a week",
        "best_pa7_f1": "best F1, 7 rows",
    },
    "smd": HOSTS,
    "asd": HOSTS,
    "tcpd": {"f1": "F1", "covering": "covering", "precision": "precision", "recall": "recall"},
    "logs": {"ga": "grouping acc.", "fga": "of templates"},
    "nezha": {
        "incidents": "incidents",
        "faults": "faults",
        "found": "found",
        "in_time": "in time",
        "first": "faulty pod first",
        "far_per_day": "far from any, a day",
        "per_stop": "a stop",
    },
    "petshop": {
        "latency_top1": "latency first",
        "latency_top3": "among three",
        "latency_specificity": "specificity",
        "availability_top1": "availability first",
        "availability_top3": "among three",
        "availability_specificity": "specificity",
    },
    "sockshop": {"top1": "service first", "avg5": "Avg@5", "m_top1": "metric first", "m_avg5": "Avg@5"},
    "nezha causes": {"top1": "pod first", "top3": "among three"},
}
Figures = dict[str, dict[str, dict[str, float]]]  # collection -> who -> measure -> value


def found_in(shared: Path, parts: Iterable[str]) -> list[str]:
    """The collections of these parts that there are data of."""
    names = [name for part in parts for name in PARTS[part]]
    return [name for name in names if (shared / "data" / name.partition(" ")[0]).is_dir()]


def measure(shared: Path, collection: str, contender: Contender) -> dict[str, float]:
    """Figures of a contender on a collection, and the seconds that it took."""
    began = time.perf_counter()
    tables = {table.name: table for table in contender.given(list(tables_of(collection, shared).values()))}
    answers = contender.answers(list(tables.values()))
    figures = judged(collection, tables, answers, contender.parameters, contender.joined, shared)
    return figures | {"files": len(tables), "seconds": round(time.perf_counter() - began, 1)}


def contenders(collection: str, *, challenged: bool) -> Iterator[Contender]:
    """Who is measured on a collection. Challengers judge series one by one in Python, so they take the univariate one."""
    yield DETECTOR
    if collection == "nab" and challenged:
        yield from CHALLENGERS


def table(figures: Figures) -> Table:
    """One table, a section for each collection: ours first, then challengers, then what others published."""
    view = Table(show_header=False)
    for collection, ours in figures.items():
        heads = COLUMNS[collection]
        everyone = ours | PUBLISHED.get(collection, {})
        view.add_section()
        view.add_row(f"[bold]{collection}", *(f"[bold]{head}" for head in heads.values()), "[bold]seconds")
        for who, row in everyone.items():
            cells = [f"{row[key]:.4g}" if key in row else "" for key in heads]
            view.add_row(who, *cells, f"{row['seconds']:.0f}" if "seconds" in row else "published")
    return view


def run(shared: Path, chosen: list[str], *, challenged: bool, processes: int) -> Figures:
    """Measure all contenders, each collection of a contender in a process of its own; progress goes to stderr."""
    tasks = [(name, who) for name in chosen for who in everyone(name, challenged=challenged)]
    slowest = sorted(tasks, key=lambda task: SLOWEST.index(task[0]) if task[0] in SLOWEST else len(SLOWEST))
    with ProcessPoolExecutor(processes) as pool:
        asked = {task: pool.submit(measured, shared, *task) for task in slowest}
        figures: Figures = {name: {} for name in chosen}
        for task in tasks:
            figures[task[0]] |= asked[task].result()
    return figures


def everyone(collection: str, *, challenged: bool) -> list[str]:
    """Names of who is measured on a collection."""
    return (
        [one.name for one in contenders(collection, challenged=challenged)] if collection in COLLECTIONS else ["kappa"]
    )


def measured(shared: Path, collection: str, who: str) -> dict[str, dict[str, float]]:
    """Figures of a contender on a collection by its name; root causes have several at once."""
    began = time.perf_counter()
    print(f"{collection}: {who}", file=sys.stderr)
    if collection in causes.COLLECTIONS:
        return causes.measure(shared, collection)
    if collection == "logs":
        return {who: judges.judge_templates(shared)}
    if collection == "nezha":
        found = judges.judge_incidents(shared, incidents_of(shared / "data"))
        return {who: found | {"seconds": round(time.perf_counter() - began, 1)}}
    contender = next(one for one in (DETECTOR, *CHALLENGERS) if one.name == who)
    return {who: measure(shared, collection, contender)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds data/ and score/")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--challengers", action="store_true", help="also other models in its place, for half an hour")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    there = found_in(chosen.data, chosen.only or PARTS)
    if not there or not (chosen.data / "score").is_dir():
        wanted = "data/ with nab, wsd, smd, asd, tcpd, logs, petshop, sockshop or nezha, and score/"
        sys.exit(
            f"accuracy: no labelled data in {chosen.data}, nothing was measured; wanted a folder with {wanted}: --data DIR"
        )
    figures = run(chosen.data, there, challenged=chosen.challengers, processes=chosen.processes)
    if chosen.json:
        print(
            json.dumps(
                {"figures": figures, "published": {name: PUBLISHED[name] for name in there if name in PUBLISHED}},
                indent=1,
            )
        )
        return
    Console().print(table(figures))


if __name__ == "__main__":
    main()
