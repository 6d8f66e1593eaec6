"""Experiments: the figures of a collection with something changed, from a Python prompt.

    from benchmarks.experiment import evaluate
    evaluate("wsd")                                             # {"f1": ..., "precision": ..., ...} as shipped
    evaluate("nab", {"univariate.norm": 2.0})                   # parameters by name: see benchmarks.configuration
    evaluate("asd", {"host.hold_minutes": 30.0, "without": "rhythm"})
    evaluate("tcpd", {"change.level_rows": 0.1, "detector.alarm_chance": 0.02})
    evaluate("smd", {"models.univariate.model:CALIBRATION_DAYS": 1.0})   # constants of modules
    answers = answered("wsd", {})                               # name -> scores of its rows, and changes: to look at

Nothing is kept between calls. All curves or hosts of a collection go through one detector for each distance of rows
(`benchmarks.together`); times on one processor that does nothing else: WSD 2, NAB 1.5, SMD 4, ASD 1 minutes, TCPD 3 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import collections, judges
from benchmarks.collections import BenchmarkSeries
from benchmarks.configuration import Configuration, applied
from benchmarks.together import TableAnswers, TimedTable, answers_of
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.detection.host_score import HostParameters
from models.detection.table_score import rising

DATA = Path(__file__).parents[2] / "shared"
COLLECTIONS = ("nab", "wsd", "tcpd", *collections.HOST_COLLECTIONS)
MS = 1000


def evaluate(collection: str, parameters: Configuration | None = None, shared: Path = DATA) -> dict[str, float]:
    """Figures of a collection, by its own scorer, at thresholds fixed beforehand.

    Parameters
    ----------
    collection
        One of `COLLECTIONS`.
    parameters
        What is other than shipped, as `benchmarks.configuration` has it.
    shared
        The folder that holds `data/` and `score/`.
    """
    tables = tables_of(collection, shared)
    with applied(parameters or {}) as (detector, joined):
        found = answers_of(list(tables.values()), detector, joined)
    return judged(collection, tables, dict(zip(tables, found, strict=True)), detector, joined, shared)


def answered(collection: str, parameters: Configuration | None = None, shared: Path = DATA) -> dict[str, TableAnswers]:
    """The answers to all tables of a collection, by name."""
    tables = tables_of(collection, shared)
    with applied(parameters or {}) as (detector, joined):
        return dict(zip(tables, answers_of(list(tables.values()), detector, joined), strict=True))


def tables_of(collection: str, shared: Path = DATA) -> dict[str, TimedTable]:
    """The curves or hosts of a collection, by the names that its scorer knows."""
    data = shared / "data"
    if collection in collections.HOST_COLLECTIONS:
        hosts = collections.hosts(data, collection)
        return {one.name: TimedTable(one.name, one.period, one.times, one.values, host=True) for one in hosts}
    read = {"nab": collections.nab, "wsd": collections.curves, "tcpd": collections.changes}[collection]
    return {series.name: table_of(series) for series in read(data)}


def table_of(series: BenchmarkSeries) -> TimedTable:
    """A univariate series whose times rise; rows are as far apart as the median of their distances."""
    times = rising(series.times)
    period = float(np.median(np.diff(times))) / MS
    return TimedTable(series.name, period, times, series.values[:, None], host=False)


def judged(
    collection: str,
    tables: Mapping[str, TimedTable],
    answers: Mapping[str, TableAnswers],
    detector: DetectorParameters,
    joined: HostParameters,
    shared: Path = DATA,
) -> dict[str, float]:
    """Figures of answers by name; those of `nab` and `wsd` are judged in thresholds, as that of an hour's rows is another one."""
    if collection == "tcpd":
        return judges.judge_changes(
            shared, {name: change_rows(tables[name].times, one.changes) for name, one in answers.items()}
        )
    if collection in collections.HOST_COLLECTIONS:
        data = shared / "data"
        taught = {host.name: host.taught for host in collections.hosts(data, collection)}
        scores = {name: one.score[taught[name] :] for name, one in answers.items()}
        return judges.judge_hosts(shared, collection, scores, joined.alarm_nats)
    scores = {name: in_thresholds(tables[name], one.score, detector) for name, one in answers.items()}
    if collection == "nab":
        return judges.judge_nab(shared, scores, 1.0)
    return judges.judge_curves(shared, scores, 1.0)


def in_thresholds(table: TimedTable, score: Floats, p: DetectorParameters) -> Floats:
    """Scores as shares of the alert threshold of rows that are so far apart."""
    return score / replace(p, window_seconds=table.period).alert_nats


def change_rows(times: Floats, changes: list[int]) -> list[int]:
    """First rows of new states that began at these times."""
    found = {int(np.searchsorted(times, since, side="right")) for since in changes}
    return sorted(row for row in found if 0 < row < len(times))
