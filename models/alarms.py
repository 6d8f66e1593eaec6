"""When is a score an alarm? One alarm an episode, fewer from series that talk much. Deciding is not scoring.

A row is loud when its score, less a penalty, reaches -ln of a probability that is fixed beforehand. A loud row is an alarm
when no row was loud for `quiet_hours` before it: then a new episode begins. The penalty k ln(1 + A) grows with the alarms A
that the series has lately had, decayed; a series that alarms at ten times the usual rate must be rarer to be heard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.windows import Floats

COLUMNS = (
    "loud",
    "time",
    "alarms",
)  # ms of the last loud row and of the last row, both 0 before the first; decayed alarms
LOUD, TIME, ALARMS = range(len(COLUMNS))
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class AlarmParameters:
    """What it takes to alarm.

    `probability`           of a normal row to be loud. Lowering it: fewer alarms.
    `quiet_hours`           an episode is over when no row was loud for so long.
    `talkative_nats`        penalty for each e-fold of 1 + recent alarms; 0 for none.
    `talkative_half_life_days`  memory of alarms.
    """

    probability: float = 4e-4
    quiet_hours: float = 4.0
    talkative_nats: float = 0.0
    talkative_half_life_days: float = 20.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        if not 0 < self.probability < 1:
            msg = f"probability is {self.probability}; wanted between 0 and 1"
            raise ValueError(msg)
        if not (self.quiet_hours > 0 and self.talkative_half_life_days > 0 and self.talkative_nats >= 0):
            msg = "quiet_hours, talkative_half_life_days must be above 0, talkative_nats at least 0: got "
            raise ValueError(msg + f"{self.quiet_hours}, {self.talkative_half_life_days}, {self.talkative_nats}")


def begin(series: int) -> Floats:
    """The state of so many series, `(columns, series)`: 24 bytes each."""
    return np.zeros((len(COLUMNS), series))


def decide(s: Floats, now: Floats, score: Floats, p: AlarmParameters) -> tuple[Bools, Bools]:
    """Which rows are loud, and which of them alarms; learns in place.

    `s` is `(columns, n)`, `now` (ms) and `score` (nats, NaN where it is not known) are `(n,)`.
    """
    seconds = np.where(s[TIME] > 0, np.maximum(now - s[TIME], 0.0) / 1000, 0.0)
    s[ALARMS] *= np.exp2(-seconds / (86400 * p.talkative_half_life_days))
    need = -np.log(p.probability) + p.talkative_nats * np.log1p(s[ALARMS])
    loud = np.nan_to_num(score, nan=-np.inf) >= need
    rested = (s[LOUD] == 0) | (now - s[LOUD] > 3.6e6 * p.quiet_hours)
    alarm = loud & rested
    s[ALARMS] += alarm
    s[LOUD] = np.where(loud, now, s[LOUD])
    s[TIME] = now
    return loud, alarm
