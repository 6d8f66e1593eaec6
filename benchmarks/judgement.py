"""One figure for each collection, from 0 to 1 as a rule, and how much it depends on chance: a block bootstrap.

    nab     mean of the three profiles, of 100                  resampled by files
    wsd     F1 of events, at alerts                              by curves, as are simulated `kinds`
    tcpd    mean of F1 and covering                             by series
    hosts   mean of AUC-PR and best F1 over the hosts           by blocks of a day of each host

The scorers' own functions judge, at thresholds that were fixed beforehand. Draws depend on nothing but their number and that of
the blocks, so those of two configurations are pairs.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import kinds
from benchmarks.cases import DATA, SIMULATED, Case
from benchmarks.together import TableAnswers
from models.core.arrays import Floats, Ints
from models.core.parameters import DetectorParameters

DRAWS, SEED = 100, 11
DAY_SECONDS, MERGED_ROWS = 86_400, 10
Draw = Callable[[int], Ints]  # so many blocks -> which of them, with repeats


@dataclass(frozen=True)
class ResampledFigure:
    """What is known of a collection under a configuration: `figure` of all blocks, and of each draw of blocks, `(DRAWS,)`."""

    figure: float
    drawn: Floats

    def difference(self, other: ResampledFigure) -> tuple[float, float]:
        """How much better than another configuration, and the standard deviation of that over the draws."""
        return self.figure - other.figure, float(np.std(self.drawn - other.drawn))


def judge(
    collection: str,
    cases: Sequence[Case],
    answers: Sequence[TableAnswers],
    detector: DetectorParameters,
    shared: Path = DATA,
) -> ResampledFigure:
    """The figure of a collection, and its draws."""
    if collection == "tcpd":
        found = [case.changes(one) for case, one in zip(cases, answers, strict=True)]
        return resampled(changes_figure(cases, found, shared))
    thresholds = [replace(detector, window_seconds=case.table.period).alert_nats for case in cases]
    scores = [case.scores(one) / threshold for case, one, threshold in zip(cases, answers, thresholds, strict=True)]
    alerts = [case.alerts(one) for case, one in zip(cases, answers, strict=True)]
    return judge_scores(collection, cases, scores, shared, alerts)


def judge_scores(
    collection: str,
    cases: Sequence[Case],
    scores: Sequence[Floats],
    shared: Path = DATA,
    alerts: Sequence[Ints] | None = None,
) -> ResampledFigure:
    """The same of scores in thresholds of the rows that are judged; of hosts only their order matters.

    `alerts` say in which rows of curves an alert begins; without them it does where a run of scores reaches the threshold.
    """
    if collection == "nab":
        return resampled(nab_figure(cases, scores, shared))
    if collection in ("wsd", SIMULATED):
        return resampled(events_figure(judged_events(collection, cases, scores, shared, alerts)))
    return resampled(hosts_figure(collection, cases, scores, shared))


def resampled(figure: Callable[[Draw], float]) -> ResampledFigure:
    """A figure of all blocks, and of draws of as many with repeats."""
    rngs = [np.random.default_rng([SEED, k]) for k in range(DRAWS)]
    drawn = [figure(lambda blocks, rng=rng: rng.integers(blocks, size=blocks)) for rng in rngs]  # type: ignore[misc]
    return ResampledFigure(figure(np.arange), np.array(drawn))


@lru_cache
def scorer(shared: Path, name: str) -> ModuleType:
    """A scorer as a module."""
    spec = importlib.util.spec_from_file_location(name, shared / "score" / f"{name}.py")
    if spec is None or spec.loader is None:
        msg = f"no scorer {name} in {shared / 'score'}"
        raise FileNotFoundError(msg)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nab_figure(cases: Sequence[Case], scores: Sequence[Floats], shared: Path) -> Callable[[Draw], float]:
    """Mean of the profiles over drawn files."""
    nab, data = scorer(shared, "nab_score"), shared / "data" / "nab"
    known = json.loads((data / "labels" / "combined_windows.json").read_text())
    gained = np.zeros((len(nab.PROFILES), len(cases)))
    possible = np.zeros_like(gained)
    with tempfile.TemporaryDirectory() as folder:
        for case, values in zip(cases, scores, strict=True):
            path = Path(folder) / case.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                rows = ([repr(float(value)) if np.isfinite(value) else ""] for value in values)
                csv.writer(file).writerows([["anomaly_score"], *rows])
        labels = {case.name: known[case.name] for case in cases}
        points = nab.load(Path(folder), [data / "data"], labels)
    for k, case in enumerate(cases):
        windows = [(case.name, i) for i in range(len(known[case.name]))]
        own = [point for point in points if point.file == case.name]
        for j, weights in enumerate(nab.PROFILES.values()):
            gained[j, k] = nab.sweep(own, windows, weights, 1.0)["raw"] + weights[2] * len(windows)
            possible[j, k] = (weights[0] + weights[2]) * len(windows)

    def figure(draw: Draw) -> float:
        at = draw(len(cases))
        return float(np.mean(gained[:, at].sum(axis=1) / np.maximum(possible[:, at].sum(axis=1), 1e-9)))

    return figure


def judged_events(
    collection: str,
    cases: Sequence[Case],
    scores: Sequence[Floats],
    shared: Path,
    alerts: Sequence[Ints] | None = None,
) -> Ints:
    """Events, those found, and false alerts of each curve, `(curves, 3)`."""
    events = scorer(shared, "event_score")
    if alerts is None:
        alerts = [events.begins(np.where(np.isnan(x), -np.inf, x), 1.0, MERGED_ROWS) for x in scores]
    counts = []
    for case, begun in zip(cases, alerts, strict=True):
        label = _label(collection, case.name, shared)
        counts.append(events.judge(label[slice(*case.judged)], begun)[:3])
    return np.array(counts, dtype=np.int64)


def _label(collection: str, name: str, shared: Path) -> Ints:
    """1 for the rows of a curve that lie in an event, `(rows,)`."""
    if collection == SIMULATED:
        return kinds.curve(*kinds.parsed(name)).label.astype(np.int64)
    label: Ints = pq.read_table(shared / "data" / collection / f"{name}.parquet", columns=["label"])["label"].to_numpy()
    return label


def events_figure(counts: Ints) -> Callable[[Draw], float]:
    """F1 of events over drawn curves; `counts` as of `judged_events`."""

    def figure(draw: Draw) -> float:
        there, found, false = counts[draw(len(counts))].sum(axis=0)
        return float(2 * found / max(found + false + there, 1e-9))

    return figure


def changes_figure(cases: Sequence[Case], found: Sequence[list[int]], shared: Path) -> Callable[[Draw], float]:
    """Mean of F1 and covering over drawn series."""
    changes = scorer(shared, "changepoint_score")
    known: dict[str, dict[str, list[int]]] = json.loads((shared / "data" / "tcpd" / "annotations.json").read_text())
    figures = []
    for case, rows in zip(cases, found, strict=True):
        annotators = known[case.name].values()
        figures.append((changes.f1(annotators, rows, 5)["f1"] + changes.covering(annotators, rows, case.judged[1])) / 2)
    return lambda draw: float(np.mean(np.array(figures)[draw(len(figures))]))


def hosts_figure(
    collection: str, cases: Sequence[Case], scores: Sequence[Floats], shared: Path
) -> Callable[[Draw], float]:
    """Mean of AUC-PR and best F1 over the hosts, each of drawn days."""
    measures: Any = scorer(shared, "multivariate_score")
    folder = shared / "data" / collection
    rows = round(DAY_SECONDS / float(json.loads((folder / "meta.json").read_text())["row_seconds"]))
    hosts = []
    for case, values in zip(cases, scores, strict=True):
        label = pq.read_table(folder / f"{case.name}_test.parquet", columns=["label"])["label"].to_numpy() == 1
        hosts.append((label, np.where(np.isnan(values), -np.inf, values)))

    def figure(draw: Draw) -> float:
        found = []
        for label, values in hosts:
            days = draw(-(-len(label) // rows))
            at = (days[:, None] * rows + np.arange(rows)).ravel()
            at = at[at < len(label)]
            if label[at].any():
                own = label[at], values[at]
                found.append((measures.auc_pr(*own) + measures.best_f1(*own)[0]) / 2)
        return float(np.mean(found)) if found else 0.0

    return figure
