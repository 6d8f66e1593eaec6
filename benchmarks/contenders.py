"""Who is measured on the collections: the detector as `kappa score` runs it, and challengers in its place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.collections import Host, Series
from models.detector import Parameters
from models.host_score import HostParameters
from models.table_score import TableScorer, rising
from models.windows import Floats


@dataclass(frozen=True)
class Contender:
    """The detector with its default settings, rows being windows as long as they are apart: as `kappa score` has it.

    Thresholds are those of the settings, so they are fixed beforehand.
    """

    name: str
    parameters: Parameters = field(default_factory=Parameters)

    def threshold(self, period: float) -> float:
        """From which score on a row of a series is an alarm, nats; rows are `period` seconds apart."""
        return replace(self.parameters, window_seconds=period).loud_nats

    @property
    def host_threshold(self) -> float:
        """The same of a host."""
        return HostParameters().alarm_nats

    def score_series(self, series: Series) -> Floats:
        """A score for each row, in thresholds: that of rows seconds apart is another one than that of an hour's."""
        times = rising(series.times)
        p = self._parameters(times)
        scorer = TableScorer(["value"], p, host=False)
        scores = [scorer.step(int(at), np.array([x])).anomaly_score for at, x in zip(times, series.values, strict=True)]
        return np.array(scores) / p.loud_nats

    def score_host(self, host: Host) -> Floats:
        """A score for each row of the test part, nats."""
        names = [f"m{i:02d}" for i in range(host.values.shape[1])]
        scorer = TableScorer(names, replace(self.parameters, window_seconds=host.period), host=True)
        scores = [scorer.step(int(at), x).anomaly_score for at, x in zip(host.times, host.values, strict=True)]
        return np.array(scores[host.taught :])

    def changes_of(self, series: Series) -> list[int]:
        """Rows at which a new state begins, as far as changes of state were announced."""
        times = rising(series.times)
        scorer, found = TableScorer(["value"], self._parameters(times), host=False), set()
        for at, value in zip(times, series.values, strict=True):
            answer = scorer.step(int(at), np.array([value]))
            if answer.novelty and answer.kind == "change":
                found.add(int(np.searchsorted(times, answer.since, side="right")))
        return sorted(row for row in found if 0 < row < len(times))

    def _parameters(self, times: Floats) -> Parameters:
        return replace(self.parameters, window_seconds=float(np.median(np.diff(times))) / 1000)


DETECTOR = Contender("kappa")
CHALLENGERS = tuple(
    Contender(f"challenger {name.rpartition('.')[2]}", Parameters(challenger=name))
    for name in ("river.anomaly.HalfSpaceTrees", "sklearn.ensemble.IsolationForest")
)
