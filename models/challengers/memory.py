"""What a challenger keeps of each series: its last values and scores, from which the detector is made again; and scores in nats.

The state holds numbers and no detector, so nothing has to be unpickled and it stays as large as `challenger_rows` allows. A
detector begins with a history. It is made from scratch, from the last rows, when the series has twice as many as it began with
and every `challenger_retrain_hours`; between, one of river learns row by row. So a detector that was dumped and
loaded goes on to the bit: it begins with the same rows and learns the same ones, its seed being fixed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from models.challengers.adapters import ChallengerClass, SeriesDetector, detector_of
from models.core.arrays import Floats, Ints
from models.core.parameters import LEAST_ROWS
from models.core.store import read_part, write_part
from models.stats.normal_gamma import MOST_NATS

PART = "challengers"
ADOPTED_ROWS = 60  # what is kept of the values when a new level is adopted
LEAST_SPREAD = 0.01  # of the level
MOST_SPREADS = 1e6  # some detectors use single precision

SHARE, LEAST, PRIOR = (
    0.05,
    5,
    5.0,
)  # of past scores: the share in the tail, its least number, excesses that the prior is worth
SHAPES = (-0.5, 0.2)  # bounds of the tail's shape
LEAST_LEFT = 1e-9  # of a tail that ends, beyond its end
LEAST_SCORES = 20


@dataclass
class ChallengerMemory:
    """What is kept of one series: 16 bytes a row, at most `2 * challenger_rows` rows.

    Parameters
    ----------
    values
        Its last values: the history of the detector, then those that it has learnt since.
    scores
        Scores of the last rows, in the detector's unit.
    begun
        Length of the history, 0 while there is no detector.
    began
        When the detector began, epoch milliseconds.
    detector
        The detector; made again from `values` where it is None.
    scale
        Middle and spread of the history; made with the detector.
    """

    values: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    begun: int = 0
    began: int = 0
    detector: SeriesDetector | None = None
    scale: tuple[float, float] = (0.0, 1.0)

    def step(self, kind: ChallengerClass, now: int, value: float, rows: int, retrain_ms: float) -> float:
        """Score a value, then learn it.

        Parameters
        ----------
        kind
            The class of the detector.
        now
            End of the window, epoch milliseconds.
        value
            The value, in the unit of the series.
        rows
            Length of a history.
        retrain_ms
            Time after which the detector is made from scratch.

        Returns
        -------
        Nats; NaN while fewer than `LEAST_SCORES` scores are known.
        """
        found = float("nan")
        self.values.append(value)
        if self.begun:
            detector, row = self._detector(kind), self._features(len(self.values) - 1)[0]
            score = detector.score(row)
            found = surprisal(score, np.array(self.scores))
            detector.learn(row)
            nothing_yet = kind.river and score == 0 and not self.scores  # the first scores of detectors of river
            if np.isfinite(score) and not nothing_yet:
                self.scores = [*self.scores[1 - rows :], score]
        known = len(self.values)
        if known >= max(2 * self.begun, LEAST_ROWS) or (self.begun and now - self.began >= retrain_ms):
            self.renew(now, rows)
        return found

    def copied(self) -> ChallengerMemory:
        """A copy without its detector, which is made again with the next window."""
        return replace(self, values=list(self.values), scores=list(self.scores), detector=None)

    def renew(self, now: int, rows: int) -> None:
        """Begin from scratch with the last rows as history; the detector is made with the next window."""
        self.values = self.values[-rows:]
        self.begun, self.began, self.detector = len(self.values), now, None

    def _detector(self, kind: ChallengerClass) -> SeriesDetector:
        """The detector in use, made again from the values where it is missing."""
        if self.detector is None:
            before = len(self.values) - 1  # the last one is still to be scored
            self.scale = scale_of(np.array(self.values[: self.begun]))
            rows = self._features(0, before)
            self.detector = detector_of(kind)
            self.detector.begin(rows[: self.begun])
            for row in rows[self.begun :]:
                self.detector.learn(row)
        return self.detector

    def _features(self, first: int, end: int | None = None) -> Floats:
        """Values and steps of rows, `(rows, 2)`, in spreads of the history around its middle."""
        middle, spread = self.scale
        before = max(first - 1, 0)
        values = np.clip((np.array(self.values[before:end]) - middle) / spread, -MOST_SPREADS, MOST_SPREADS)
        rows: Floats = np.stack([values, np.diff(values, prepend=values[0])], axis=1)
        return rows[first - before :]


def scale_of(history: Floats) -> tuple[float, float]:
    """Middle and spread of a history `(rows,)`."""
    low, middle, high = np.percentile(history, [25, 50, 75])
    spread = (high - low) / 1.349 or float(np.std(history))
    return float(middle), float(max(spread, LEAST_SPREAD * abs(middle), 1e-9))


@dataclass
class ChallengerMemories:
    """Memories of the metric series of a shard, in the order of their table. `made_by` is the class and options that made the scores."""

    made_by: str = ""
    series: list[ChallengerMemory] = field(default_factory=list)

    def belong_to(self, kind: ChallengerClass, options: Mapping[str, Any]) -> None:
        """Forget the scores, not the values, if another class or other options have made them."""
        name = json.dumps([kind.name, dict(options)], sort_keys=True)
        if self.made_by != name:
            for memory in self.series:
                memory.scores, memory.begun, memory.detector = [], 0, None
        self.made_by = name

    def grow(self, count: int) -> None:
        """Make room for `count` series."""
        self.series += [ChallengerMemory() for _ in range(count - len(self.series))]

    def keep(self, rows: Ints) -> None:
        """Forget all but these rows, which move up in this order."""
        self.series = [self.series[row] for row in rows.tolist()]

    def forget(self, rows: Ints) -> None:
        """Begin from scratch with these series."""
        for row in rows.tolist():
            if row < len(self.series):
                self.series[row] = ChallengerMemory()

    def dump(self) -> bytes:
        """As Arrow IPC, a row for each series."""
        columns = {
            "values": pa.array([m.values for m in self.series], type=pa.list_(pa.float64())),
            "scores": pa.array([m.scores for m in self.series], type=pa.list_(pa.float64())),
            "begun": pa.array([m.begun for m in self.series], type=pa.int64()),
            "began": pa.array([m.began for m in self.series], type=pa.int64()),
        }
        return write_part(columns, {"made_by": self.made_by if self.series else ""})

    @classmethod
    def load(cls, data: bytes) -> ChallengerMemories:
        """Memories from what `dump` has saved."""
        arrays, about = read_part(data)
        columns = (arrays[name].to_pylist() for name in ("values", "scores", "begun", "began"))
        return cls(about["made_by"], [ChallengerMemory(*row) for row in zip(*columns, strict=True)])


def surprisal(score: float, past: Floats) -> float:
    """Surprisal of a detector's score: -ln of how often a score at least as high is expected in this series.

    Up to the greatest `SHARE` of past scores by counting; beyond, by a generalised Pareto tail (peaks over a threshold: Coles 2001,
    "An Introduction to Statistical Modeling of Extreme Values", section 4) of the excesses over u, the k-th greatest of n past scores,

        -ln P(score > y) = -ln(k / (n + 1)) + ln(1 + x (y - u) / b) / x,        x -> 0:  (y - u) / b

    with shape x and scale b by moments: x = (1 - m^2 / v) / 2, b = m (1 - x). A prior worth `PRIOR` excesses says that
    they are exponential with the slope between u and the median. Many detectors have bounded scores: x is below 0 then. It fails
    where many past scores were at the bound: then nothing can be rarer.

    Parameters
    ----------
    score
        The score, in the detector's unit.
    past
        Earlier scores of the series, shape `(n,)`.

    Returns
    -------
    Nats, 0 to `MOST_NATS`; NaN while there are fewer than `LEAST_SCORES` scores.
    """
    n = len(past)
    if n < LEAST_SCORES or not np.isfinite(score):
        return float("nan")
    k = max(LEAST, int(SHARE * n))
    ordered = np.partition(past, [n // 2, n - k])
    middle, bound = float(ordered[n // 2]), float(ordered[n - k])
    if score <= bound:
        return float(-np.log((np.count_nonzero(past >= score) + 0.5) / (n + 1)))
    slope = (bound - middle) / np.log(0.5 * n / k)
    over = ordered[n - k :] - bound
    mean = (float(np.sum(over)) + PRIOR * slope) / (k + PRIOR)
    square = (float(np.sum(over**2)) + PRIOR * 2 * slope**2) / (k + PRIOR)  # of an exponential 2 m^2
    mean = max(mean, 1e-9 * max(abs(bound), 1e-9))
    shape = float(np.clip(0.5 * (1 - mean**2 / max(square - mean**2, 1e-9 * mean**2)), *SHAPES))
    beyond = (score - bound) / (mean * (1 - shape))
    rare = beyond if abs(shape) < 1e-6 else np.log(max(1 + shape * beyond, LEAST_LEFT)) / shape
    return float(min(-np.log((k + 0.5) / (n + 1)) + rare, MOST_NATS))
