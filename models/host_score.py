"""How strange is a host? Its series' scores joined, with a memory of the last hour, and what each contributes.

    H = (sum_i r_i^p)^(1/p)            held:  h = max(H, h 2^(-time / half-life))            share_i = r_i^p / sum_j r_j^p

A p of 1 would add up what correlated metrics say as if each were evidence of its own, a large p would hear only the
loudest: 3 lies between and was better than either. The hold keeps a host strange while a fault flickers. It fails where
hosts have very different numbers of series: compare H with the host's own past.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.rarity import Ints
from models.windows import Floats


@dataclass(frozen=True)
class HostParameters:
    """`norm`: by which series are joined; `hold_minutes`: half-life of the hold."""

    norm: float = 3.0
    hold_minutes: float = 60.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        if not (self.norm >= 1 and self.hold_minutes > 0):
            msg = f"norm is {self.norm}, hold_minutes {self.hold_minutes}; wanted at least 1, and above 0"
            raise ValueError(msg)


def join(score: Floats, host: Ints, hosts: int, p: HostParameters) -> tuple[Floats, Floats]:
    """The joined score of each host `(hosts,)` and the share of each series `(n,)`; `score` and `host` are `(n,)`.

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


def hold(before: Floats, joined: Floats, seconds: Floats, p: HostParameters) -> Floats:
    """The held score `(hosts,)`: `before` is the last one, NaN if there was none, `seconds` since then."""
    faded = before * np.exp2(-seconds / (60 * p.hold_minutes))
    out: Floats = np.fmax(joined, faded)
    return out
