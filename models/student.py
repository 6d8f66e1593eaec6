"""Tails and densities of Student's t, without underflow and fast where the degrees of freedom are even.

For even degrees of freedom nu = 2m, with u = t / sqrt(nu + t^2), the two-sided tail is a polynomial in u that has the
factor (1 - u)^m. With 1 - u = nu / (r (r + t)), r = sqrt(nu + t^2), nothing cancels and nothing underflows.
Source: Abramowitz & Stegun 26.7.4, divided by (1 - u)^m.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
from scipy import special

from models.windows import Floats


@cache
def even_tail_polynomial(df: int) -> tuple[float, ...]:
    """Coefficients of Q, constant first, with P(|T| > t) = (1 - u)^(df/2) Q(u). `df` is even and positive."""
    m = df // 2
    # 1 - u * sum_k c_k (1 - u^2)^k, exactly
    poly = [Fraction(0)] * (2 * m)
    poly[0] = Fraction(1)
    for k in range(m):
        c = Fraction(math.comb(2 * k, k), 4**k)
        for j in range(k + 1):
            poly[2 * j + 1] -= c * math.comb(k, j) * (-1) ** j
    for _ in range(m):  # divide by (1 - u): the quotient's coefficients are running sums
        quotient, total = [], Fraction(0)
        for coefficient in poly[:-1]:
            total += coefficient
            quotient.append(total)
        poly = quotient
    return tuple(float(coefficient) for coefficient in poly)


def even_two_sided(t: Floats, df: int) -> Floats:
    """P(|T| > t) for t >= 0 and even degrees of freedom, any shape."""
    r = np.sqrt(df + t * t)
    u = t / r
    rest = df / (r * (r + t))
    coefficients = even_tail_polynomial(df)
    out = np.full_like(u, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        out = out * u + coefficient
    power = rest
    left = df // 2 - 1
    square = rest
    while left:  # (1 - u)^m by repeated squaring
        if left & 1:
            power = power * square
        square = square * square
        left >>= 1
    return np.asarray(power * out)


def two_sided(t: Floats, df: Floats, cap: int) -> Floats:
    """P(|T| > t) with min(df, cap) degrees of freedom, `cap` even; all `(n,)`, t >= 0."""
    out = even_two_sided(t, cap)
    few = df < cap
    if few.any():
        out[few] = 2 * special.stdtr(df[few], -t[few])
    return out


def capped_scale(scale: Floats, df: Floats, cap: int) -> Floats:
    """The scale of a t with at most `cap` degrees of freedom that has the variance of t(`df`, `scale`).

    A t with few degrees of freedom has heavy tails, which makes the model robust; with the same variance its body
    stays where the exact predictive has it. Needs df > 2 where df > cap.
    """
    safe = np.maximum(df, cap)
    factor: Floats = np.sqrt(safe / (safe - 2) * ((cap - 2) / cap))
    return scale * factor


@cache
def density_constant(df: int) -> float:
    """The density of t at 0."""
    return math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi * df)


def even_density(t: Floats, df: int) -> Floats:
    """The density of t with even degrees of freedom, any shape."""
    base = 1 / (1 + t * t / df)
    power = np.sqrt(base)
    square, left = base, df // 2
    while left:
        if left & 1:
            power = power * square
        square = square * square
        left >>= 1
    return np.asarray(density_constant(df) * power)


@cache
def quantile(df: int, outside: float) -> float:
    """t with P(|T| > t) = `outside`."""
    return float(special.stdtrit(df, 1 - outside / 2))
