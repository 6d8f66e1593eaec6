"""The settings of the detector: one default for all series, units in the names, checked on construction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

LONGEST_SECONDS = 300.0
LEAST_ROWS = 32  # that a challenger begins with
OTHERS = ("quiet_changes", "challenger", "challenger_options")  # are no numbers


@dataclass(frozen=True)
class Parameters:
    """How fast the models forget, how much they must have seen, and how rare a thing must be to be said.

    Thresholds are surprise in nats, -ln of a probability: 14 is one in 1.2 million, 20.7 one in 10^9.

    `window_seconds`           length of a window.
    `spread_half_life_hours`   memory of how counts disperse.
    `count_half_life_hours`    memory of the rate of a count series.
    `mix_half_life_hours`      memory of the shares that templates have in a service's lines.
    `habit_half_life_hours`    memory of habits: how often a series is absent, repeats a value, or counts zero.
    `context_half_life_hours`  memory of how many lines and templates a service has had.
    `warm_up_minutes`          what a series must have reported before anything is said of its values.
    `grace_minutes`            what a shard, host or service must have lived before its new parts are news.
    `outlier_share`            prior probability that a window of a count series is a harmless outlier.
    `alarm_chance`             probability that a normal metric is loud at some window of an hour: loud metrics open
                               episodes. Raising it finds more, and makes more up. Of windows longer than five minutes each
                               is as likely to be loud as one of five.
    `confirm_seconds`          a metric must have been loud for so long. Raising it forgives bursts, and finds faults later.
    `confirm_nats`             or two windows in a row were loud by so much together, and the value is not on its way back.
    `calm_hours`, `calm_windows`  an episode of a metric is over when no window was loud for so long, whichever is less.
    `spike_nats`               one window alone of a count series opens an episode.
    `count_nats`               the summed evidence of a count that is too high, or of a mix that is off, opens an episode.
    `allowance_nats`           surprise of a window that is not held against a count series.
    `stuck_nats`               a run of exactly repeated values opens an episode.
    `zero_nats`                a run of windows without a line opens an episode.
    `silence_nats`             a run of windows without a report of a host or a gauge opens an episode.
    `new_template_nats`        a never-seen template is news.
    `new_series_nats`          a never-seen metric of a known service is news.
    `quiet_nats`               a window below it counts as normal again.
    `quiet_windows`            so many normal windows in a row close an episode.
    `persistence_minutes`      a level that has lasted so long, and stands still, is the new normal.
    `patience_minutes`         an episode that has lasted so long is the new normal, whatever it is.
    `usual_window_seconds`     where windows are longer, both take as much longer: three windows are no level.
    `silence_patience_hours`   a silent host or series is given up after so long.
    `quiet_changes`            changes that are never loud are told as well. Of single series they are; a fleet has too many.
    `forget_days`              a series unseen for so long is forgotten.
    `label_nats`               a pattern that was labelled a false alarm needs so much more to be said again.
    `label_half_life_days`     half of that is left after so long.
    `interval_probability`     what lies outside of `lower` to `upper`, both sides together.
    `challenger`               a class of another library that judges metrics instead of the univariate model; empty: none.
    `challenger_options`       its options.
    `challenger_rows`          rows of a series that it is trained on.
    `challenger_retrain_hours` it is trained anew after so long, in event time.
    """

    window_seconds: float = 10.0
    spread_half_life_hours: float = 6.0
    count_half_life_hours: float = 1.0
    mix_half_life_hours: float = 2.0
    habit_half_life_hours: float = 6.0
    context_half_life_hours: float = 168.0
    warm_up_minutes: float = 30.0
    grace_minutes: float = 30.0
    outlier_share: float = 1e-3
    alarm_chance: float = 0.01
    confirm_seconds: float = 40.0
    confirm_nats: float = 6.0
    calm_hours: float = 4.0
    calm_windows: int = 48
    spike_nats: float = 20.7
    count_nats: float = 18.0
    allowance_nats: float = 3.0
    stuck_nats: float = 18.0
    zero_nats: float = 18.0
    silence_nats: float = 14.0
    new_template_nats: float = 14.0
    new_series_nats: float = 4.6
    quiet_nats: float = 4.0
    quiet_windows: int = 6
    persistence_minutes: float = 10.0
    patience_minutes: float = 60.0
    usual_window_seconds: float = 10.0
    silence_patience_hours: float = 24.0
    quiet_changes: bool = False
    forget_days: float = 14.0
    label_nats: float = 2.3
    label_half_life_days: float = 30.0
    interval_probability: float = 1e-4
    challenger: str = ""
    challenger_options: dict[str, Any] = field(default_factory=dict)
    challenger_rows: int = 1000
    challenger_retrain_hours: float = 24.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        for one in fields(Parameters):
            value = getattr(self, one.name)
            if one.name not in OTHERS and not value > 0:
                msg = f"{one.name} is {value}; wanted a number above 0"
                raise ValueError(msg)
        for name in ("outlier_share", "interval_probability", "alarm_chance"):
            if not getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}; wanted a number below 1"
                raise ValueError(msg)
        if self.challenger_rows < LEAST_ROWS:
            msg = f"challenger_rows is {self.challenger_rows}; wanted at least {LEAST_ROWS}"
            raise ValueError(msg)
        if self.persistence_minutes > self.patience_minutes:
            msg = f"persistence_minutes is {self.persistence_minutes}; wanted at most patience_minutes, which is "
            raise ValueError(msg + f"{self.patience_minutes}")

    @property
    def loud_nats(self) -> float:
        """Surprise of a metric's window from which on it is loud."""
        return -math.log(self.alarm_chance * min(self.window_seconds, LONGEST_SECONDS) / 3600.0)

    @property
    def calm_rows(self) -> float:
        """Calm windows in a row that end an episode of a metric."""
        return min(self.calm_windows, self.windows(hours=self.calm_hours))

    @property
    def usual_seconds(self) -> float:
        """What a window counts in the time that a new normal takes."""
        return min(self.window_seconds, self.usual_window_seconds)

    def lasting(self, minutes: float) -> float:
        """Seconds that a new normal must last."""
        return 60.0 * minutes * self.window_seconds / self.usual_seconds

    def windows(self, *, minutes: float = 0.0, hours: float = 0.0) -> float:
        """How many windows a time holds."""
        return (60.0 * minutes + 3600.0 * hours) / self.window_seconds
