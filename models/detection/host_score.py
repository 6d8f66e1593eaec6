"""The score of a host: its series' scores, each held for some minutes, joined by a norm, and the share of each.

    held:  h_i = max(r_i, h_i 2^(-time / half-life))            H = (sum_i h_i^p)^(1/p)            share_i = h_i^p / sum_j h_j^p

With p = 1 correlated metrics would count as independent evidence; with a large p only the largest score would count. 3 found
more than either. Holding each score keeps a host's score up while a fault flickers, and joins metrics that react one after
the other; both collections of hosts had less accuracy where the joined score was held instead.

As a probability: powers r^p of normal series have tails so heavy that a sum of m of them is large because one of them is,

    P(H > h) = 1 - exp(-m S(x)),    x^p = h^2p / (h^p + m E r^p)    (which tends to h^p - m E r^p)

with S the tail of the reference distribution (`models.stats.reference_distribution`). As one series is enough, dependence
between series matters little; where all move together, H is less rare than this says. The probability is that of a single
window: held scores are the largest of some minutes, and so more frequent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from models.core.arrays import Floats, Ints
from models.stats import reference_distribution

GRID = np.linspace(0.0, 40.0, 8001)
LARGEST = 1e50  # its powers are still numbers


@dataclass(frozen=True)
class HostParameters:
    """How the scores of a host's series are joined.

    Parameters
    ----------
    norm
        Exponent of the norm, at least 1. Raising it gives more weight to the largest score.
    hold_minutes
        Half-life of held scores.
    alarm_nats
        Surprise at which a host is reported.
    """

    norm: float = 3.0
    hold_minutes: float = 20.0
    alarm_nats: float = 13.8

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError for one that is out of range."""
        if not (self.norm >= 1 and self.hold_minutes > 0 and self.alarm_nats > 0):
            events = f"norm is {self.norm}, hold_minutes {self.hold_minutes}, alarm_nats {self.alarm_nats}"
            msg = f"{events}; wanted at least 1, and above 0"
            raise ValueError(msg)


def join_scores(score: Floats, host: Ints, hosts: int, p: HostParameters) -> tuple[Floats, Floats]:
    """Join the held scores of hosts.

    Parameters
    ----------
    score
        Held scores, nats, `(n,)`; NaN where not known.
    host
        Index of the host of each, `(n,)`, below `hosts`.

    Returns
    -------
    array of shape `(hosts,)`, array of shape `(n,)`
        The joined score of each host, NaN without a known score; the share of each series, NaN where its score is.
    """
    known = ~np.isnan(score)
    power = np.where(known, np.abs(score), 0.0) ** p.norm
    # sorted: the order of the series must not be seen
    order = np.lexsort((power, host))
    total = np.bincount(host[order], weights=power[order], minlength=hosts)
    some = np.bincount(host[known], minlength=hosts) > 0
    share = power / np.maximum(total[host], 1e-300)
    return np.where(some, total ** (1 / p.norm), np.nan), np.where(known, share, np.nan)


def hold_scores(before: Floats, score: Floats, seconds: Floats, p: HostParameters) -> Floats:
    """Held scores, `(n,)`: the greater of `score` and the held scores `before`, faded for `seconds`; NaN is not known."""
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


@cache
def usual_power(norm: float) -> float:
    """Mean of r^p of a normal series: the integral of p r^(p-1) S(r)."""
    tail = norm * GRID ** (norm - 1) * np.exp(-reference_distribution.surprisal(GRID))
    return float(np.sum(tail[1:] + tail[:-1]) * (GRID[1] - GRID[0]) / 2)
