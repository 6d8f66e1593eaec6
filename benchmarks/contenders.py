"""Who is measured on the collections: the detector as `kappa score` runs it, and challengers in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.collections import BenchmarkSeries, Host
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.detection.host_score import HostParameters
from models.detection.table_score import TableScorer, rising


@dataclass(frozen=True)
class Contender:
    """The detector with its default settings, rows being windows as long as they are apart: as `kappa score` has it.

    Thresholds are those of the settings, so they are fixed beforehand. One that takes too long for all univariate series is
    given those with the fewest rows, `most_rows` in all.
    """

    name: str
    parameters: DetectorParameters = field(default_factory=DetectorParameters)
    most_rows: int | None = None

    def given(self, series: Sequence[BenchmarkSeries]) -> list[BenchmarkSeries]:
        """The series that it is measured on."""
        if self.most_rows is None:
            return list(series)
        fewest = sorted(series, key=lambda one: (len(one.values), one.name))
        rows = np.cumsum([len(one.values) for one in fewest])
        return [one for one, so_far in zip(fewest, rows, strict=True) if so_far <= self.most_rows]

    def threshold(self, period: float) -> float:
        """From which score on a row of a series is an alarm, nats; rows are `period` seconds apart."""
        return replace(self.parameters, window_seconds=period).alert_nats

    @property
    def host_threshold(self) -> float:
        """The same of a host."""
        return HostParameters().alarm_nats

    def score_series(self, series: BenchmarkSeries) -> Floats:
        """A score for each row, in thresholds: that of rows seconds apart is another one than that of an hour's."""
        times = rising(series.times)
        p = self._parameters(times)
        scorer = TableScorer(["value"], p, host=False)
        scores = [scorer.step(int(at), np.array([x])).anomaly_score for at, x in zip(times, series.values, strict=True)]
        return np.array(scores) / p.alert_nats

    def score_host(self, host: Host) -> Floats:
        """A score for each row of the test part, nats."""
        names = [f"m{i:02d}" for i in range(host.values.shape[1])]
        scorer = TableScorer(names, replace(self.parameters, window_seconds=host.period), host=True)
        scores = [scorer.step(int(at), x).anomaly_score for at, x in zip(host.times, host.values, strict=True)]
        return np.array(scores[host.taught :])

    def changes_of(self, series: BenchmarkSeries) -> list[int]:
        """Rows at which a new state begins, as far as changes of state were announced."""
        times = rising(series.times)
        scorer, found = TableScorer(["value"], self._parameters(times), host=False), set()
        for at, value in zip(times, series.values, strict=True):
            answer = scorer.step(int(at), np.array([value]))
            if answer.novelty and answer.kind == "change":
                found.add(int(np.searchsorted(times, answer.since, side="right")))
        return sorted(row for row in found if 0 < row < len(times))

    def _parameters(self, times: Floats) -> DetectorParameters:
        return replace(self.parameters, window_seconds=float(np.median(np.diff(times))) / 1000)


# A forest takes some 6 ms a row: it is given a part of the series, and the detector the same part beside it.
SOME_ROWS = 72_000
DETECTOR = Contender("kappa")
CHALLENGERS = (
    Contender("challenger HalfSpaceTrees", DetectorParameters(challenger="river.anomaly.HalfSpaceTrees")),
    Contender("kappa, on few rows", most_rows=SOME_ROWS),
    Contender(
        "challenger IsolationForest, on few rows",
        DetectorParameters(challenger="sklearn.ensemble.IsolationForest"),
        most_rows=SOME_ROWS,
    ),
)
