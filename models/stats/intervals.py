"""Regular times: how many intervals between events are known, their mean m and their sum of squared deviations q, of which older ones fade.

The next interval is expected to be m, give or take

    s^2 = (q + 2 (p m)^2) / (n + 1) (1 + 1 / n)

as of a normal variable whose variance has a prior that counts as two of the n intervals, with the spread p m. Numbers or arrays alike.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from models.core.arrays import Floats

LEAST_INTERVALS = 3  # of which the spread is known
MOST_SPREAD = 0.1  # of the mean: what varies more is not regular
MOST_DEVIATION = 2.5  # spreads
MOST_MISSING = 2
MEMORY = 12.0  # intervals
Number = TypeVar("Number", float, Floats)


def predictive_spread(number: Number, mean: Number, squares: Number, prior: float) -> Number:
    """Predictive standard deviation of the next interval, in the unit of the mean; `prior` is a share of it. Intervals: one at least."""
    expected = prior * mean
    out: Number = np.sqrt((squares + 2 * expected * expected) / (number + 1) * (1 + 1 / number))
    return out


def learn_interval(number: Number, mean: Number, squares: Number, interval: Number) -> tuple[Number, Number, Number]:
    """Number, mean and squared deviations with another interval."""
    keep = np.minimum((MEMORY - 1) / np.maximum(number, 1.0), 1.0)
    more, off = number * keep + 1, interval - mean
    middle = mean + off / more
    return more, middle, squares * keep + off * (interval - middle)
