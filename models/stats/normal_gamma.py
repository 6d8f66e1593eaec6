"""Normal-Gamma predictive distributions: how surprising are values, a row for each feature and a column for each series.

With mean m, weight k and sum of squares S of a feature (a discounted Normal-Gamma posterior with r prior rows of spread
f), and a new value F:

    e = F - m      nu = k + r      scale^2 = (S + r f^2) / nu      tau = |e| / (scale sqrt(1 + 1/k))
    z = sqrt(nu ln(1 + tau^2 / nu)) (8 nu + 1) / (8 nu + 3)        surprise = -ln(2 Phi(-z))
    k' = k l    m += w e / (k' + w)    S = S l + w k' / (k' + w) e^2    k = k' + w            l = 2^(-time / half-life)

The predictive is Student's t (Murphy 2007, "Conjugate Bayesian analysis of the Gaussian distribution", section 3); z is
its normal equivalent (Wallace 1959), within 4 % of the exact tail's and much cheaper. The weight w is 1, or where the
healthy state is learnt the probability that the value is regular,

    p(F) = (1 - eps) t(tau) + eps t(tau / 10) / 10          w = w0 + (1 - w0) P(regular | F)

whose constants cancel, as both have the same degrees of freedom. It fails for a series with two faces: the mean of two
modes is surprising, the modes are not.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from models.core.arrays import Floats

MOST_NATS = 200.0
WIDE = 10.0  # an outlier is so many times as wide
TINY = 1e-12
KNOWN = 3  # rows from which surprisals are given
ROOT_HALF = float(np.sqrt(0.5))


def distances(
    deviation: Floats, weight: Floats, sums: Floats, floor: tuple[Floats, Floats], rows: Floats | float
) -> tuple[Floats, Floats]:
    """Deviations in predictive scales, and degrees of freedom.

    Parameters
    ----------
    deviation
        Values minus their means, shape `(features, n)`.
    weight
        Discounted numbers of rows, same shape, or `(n,)`.
    sums
        Discounted sums of squared deviations, same shape.
    floor
        Spread of the prior rows, and least spread, below which differences are those of arithmetic; both in the unit of `deviation`.
    rows
        Number of prior rows, same shape, or a scalar.

    Returns
    -------
    `tau` and `nu`, shape `(features, n)`.
    """
    scale = scales(weight, sums, floor, rows)
    return np.abs(deviation) / (scale * np.sqrt(1 + 1 / np.maximum(weight, TINY))), weight + rows


def scales(weight: Floats, sums: Floats, floor: tuple[Floats, Floats], rows: Floats | float) -> Floats:
    """Predictive scales before that of the mean's own uncertainty, `(features, n)`; arguments as of `distances`."""
    prior, least = floor
    out: Floats = np.maximum(np.sqrt((sums + rows * prior * prior) / (weight + rows)), least)
    return out


def surprisal(tau: Floats, nu: Floats) -> Floats:
    """Surprisal -ln P(|T| > tau) under Student's t, within 4 % (Wallace 1959, "Bounds on normal approximations to Student's").

    Parameters
    ----------
    tau
        Deviations in predictive scales, any shape.
    nu
        Degrees of freedom, same shape.

    Returns
    -------
    Nats, 0 to `MOST_NATS`.
    """
    z = np.sqrt(nu * np.log1p(tau * tau / nu)) * ((8 * nu + 1) / (8 * nu + 3))
    np.minimum(z, 20.0, out=z)
    scaled = z * ROOT_HALF
    out: Floats = scaled * scaled - np.log(special.erfcx(scaled))
    return np.clip(out, 0.0, MOST_NATS, out=out)


def regular(tau: Floats, nu: Floats, outlier_share: float) -> Floats:
    """Posterior probability that a value is no outlier, 0 to 1; `tau` and `nu` as for `surprisal`, `outlier_share` is the prior."""
    square = tau * tau / nu
    odds = np.log1p(square) - np.log1p(square / WIDE**2)
    bound = np.log((1 - outlier_share) / outlier_share * WIDE)
    out: Floats = special.expit(bound - (nu + 1) / 2 * odds)
    return out


def learn(mean: Floats, sums: Floats, weight: Floats, kept: Floats, deviation: Floats, w: Floats | float) -> Floats:
    """Update posteriors with one row; `mean` and `sums` in place.

    Parameters
    ----------
    mean, sums
        Means and sums of squared deviations, shape `(features, n)`.
    weight
        Discounted numbers of rows, same shape, or `(n,)`.
    kept
        Share of the memory that is left since the last row, same shape, or `(n,)`.
    deviation
        Values minus `mean`, shape `(features, n)`.
    w
        Weights of the row, same shape, or a scalar.

    Returns
    -------
    The new weight.
    """
    before = weight * kept
    after: Floats = before + w
    gain = w / np.maximum(after, TINY)
    sums *= kept
    sums += gain * before * deviation * deviation
    mean += gain * deviation
    return after


@cache
def t_quantile(df: int, outside: float) -> float:
    """Quantile t of Student's t distribution with P(|T| > t) = `outside`.

    Parameters
    ----------
    df
        Degrees of freedom.
    outside
        Probability outside of -t to t, both sides together.
    """
    return float(special.stdtrit(df, 1 - outside / 2))
