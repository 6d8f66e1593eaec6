"""The detector and the baselines on simulated curves (`benchmarks.kinds`), kind by kind.

    python -m benchmarks.by_kind [--data DIR]

Events, precision, recall and F1 as on service curves, and false alerts of a curve in a week: ours at the alerts as published, changes of level
included, baselines at thresholds fixed beforehand. DIR holds `score/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import kinds
from benchmarks.cases import DATA, SIMULATED
from benchmarks.experiment import answered, scores_in_thresholds
from benchmarks.judgement import judged_events
from benchmarks.naive import NAIVE
from models.core.arrays import Ints
from models.core.parameters import DetectorParameters

OURS = "kappa"


def measures(counts: Ints) -> dict[str, float]:
    """Precision, recall and F1 of events, and false alerts of a curve in a week; `counts` as of `judgement.judged_events`."""
    events, found, false = (int(number) for number in counts.sum(axis=0))
    weeks = len(counts) * kinds.DAYS / 7
    return {
        "precision": found / max(found + false, 1),
        "recall": found / max(events, 1),
        "f1": 2 * found / max(found + false + events, 1),
        "false_per_week": false / weeks,
    }


def counts_of(shared: Path) -> dict[str, Ints]:
    """Events, those found and false alerts of each curve, by who."""
    cases, answers = answered(SIMULATED, {}, shared)
    alerts = [case.alerts(one) for case, one in zip(cases, answers, strict=True)]
    scores = scores_in_thresholds(cases, answers, DetectorParameters())
    found = {OURS: judged_events(SIMULATED, cases, scores, shared, alerts)}
    naive = {who: [score(case) for case in cases] for who, score in NAIVE[SIMULATED].items()}
    return found | {who: judged_events(SIMULATED, cases, own, shared) for who, own in naive.items()}


def view_of(found: dict[str, Ints]) -> Table:
    """A row for each kind, and one for all; columns for each of those who were measured."""
    of = np.array([kinds.parsed(one.series.name)[0] for one in kinds.curves()])
    view = Table(title="F1 (precision, recall; false alerts a week)", title_justify="left")
    for head in ("kind", *found):
        view.add_column(head)
    for kind in (*kinds.KINDS, "all"):
        row = [measures(counts[(of == kind) | (kind == "all")]) for counts in found.values()]
        view.add_row(
            kind,
            *("{f1:.2f} ({precision:.2f}, {recall:.2f}; {false_per_week:.2f})".format(**own) for own in row),
        )
    return view


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_kind", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    Console(width=160).print(view_of(counts_of(parser.parse_args().data)))


if __name__ == "__main__":
    main()
