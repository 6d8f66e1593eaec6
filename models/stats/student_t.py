"""Bounds of Student's t."""

from __future__ import annotations

from functools import cache

from scipy import special


@cache
def quantile(df: int, outside: float) -> float:
    """t with P(|T| > t) = `outside`."""
    return float(special.stdtrit(df, 1 - outside / 2))
