"""Never seen before: how surprising is a new template in this service, or a new metric?

A Chinese restaurant process with a discount (Pitman & Yor 1997): after N lines that made K templates, the next line is
of a new one with probability

    p_new = (theta + d K) / (theta + N)

Both counts decay with a half-life in time, so a service that is for ever making templates has a high p_new and its
hundredth is no news, while one that has settled has a low one.

A rare template that was always there looks new as well when it is first seen. What tells it apart is that a new one
comes back soon: with a Gamma posterior of its rate after the first sight, of shape c (windows with it so far) over an
exposure of T windows, a window has it again with probability 1 - (T / (T + 1))^c. Surprises of such windows add up,
each bounded, because lines come in bursts.
"""

from __future__ import annotations

import math

THETA = 1.0
DISCOUNT = 0.25
MOST_PER_WINDOW_NATS = 4.6


def new_surprise(lines: float, kinds: float) -> float:
    """-ln p_new after `lines` lines that made `kinds` templates, nats."""
    return -math.log((THETA + DISCOUNT * kinds) / (THETA + lines))


def again_surprise(windows_with: float, exposure_windows: float) -> float:
    """-ln of the probability that a template seen in so few windows comes in this one, bounded, nats."""
    p = -math.expm1(-windows_with * math.log1p(1.0 / max(exposure_windows, 1.0)))
    return min(-math.log(p), MOST_PER_WINDOW_NATS)
