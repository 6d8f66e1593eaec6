"""How many independent observations a row of a series is worth: the rows around it are like it.

With the lag-one correlation r of a first-order autoregressive process, n rows tell as much of the level as n (1 - r) / (1 + r) independent
ones (Bayley and Hammersley 1946, "The effective number of independent observations in an autocorrelated time series").
The correlation follows from two numbers that the model has anyway, the variance v of the values and the mean square of their steps:

    r = 1 - E[step^2] / (2 v)

Of waves of many rows, as a day has, neighbours tell nothing. But the model also knows the variance f of the fast mean, whose half-life is h rows.
Were the rows independent, it would be v ln 2 / (2 h) (within 0.3 % from 4 rows on), so a row is worth at most

    v ln 2 / (2 h f)

Waves that are much longer than h are still worth too much: where rows of some hours have a share s of the variance in common, n rows tell as much as
n / (1 + (n - 1) s) independent ones, however many (Kish 1965, "Survey Sampling": the design effect of clusters). `share_between_hours` estimates s:
rows of an hour have in common which hour of the day it is, and how far that quarter of the day is from the usual one,
as where a series wanders for days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.univariate import weekly
from models.univariate.features import HOUR
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FAST, VALUE

SQUARE_OF_STEP = np.pi / 2  # mean square of normal steps, by the square of their mean size
MOST_CORRELATED = 0.9
LEAST, LEAST_WORTH = 1e-300, 1e-3


def row_weight(hot: Mapping[str, Array], rows: Ints, p: UnivariateParameters) -> Floats:
    """Independent observations that one row of each series is worth, above 0 to 1, shape `(n,)`.

    Parameters
    ----------
    hot
        Hot columns of all series: see `univariate_state`.
    rows
        Places of the series in them, shape `(n,)`.
    p
        Parameters of the model: the half-life of the fast mean.
    """
    variance, of_mean = variance_of(hot, VALUE, rows), variance_of(hot, FAST, rows)
    step = hot["long_step"][0, rows] / np.maximum(hot["long_weight"][0, rows].astype(np.float64), LEAST)
    correlation = np.clip(1 - SQUARE_OF_STEP * step**2 / np.maximum(2 * variance, LEAST), 0.0, MOST_CORRELATED)
    by_neighbours = (1 - correlation) / (1 + correlation)
    seconds = np.maximum(hot["interval"][0, rows].astype(np.float64), 1e-3)
    half_life = np.maximum(60 * p.fast_half_life_minutes / seconds, p.fast_rows)
    by_mean = np.where(of_mean > 0, math.log(2) / (2 * half_life) * variance / np.maximum(of_mean, LEAST), 1.0)
    out: Floats = np.maximum(np.minimum(by_neighbours, by_mean), LEAST_WORTH)
    return out


def share_between_hours(hot: Mapping[str, Array], cold: Mapping[str, Array], rows: Ints) -> Floats:
    """Share of each series' variance that is between hours, from 0 to 1, shape `(n,)`: those of the day, and those of quarters of other days.

    Quarters are held against the same hours of the days before, so a series of less than a day has none. 0 where fewer than two hours have been
    seen. Parameters are those of `row_weight`, and the cold columns.
    """
    weight = cold["rhythm_weight"][:, rows].astype(np.float64)
    seen, level = weight > 0, cold["rhythm"][:, rows].astype(np.float64)
    hours = seen.sum(axis=0)
    some = np.maximum(hours, 1)
    mean = np.where(seen, level, 0.0).sum(axis=0) / some
    of_day = np.where(seen, (level - mean) ** 2, 0.0).sum(axis=0) / np.maximum(hours - 1, 1)
    squares, quarters = weekly.squares(cold, rows)
    of_quarters = squares / np.maximum(quarters, 1)
    chance_of_day = np.where(seen, 1 / np.where(seen, weight, 1.0), 0.0).sum(axis=0) / some
    seconds = np.maximum(hot["interval"][0, rows].astype(np.float64), 1e-3)
    of_quarter = np.maximum(weekly.HOURS_A_SLOT * HOUR / seconds, 1.0)  # its rows
    chance_of_quarter = 1 / of_quarter + chance_of_day / weekly.HOURS_A_SLOT
    variance = np.maximum(variance_of(hot, VALUE, rows), LEAST)
    share = _beyond_chance(of_day / variance, chance_of_day, hours)
    share = share + _beyond_chance(of_quarters / variance, chance_of_quarter, quarters)
    return np.minimum(share, 1.0)


def _beyond_chance(share: Floats, by_chance: Floats, number: Floats | Ints) -> Floats:
    """What is left of shares of the variance between a `number` of means, 0 to 1, `(n,)`; 0 for a single one.

    What means of independent rows would differ by is taken off, and two standard deviations of that: what may be chance is no share.
    """
    most_by_chance = by_chance * (1 + 2 * np.sqrt(2 / np.maximum(number - 1, 1)))
    return np.where(number >= 2, np.clip(share - most_by_chance, 0.0, 1.0), 0.0)


def variance_of(hot: Mapping[str, Array], place: int, rows: Ints) -> Floats:
    """Variance of what has this place in the robust memory, shape `(n,)`."""
    sums, weight = (hot[name][place, rows].astype(np.float64) for name in ("robust_sums", "robust_weight"))
    out: Floats = sums / np.maximum(weight, LEAST)
    return out
