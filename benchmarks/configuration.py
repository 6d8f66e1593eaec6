"""What an experiment changes: parameters, constants and features by their names, for as long as a block of code runs.

    {"detector.alarm_chance": 0.02}                      DetectorParameters
    {"univariate.norm": 2.0}                             UnivariateParameters
    {"change.level_rows": 0.1}                           ChangeParameters
    {"host.hold_minutes": 30.0}                          HostParameters
    {"models.stats.rarity:PER_UNIT": 2.0}                a constant of a module, or anything else that it holds
    {"without": "rhythm"}                                a feature of the univariate model is never rare; several with commas
    {"plain": "scores"}                                  a step is left out: see `PLAIN`

Only what is looked up while models run can be changed: a constant that another one was made of at import keeps its old value there. The
univariate model is machine code, which has constants and stages in it; where one is changed, the model in numpy (`numpy_form`) takes its place.
Constants of `models.detection.compiled_metrics` cannot be changed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.numpy_form.model import FeatureRarities, JoinedScores, NumpyUnivariate, PredictedFeatures
from models.core.parameters import DetectorParameters
from models.detection import detector, gauge_changes, gauge_detector
from models.detection.change_point import ChangeParameters
from models.detection.host_score import HostParameters
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FEATURES, N_ROBUST

Configuration = Mapping[str, Any]
CLASSES = {
    "detector": DetectorParameters,
    "univariate": UnivariateParameters,
    "change": ChangeParameters,
    "host": HostParameters,
}
OF_DETECTOR = ("warm_up_minutes", "interval_probability")  # the detector hands them to the univariate model


# name -> what holds a function, its name there, and the function in its place
PLAIN: dict[str, tuple[str, str, Any]] = {
    "scores": ("models.stats.per_series_calibration", "surprisal", lambda base, quantiles, tail: base.copy()),
    "weeks": ("models.univariate.weekly", "share", lambda fit: np.zeros(fit.shape[-1])),
    "effective rows": ("models.detection.gauge_changes", "weight_of_a_row", lambda hot, rows, p: np.ones(len(rows))),
}


@contextmanager
def applied(changed: Configuration) -> Iterator[tuple[DetectorParameters, HostParameters]]:
    """While the block runs, models are configured so; gives the parameters of the detector and of hosts.

    Raises ValueError for a name that does not exist, or that another name decides.
    """
    by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in CLASSES}
    with ExitStack() as stack:
        if any(name in ("without", "plain") or ":" in name for name in changed):
            stack.enter_context(patch.object(gauge_detector, "Univariate", NumpyUnivariate))
        for name, value in changed.items():
            kind, _, rest = name.partition(".")
            if name == "without":
                off = tuple(FEATURES.index(feature.strip()) for feature in value.split(","))
                stack.enter_context(patch.object(NumpyUnivariate, "_joint", _without(off)))
            elif name == "plain":
                holder, function, other = PLAIN[value]
                stack.enter_context(patch.object(importlib.import_module(holder), function, other))
            elif ":" in name:
                module, _, constant = name.partition(":")
                if module.startswith("models.detection.compiled_"):
                    msg = f"{name} is a constant of machine code; wanted one that is looked up while models run"
                    raise ValueError(msg)
                stack.enter_context(patch.object(importlib.import_module(module), constant, value))
            elif kind in CLASSES and rest in {field.name for field in fields(CLASSES[kind])}:
                by_kind[kind][rest] = value
            else:
                msg = f"{name!r} is no parameter; wanted {', '.join(f'{kind}.NAME' for kind in CLASSES)}, MODULE:NAME or without"
                raise ValueError(msg)
        if taken := [name for name in OF_DETECTOR if name in by_kind["univariate"]]:
            msg = f"univariate.{taken[0]} is that of the detector; wanted detector.{taken[0]}"
            raise ValueError(msg)
        if by_kind["univariate"]:
            UnivariateParameters(**by_kind["univariate"])
            stack.enter_context(
                patch.object(detector, "UnivariateParameters", partial(UnivariateParameters, **by_kind["univariate"]))
            )
        if by_kind["change"]:
            made = partial(ChangeParameters, **by_kind["change"])
            for user in (gauge_changes, gauge_detector):
                stack.enter_context(patch.object(user, "ChangeParameters", made))
        yield replace(DetectorParameters(), **by_kind["detector"]), HostParameters(**by_kind["host"])


def _without(off: tuple[int, ...]) -> Any:
    """The joint stage of the univariate model with some features that are never rare."""
    joint = NumpyUnivariate._joint

    def masked(self: NumpyUnivariate, predicted: PredictedFeatures, rarities: FeatureRarities) -> JoinedScores:
        surprise, robust = predicted.ever.surprise.copy(), rarities.robust.copy()
        ever = rarities.ever.copy()
        robust_surprise = predicted.robust.surprise.copy()
        for feature in off:
            surprise[feature] = ever[feature] = 0.0
            if feature < N_ROBUST:
                robust[feature] = robust_surprise[feature] = 0.0
        changed = replace(
            predicted,
            ever=replace(predicted.ever, surprise=surprise),
            robust=replace(predicted.robust, surprise=robust_surprise),
        )
        return joint(self, changed, FeatureRarities(ever, robust))

    return masked
