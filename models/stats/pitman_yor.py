"""Never seen before: how surprising is a new template in this service, or a new metric?

A Chinese restaurant process with a discount (Pitman & Yor 1997): after N lines that made K templates, the next line is
of a new one with probability

    p_new = (theta + d K) / (theta + N)

Both counts decay with a half-life in time, so a service that is for ever making templates has a high p_new and its
hundredth is no news, while one that has settled has a low one.

A rare template that was always there looks new as well when it is first seen. What tells it apart is that a new one
comes back soon. After its first sight at the end of T windows the rate of a rare one is Gamma(1, T), so in the next e
windows it comes in at least c with probability (e / (T + e))^c (a negative binomial tail). The surprise of each return
is bounded, because lines come in bursts.
"""

from __future__ import annotations

import math

THETA = 1.0
DISCOUNT = 0.25
MOST_PER_RETURN_NATS = 4.6


def new_surprise(lines: float, kinds: float) -> float:
    """-ln p_new after `lines` lines that made `kinds` templates, nats."""
    return -math.log((THETA + DISCOUNT * kinds) / (THETA + lines))


def return_surprise(returns: int, windows: int, exposure_windows: float) -> float:
    """-ln P(a rare template comes back in at least `returns` of the next `windows` windows), bounded, nats."""
    if returns == 0:
        return 0.0
    each = math.log1p(max(exposure_windows, 1.0) / windows)
    return returns * min(each, MOST_PER_RETURN_NATS)
