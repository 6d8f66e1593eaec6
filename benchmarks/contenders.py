"""Ways to score the collections, in process and on line: score a row, then learn it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.collections import Host, Series
from models import change, host_score
from models.change import ChangeParameters, ChangeState
from models.detector import Parameters, ShardDetector
from models.host_score import HostParameters
from models.univariate import Univariate, UnivariateAnswers
from models.univariate_parameters import UnivariateParameters
from models.windows import Floats, Windows

WARM_UP_DAYS = 1.0


@dataclass(frozen=True)
class ShardContender:
    """`models.detector.ShardDetector` with its default settings, the window as long as the rows are apart.

    Thresholds are fixed beforehand.
    """

    name: str = "shard detector"
    nab_threshold: float = 1.0  # scores of NAB are in thresholds, as that of an hourly row is another one
    host_threshold: float = 13.8

    def score_series(self, series: Sequence[Series]) -> dict[str, Floats]:
        """A score per row by name; only the row that opens an episode has one above 0."""
        return {s.name: self._score_one(s) for s in series}

    def _score_one(self, series: Series) -> Floats:
        times = _rising(series.times)
        p = _parameters(float(np.median(np.diff(times))) / 1000)
        detector = ShardDetector(p)
        out = np.full(len(times), np.nan)
        for row, (now, value) in enumerate(zip(times.tolist(), series.values.tolist(), strict=True)):
            scores, said = detector.step(int(now), _window(np.array([value])))
            opened = any(n.status == "open" and n.series.startswith("gauge/") for n in said)
            known = np.isfinite(scores.score[0])
            out[row] = (scores.score[0] / p.loud_nats if opened else 0.0) if known else np.nan
        return out

    def score_hosts(self, hosts: Sequence[Host]) -> dict[str, Floats]:
        """A score per row of the test part by name: the 3-norm over the metrics."""
        return {host.name: self._score_host(host) for host in hosts}

    def _score_host(self, host: Host) -> Floats:
        detector = ShardDetector(_parameters(host.period))
        out = np.full(len(host.values), np.nan)
        for row, (now, values) in enumerate(zip(host.times.tolist(), host.values, strict=True)):
            score = detector.step(int(now), _window(values))[0].score
            known = score[np.isfinite(score)]
            out[row] = np.cbrt(np.sum(known**3)) if len(known) else np.nan
        return out[host.taught :]

    def changes_of(self, series: Series) -> list[int]:
        """Rows at which a new state begins."""
        detector = ShardDetector(replace(_parameters(60.0), warm_up_minutes=10.0))
        found = []
        for now, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
            _, said = detector.step(int(now), _window(np.array([value])))
            starts = [n.start for n in said if n.kind == "change" and n.series.startswith("gauge/")]
            found += [int(np.searchsorted(series.times, start, side="right")) for start in starts]
        return sorted({row for row in found if 0 < row < len(series.times)})


@dataclass(frozen=True)
class PartsContender(ShardContender):
    """The detector, and what is not in it yet: the host score and `models.change`, with their default settings."""

    univariate: UnivariateParameters = field(default_factory=UnivariateParameters)
    host: HostParameters = field(default_factory=HostParameters)
    change: ChangeParameters = field(default_factory=ChangeParameters)
    name: str = "with host score and changes"
    host_threshold: float = 6.0

    def _score_host(self, host: Host) -> Floats:
        metrics = host.values.shape[1]
        model, index = Univariate(self.univariate), np.arange(metrics)
        model.state.grow(metrics)
        out, held = np.full(len(host.values), np.nan), np.full(1, np.nan)
        of_host, seconds = np.zeros(metrics, np.int64), np.full(1, host.period)
        for row, (now, values) in enumerate(zip(host.times, host.values, strict=True)):
            answers = _step(model, now, index, values)
            joined, _ = host_score.join(answers.health, of_host, 1, self.host)
            held = host_score.hold(held, joined, seconds, self.host)
            out[row] = held[0]
        return out[host.taught :]

    def changes_of(self, series: Series) -> list[int]:
        """Rows at which a new state begins."""
        state, found = ChangeState(1), []
        for now, value in zip(series.times, series.values, strict=True):
            if np.isfinite(value):
                verdict = change.step(state, np.array([now]), np.array([value]), self.change)
                if verdict.announced[0]:
                    found.append(int(np.searchsorted(series.times, verdict.start[0], side="right")))
        return sorted({row for row in found if 0 < row < len(series.times)})


def _step(model: Univariate, now: Floats, index: np.ndarray, values: Floats) -> UnivariateAnswers:
    """One row of each series: a window of one point."""
    return model.step(now, index, np.ones(len(index), np.int64), values, np.zeros(len(index)))


def _parameters(seconds: float) -> Parameters:
    return Parameters(window_seconds=seconds, warm_up_minutes=WARM_UP_DAYS * 1440)


def _rising(times: Floats) -> Floats:
    """Times that rise by at least a millisecond: the clocks of some files go back."""
    steps = np.arange(len(times))
    return np.asarray(np.maximum.accumulate(times - steps) + steps)


def _window(values: Floats) -> Windows:
    size = len(values)
    names = np.array([f"gauge/host//m{i:03d}" for i in range(size)], dtype=object)
    none = np.full(size, None, dtype=object)
    return Windows(names, np.ones(size, np.int64), values, np.zeros(size), values, values, values, none, none)
