"""`make accuracy`: the detector on the labelled collections, by their own scorers, beside baselines and published figures.

    python -m benchmarks.accuracy [--data DIR] [--only nab|curves|hosts|changes|templates|incidents|causes] [--perturbed]
                                  [--challengers] [--everyone] [--processes N] [--json]

    left out         the configuration that the other collections choose: see `benchmarks.left_out`, whose result must be of this code
    with             as shipped
    naive            the best of the baselines without a model: see `benchmarks.naive`
    best published   thresholds chosen on the labels

DIR holds `data/` and `score/`. Thresholds are fixed beforehand and the same for every file; `best` and `split` figures chose theirs on the
labels. `--perturbed` adds the figure of copies of each collection: shifted clocks, every second row, the rows
between, means of two rows, noise, missing rows, other units.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import causes, collections, judges
from benchmarks.accuracy_table import Measured, table_of
from benchmarks.application import incidents_of
from benchmarks.cases import AS_IT_IS, COLLECTIONS, DATA, cases_of
from benchmarks.contenders import CHALLENGERS
from benchmarks.experiment import copies, evaluate, figures_of, naive_figures
from benchmarks.left_out import chosen_before
from benchmarks.published import PUBLISHED, RULES

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
SLOWEST = ("smd", "nab", "wsd", "nezha", "asd")  # begun first
SHIPPED, LEFT_OUT, NAIVE, COPIES = "kappa", "left out", "naive", "copies"
LEAST_WIDTH = 110
Task = tuple[str, str]  # collection, what is measured of it
Figures = dict[str, dict[str, float]]  # who -> measure -> value


def found_in(shared: Path, parts: Iterable[str]) -> list[str]:
    """The collections of these parts that there are data of."""
    names = [name for part in parts for name in PARTS[part]]
    return [name for name in names if (shared / "data" / name.partition(" ")[0]).is_dir()]


def tasks_of(
    names: Iterable[str], chosen: dict[str, dict[str, Any]], *, perturbed: bool, challenged: bool
) -> list[Task]:
    """What is to be measured, the longest first; the shipped configuration is not measured twice."""
    found: list[Task] = []
    for name in names:
        found.append((name, SHIPPED))
        if name in COLLECTIONS:
            found.append((name, NAIVE))
            found += [(name, LEFT_OUT)] if chosen.get(name) else []
            found += [(name, COPIES)] if perturbed else []
        if name == "nab" and challenged:
            found += [(name, one.name) for one in CHALLENGERS]
    order = {name: place for place, name in enumerate(SLOWEST)}
    return sorted(found, key=lambda task: (task[1] == NAIVE, order.get(task[0], len(order))))


def measured(shared: Path, task: Task, configuration: dict[str, Any]) -> Figures:
    """Figures of a task, by who; each with the seconds that it took."""
    collection, what = task
    print(f"{collection}: {what}", file=sys.stderr)
    began = time.perf_counter()
    found = _figures(shared, collection, what, configuration)
    seconds = {"seconds": round(time.perf_counter() - began, 1)}
    return {who: row | seconds for who, row in found.items()}


def _figures(shared: Path, collection: str, what: str, configuration: dict[str, Any]) -> Figures:
    if collection in causes.COLLECTIONS:
        return causes.measure(shared, collection)
    if what == NAIVE:
        return naive_figures(collection, shared)
    if what == COPIES:
        return {kind: {"figure": one.figure} for kind, one in copies(collection, configuration, shared).items()}
    if collection == "logs":
        row = judges.judge_templates(shared)
    elif collection == "nezha":
        row = judges.judge_incidents(shared, incidents_of(shared / "data"))
    elif what in (SHIPPED, LEFT_OUT):
        row = evaluate(collection, configuration, shared)
    else:
        row = _challenger(shared, collection, what)
    return {what: row}


def _challenger(shared: Path, collection: str, what: str) -> dict[str, float]:
    """Figures of another model, on the series that it is given."""
    contender = next(one for one in CHALLENGERS if one.name == what)
    cases = {case.name: case for case in cases_of(collection, shared)}
    answers = contender.answers(contender.given([case.table for case in cases.values()]))
    own = [cases[name] for name in answers]
    return figures_of(collection, own, list(answers.values()), contender.parameters, contender.joined, shared)


def gathered(
    answers: dict[Task, Figures], names: Iterable[str], chosen: dict[str, dict[str, Any]]
) -> dict[str, Measured]:
    """The results by collection."""
    found = {}
    for name in names:
        own = Measured(published=PUBLISHED.get(name, {}), naive=dict(RULES.get(name, {})))
        if name in chosen:
            own.configuration = chosen[name]
        for (collection, what), figures in answers.items():
            if collection == name:
                _put(own, what, figures)
        if name in chosen and not chosen[name]:
            own.left_out = own.shipped
        found[name] = own
    return found


def _put(own: Measured, what: str, figures: Figures) -> None:
    """Put the figures of a task where they belong."""
    if what == SHIPPED:
        own.shipped = figures[SHIPPED]
        own.naive |= {who: row for who, row in figures.items() if who in ("chance", "largest robust z")}
        own.others |= {who: row for who, row in figures.items() if who != SHIPPED and who not in own.naive}
    elif what == LEFT_OUT:
        own.left_out = figures[LEFT_OUT]
    elif what == NAIVE:
        own.naive |= figures
    elif what == COPIES:
        own.copies = {kind: row["figure"] for kind, row in figures.items()}
        own.copies["mean of copies"] = float(np.mean([v for kind, v in own.copies.items() if kind != AS_IT_IS]))
    else:
        own.others |= figures


def run(
    shared: Path, names: list[str], chosen: dict[str, dict[str, Any]], tasks: list[Task], processes: int
) -> dict[str, Measured]:
    """Measure all tasks, each in a process of its own; progress goes to stderr."""
    with ProcessPoolExecutor(processes) as pool:
        asked = {
            task: pool.submit(measured, shared, task, chosen.get(task[0], {}) if task[1] == LEFT_OUT else {})
            for task in tasks
        }
        return gathered({task: one.result() for task, one in asked.items()}, names, chosen)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds data/ and score/")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--perturbed", action="store_true", help="also perturbed copies, for a few minutes")
    parser.add_argument("--challengers", action="store_true", help="also other models, for half an hour")
    parser.add_argument("--everyone", action="store_true", help="show all baselines and publications")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    names = found_in(wanted.data, wanted.only or PARTS)
    if not names or not (wanted.data / "score").is_dir():
        folder = "data/ with nab, wsd, smd, asd, tcpd, logs, petshop, sockshop or nezha, and score/"
        sys.exit(
            f"accuracy: no labelled data in {wanted.data}, nothing was measured; wanted a folder with {folder}: --data DIR"
        )
    began = time.perf_counter()
    chosen, words = chosen_before()
    tasks = tasks_of(names, chosen, perturbed=wanted.perturbed, challenged=wanted.challengers)
    found = run(wanted.data, names, chosen, tasks, wanted.processes)
    if wanted.json:
        print(json.dumps({name: vars(one) for name, one in found.items()}, indent=1))
        return
    console = Console(width=max(Console().width, LEAST_WIDTH))
    console.print(table_of(found, everyone=wanted.everyone))
    console.print(f"{words}; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
