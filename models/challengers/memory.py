"""What a challenger knows of each series: its last values and scores, from which the detector itself is made again.

The state holds numbers and no detector, so nothing has to be unpickled and it stays as large as `challenger_rows` allows. A
detector begins with a history. It is made anew, from the last rows, when the series has twice as many as it began with
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

from models.challengers.classes import Kind
from models.challengers.judges import Judge, judge_of
from models.challengers.tail import nats
from models.core.arrays import Floats, Ints
from models.core.parameters import LEAST_ROWS
from models.core.store import part, read_part

PART = "challengers"
ADOPTED_ROWS = 60  # what is kept of the values when a new level is adopted
LEAST_SPREAD = 0.01  # of the level
MOST_SPREADS = 1e6  # some detectors use single precision


@dataclass
class Memory:
    """One series. The detector in use began at `began` (ms) with the first `begun` of `values` and has seen the others since.

    `scores` are those of the last rows, in units of the detector's own. 16 bytes a row, `2 * rows` at most.
    """

    values: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    begun: int = 0
    began: int = 0
    judge: Judge | None = None
    scale: tuple[float, float] = (0.0, 1.0)  # middle and spread of the history; made with the detector

    def step(self, kind: Kind, now: int, value: float, rows: int, retrain_ms: float) -> float:
        """Score a value, then learn it: nats, NaN while too little is known. `rows` is the length of a history."""
        found = float("nan")
        self.values.append(value)
        if self.begun:
            judge, row = self._judge(kind), self._features(len(self.values) - 1)[0]
            score = judge.score(row)
            found = nats(score, np.array(self.scores))
            judge.learn(row)
            nothing_yet = kind.river and score == 0 and not self.scores  # what detectors of river say at first
            if np.isfinite(score) and not nothing_yet:
                self.scores = [*self.scores[1 - rows :], score]
        known = len(self.values)
        if known >= max(2 * self.begun, LEAST_ROWS) or (self.begun and now - self.began >= retrain_ms):
            self.renew(now, rows)
        return found

    def copied(self) -> Memory:
        """The same of its own; its detector is made again when it is asked."""
        return replace(self, values=list(self.values), scores=list(self.scores), judge=None)

    def renew(self, now: int, rows: int) -> None:
        """A new detector with the last rows for its history; it is made when it is asked."""
        self.values = self.values[-rows:]
        self.begun, self.began, self.judge = len(self.values), now, None

    def _judge(self, kind: Kind) -> Judge:
        """The detector: that in use, or the same made again."""
        if self.judge is None:
            before = len(self.values) - 1  # the last one is still to be scored
            self.scale = scale_of(np.array(self.values[: self.begun]))
            rows = self._features(0, before)
            self.judge = judge_of(kind)
            self.judge.begin(rows[: self.begun])
            for row in rows[self.begun :]:
                self.judge.learn(row)
        return self.judge

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
class Memories:
    """The memories of the metric series of a shard, in the order of their table. `made_by` says whose scores they hold."""

    made_by: str = ""
    series: list[Memory] = field(default_factory=list)

    def belong_to(self, kind: Kind, options: Mapping[str, Any]) -> None:
        """Scores of another detector say nothing of this one's; values do."""
        name = json.dumps([kind.name, dict(options)], sort_keys=True)
        if self.made_by != name:
            for memory in self.series:
                memory.scores, memory.begun, memory.judge = [], 0, None
        self.made_by = name

    def grow(self, count: int) -> None:
        """Room for so many series."""
        self.series += [Memory() for _ in range(count - len(self.series))]

    def keep(self, rows: Ints) -> None:
        """Forget all but these rows, which move up in this order."""
        self.series = [self.series[row] for row in rows.tolist()]

    def forget(self, rows: Ints) -> None:
        """Begin anew with these series."""
        for row in rows.tolist():
            if row < len(self.series):
                self.series[row] = Memory()

    def dump(self) -> bytes:
        """As Arrow IPC, a row for each series."""
        columns = {
            "values": pa.array([m.values for m in self.series], type=pa.list_(pa.float64())),
            "scores": pa.array([m.scores for m in self.series], type=pa.list_(pa.float64())),
            "begun": pa.array([m.begun for m in self.series], type=pa.int64()),
            "began": pa.array([m.began for m in self.series], type=pa.int64()),
        }
        return part(columns, {"made_by": self.made_by if self.series else ""})

    @classmethod
    def load(cls, data: bytes) -> Memories:
        """The inverse of `dump`."""
        arrays, about = read_part(data)
        columns = (arrays[name].to_pylist() for name in ("values", "scores", "begun", "began"))
        return cls(about["made_by"], [Memory(*row) for row in zip(*columns, strict=True)])
