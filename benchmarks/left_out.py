"""Each collection with the configuration that the others choose: what the figures are worth on data that nobody tuned to.

    python -m benchmarks.left_out [--data DIR] [--processes N]

Each alternative of `TUNABLE` is tried on its own on the parts of the collections (`benchmarks.trials`). For each collection the one
with the best mean figure over all *other* collections is chosen, or what is shipped where none is better: one step of a coordinate-wise
search. What follows is kept in `RESULT` with the date and the hash of the code; `make accuracy` measures the
chosen configurations on the whole collections, and says so if they were chosen with other code.

What is shipped was itself found with these collections: one step away from it does not undo that. The column says how much
the choice among these alternatives is fitted to a collection, and an unseen collection still says more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import COLLECTIONS, DATA
from benchmarks.configuration import Configuration
from benchmarks.trials import KEPT, source_hash, tried

RESULT = KEPT.parent / "left_out.json"
CURVES, HOSTS = ("nab", "wsd", "tcpd"), ("smd", "asd")
TUNABLE: tuple[tuple[Configuration, tuple[str, ...]], ...] = (  # alternative, and the collections that it can change
    ({"without": "log level"}, COLLECTIONS),
    ({"without": "fast mean"}, COLLECTIONS),
    ({"without": "roughness"}, COLLECTIONS),
    ({"without": "local"}, COLLECTIONS),
    ({"univariate.norm": 2.0}, COLLECTIONS),
    ({"univariate.hour_share": 1e-6}, COLLECTIONS),
    ({"univariate.tolerance": 2.5}, COLLECTIONS),
    ({"detector.alarm_chance": 0.003}, CURVES),
    ({"detector.alarm_chance": 0.03}, CURVES),
    ({"host.hold_minutes": 60.0}, HOSTS),
    ({"host.norm": 2.0}, HOSTS),
)
Tried = Mapping[str, Mapping[str, float]]  # alternative as JSON, {} as shipped -> collection -> figure
SHIPPED = "{}"


@dataclass(frozen=True)
class Choice:
    """What the other collections choose for one: a configuration, and the mean of their figures with it and as shipped."""

    configuration: dict[str, Any]
    others: float
    others_shipped: float


def choose(figures: Tried) -> dict[str, Choice]:
    """The choice for each collection. Alternatives lack collections that they cannot change: those have their shipped figures."""
    shipped = figures[SHIPPED]
    found = {}
    for left in shipped:
        others = [name for name in shipped if name != left]
        means = {key: float(np.mean([own.get(name, shipped[name]) for name in others])) for key, own in figures.items()}
        best = max(means, key=lambda key: (means[key], key == SHIPPED))
        found[left] = Choice(json.loads(best), means[best], means[SHIPPED])
    return found


def search(shared: Path, processes: int) -> dict[str, Any]:
    """Try all alternatives and choose; answers what is kept."""
    asked: list[tuple[Configuration, str]] = [({}, name) for name in COLLECTIONS]
    asked += [(configuration, name) for configuration, names in TUNABLE for name in names]
    with ProcessPoolExecutor(processes) as pool:
        answers = [pool.submit(_figure, shared, *one) for one in asked]
        figures: dict[str, dict[str, float]] = {}
        for (configuration, name), answer in zip(asked, answers, strict=True):
            figures.setdefault(json.dumps(dict(configuration)), {})[name] = answer.result()
    chosen = {name: vars(choice) for name, choice in choose(figures).items()}
    today = datetime.now(UTC).date().isoformat()
    return {"source": source_hash(), "date": today, "chosen": chosen, "tried": figures}


def _figure(shared: Path, configuration: Configuration, collection: str) -> float:
    print(f"{collection}: {dict(configuration) or 'as shipped'}", file=sys.stderr)
    return tried(collection, configuration, shared).figure


def chosen_before(path: Path = RESULT) -> tuple[dict[str, dict[str, Any]], str]:
    """The configuration of each collection as it was chosen with this code, and a sentence about that; none of other code."""
    if not path.exists():
        return {}, "no left-out search was made: python -m benchmarks.left_out"
    about = json.loads(path.read_text())
    if about["source"] != source_hash():
        return {}, f"the left-out search of {about['date']} was made with other code: python -m benchmarks.left_out"
    chosen = {name: choice["configuration"] for name, choice in about["chosen"].items()}
    return chosen, f"left out: chosen on {about['date']} with this code ({about['source']})"


def main() -> None:
    """Search, keep, and print what was chosen."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.left_out", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    found = search(chosen.data, chosen.processes)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1))
    for name, choice in found["chosen"].items():
        words = choice["configuration"] or "as shipped"
        print(f"{name}: {words}, others {choice['others_shipped']:.3f} -> {choice['others']:.3f}")


if __name__ == "__main__":
    main()
