"""What each part of the models is worth: the figures of all collections without it, and whether it stays.

    python -m benchmarks.ablation [--data DIR] [--processes N] [--only NAME] [--shown]

A part stays if leaving it out makes at least two collections worse by more than the spread of paired block bootstraps (one standard
deviation of the difference). Collections are the parts that experiments take (`benchmarks.cases.part_of`); results are kept
by the hash of the code (`benchmarks.trials`), and `--shown` prints those that there are. Thresholds are as shipped: a part that shifts all
scores is judged by that, too, on curves; on hosts only the order of scores counts.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cases import COLLECTIONS, DATA
from benchmarks.configuration import Configuration
from benchmarks.judgement import ResampledFigure
from benchmarks.trials import known, tried

CURVES, HOSTS = ("nab", "wsd", "tcpd"), ("smd", "asd")
NEVER, AT_ONCE = 1e9, 1e-6
LEAST_COLLECTIONS = 2


@dataclass(frozen=True)
class AblatedPart:
    """A feature, constant or rule: what the models are without it, and the collections that it can matter to."""

    name: str
    without: Configuration
    collections: tuple[str, ...] = COLLECTIONS


FEATURES_OFF = [
    AblatedPart(f"feature: {name}", {"without": name})
    for name in ("log level", "step", "fast mean", "roughness", "rhythm", "local")
]
PARTS = [
    *FEATURES_OFF,
    AblatedPart("surprises of the body order usual rows", {"benchmarks.numpy_form.model:BODY": 0.0}),
    AblatedPart("3-norm: 2-norm", {"univariate.norm": 2.0}),
    AblatedPart("3-norm: 6-norm", {"univariate.norm": 6.0}),
    AblatedPart("rarity by hour of the day", {"univariate.hour_share": AT_ONCE}),
    AblatedPart("tolerance of surprises", {"univariate.tolerance": 1.0}),
    AblatedPart("least weight of outliers (robust memory)", {"univariate.outlier_share": AT_ONCE}),
    AblatedPart("discount of young series", {"univariate.trust_days": AT_ONCE}),
    AblatedPart("share of the long-run step in a step's scale", {"univariate.steady_share": AT_ONCE}),
    AblatedPart("first minutes are not in the history", {"univariate.first_minutes": AT_ONCE}),
    AblatedPart("per-series calibration of the score", {"plain": "scores"}, CURVES),
    AblatedPart("check of calibration", {"models.stats.per_series_calibration:OFF_GAIN": 0.0}, CURVES),
    AblatedPart("confirmed at once when strong", {"detector.confirm_nats": NEVER}, CURVES),
    AblatedPart("stuck values", {"detector.stuck_nats": NEVER}, CURVES),
    AblatedPart("stuck: longer than ever", {"models.detection.gauge_detector:LONGER": AT_ONCE}, CURVES),
    AblatedPart("new levels and spreads", {"change.least_rows": NEVER}, CURVES),
    AblatedPart("trend against a level", {"change.trend_rows": NEVER}, CURVES),
    AblatedPart("worth of dependent rows", {"plain": "effective rows"}, CURVES),
    AblatedPart("patience", {"detector.patience_minutes": NEVER}, CURVES),
    AblatedPart("hold of hosts' scores", {"host.hold_minutes": 0.1}, HOSTS),
    AblatedPart("3-norm of hosts: sum", {"host.norm": 1.0}, HOSTS),
    AblatedPart("3-norm of hosts: 10-norm", {"host.norm": 10.0}, HOSTS),
]


def verdict(differences: dict[str, tuple[float, float]]) -> str:
    """Whether a part stays; `differences` are (worse without it, spread) by collection."""
    worse = [name for name, (loss, spread) in differences.items() if loss > spread]
    better = [name for name, (loss, spread) in differences.items() if -loss > spread]
    word = "stays" if len(worse) >= LEAST_COLLECTIONS else "goes"
    return f"{word}, better without in {', '.join(better)}" if better else word


def differences_of(
    with_it: dict[str, ResampledFigure], without: dict[str, ResampledFigure]
) -> dict[str, tuple[float, float]]:
    """By collection: how much worse without the part, and the spread of that."""
    return {name: with_it[name].difference(found) for name, found in without.items() if name in with_it}


def view_of(rows: list[tuple[str, dict[str, tuple[float, float]]]]) -> Table:
    """A table, a row for each part: loss of each collection without it, in points of 100, with its spread."""
    view = Table(title="worse without it, points of 100 ± spread", title_justify="left")
    for head in ("part", *COLLECTIONS, "verdict"):
        view.add_column(head)
    for name, found in rows:
        cells = [f"{100 * found[c][0]:+.1f} ± {100 * found[c][1]:.1f}" if c in found else "" for c in COLLECTIONS]
        view.add_row(name, *cells, verdict(found))
    return view


def _try(shared: Path, collection: str, configuration: Configuration) -> ResampledFigure:
    print(f"{collection}: {dict(configuration) or 'as shipped'}", file=sys.stderr)
    return tried(collection, configuration, shared)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], help="parts whose names have this in them")
    parser.add_argument("--shown", action="store_true", help="print what is known, measure nothing")
    chosen = parser.parse_args()
    parts = [part for part in PARTS if not chosen.only or any(some in part.name for some in chosen.only)]
    wanted: list[tuple[str, Configuration]] = [(name, {}) for name in COLLECTIONS]
    wanted += [(name, part.without) for part in parts for name in part.collections]
    if not chosen.shown:
        with ProcessPoolExecutor(chosen.processes) as pool:
            asked = [pool.submit(_try, chosen.data, *one) for one in wanted]
            for one in asked:
                one.result()
    shipped = {name: found for name in COLLECTIONS if (found := known(name, {}))}
    rows = []
    for part in parts:
        without = {name: found for name in part.collections if (found := known(name, part.without))}
        if without:
            rows.append((part.name, differences_of(shipped, without)))
    console = Console(width=200)
    console.print(view_of(rows))
    console.print("as shipped:", {name: round(100 * found.figure, 1) for name, found in shipped.items()})


if __name__ == "__main__":
    main()
