"""How strange is a host? Its series' scores, each with a memory of the last hour, joined, and what each contributes.

    held:  h_i = max(r_i, h_i 2^(-time / half-life))            H = (sum_i h_i^p)^(1/p)            share_i = h_i^p / sum_j h_j^p

A p of 1 would add up what correlated metrics say as if each were evidence of its own, a large p would hear only the
loudest: 3 lies between and was better than either. The hold keeps a host strange while a fault flickers, and joins what metrics say of it
one after the other: held after joining, as it was, both collections of hosts had less.

As a probability: powers r^p of normal series have tails so heavy that a sum of m of them is large because one of them is,

    P(H > h) = 1 - exp(-m S(x)),    x^p = h^2p / (h^p + m E r^p)    (which tends to h^p - m E r^p)

with S the law of `calibration`. One series being enough, it does not matter much how they depend on each other; where all
move as one, it says that H is rarer than it is. It is the law of one window: what is held is the worst of an hour or so, of each series, and
is that much less rare.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Floats, Ints
from models.stats import reference_distribution

GRID = np.linspace(0.0, 40.0, 8001)
LARGEST = 1e50  # its powers are still numbers


@dataclass(frozen=True)
class HostParameters:
    """`norm`: by which series are joined; `hold_minutes`: half-life of the hold; `alarm_nats`: a host is strange from there on."""

    norm: float = 3.0
    hold_minutes: float = 60.0
    alarm_nats: float = 13.8

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        if not (self.norm >= 1 and self.hold_minutes > 0 and self.alarm_nats > 0):
            said = f"norm is {self.norm}, hold_minutes {self.hold_minutes}, alarm_nats {self.alarm_nats}"
            msg = f"{said}; wanted at least 1, and above 0"
            raise ValueError(msg)


def join(score: Floats, host: Ints, hosts: int, p: HostParameters) -> tuple[Floats, Floats]:
    """The joined score of each host `(hosts,)` and the share of each series `(n,)`; held scores and `host` are `(n,)`.

    A score that is not known (NaN) has no share; a host that has none that is known is not known.
    """
    known = ~np.isnan(score)
    power = np.where(known, np.abs(score), 0.0) ** p.norm
    # sorted: the order of the series must not be seen
    order = np.lexsort((power, host))
    total = np.bincount(host[order], weights=power[order], minlength=hosts)
    some = np.bincount(host[known], minlength=hosts) > 0
    share = power / np.maximum(total[host], 1e-300)
    return np.where(some, total ** (1 / p.norm), np.nan), np.where(known, share, np.nan)


def hold(before: Floats, score: Floats, seconds: Floats, p: HostParameters) -> Floats:
    """The held scores `(n,)`: `before` are the last ones, NaN if there were none, `seconds` since then."""
    faded = before * np.exp2(-seconds / (60 * p.hold_minutes))
    out: Floats = np.fmax(score, faded)
    return out


def surprisal(score: Floats, series: Ints, p: HostParameters) -> Floats:
    """-ln P(joined score of so many normal series > `score`), both `(hosts,)`; rises with the score, NaN stays."""
    power = np.minimum(score, LARGEST) ** p.norm
    with np.errstate(invalid="ignore", divide="ignore"):
        jump = np.where(power > 0, power / (1 + series * usual_power(p.norm) / power), power)
    chance = series * np.exp(-reference_distribution.surprisal(jump ** (1 / p.norm)))
    with np.errstate(divide="ignore"):
        out: Floats = np.where(chance > 1e-12, -np.log(-np.expm1(-chance)), -np.log(chance))
    return np.clip(out, 0.0, LARGEST)


def usual_power(norm: float) -> float:
    """E r^p of a normal series: the integral of p r^(p-1) S(r)."""
    tail = norm * GRID ** (norm - 1) * np.exp(-reference_distribution.surprisal(GRID))
    return float(np.sum(tail[1:] + tail[:-1]) * (GRID[1] - GRID[0]) / 2)
