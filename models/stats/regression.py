"""Bayesian linear trend of a series' latest values with unknown variance, learnt exactly, with exponential forgetting.

    x_t = m + b u_t + e,   e ~ N(0, v),   (m, b) | v ~ N(0, v P^-1),   v ~ InvGamma(a, s / 2)

u is 0 now and -1 a row ago, so every row first moves the line on by one, then takes in the value:

    P1 -= P0    P2 -= 2 P1 + P0    q1 -= q0        P0 += 1    q0 += x    a += 1/2    s += e^2 / (1 + 1 / P_m)

with everything decayed by what is `kept`. The predictive is Student's t with 2a degrees of freedom (Gelman et al., Bayesian
Data Analysis, ch. 14). Without forgetting and with a prior that is worth nothing it is least squares. Arrays are `(n,)`.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from models.core.arrays import Floats

COLUMNS = ("p0", "p1", "p2", "q0", "q1", "shape", "sum")
P0, P1, P2, Q0, Q1, SHAPE, SUM = range(len(COLUMNS))
LEAST = 1e-300


def begin(variance: Floats, level_rows: float, shape: float, trend_rows: float) -> Floats:
    """Priors of `n` lines around 0.

    Parameters
    ----------
    variance
        Prior variance of values around the line, shape `(n,)`.
    level_rows, trend_rows
        Prior rows of the level 0, and of the trend 0.
    shape
        Shape of the inverse gamma prior of the variance.

    Returns
    -------
    States as `COLUMNS`, shape `(columns, n)`.
    """
    out = np.zeros((len(COLUMNS), *np.shape(variance)))
    out[P0], out[P2], out[SHAPE], out[SUM] = level_rows, trend_rows, shape, 2 * shape * variance
    return out


def advance(r: Floats) -> None:
    """Move the origin of time on by a row, in place."""
    r[P2] += r[P0] - 2 * r[P1]
    r[P1] -= r[P0]
    r[Q1] -= r[Q0]


def predict(r: Floats) -> tuple[Floats, Floats, Floats]:
    """Location, scale and degrees of freedom of the predictive of the next value (Student's t), each `(n,)`."""
    det = np.maximum(r[P0] * r[P2] - r[P1] * r[P1], LEAST)
    level = (r[P2] * r[Q0] - r[P1] * r[Q1]) / det
    return level, np.sqrt(r[SUM] / (2 * r[SHAPE]) * (1 + r[P2] / det) + LEAST), 2 * r[SHAPE]


def slope(r: Floats) -> Floats:
    """Posterior mean of the trend, in units a row, `(n,)`."""
    det = np.maximum(r[P0] * r[P2] - r[P1] * r[P1], LEAST)
    out: Floats = (r[P0] * r[Q1] - r[P1] * r[Q0]) / det
    return out


def learn(r: Floats, x: Floats, kept: float = 1.0) -> None:
    """Learn values `x`, `(n,)`, in place; `kept` is the share of the memory that is left."""
    place, _, _ = predict(r)
    det = np.maximum(r[P0] * r[P2] - r[P1] * r[P1], LEAST)
    spread, error = 1 + r[P2] / det, x - place
    r *= kept
    r[P0] += 1
    r[Q0] += x
    r[SUM] += error * error / spread
    r[SHAPE] += 0.5


def log_density(z: Floats, scale: Floats, df: Floats | float) -> Floats:
    """Log density of Student's t with `df` degrees of freedom, `z` scales from its location."""
    constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * np.log(np.pi * df)
    out: Floats = constant - np.log(scale) - (df + 1) / 2 * np.log1p(z * z / df)
    return out
