"""Ways to score the collections, in process: the detector of a shard as the pipeline has it, one row a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.collections import Host, Series
from models.detector import Parameters, ShardDetector
from models.windows import Floats, Windows

WARM_UP_DAYS = 1.0


@dataclass(frozen=True)
class ShardContender:
    """`models.detector.ShardDetector` with its default settings, the window as long as the rows are apart."""

    name: str = "shard detector"
    nab_threshold: float = 13.8
    host_threshold: float = 13.8

    def score_series(self, series: Series) -> Floats:
        """A score per row, `(rows,)`; only the row that opens an episode has one above 0."""
        times = _rising(series.times)
        detector = ShardDetector(_parameters(float(np.median(np.diff(times))) / 1000))
        out = np.full(len(times), np.nan)
        for row, (now, value) in enumerate(zip(times.tolist(), series.values.tolist(), strict=True)):
            scores, said = detector.step(int(now), _window(np.array([value])))
            opened = any(n.status == "open" and n.series.startswith("gauge/") for n in said)
            known = np.isfinite(scores.score[0])
            out[row] = (scores.score[0] if opened else 0.0) if known else np.nan
        return out

    def score_host(self, host: Host) -> Floats:
        """A score per row of the test part, `(rows,)`: the 3-norm over the metrics."""
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
