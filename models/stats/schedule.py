"""Schedules: log lines that come at regular times, as those of a backup each hour, and that are overdue when they do not.

Lines *come* in a window if there were none for ten minutes before it. The last times between comings, seconds, have the mean m, the sum of
squared deviations q and the number n, of which older ones fade. The next one is expected m seconds after the last, and

    s^2 = (q + 2 (PRIOR_SPREAD m)^2) / (n + 1) (1 + 1 / n)

is the variance of that, as of a normal variable whose variance has a prior that counts as two intervals of 1 %. Lines are *overdue* if they have not
come `LATE` s after that. The evidence that they come by a schedule, and not at random, is the logarithm of the Bayes factor of a normal
against an exponential distribution of these n times, each with its best parameters:

    n (ln(m / (s sqrt(2 pi e))) + 1)

Lines are held to their schedule after `LEAST_UNBROKEN` regular comings, which is more than the working days of a week have, and after a day of
them. One or two may be missing, as reported by then. Any other time of coming begins anew: a timer begins anew as its process does.
While lines are not observed, as their host is away, nothing is overdue until they have come again.

It fails for what comes on working days alone and more often than daily: it is overdue on Saturdays.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats

COLUMNS = ("came", "intervals", "interval", "interval_squares", "unbroken", "due")
CAME, INTERVALS, INTERVAL, SQUARES, UNBROKEN, DUE = range(len(COLUMNS))
QUIET_SECONDS, QUIET_WINDOWS = 600.0, 3.0  # without lines, before they come again
LEAST_INTERVALS = 3.0  # of which the spread is known
PRIOR_SPREAD, MOST_SPREAD = 0.01, 0.1  # of the mean
NEAR, LATE = 2.5, 4.0  # spreads
MOST_MISSING = 2.0
MEMORY = 12.0  # intervals
LEAST_UNBROKEN, DAY_SECONDS = 6.0, 86_400.0
CLOCK_SECONDS, CLOCK_FROM_SECONDS = (
    3_900.0,
    5_400.0,
)  # how late clocks that are set back make what is further apart than this
MOST_BLIND = 0.02  # of the mean: what is not observed for longer may have come


def step(
    s: Floats,
    lines: Bools,
    quiet: Floats,
    unobserved: Floats,
    now: int,
    window_seconds: float,
    taught: Bools | None = None,
) -> Floats:
    """Learn a window in place in `s`; answers how certain it is that lines are overdue, nats, 0 where they are not, `(n,)`.

    Parameters
    ----------
    s
        States as `COLUMNS`, `(columns, n)`; `came` and `due` are epoch ms, 0 where there is none, intervals are seconds.
    lines
        Whether there are lines in the window, `(n,)`.
    quiet
        Seconds since the last window with lines before it, `(n,)`.
    unobserved
        Seconds since the last window before it in which lines were observed, `(n,)`.
    now
        End of the window, epoch ms.
    window_seconds
        Its length.
    taught
        Which series learn, `(n,)`; None if all do.
    """
    least = max(QUIET_SECONDS, QUIET_WINDOWS * window_seconds)
    held = s[DUE] > 0
    if held.any():
        blind = held & (unobserved > 2 * window_seconds) & (unobserved > MOST_BLIND * s[INTERVAL])
        s[DUE] = np.where(blind, 0.0, s[DUE])
    come = lines & ((quiet >= least) | (s[CAME] == 0))
    rows = np.flatnonzero(come if taught is None else come & taught)
    if len(rows):
        s[:, rows] = _learnt(s[:, rows], now, window_seconds)
    out = np.zeros(len(lines))
    if held.any():
        late = np.flatnonzero((s[DUE] > 0) & (s[DUE] <= now) & ~lines & (quiet >= least))
        out[late] = evidence(s[:, late])
    return out


def evidence(s: Floats) -> Floats:
    """Evidence that lines come by a schedule, nats, `(n,)`; of states as `COLUMNS` with an interval at least."""
    out: Floats = s[INTERVALS] * (np.log(s[INTERVAL] / (spread(s) * np.sqrt(2 * np.pi * np.e))) + 1)
    return out


def spread(s: Floats) -> Floats:
    """Predictive standard deviation of the next interval, seconds, `(n,)`."""
    known = np.maximum(s[INTERVALS], 1.0)
    prior = 2 * (PRIOR_SPREAD * s[INTERVAL]) ** 2
    out: Floats = np.sqrt((s[SQUARES] + prior) / (known + 1) * (1 + 1 / known))
    return out


def is_held(s: Floats) -> Bools:
    """Whether lines are held to their schedule, `(n,)`."""
    out: Bools = (s[UNBROKEN] >= LEAST_UNBROKEN) & (s[UNBROKEN] * s[INTERVAL] >= DAY_SECONDS)
    return out


def _learnt(s: Floats, now: int, window_seconds: float) -> Floats:
    """States of lines that come at `now`."""
    out, passed, before = s.copy(), (now - s[CAME]) / 1000, spread(s)
    young = (s[INTERVALS] < LEAST_INTERVALS) & (s[CAME] > 0)
    times = np.maximum(np.rint(passed / np.maximum(s[INTERVAL], window_seconds)), 1.0)
    near = np.abs(passed / times - s[INTERVAL]) <= NEAR * before + window_seconds
    regular = (s[INTERVALS] >= LEAST_INTERVALS) & (before <= MOST_SPREAD * s[INTERVAL])
    fits = regular & near & (times <= 1 + MOST_MISSING)
    passed = np.where(fits, passed / times, passed)
    keep = np.where(s[INTERVALS] >= MEMORY, (MEMORY - 1) / np.maximum(s[INTERVALS], 1.0), 1.0)
    off, number = passed - s[INTERVAL], s[INTERVALS] * keep + 1
    out[INTERVALS], out[INTERVAL] = number, s[INTERVAL] + off / number
    out[SQUARES] = s[SQUARES] * keep + off * (passed - out[INTERVAL])
    out[UNBROKEN] = np.where(times > 1, np.where(is_held(s), s[UNBROKEN], 0.0), s[UNBROKEN] + 1)
    out[UNBROKEN] = np.where(young, s[UNBROKEN] + 1, out[UNBROKEN])
    out[INTERVALS:DUE] = np.where(young | fits, out[INTERVALS:DUE], 0.0)
    out[CAME] = now
    margin = np.maximum(LATE * spread(out) + window_seconds, CLOCK_SECONDS * (out[INTERVAL] > CLOCK_FROM_SECONDS))
    out[DUE] = np.where(is_held(out), now + 1000 * (out[INTERVAL] + margin), 0.0)
    return out
