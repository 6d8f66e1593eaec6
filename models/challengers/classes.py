"""Which classes may challenge, and how one is made of its name and options.

Any on-line anomaly detector of `river.anomaly`, and any outlier detector of scikit-learn that can score rows that it was not
fitted on. Nothing else is imported by a name from a configuration.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

NAME = re.compile(r"(river\.anomaly|sklearn(\.[a-z][a-z_]*)+)\.[A-Z][A-Za-z0-9]*")
SEED = 1
SEEDS = ("seed", "random_state")
KNOWN = "such as river.anomaly.HalfSpaceTrees or sklearn.ensemble.IsolationForest"


@dataclass(frozen=True)
class Kind:
    """A class that may challenge: `make` gives a fresh instance; `supervised` ones of river take what they score apart."""

    name: str
    make: Callable[[], Any]
    river: bool
    supervised: bool


def resolve(name: str, options: Mapping[str, Any]) -> Kind:
    """The class of a name with its options, seeds fixed. Raises ValueError, one line, for one that cannot challenge."""
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
    supervised = _of_river(name, found) if river else _of_sklearn(name, found)
    return Kind(name, partial(found, **_arguments(name, found, options)), river, supervised)


def _of_river(name: str, found: Any) -> bool:
    """Whether it is a supervised detector. Raises ValueError for what is no detector."""
    from river.base.anomaly_detector import AnomalyDetector, SupervisedAnomalyDetector

    if not (inspect.isclass(found) and issubclass(found, AnomalyDetector | SupervisedAnomalyDetector)):
        msg = f"challenger {name} is no anomaly detector of its own (filters need one to filter); wanted one {KNOWN}"
        raise ValueError(msg)
    return issubclass(found, SupervisedAnomalyDetector)


def _of_sklearn(name: str, found: Any) -> bool:
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


def check(name: str, options: Mapping[str, Any]) -> Kind:
    """As `resolve`, and tries it on a few numbers, as many options are only looked at then."""
    from models.challengers.judges import judge_of

    kind = resolve(name, options)
    try:
        judge = judge_of(kind)
        judge.begin(np.random.default_rng(SEED).normal(size=(40, 2)))
        judge.score(np.zeros(2))
        judge.learn(np.zeros(2))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        why = str(error).split("\n", maxsplit=1)[0]
        msg = f"challenger {name} cannot be used with options {dict(options)}: {why}"
        raise ValueError(msg) from error
    return kind
