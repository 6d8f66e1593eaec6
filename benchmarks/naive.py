"""Baselines without a model, run beside the detector; their thresholds were fixed beforehand, as the collections' README has them.

3 sigma         distance from the mean of the last day in standard deviations, above 6
seasonal        difference from the value a week, else a day, before: its distance from the median of the last day, in
                1.4826 of the median distance, above 10
random          -ln of a uniform number, above 6.9
never           says nothing
sum of z²       of the metrics of a host, by mean and deviation of its train part; so are max |z| and
PCA residual    what components of 90 % of the train part's variance leave; all three above the 99.9 % quantile there
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.cases import SIMULATED, Case
from models.core.arrays import Bools, Floats

DAY_SECONDS, DAY_MS = 86_400, 86_400_000.0
SIGMAS, SEASONAL, RANDOM = 6.0, 10.0, 6.9
LEAST_DEVIATION, MOST_Z, TRAIN_QUANTILE, VARIANCE = 1e-4, 1e3, 0.999, 0.9
TINY = 1e-12
LEAST_ROWS = 30
Naive = Callable[[Case], Floats]  # scores of the rows that are judged, in thresholds, NaN where not known


def three_sigma(case: Case) -> Floats:
    """Distance from the mean of the last day, the row itself excluded."""
    return in_sigmas(case.table.values[:, 0], _day_rows(case)) / SIGMAS


def in_sigmas(values: Floats, rows: int) -> Floats:
    """Distance of each value from the mean of so many before it, in their standard deviations, `(n,)`."""
    x = pd.Series(values)
    last = x.rolling(rows, min_periods=LEAST_ROWS)
    mean, deviation = last.mean().shift(), last.std().shift()
    return _floats((x - mean).abs() / np.maximum(deviation, TINY))


def repeated(values: Floats, rows: int) -> Bools:
    """Which values lie, as the one before does, too far from the mean of so many rows before, `(n,)`."""
    above = in_sigmas(values, rows) > SIGMAS
    above[1:] &= above[:-1].copy()
    above[:1] = False
    return above


def seasonal(case: Case) -> Floats:
    """Distance of the seasonal difference from its median of the last day."""
    x, times = case.table.values[:, 0], case.table.times
    before = _at(times, x, times - 7 * DAY_MS)
    before = np.where(np.isnan(before), _at(times, x, times - DAY_MS), before)
    difference = pd.Series(x - before)
    rows = _day_rows(case)
    middle = difference.rolling(rows, min_periods=LEAST_ROWS).median().shift()
    away = (difference - middle).abs()
    usual = away.rolling(rows, min_periods=LEAST_ROWS).median().shift()
    return _floats(away / np.maximum(1.4826 * usual, TINY)) / SEASONAL


def random(case: Case) -> Floats:
    """Alarms by chance."""
    first, last = case.judged
    rng = np.random.default_rng(len(case.kept))
    return _floats(-np.log(rng.random(last - first))) / RANDOM


def never(case: Case) -> Floats:
    """No score at all."""
    first, last = case.judged
    return np.full(last - first, np.nan)


def sum_of_squares(case: Case) -> Floats:
    """Sum of z² of a host."""
    z, taught = _z(case)
    return _in_train_quantiles(np.sum(z * z, axis=1), taught)


def largest_z(case: Case) -> Floats:
    """Largest |z| of a host."""
    z, taught = _z(case)
    return _in_train_quantiles(np.abs(z).max(axis=1), taught)


def pca_residual(case: Case) -> Floats:
    """Length of what the largest components leave of a row's z."""
    z, taught = _z(case)
    _, sizes, components = np.linalg.svd(z[:taught], full_matrices=False)
    explained = np.cumsum(sizes**2) / np.sum(sizes**2)
    kept = components[: int(np.searchsorted(explained, VARIANCE)) + 1]
    left = z - z @ kept.T @ kept
    return _in_train_quantiles(np.sqrt(np.sum(left * left, axis=1)), taught)


def _z(case: Case) -> tuple[Floats, int]:
    values, taught = case.table.values, case.judged[0]
    mean, deviation = values[:taught].mean(axis=0), values[:taught].std(axis=0)
    return np.clip((values - mean) / np.maximum(deviation, LEAST_DEVIATION), -MOST_Z, MOST_Z), taught


def _in_train_quantiles(score: Floats, taught: int) -> Floats:
    return _floats(score[taught:] / max(float(np.quantile(score[:taught], TRAIN_QUANTILE)), TINY))


def _day_rows(case: Case) -> int:
    return max(round(DAY_SECONDS / case.table.period), LEAST_ROWS)


def _at(times: Floats, x: Floats, wanted: Floats) -> Floats:
    """The values at some times, NaN where there is no row."""
    place = np.minimum(np.searchsorted(times, wanted), len(times) - 1)
    return np.where(times[place] == wanted, x[place], np.nan)


def _floats(values: object) -> Floats:
    return np.asarray(values, dtype=np.float64)


OF_CURVES: dict[str, Naive] = {
    "3 sigma of a rolling day": three_sigma,
    "seasonal naive": seasonal,
    "random": random,
    "never": never,
}
OF_HOSTS: dict[str, Naive] = {
    "sum of z squared": sum_of_squares,
    "max |z|": largest_z,
    "PCA residual, 90 %": pca_residual,
    "random": random,
}
NAIVE: dict[str, dict[str, Naive]] = {
    "nab": OF_CURVES,
    "wsd": OF_CURVES,
    SIMULATED: OF_CURVES,
    "tcpd": {"never": never},
    "smd": OF_HOSTS,
    "asd": OF_HOSTS,
}
