"""Usual hours: in which hours of the day a host, or the log of one, is usually away, as machines are that are switched off each evening.

For each hour of the last week it is remembered whether nothing came in all of it while that was known to be a silence: one that had been reported,
that was usual, or that was given up. What is absent for less than an hour, and what reports less often than hourly, is never away.

A day is the 24 hours around the same time of day. Those of the last six count on which something came, from the first row on. An hour is *away* if
it was so on two days and on most of those that count. An absence is usual in an hour that is away. As people come and leave a bit earlier or later,
it is usual as well in the hour before one that is away where two hours of the day or more are not, in the hour after it where four are not, and in
the second hour before or after it where eight are not. Where an absence was usual an hour ago and goes on, it still is if the same hour was away a
week ago: a second weekend, or closed day of the week, is as usual as the nights before it.

Windows in which an absence is usual do not count for the run length of the absence (`silence`): it begins when something should have come back. All
machines that stay off on a first holiday are overdue in the same window, and so one incident.

It fails for what ends for good in the hour or two before it is usually switched off, which is found when it should be back; and for what fails at
the same time of its first two days.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats
from models.detection.shard_state import HOUR_MS, ShardState

WEEK_HOURS, DAY_HOURS, DAYS = 168, 24, 6
LEAST_DAYS = 2
# By how many hours an absence may begin earlier, or end later where it is below 0, and how many hours of the day must not be away for that.
MARGINS = ((1, 2), (-1, 4), (2, 8), (-2, 8))


class UsualHours:
    """Knows in which hours the hosts of a shard are usually away, or with the prefix `log_` their logs."""

    def __init__(self, state: ShardState, prefix: str = "") -> None:
        self._state, self._prefix, self._hours = state, prefix, np.arange(DAY_HOURS, dtype=np.int64)[:, None]

    def now(self) -> Bools:
        """Which absences are usual in the hour of the last window that was given to `turn`, `(n_hosts,)`."""
        out: Bools = self._column("usual") > 0
        return out

    def turn(self, now: int, before: int, silent: Bools) -> None:
        """Go on to the first window of an hour, which ends at `now`; before the hosts of it are learnt.

        Parameters
        ----------
        now, before
            End of the window, and of the last one before it in which any host was present, epoch ms.
        silent
            Whose absence was known by then, `(n_hosts,)`.
        """
        hour, last = (now - 1) // HOUR_MS, (before - 1) // HOUR_MS
        seen, usual = self._column("seen"), self._column("usual")
        for passed in range(max(last, hour - WEEK_HOURS), hour):
            days = self._column(str(passed // DAY_HOURS % 7))
            bit = float(1 << passed % DAY_HOURS)
            away = (silent | (usual > 0)) & (seen <= passed * HOUR_MS) & (passed == last)
            days += bit * (away - np.floor(days / bit) % 2)
        grid = self._grid(hour)
        goes_on = (usual > 0) & (seen <= last * HOUR_MS) & grid[0]
        usual[:] = goes_on | usually_away(grid, hour - self._state.host_column("first") // HOUR_MS)

    def _column(self, name: str) -> Floats:
        if name == "seen":
            return self._state.host_column(f"{self._prefix}seen")
        return self._state.host_column(f"{self._prefix}away_{name}")

    def _grid(self, hour: int) -> Bools:
        """Whether hosts were away in the hours of the week before `hour`, oldest first, `(168, n_hosts)`."""
        days = np.array([self._column(str(day)) for day in range(7)], dtype=np.int64)
        bits = (days[:, None, :] >> self._hours) & 1
        return np.asarray(np.roll(bits.reshape(WEEK_HOURS, -1), -(hour % WEEK_HOURS), axis=0) > 0)


def usually_away(grid: Bools, known: Floats) -> Bools:
    """Who is usually away in the hour after a week, `(n,)`.

    Parameters
    ----------
    grid
        Whether they were away in the hours of that week, oldest first, `(168, n)`.
    known
        How many hours ago the first row of each came, `(n,)`.
    """
    middle = DAY_HOURS // 2
    days = grid[middle : middle + DAYS * DAY_HOURS].reshape(DAYS, DAY_HOURS, -1)
    counts = ~days.all(axis=1) & (known >= DAY_HOURS * np.arange(DAYS, 0, -1)[:, None])
    number = (days & counts[:, None, :]).sum(axis=0)
    away = (number >= LEAST_DAYS) & (2 * number > counts.sum(axis=0))
    out, there = away[middle], (~away).sum(axis=0)
    for margin, least in MARGINS:
        out = out | (away[middle + margin] & (there >= least))
    return np.asarray(out)
