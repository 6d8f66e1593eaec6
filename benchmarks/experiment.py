"""Experiments: the figures of a collection with something changed, from a Python prompt.

    from benchmarks.experiment import copies, evaluate
    evaluate("wsd")                                             # {"f1": ..., "precision": ..., ...} as shipped
    evaluate("nab", {"univariate.norm": 2.0})                   # parameters by name: see benchmarks.configuration
    evaluate("asd", {"host.hold_minutes": 30.0, "without": "rhythm"})
    evaluate("smd", {"benchmarks.numpy_form.model:CALIBRATION_DAYS": 1.0})   # constants of modules
    copies("tcpd", {"change.level_rows": 0.1})                  # one figure for each kind of perturbed copies
    cases, found = answered("wsd", {})                          # cases and their answers: to look at
    from benchmarks.trials import tried
    tried("wsd", {}).difference(tried("wsd", {"without": "local"}))     # on a part, kept on disk: (worse without, spread)

`evaluate`, `copies` and `answered` keep nothing. All curves or hosts of a collection go through one detector for each distance of rows
(`benchmarks.together`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import collections, judges
from benchmarks.cases import AS_IT_IS, COLLECTIONS, COPIES, DATA, SIMULATED, Case, cases_of, perturbed
from benchmarks.configuration import Configuration, applied
from benchmarks.judgement import MERGED_ROWS, ResampledFigure, judge, judge_scores, scorer
from benchmarks.naive import NAIVE
from benchmarks.together import TableAnswers, answers_of
from models.core.arrays import Floats, Ints
from models.core.parameters import DetectorParameters
from models.detection.host_score import HostParameters

__all__ = ["COLLECTIONS", "DATA", "answered", "copies", "evaluate", "naive_figures"]


def evaluate(collection: str, parameters: Configuration | None = None, shared: Path = DATA) -> dict[str, float]:
    """Figures of a collection, by its own scorer, at thresholds fixed beforehand.

    Parameters
    ----------
    collection
        One of `COLLECTIONS`, or `SIMULATED`.
    parameters
        What is other than shipped, as `benchmarks.configuration` has it.
    shared
        The folder that holds `data/` and `score/`.

    Returns
    -------
    dict
        The scorer's measures; `figure` of `benchmarks.judgement`, of 1, and its `spread`.
    """
    cases = cases_of(collection, shared)
    with applied(parameters or {}) as (detector, joined):
        return figures_of(
            collection, cases, answers_of([case.table for case in cases], detector, joined), detector, joined, shared
        )


def answered(
    collection: str, parameters: Configuration | None = None, shared: Path = DATA
) -> tuple[list[Case], list[TableAnswers]]:
    """The tables of a collection as they are, and the answers to them."""
    cases = cases_of(collection, shared)
    with applied(parameters or {}) as (detector, joined):
        return cases, answers_of([case.table for case in cases], detector, joined)


def copies(
    collection: str, parameters: Configuration | None = None, shared: Path = DATA, kinds: Iterable[str] = COPIES
) -> dict[str, ResampledFigure]:
    """The judgement of a collection as it is, and of its perturbed copies, by kind; all go through the detector together."""
    cases = {kind: perturbed(cases_of(collection, shared), kind) for kind in (AS_IT_IS, *kinds)}
    flat = [case for some in cases.values() for case in some]
    with applied(parameters or {}) as (detector, joined):
        answers = iter(answers_of([case.table for case in flat], detector, joined))
        return {
            kind: judge(collection, some, [next(answers) for _ in some], detector, shared)
            for kind, some in cases.items()
        }


def figures_of(
    collection: str,
    cases: Sequence[Case],
    answers: Sequence[TableAnswers],
    detector: DetectorParameters,
    joined: HostParameters,
    shared: Path,
) -> dict[str, float]:
    """Figures of answers; those of curves are judged in thresholds, as that of an hour's rows is another one."""
    found = judge(collection, cases, answers, detector, shared)
    about = {"figure": found.figure, "spread": float(np.std(found.drawn))}
    if collection == "tcpd":
        changes = {case.name: case.changes(one) for case, one in zip(cases, answers, strict=True)}
        return judges.judge_changes(shared, changes) | about
    pairs = list(zip(cases, answers, strict=True))
    if collection in collections.HOST_COLLECTIONS:
        scores = {case.name: case.scores(one) for case, one in pairs}
        return judges.judge_hosts(shared, collection, scores, joined.alarm_nats) | about
    if collection == SIMULATED:
        return about
    scores = dict(zip([case.name for case in cases], scores_in_thresholds(cases, answers, detector), strict=True))
    alerts = {case.name: case.alerts(one) for case, one in pairs} if collection == "wsd" else None
    return judged_scores(collection, scores, shared, alerts) | about


def scores_in_thresholds(
    cases: Sequence[Case], answers: Sequence[TableAnswers], detector: DetectorParameters
) -> list[Floats]:
    """Scores of the rows of each case that are judged, in alert thresholds."""
    thresholds = [replace(detector, window_seconds=case.table.period).alert_nats for case in cases]
    return [case.scores(one) / threshold for case, one, threshold in zip(cases, answers, thresholds, strict=True)]


def judged_scores(
    collection: str, scores: Mapping[str, Floats], shared: Path, alerts: Mapping[str, Ints] | None = None
) -> dict[str, float]:
    """Figures of scores in thresholds, and of the alerts of curves, by the collection's program."""
    if collection == "nab":
        return judges.judge_nab(shared, scores, 1.0)
    if collection == "wsd":
        return judges.judge_curves(shared, scores, 1.0, alerts)
    return judges.judge_hosts(shared, collection, scores, 1.0)


def naive_figures(collection: str, shared: Path = DATA) -> dict[str, dict[str, float]]:
    """Figures of the baselines of a collection, by name."""
    cases, found = cases_of(collection, shared), {}
    for who, score in NAIVE[collection].items():
        if collection == "tcpd":
            found[who] = judges.judge_changes(shared, {case.name: [] for case in cases})
            continue
        scores = [score(case) for case in cases]
        if collection == "nab":
            scores = [opening(values, shared) for values in scores]
        about = judge_scores(collection, cases, scores, shared)
        named = {case.name: values for case, values in zip(cases, scores, strict=True)}
        found[who] = judged_scores(collection, named, shared) | {"figure": about.figure}
    return found


def opening(scores: Floats, shared: Path) -> Floats:
    """Scores of which only the first row of each alarm reaches the threshold, as every row of one costs."""
    begun = scorer(shared, "event_score").begins(np.where(np.isnan(scores), -np.inf, scores), 1.0, MERGED_ROWS)
    return np.where(begun > 0, scores, np.minimum(scores, 0.99))
