"""Parameters of the detector: one default for all series, units in the names, checked on construction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

MOST_CLEAR_HOURS = 4.0
LONGEST_SECONDS = 300.0  # windows longer than this have the alarm chance of one of this length
LEAST_ROWS = 32  # that a challenger is trained on
NOT_NUMBERS = ("changes_below_alert", "challenger", "challenger_options")


def check_positive(parameters: object, names: Iterable[str]) -> None:
    """Raise ValueError for the first of these attributes that is not above 0."""
    for name in names:
        value = getattr(parameters, name)
        if not value > 0:
            msg = f"{name} is {value}; wanted a number above 0"
            raise ValueError(msg)


@dataclass(frozen=True)
class DetectorParameters:
    """How fast the models forget, how long they warm up, and how improbable a thing must be to be reported.

    Thresholds (`..._nats`) are surprise in nats, -ln of a probability: 14 is one in 1.2 million, 20.7 one in 10^9.
    Raising a threshold reports less, and later. A metric is above the alert threshold where its surprise exceeds the
    value that follows from `alarm_chance`.

    Parameters
    ----------
    window_seconds
        Length of a window. It is always `windowing.window_seconds`: set that one.
    spread_half_life_hours
        Half-life of the estimated dispersion of counts. Raising it makes the estimate steadier and slower.
    count_half_life_hours
        Half-life of the rate of a count series (log lines of a level or template). Raising it follows a new rate more
        slowly.
    mix_half_life_hours
        Half-life of the shares that templates have in the lines of a service. Raising it follows a new mix more
        slowly.
    habit_half_life_hours
        Half-life of how often a series is absent, repeats a value, or counts zero; of the absence of hosts and metrics that report more seldom than
        every ten minutes, 36 of their reports.
    context_half_life_hours
        Half-life of how many lines and templates a service on a host has had, and of how long a metric has repeated one value.
    warm_up_minutes
        Time for which a series must have reported before its values are judged. Series of newcomers, new hosts of a
        known role, need a third of it, and 30 windows: see `models.detection.newcomers`.
    grace_minutes
        Time for which a shard, host or service must have been known before new series and templates in it are
        reported. New templates of newcomers need a third of it.
    outlier_share
        Prior probability that a window of a count series is an outlier without meaning. Raising it forgives single
        windows with many lines.
    alarm_chance
        Probability that a normal metric exceeds the alert threshold in some window of an hour. Raising it finds more
        and raises more false alarms. A window longer than five minutes has the probability of one of five minutes, and
        a metric that comes more seldom than windows that of a window of its interval.
    confirm_seconds
        Time for which a metric must stay above the alert threshold to open an episode. Raising it ignores longer
        bursts and finds faults later.
    confirm_nats
        Two windows in a row open an episode without waiting for `confirm_seconds` where together they exceed the
        alert threshold by this much and the value is not on its way back.
    metric_clear_minutes
        An episode of a metric closes after this long without a window above the alert threshold, but not before
        `metric_clear_windows` of them, and at most after four hours. Raising it joins faults that are further apart.
    metric_clear_windows
        See `metric_clear_minutes`: it decides where windows are long. Raising it finds fewer faults that follow each
        other, and raises fewer false alarms in series that are often strange.
    spike_nats
        Surprise at which a single window of a count series opens an episode.
    count_nats
        Accumulated evidence at which too high a count, or a changed mix of templates, opens an episode.
    allowance_nats
        Surprise of each window that is subtracted before evidence is accumulated, in counts and in open episodes.
    stuck_nats
        Surprise at which a run of exactly equal values opens an episode.
    zero_nats
        Surprise at which a run of windows without a line opens an episode.
    silence_nats
        Surprise at which the absence of a host or metric opens an episode.
    new_template_nats
        Surprise at which a template that was never seen before is reported. Raising it waits for the template to come
        back more often.
    new_series_nats
        Surprise at which a new metric of a known service is reported.
    clear_nats
        A window with less surprise than this counts as normal again, in episodes of counts, mixes and stuck values.
        Raising it ends episodes sooner.
    clear_windows
        Number of normal windows in a row (of a mix: blocks of lines) that close such an episode. Raising it ends
        episodes later.
    persistence_minutes
        Time for which a new level must last and stand still to be adopted as normal. At most `patience_minutes`.
    patience_minutes
        An episode that lasts this long is adopted as normal, whatever its shape.
    usual_window_seconds
        For windows longer than this, `persistence_minutes` and `patience_minutes` are stretched in proportion: three
        windows are too few to be a level.
    silence_patience_hours
        A host or series that is silent for this long is given up: the silence becomes a change, and what else is open on
        the series of the host closes within an hour. Where windows, or the rows of the host, are more than two hours
        apart, it is twelve times their distance.
    changes_below_alert
        Whether changes that never exceed the alert threshold are reported too. `kappa score` does so for a single
        metric; in a fleet metrics that wander cause too many.
    forget_days
        A series that is not seen for this long is removed from the state; where windows, or the rows of its host, are
        more than a day apart, for twelve times their distance at least.
    label_nats
        A pattern that was labelled a false alarm needs this much more surprise to be reported again.
    label_half_life_days
        Half-life of that penalty.
    interval_probability
        Probability, both sides together, of a value outside `lower` to `upper`. A value outside strays; this decides when
        an episode of a metric ends, and whether it ends or is adopted as normal.
    challenger
        Class of river or scikit-learn that judges metrics instead of the univariate model, see
        [challengers](challengers.md). Empty: none.
    challenger_options
        Options of that class.
    challenger_rows
        Rows of each series that it is trained on. Raising it is slower and takes more state.
    challenger_retrain_hours
        Event time after which it is trained from scratch.
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
    metric_clear_minutes: float = 8.0
    metric_clear_windows: int = 24
    spike_nats: float = 20.7
    count_nats: float = 18.0
    allowance_nats: float = 3.0
    stuck_nats: float = 18.0
    zero_nats: float = 18.0
    silence_nats: float = 14.0
    new_template_nats: float = 14.0
    new_series_nats: float = 4.6
    clear_nats: float = 4.0
    clear_windows: int = 6
    persistence_minutes: float = 10.0
    patience_minutes: float = 60.0
    usual_window_seconds: float = 10.0
    silence_patience_hours: float = 24.0
    changes_below_alert: bool = False
    forget_days: float = 14.0
    label_nats: float = 2.3
    label_half_life_days: float = 30.0
    interval_probability: float = 1e-4
    challenger: str = ""
    challenger_options: dict[str, Any] = field(default_factory=dict)
    challenger_rows: int = 1000
    challenger_retrain_hours: float = 24.0

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError for one that is out of range."""
        check_positive(self, (one.name for one in fields(DetectorParameters) if one.name not in NOT_NUMBERS))
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

    @cached_property
    def alert_nats(self) -> float:
        """The alert threshold of metrics: surprise of one window, nats."""
        return -math.log(self.alarm_chance * min(self.window_seconds, LONGEST_SECONDS) / 3600.0)

    def metric_clear_rows(self, apart: float) -> float:
        """Number of rows in a row below the alert threshold that close an episode of a metric whose rows are so many windows apart."""
        rows = max(self.metric_clear_windows, self.windows(minutes=self.metric_clear_minutes) / apart)
        return min(rows, self.windows(hours=MOST_CLEAR_HOURS) / apart)

    def adoption_seconds(self, minutes: float) -> float:
        """Seconds that a new level must last where `minutes` are asked of windows of usual length; longer windows stretch it."""
        return 60.0 * minutes * self.window_seconds / min(self.window_seconds, self.usual_window_seconds)

    def windows(self, *, minutes: float = 0.0, hours: float = 0.0) -> float:
        """Number of windows in `minutes` and `hours`, not rounded."""
        return (60.0 * minutes + 3600.0 * hours) / self.window_seconds
