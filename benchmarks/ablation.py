"""What each part of the univariate model is worth on NAB: one table, each row the model without a part.

    python -m benchmarks.ablation [--data DIR] [--quick]

Every variant is measured on the series as they are and as perturbed: with noise and the clock put on by six hours, and with
values to the power 0.8 and the clock put on by fifteen. An episode opens with a row above the alert threshold and closes after four
hours without one. Levels are not adopted and no row is skipped, because only the model is measured. A variant is judged at the
three best of a few alert rates, the same for all of its series: so a part is not judged by its shift of the scores, nor by
one lucky threshold. `--quick`: the series as they are only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import collections, judges
from benchmarks.collections import BenchmarkSeries
from benchmarks.experiment import DATA
from models.core.arrays import Floats
from models.univariate.model import Univariate, join
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FEATURES

RATES = (
    3.2e-2,
    2.7e-2,
    2.4e-2,
    2.1e-2,
    1.9e-2,
    1.6e-2,
    1.3e-2,
)  # share of rows above the alert threshold, outages included
BEST = 3  # rates of which a figure is the mean
HOUR_MS = 3.6e6
CLEAR_HOURS = 4.0  # an episode closes after this long without a row above the alert threshold
Join = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Variant:
    """A model: its parameters, and how features are joined, from rarities and surprises `(features, n)`."""

    name: str
    parameters: UnivariateParameters
    join: Join


def variants(p: UnivariateParameters) -> list[tuple[UnivariateParameters, list[Variant]]]:
    """Variants by the parameters that they share, as one pass serves all that only join otherwise."""

    def all_of(rare: Floats, surprise: Floats) -> Floats:
        return join(rare, surprise, p.norm)

    def without(feature: int) -> Join:
        return lambda rare, surprise: all_of(np.delete(rare, feature, 0), np.delete(surprise, feature, 0))

    def normed(norm: float) -> Join:
        return lambda rare, surprise: join(rare, surprise, norm)

    joined = [Variant("the model", p, all_of)]
    joined += [Variant(f"without {FEATURES[m]}", p, without(m)) for m in range(6)]
    joined += [Variant(f"joined by the {k:.0f}-norm", p, normed(k)) for k in (1.0, 2.0, 4.0, 20.0)]
    joined.append(Variant("surprises not held against its history", p, lambda _, surprise: all_of(surprise, surprise)))
    others = {
        "no hour-of-day memory": replace(p, hour_share=1e-6),
        "no tolerance": replace(p, tolerance=1.0),
        "level memory a week": replace(p, level_half_life_days=7.0),
        "young series learn all": replace(p, trust_days=1e-6),
        "a steady scale of steps": replace(p, steady_share=0.99),
    }
    return [(p, joined)] + [(q, [Variant(name, q, all_of)]) for name, q in others.items()]


def perturbed(series: Sequence[BenchmarkSeries]) -> list[list[BenchmarkSeries]]:
    """The series as they are, then perturbed; rows stay where they were."""
    rng = np.random.default_rng(5)
    noisy, bent = [], []
    for s in series:
        wide = np.subtract(*np.percentile(s.values, [90, 10]))
        noise = 0.03 * wide * rng.standard_normal(len(s.values))
        noisy.append(BenchmarkSeries(s.name, s.times + 6.4 * HOUR_MS, s.values + noise))
        bent.append(BenchmarkSeries(s.name, s.times + 15.7 * HOUR_MS, np.sign(s.values) * np.abs(s.values) ** 0.8))
    return [list(series), noisy, bent]


def features_of(series: Sequence[BenchmarkSeries], p: UnivariateParameters) -> list[tuple[Floats, Floats]]:
    """Rarities and surprises of every row, `(features, rows)`, by series; NaN while warming up."""
    lengths = np.array([len(s.times) for s in series])
    out = [(np.full((len(FEATURES), n), np.nan), np.zeros((len(FEATURES), n))) for n in lengths]
    model = Univariate(p)
    model.state.grow(len(series))
    for row in range(int(lengths.max())):
        index = np.flatnonzero(lengths > row)
        now, x = (np.array([getattr(series[j], name)[row] for j in index.tolist()]) for name in ("times", "values"))
        a = model.step(now, index, np.ones(len(index), np.int64), x, np.zeros(len(index)))
        rare, surprise = np.nan_to_num(a.rarity), np.nan_to_num(a.surprise)
        for at, j in enumerate(index.tolist()):
            if np.isfinite(a.base[at]):
                out[j][0][:, row], out[j][1][:, row] = rare[:, at], surprise[:, at]
    return out


def decided(series: BenchmarkSeries, scores: Floats, threshold: float) -> Floats:
    """The score in thresholds on rows that open an episode, 0 elsewhere."""
    above, out = np.flatnonzero(scores >= threshold), np.zeros(len(scores))
    first = above[np.diff(series.times[above], prepend=-np.inf) > CLEAR_HOURS * HOUR_MS]
    out[first] = scores[first] / threshold
    return out


def figures(
    shared: Path, sets: list[list[BenchmarkSeries]], features: list[tuple[Floats, Floats]], join: Join
) -> Floats:
    """The three profiles, `(sets, profiles)`, as means over the thresholds that are best for all sets together."""
    scores = [join(*m) for m in features]
    pooled = np.concatenate(scores)
    found, each = [], len(sets[0])
    for threshold in np.nanquantile(pooled, 1 - np.array(RATES)).tolist():
        rows = []
        for at, series in enumerate(sets):
            own = scores[at * each : (at + 1) * each]
            alerts = {s.name: decided(s, v, threshold) for s, v in zip(series, own, strict=True)}
            rows.append(list(judges.nab_profiles(shared, alerts, 1.0).values()))
        found.append(np.array(rows))
    best: Floats = np.mean(sorted(found, key=lambda f: -float(f.mean()))[:BEST], axis=0)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    sets = perturbed(list(collections.nab(chosen.data / "data")))[: 1 if chosen.quick else None]
    view = Table(title="NAB, mean of the three profiles", title_justify="left")
    for column in ("", "all", "as it is", "noise", "power", "standard", "low FP", "low FN"):
        view.add_column(column)
    for parameters, some in variants(UnivariateParameters()):
        features = features_of([one for series in sets for one in series], parameters)
        for variant in some:
            f = figures(chosen.data, sets, features, variant.join)
            each = [f"{v:.1f}" for v in f.mean(axis=1)] + [""] * (3 - len(sets))
            view.add_row(variant.name, f"{f.mean():.1f}", *each, *(f"{v:.1f}" for v in f[0]))
            print(f"{variant.name}: {f.mean():.1f}", file=sys.stderr)
    Console().print(view)


if __name__ == "__main__":
    main()
