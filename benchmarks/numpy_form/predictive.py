"""Predictive stage in numpy, a stage at a time over all series: what `models.univariate.block_predictive` computes block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.numpy_form.features import Hot, MeasuredFeatures
from models.core.arrays import Bools, Floats
from models.stats import normal_gamma
from models.univariate import features
from models.univariate.features import DAY, LEAST_KNOWN, MOST_LEARNT
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import LARGEST_SUM, ONE_YESTERDAY, ROBUST_FROM, reach_of, spread_of
from models.univariate.univariate_state import (
    FAST,
    LOG_LEVEL,
    N_FEATURES,
    N_ROBUST,
    RHYTHM,
    ROBUST_FEATURES,
    STEP,
    VALUE,
    WITHIN,
)


@dataclass(frozen=True)
class FeatureMemory:
    """One memory of each series before a window. Arrays are `(features, n)`; `learn` writes it back to the hot columns.

    Parameters
    ----------
    mean, sums, weight
        Discounted means, sums of squared deviations, and effective numbers of rows.
    """

    mean: Floats
    sums: Floats
    weight: Floats

    @classmethod
    def ever(cls, s: Hot) -> FeatureMemory:
        """The memory that learns everything. All features have one weight, but the spread within windows, which may be unknown."""
        mean = s["mean"]
        weight = np.empty(mean.shape)
        weight[:] = s["weight"]
        weight[WITHIN] = s["within_weight"]
        return cls(mean, s["sums"].astype(np.float64), weight)

    @classmethod
    def robust(cls, s: Hot) -> FeatureMemory:
        """The memory that hardly learns outliers."""
        return cls(s["robust_mean"], s["robust_sums"].astype(np.float64), s["robust_weight"].astype(np.float64))

    def learn(self, keep: Floats, deviation: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Means, sums of squares and weights after the window; `keep` is the share of the weight that is left, `(n,)`."""
        after = normal_gamma.learn(self.mean, self.sums, self.weight, keep, deviation, weights)
        return self.mean, np.minimum(self.sums, LARGEST_SUM).astype(np.float32), after


@dataclass(frozen=True)
class FeaturePrior:
    """What a memory is taken to know before its first row. Arrays are `(features, n)`.

    Parameters
    ----------
    spread
        Standard deviation of the prior rows, in the unit of the feature.
    least
        Least spread, below which differences are those of arithmetic.
    rows
        Number of prior rows.
    """

    spread: Floats
    least: Floats
    rows: float


@dataclass(frozen=True)
class FeaturePrediction:
    """Surprises under one memory. All arrays are `(features, n)`; `surprise` is in nats.

    `deviation` is the feature minus its mean, 0 where the feature is unknown; `tau` the same in predictive scales, with `nu` degrees of
    freedom.
    """

    surprise: Floats
    deviation: Floats
    tau: Floats
    nu: Floats


@dataclass(frozen=True)
class Interval:
    """What is expected of the values of series, `(n,)`, in their unit: see `UnivariateScores`."""

    typical: Floats
    lower: Floats
    upper: Floats


def predict(
    memory: FeatureMemory, values: Floats, prior: FeaturePrior, unknown: Bools, *, wider: Floats | None = None
) -> FeaturePrediction:
    """Surprise of features under a memory's predictive distribution, Student's t; changes nothing.

    Parameters
    ----------
    memory, prior
        What is known of the features of each series.
    values
        The features, shape `(features, n)`; NaN where they are unknown. A last one that has no surprise (the value itself) may follow.
    unknown
        Where too few rows are known for a surprise, `(n,)` or `(features, n)`: there it is 0.
    wider
        Factor by which the rhythm's predictive is wider, `(n,)`.
    """
    deviation = values - memory.mean
    deviation[np.isnan(deviation)] = 0.0
    tau, nu = normal_gamma.distances(deviation, memory.weight, memory.sums, (prior.spread, prior.least), prior.rows)
    if wider is not None:
        tau[RHYTHM] /= wider
    scored = N_FEATURES if len(values) == N_FEATURES else N_ROBUST
    surprise = normal_gamma.surprisal(tau[:scored], nu[:scored])
    np.copyto(surprise, 0.0, where=unknown)
    return FeaturePrediction(surprise, deviation, tau, nu)


def step_ever(
    s: Hot, seen: MeasuredFeatures, keep: Floats, warming: Bools, p: UnivariateParameters
) -> FeaturePrediction:
    """Surprises under the memory that learns everything, `(features, n)`; learns the window, in place in `s`."""
    memory = FeatureMemory.ever(s)
    prior = FeaturePrior(_floor(memory.mean, p), seen.least, p.prior_rows)
    few = memory.weight < normal_gamma.KNOWN - 0.5
    found = predict(memory, seen.values, prior, few, wider=second_day(s))
    weights = np.tile(seen.trust, (N_FEATURES, 1))
    weights[WITHIN, seen.unknown] = 0.0
    s["mean"], s["sums"], after = memory.learn(keep, _learnt(memory, found.deviation, prior, warming), weights)
    s["weight"], s["within_weight"] = after[0].astype(np.float32), after[WITHIN].astype(np.float32)
    return found


def _learnt(memory: FeatureMemory, deviation: Floats, prior: FeaturePrior, warming: Bools) -> Floats:
    """Deviations as they are learnt, `(features, n)`: those of features that grow with the value within reach of their spread."""
    scale = normal_gamma.scales(memory.weight, memory.sums, (prior.spread, prior.least), prior.rows)
    most = MOST_LEARNT * np.sqrt(memory.weight + LEAST_KNOWN) * scale
    most[:, warming] = np.inf
    out = deviation.copy()
    for f in (STEP, FAST, RHYTHM):
        out[f] = np.clip(deviation[f], -most[f], most[f])
    return out


def step_robust(
    s: Hot, seen: MeasuredFeatures, x: Floats, keep: Floats, p: UnivariateParameters
) -> tuple[FeaturePrediction, Interval]:
    """Surprises under the robust memory, `(robust features, n)`, and the expected interval; learns the window, in place in `s`."""
    memory = FeatureMemory.robust(s)
    values = np.concatenate([seen.values[list(ROBUST_FEATURES)], x[None, :]])
    fresh = s["rows"] == 0
    memory.mean[:, fresh] = values[:, fresh]
    prior = FeaturePrior(_floor(memory.mean, p), seen.least[[*ROBUST_FEATURES, STEP]], p.prior_rows)
    found = predict(memory, values, prior, s["rows"] < normal_gamma.KNOWN)
    weights = p.least_weight + (1 - p.least_weight) * normal_gamma.regular(found.tau, found.nu, p.outlier_share)
    weights[:, s["rows"] < ROBUST_FROM] = 1.0
    expected = interval(memory, prior.least[VALUE], p)
    s["robust_mean"], s["robust_sums"], after = memory.learn(keep, found.deviation, weights)
    s["robust_weight"] = after.astype(np.float32)
    return found, expected


def _floor(mean: Floats, p: UnivariateParameters) -> Floats:
    """Prior spread of features with these means, `(features, n)`: a share of them, but none of a logarithm."""
    out: Floats = p.relative_floor * np.abs(mean)
    out[LOG_LEVEL] = 0.0
    return out


def trust(s: Hot, x: Floats, p: UnivariateParameters) -> Floats:
    """Weights with which rows are learnt by the memory that learns everything, 0 to 1, `(n,)`.

    They are 1, but in a young series: there an outlier under the robust memory counts the less, the younger the series is.
    """
    rows = s["rows"]
    share = np.clip(rows * s["interval"] / (DAY * p.trust_days), p.least_weight, 1.0)
    share[rows < ROBUST_FROM] = 1.0
    young = np.flatnonzero(share < 1)
    if len(young):
        mean, sums, weight = (s[name][VALUE, young] for name in ("robust_mean", "robust_sums", "robust_weight"))
        floor = p.relative_floor * np.abs(mean)
        least = features.least_spread({name: s[name][young] for name in features.OF_SPREAD})
        tau, nu = normal_gamma.distances(x[young] - mean, weight, sums, (floor, least), p.prior_rows)
        share[young] += (1 - share[young]) * normal_gamma.regular(tau, nu, p.outlier_share)
    return share


def first_day(s: Hot) -> Bools:
    """Whether a series has not been seen for a day, so that its hours have nothing to be compared with, `(n,)`."""
    out: Bools = s["rows"] * s["interval"].astype(np.float64) < DAY
    return out


def second_day(s: Hot) -> Floats:
    """Factor by which the rhythm residual is wider than it has been, `(n,)`.

    On its second day a series is compared with one single day, which was as far from its mean as this one: sqrt(2) times the spread. On the
    first day it is compared with its overall mean.
    """
    days = s["rows"] * s["interval"].astype(np.float64) / DAY
    return np.where(days < 1, 1.0, 1 + (ONE_YESTERDAY - 1) * np.maximum(2 - days, 0.0))


def interval(memory: FeatureMemory, least: Floats, p: UnivariateParameters) -> Interval:
    """Typical value and interval of the next value, by the robust memory; `least` is the least spread of values, `(n,)`."""
    typical = memory.mean[VALUE].copy()
    reach = spread_of(typical, memory.sums[VALUE], memory.weight[VALUE], least, p) * reach_of(p)
    return Interval(typical, typical - reach, typical + reach)
