"""Schedules: log lines that come at regular times, as those of a backup each hour, and that are overdue when they do not.

Lines *come* in a window if there were none for ten minutes before it. Of the last n times between comings the mean m and the predictive spread s of
the next one are known (`models.stats.intervals`). Lines are *overdue* if they have not come `LATE` spreads after that mean. The evidence that they
come by a schedule, and not at random, is the logarithm of the Bayes factor of a normal against an exponential distribution of these n times, each
with its best parameters:

    n (ln(m / (s sqrt(2 pi e))) + 1)

Lines are held to their schedule after `LEAST_UNBROKEN` regular intervals, which is more than the working days of a week have, and after a day of
them. If they then miss a time or two, that is reported, and the schedule goes on. Any other time of coming begins anew, because a timer begins anew
as its process does. What comes while lines are not observed, as when their host is away, is not known: nothing is overdue until they come again.

Some jobs leave out a time now and then. Of the times that were due, older ones fading over a month, a share p was left out on more than
`LEAST_LEFT_OUT` occasions. By chance k in a row are left out with probability p^k, in one of (m / window) windows, as a time is due in no other:

    -k ln p + ln(m / window)

nats are the surprise of it, in each window. As many in a row as do not reach the nats that are asked for are usual, and lines are overdue when one
more is missing.

It fails for what comes on working days alone and more often than daily: it is overdue on Saturdays.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats
from models.stats import intervals
from models.stats.intervals import LEAST_INTERVALS, MOST_DEVIATION, MOST_MISSING, MOST_SPREAD

COLUMNS = ("came", "intervals", "interval", "interval_squares", "unbroken", "times", "left_out", "due")
CAME, INTERVALS, INTERVAL, SQUARES, UNBROKEN, TIMES, LEFT_OUT, DUE = range(len(COLUMNS))
QUIET_SECONDS, QUIET_WINDOWS = 600.0, 3.0  # without lines, before they come again
PRIOR_SPREAD = 0.01  # of the mean
LATE = 4.0  # spreads
LEAST_UNBROKEN, DAY_SECONDS = 6.0, 86_400.0
# A clock that is set back makes what is further apart than an hour and a half an hour late.
CLOCK_SECONDS, CLOCK_FROM_SECONDS = 3_900.0, 5_400.0
MONTH_SECONDS, LEAST_LEFT_OUT = 30 * DAY_SECONDS, 2.0
MOST_BLIND = 0.02  # of the mean: what is not observed for longer may have come


def step(
    s: Floats,
    lines: Bools,
    quiet: Floats,
    unobserved: Floats,
    now: int,
    window_seconds: float,
    nats: float,
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
    nats
        Surprise of as many times left out in a row as are not usual, in each window; raising it makes more of them usual.
    taught
        Which series learn, `(n,)`; None if all do.
    """
    least = max(QUIET_SECONDS, QUIET_WINDOWS * window_seconds)
    held = s[DUE] > 0
    some_held = bool(held.any())
    if some_held:
        blind = held & (unobserved > 2 * window_seconds) & (unobserved > MOST_BLIND * s[INTERVAL])
        s[DUE] = np.where(blind, 0.0, s[DUE])
    come = lines & ((quiet >= least) | (s[CAME] == 0))
    rows = np.flatnonzero(come if taught is None else come & taught)
    if len(rows):
        s[:, rows] = _learnt(s[:, rows], now, window_seconds, nats)
    out = np.zeros(len(lines))
    if some_held:
        late = np.flatnonzero((s[DUE] > 0) & (s[DUE] <= now) & ~lines & (quiet >= least))
        out[late] = evidence(s[:, late])
    return out


def evidence(s: Floats) -> Floats:
    """Evidence that lines come by a schedule, nats, `(n,)`; of states as `COLUMNS` with an interval at least."""
    out: Floats = s[INTERVALS] * (np.log(s[INTERVAL] / (spread(s) * np.sqrt(2 * np.pi * np.e))) + 1)
    return out


def spread(s: Floats) -> Floats:
    """Predictive standard deviation of the next interval, seconds, `(n,)`."""
    return intervals.predictive_spread(np.maximum(s[INTERVALS], 1.0), s[INTERVAL], s[SQUARES], PRIOR_SPREAD)


def is_held(s: Floats) -> Bools:
    """Whether lines are held to their schedule, `(n,)`."""
    out: Bools = (s[UNBROKEN] >= LEAST_UNBROKEN) & (s[UNBROKEN] * s[INTERVAL] >= DAY_SECONDS)
    return out


def usually_left_out(s: Floats, window_seconds: float, nats: float) -> Floats:
    """How many times in a row are left out as usual, `(n,)`."""
    share = np.minimum(s[LEFT_OUT] / np.maximum(s[TIMES], 1.0), 0.5)
    often = s[LEFT_OUT] > LEAST_LEFT_OUT
    asked = nats - np.log(np.maximum(s[INTERVAL] / window_seconds, 1.0))
    unusual = np.ceil(asked / -np.log(np.where(often, share, 0.5)))
    return np.where(often, np.maximum(unusual - 1, 0.0), 0.0)


def _learnt(s: Floats, now: int, window_seconds: float, nats: float) -> Floats:
    """States of lines that come at `now`."""
    out, passed, before = s.copy(), (now - s[CAME]) / 1000, spread(s)
    young = (s[INTERVALS] < LEAST_INTERVALS) & (s[CAME] > 0)
    times = np.maximum(np.rint(passed / np.maximum(s[INTERVAL], window_seconds)), 1.0)
    near = np.abs(passed / times - s[INTERVAL]) <= MOST_DEVIATION * before + window_seconds
    regular = (s[INTERVALS] >= LEAST_INTERVALS) & (before <= MOST_SPREAD * s[INTERVAL])
    fits = regular & near & (times <= 1 + MOST_MISSING + usually_left_out(s, window_seconds, nats))
    passed = np.where(fits, passed / times, passed)
    out[INTERVALS], out[INTERVAL], out[SQUARES] = intervals.learn_interval(
        s[INTERVALS], s[INTERVAL], s[SQUARES], passed
    )
    missed = fits & (times > 1)
    out[UNBROKEN] = np.where(missed, s[UNBROKEN] * is_held(s), s[UNBROKEN] + 1)
    known = fits & (s[DUE] > 0)  # else something may have come that was not observed
    out[TIMES:DUE] *= np.exp(-(now - s[CAME]) / 1000 / MONTH_SECONDS)
    out[TIMES] += np.where(known, times, 0.0)
    out[LEFT_OUT] += known & (times > 1)
    out[INTERVALS:DUE] = np.where(young | fits, out[INTERVALS:DUE], 0.0)
    out[CAME] = now
    margin = np.maximum(LATE * spread(out) + window_seconds, CLOCK_SECONDS * (out[INTERVAL] > CLOCK_FROM_SECONDS))
    last = (1 + usually_left_out(out, window_seconds, nats)) * out[INTERVAL]
    out[DUE] = np.where(is_held(out), now + 1000 * (last + margin), 0.0)
    return out
