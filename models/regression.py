"""A regime of a series: a level and a trend with unknown spread, learnt exactly (Normal-inverse-Gamma regression).

    x_t = m + b u_t + e,   e ~ N(0, v),   (m - m0, b) | v ~ N(0, v P^-1),   v ~ InvGamma(a, s / 2)

    u = (1, time since the start)      P += u u'      q += u (x - m0)      a += 1/2      s += e^2 / (1 + u' P^-1 u)

with everything decayed by what is `kept`. The predictive is Student's t with 2a degrees of freedom, location
m0 + u' P^-1 q and squared scale (s / 2a) (1 + u' P^-1 u) (Gelman et al., Bayesian Data Analysis, ch. 14). The prior of the
trend decides what a regime is: a tight one makes it a level. Arrays have any shape, the columns of `COLUMNS` in front.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from models.windows import Floats

COLUMNS = ("since", "anchor", "p0", "p1", "p2", "q0", "q1", "shape", "sum", "rows")
SINCE, ANCHOR, P0, P1, P2, Q0, Q1, SHAPE, SUM, ROWS = range(len(COLUMNS))
LEAST = 1e-300


def begin(time: Floats, level: Floats, variance: Floats, prior: tuple[float, float, Floats | float]) -> Floats:
    """A regime that knows nothing but a prior: rows that the level is worth, shape, and rows of the trend."""
    rows, shape, trend = prior
    out = np.zeros((len(COLUMNS), *np.broadcast_shapes(np.shape(level), np.shape(trend))))
    out[SINCE], out[ANCHOR], out[P0], out[P2] = time, level, rows, trend
    out[SHAPE], out[SUM] = shape, 2 * shape * variance
    return out


def predict(r: Floats, time: Floats) -> tuple[Floats, Floats, Floats]:
    """Location, scale and degrees of freedom of the next value."""
    u = time - r[SINCE]
    det = r[P0] * r[P2] - r[P1] * r[P1]
    level, slope = (r[P2] * r[Q0] - r[P1] * r[Q1]) / det, (r[P0] * r[Q1] - r[P1] * r[Q0]) / det
    spread = 1 + (r[P2] - 2 * r[P1] * u + r[P0] * u * u) / det
    return r[ANCHOR] + level + slope * u, np.sqrt(r[SUM] / (2 * r[SHAPE]) * spread + LEAST), 2 * r[SHAPE]


def learn(r: Floats, time: Floats, x: Floats, kept: Floats | float = 1.0) -> None:
    """Take in a value, in place."""
    place, scale, df = predict(r, time)
    u, moved, error = time - r[SINCE], x - r[ANCHOR], x - place
    spread = np.maximum(scale * scale * df / np.maximum(r[SUM], LEAST), 1.0)
    r[P0 : Q1 + 1] *= kept
    for column, gain in zip((P0, P1, P2, Q0, Q1), (1.0, u, u * u, moved, moved * u), strict=True):
        r[column] += gain
    r[SUM] = r[SUM] * kept + error * error / spread
    r[SHAPE] = r[SHAPE] * kept + 0.5
    r[ROWS] += 1


def log_density(z: Floats, scale: Floats, df: Floats) -> Floats:
    """ln of the density of t at `z` scales from its location."""
    constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * np.log(np.pi * df)
    out: Floats = constant - np.log(scale) - (df + 1) / 2 * np.log1p(z * z / df)
    return out
