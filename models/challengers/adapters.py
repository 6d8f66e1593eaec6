"""Detectors of river and scikit-learn behind one interface: which classes may challenge, how one is made, begun, asked and taught.

Allowed are any on-line anomaly detector of `river.anomaly`, and any outlier detector of scikit-learn that can score rows that it was not
fitted on. Nothing else is imported by a name from a configuration.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from models.core.arrays import Floats

NAME = re.compile(r"(river\.anomaly|sklearn(\.[a-z][a-z_]{0,60}){1,8})\.[A-Z][A-Za-z0-9]*")
SEED = 1
SEEDS = ("seed", "random_state")
KNOWN = "such as river.anomaly.HalfSpaceTrees or sklearn.ensemble.IsolationForest"
FEATURES = ("value", "step")
SPAN = 5.0  # bounds for detectors that halve a space, in spreads


@dataclass(frozen=True)
class ChallengerClass:
    """A class that may challenge.

    Parameters
    ----------
    name
        Its full name, as in `challenger` of the configuration.
    make
        Gives a fresh instance, with options and seeds.
    river
        Whether it is one of river; else it is one of scikit-learn.
    supervised
        Whether it is one of river that takes the value that it scores apart from the features.
    """

    name: str
    make: Callable[[], Any]
    river: bool
    supervised: bool


class SeriesDetector(Protocol):
    """A detector of one series. Rows are `(features,)`, in spreads around the middle of the history."""

    def begin(self, history: Floats) -> None:
        """Start from scratch with a history, `(rows, features)`, and nothing else."""

    def score(self, row: Floats) -> float:
        """Anomaly score of a row, in the detector's unit: higher is stranger. Changes nothing."""

    def learn(self, row: Floats) -> None:
        """Learn a row, if the detector learns on line."""


class RiverDetector:
    """A detector of river, which learns row by row. A supervised one takes the step as feature and the value as target."""

    def __init__(self, kind: ChallengerClass) -> None:
        self._kind = kind

    def begin(self, history: Floats) -> None:
        """A fresh detector that learns the history, `(rows, features)`."""
        self._model = self._kind.make()
        limits = getattr(self._model, "limits", None)
        if limits is not None:
            for name in FEATURES:
                limits.setdefault(name, (-SPAN, SPAN))
        for row in history:
            self.learn(row)

    def score(self, row: Floats) -> float:
        """Anomaly score of a row `(features,)`."""
        value, step = row.tolist()
        if self._kind.supervised:
            return float(self._model.score_one({"step": step}, value))
        return float(self._model.score_one({"value": value, "step": step}))

    def learn(self, row: Floats) -> None:
        """Learn a row `(features,)`."""
        value, step = row.tolist()
        if self._kind.supervised:
            self._model.learn_one({"step": step}, value)
        else:
            self._model.learn_one({"value": value, "step": step})


class SklearnDetector:
    """An outlier detector of scikit-learn, which is fitted on a history."""

    def __init__(self, kind: ChallengerClass) -> None:
        self._kind = kind

    def begin(self, history: Floats) -> None:
        """A fresh detector, fitted on the history, `(rows, features)`."""
        self._model: Any = self._kind.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about few or equal rows, which every series begins with
            self._model.fit(history)

    def score(self, row: Floats) -> float:
        """The negative of `score_samples`, which is a normality."""
        return -float(np.ravel(self._model.score_samples(row[None, :]))[0])

    def learn(self, row: Floats) -> None:
        """Nothing: it is fitted again with the next history."""


def detector_of(kind: ChallengerClass) -> SeriesDetector:
    """A detector of a class; `begin` comes first."""
    return RiverDetector(kind) if kind.river else SklearnDetector(kind)


def resolve(name: str, options: Mapping[str, Any]) -> ChallengerClass:
    """The class of a name, with options and fixed seeds.

    Parameters
    ----------
    name
        Full name of a class, such as `sklearn.ensemble.IsolationForest`.
    options
        Arguments of its constructor. Seeds are 1 unless they are given.

    Raises
    ------
    ValueError
        In one line, where the class cannot challenge or has no such option.
    """
    if not NAME.fullmatch(name):
        msg = f"challenger {name!r}; wanted a class of river.anomaly or scikit-learn, {KNOWN}"
        raise ValueError(msg)
    module, _, own = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError) as error:
        msg = f"challenger {name}: there is no such class ({error}); wanted one {KNOWN}"
        raise ValueError(msg) from error
    river = module.startswith("river")
    supervised = _is_supervised_river(name, found) if river else _check_sklearn(name, found)
    return ChallengerClass(name, partial(found, **_arguments(name, found, options)), river, supervised)


def check(name: str, options: Mapping[str, Any]) -> ChallengerClass:
    """As `resolve`; also scores and learns a few numbers, because many options are only read then.

    Raises
    ------
    ValueError
        In one line, where the class cannot challenge with these options.
    """
    kind = resolve(name, options)
    try:
        detector = detector_of(kind)
        detector.begin(np.random.default_rng(SEED).normal(size=(40, 2)))
        detector.score(np.zeros(2))
        detector.learn(np.zeros(2))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        why = str(error).split("\n", maxsplit=1)[0]
        msg = f"challenger {name} cannot be used with options {dict(options)}: {why}"
        raise ValueError(msg) from error
    return kind


def _is_supervised_river(name: str, found: Any) -> bool:
    """Whether a detector of river is supervised. Raises ValueError for what is no detector."""
    from river.base.anomaly_detector import AnomalyDetector, SupervisedAnomalyDetector

    if not (inspect.isclass(found) and issubclass(found, AnomalyDetector | SupervisedAnomalyDetector)):
        msg = f"challenger {name} is no anomaly detector of its own (filters need one to filter); wanted one {KNOWN}"
        raise ValueError(msg)
    return issubclass(found, SupervisedAnomalyDetector)


def _check_sklearn(name: str, found: Any) -> bool:
    """False: none of scikit-learn is supervised. Raises ValueError for what is no outlier detector."""
    from sklearn.base import OutlierMixin

    if not (inspect.isclass(found) and issubclass(found, OutlierMixin) and not inspect.isabstract(found)):
        msg = f"challenger {name} is no outlier detector; wanted one {KNOWN}"
        raise ValueError(msg)
    return False


def _arguments(name: str, found: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with fixed seeds, and those without which the class cannot serve."""
    known = inspect.signature(found.__init__).parameters
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        msg = f"challenger {name} has no option {unknown[0]!r}; it has {', '.join(list(known)[1:])}"
        raise ValueError(msg)
    seeds: dict[str, Any] = {option: SEED for option in SEEDS if option in known}
    if "novelty" in known:  # LocalOutlierFactor scores only what it was fitted on otherwise
        seeds["novelty"] = True
    return seeds | dict(options)
