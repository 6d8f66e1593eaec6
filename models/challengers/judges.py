"""One interface for detectors of two libraries: begin with a history, score a row, learn it."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

from models.challengers.classes import Kind
from models.core.arrays import Floats

FEATURES = ("value", "step")
SPAN = 5.0  # trees that halve a space need its bounds, in spreads


class Judge(Protocol):
    """A detector of one series. Rows are `(features,)`, in spreads around the usual."""

    def begin(self, history: Floats) -> None:
        """Know these rows `(rows, features)` and nothing else."""

    def score(self, row: Floats) -> float:
        """How strange a row is, in units of the detector's own: higher is stranger. Changes nothing."""

    def learn(self, row: Floats) -> None:
        """Take a row in, if it learns on line."""


def judge_of(kind: Kind) -> Judge:
    """A judge of a class."""
    return RiverJudge(kind) if kind.river else SklearnJudge(kind)


class RiverJudge:
    """A detector of river, which learns row by row. A supervised one is told the step and judges the value."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def begin(self, history: Floats) -> None:
        """A fresh detector that learns the history."""
        self._model = self._kind.make()
        limits = getattr(self._model, "limits", None)
        if limits is not None:
            for name in FEATURES:
                limits.setdefault(name, (-SPAN, SPAN))
        for row in history:
            self.learn(row)

    def score(self, row: Floats) -> float:
        """What the detector says of a row."""
        value, step = row.tolist()
        if self._kind.supervised:
            return float(self._model.score_one({"step": step}, value))
        return float(self._model.score_one({"value": value, "step": step}))

    def learn(self, row: Floats) -> None:
        """Learn a row."""
        value, step = row.tolist()
        if self._kind.supervised:
            self._model.learn_one({"step": step}, value)
        else:
            self._model.learn_one({"value": value, "step": step})


class SklearnJudge:
    """An outlier detector of scikit-learn, which is fitted on a history."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def begin(self, history: Floats) -> None:
        """A fresh detector, fitted."""
        self._model: Any = self._kind.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few or equal rows, which there are at the beginning of each series
            self._model.fit(history)

    def score(self, row: Floats) -> float:
        """The opposite of its normality."""
        return -float(np.ravel(self._model.score_samples(row[None, :]))[0])

    def learn(self, row: Floats) -> None:
        """Nothing: it learns with the next history."""
