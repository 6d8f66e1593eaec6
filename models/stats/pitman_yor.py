"""Pitman-Yor process: how surprising is a new template in a service, or a new metric?

After N lines that made K templates, the next line is of a new one with probability

    p_new = (theta + d K) / (theta + N)

(Pitman and Yor 1997, "The two-parameter Poisson-Dirichlet distribution"). Both
counts decay with a half-life in time, so the hundredth new template is not surprising in a service that makes new ones all the time, while any is in
one that has settled.

A rare template that was always there looks new as well when it is first seen. A new one differs in that it comes back soon. After a first sight
at the end of T windows the rate of a rare one is Gamma(1, T), so in the next e windows it comes in at least c with
probability (e / (T + e))^c (a negative binomial tail). The surprisal of each return is bounded, because lines come in bursts.
"""

from __future__ import annotations

import math

THETA = 1.0
DISCOUNT = 0.25
MOST_PER_RETURN_NATS = 4.6


def new_surprise(lines: float, kinds: float) -> float:
    """Surprisal of a new template in a service.

    Parameters
    ----------
    lines
        Decayed number of the service's log lines so far.
    kinds
        Decayed number of templates that they made.

    Returns
    -------
    -ln p_new, nats.
    """
    return -math.log((THETA + DISCOUNT * kinds) / (THETA + lines))


def return_surprise(returns: int, windows: int, exposure_windows: float) -> float:
    """Surprisal of a template's returns, if it were a rare one that had always been there.

    Parameters
    ----------
    returns
        Windows, of the next `windows`, in which it has come back.
    windows
        Windows since its first sight.
    exposure_windows
        Windows of the service before its first sight.

    Returns
    -------
    -ln P(at least `returns` returns), nats, at most `MOST_PER_RETURN_NATS` each.
    """
    if returns == 0:
        return 0.0
    each = math.log1p(max(exposure_windows, 1.0) / windows)
    return returns * min(each, MOST_PER_RETURN_NATS)
