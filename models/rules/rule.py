"""Rules about what may be said of a series and what is learnt of it, as people write them into the settings.

A rule has a selector (`control_selector`), times, and what it does. Times are event times: a rule holds in a window that
overlaps its span from `since` to `until`, and whose first or last moment is in its calendar. Nothing asks a clock, so a
replay holds the same rules at the same windows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from models.rules.selector import SELECTED, Selector

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DIRECTIONS = ("up", "down", "both")
NUMBERS = ("least_deviation", "least_relative_deviation", "alarm_chance", "half_life_days", "warm_up_minutes")
FLAGS = ("mute", "planned", "dont_learn")
DOES = (*FLAGS, "reset", "direction", *NUMBERS)
HOURS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")
DAY_MINUTES = 1440

Instant = str | datetime | None


@dataclass(frozen=True)
class Rule:
    """One rule. What is not given is not asked for, or not said.

    `name`                      what people call it; its number if empty.
    `host`, `service`, `metric`, `level`, `template`, `kind`  the selector: all that are given must match.
    `since`, `until`            instants with a zone: the rule holds from one to the other, for ever without them.
    `days`, `hours`, `zone`     a calendar: days of the week, `HH:MM-HH:MM`, in a named time zone. Hours that go over midnight
                                belong to the day on which they begin.
    `mute`                      nothing is said of these series; they are scored and learnt.
    `planned`                   a planned event: these series are neither scored nor learnt, as if they had not been read.
    `dont_learn`                they are scored and spoken of, but not learnt.
    `reset`                     an instant: with the first window after it what is known of these series begins anew.
    `direction`                 `up` or `down`: deviations the other way open no episode.
    `least_deviation`           a smaller distance of a window from what is typical is no deviation: in the unit of the metric,
                                lines a minute for logs.
    `least_relative_deviation`  the same as a share of what is typical.
    `alarm_chance`              as the setting of that name; metrics only.
    `half_life_days`            memory of what is normal of a metric, of the rate of a count series.
    `warm_up_minutes`           as the setting of that name.
    """

    name: str = ""
    host: str | None = None
    service: str | None = None
    metric: str | None = None
    level: str | None = None
    template: str | None = None
    kind: str | None = None
    since: Instant = None
    until: Instant = None
    days: tuple[str, ...] = ()
    hours: str = ""
    zone: str = "UTC"
    mute: bool = False
    planned: bool = False
    dont_learn: bool = False
    reset: Instant = None
    direction: str | None = None
    least_deviation: float | None = None
    least_relative_deviation: float | None = None
    alarm_chance: float | None = None
    half_life_days: float | None = None
    warm_up_minutes: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be meant. Instants become text, so that a rule is the same from JSON."""
        for name in ("since", "until", "reset"):
            object.__setattr__(self, name, instant(name, getattr(self, name)))
        object.__setattr__(self, "days", tuple(self.days))
        self._check_deeds()
        self._check_times()
        _ = self.selector  # a pattern that is none is an error now

    def _check_deeds(self) -> None:
        if not self.does:
            msg = f"the rule does nothing; wanted one or more of {', '.join(DOES)}"
            raise ValueError(msg)
        if self.direction not in (None, *DIRECTIONS):
            msg = f"direction is {self.direction!r}; wanted {', '.join(DIRECTIONS)}"
            raise ValueError(msg)
        for name in NUMBERS:
            value = getattr(self, name)
            if value is not None and not value > 0:
                msg = f"{name} is {value}; wanted a number above 0"
                raise ValueError(msg)
        if self.alarm_chance is not None and not self.alarm_chance < 1:
            msg = f"alarm_chance is {self.alarm_chance}; wanted a probability below 1"
            raise ValueError(msg)

    def _check_times(self) -> None:
        unknown = [day for day in self.days if day not in DAYS]
        if unknown:
            msg = f"days has {unknown[0]!r}; wanted some of {', '.join(DAYS)}"
            raise ValueError(msg)
        if self.hours:
            _minutes(self.hours)
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            msg = f"zone is {self.zone!r}, which is none; wanted a name such as UTC or Europe/Berlin"
            raise ValueError(msg) from error
        begin, end = self.span
        if begin >= end:
            msg = f"since is {self.since} and until is {self.until}; wanted since before until"
            raise ValueError(msg)
        endless = begin == -float("inf") or end == float("inf")
        if (self.planned or self.dont_learn) and endless and not self.calendar:
            msg = "planned and dont_learn without an end would never learn; wanted since and until, or days and hours"
            raise ValueError(msg)
        if self.reset is not None and (self.calendar or begin != -float("inf") or end != float("inf")):
            msg = "reset is at an instant of its own; wanted a rule without since, until, days and hours"
            raise ValueError(msg)

    @cached_property
    def selector(self) -> Selector:
        """What the rule is about."""
        return Selector({name: text for name in SELECTED if (text := getattr(self, name)) is not None})

    @property
    def does(self) -> dict[str, Any]:
        """What the rule does, by name."""
        return {name: value for name in DOES if (value := getattr(self, name)) is not None and value is not False}

    @cached_property
    def span(self) -> tuple[float, float]:
        """From when to when, epoch milliseconds; infinite where it is not said."""
        return _milliseconds(self.since, -float("inf")), _milliseconds(self.until, float("inf"))

    @cached_property
    def reset_ms(self) -> float | None:
        """When the series begin anew, epoch milliseconds."""
        return None if self.reset is None else _milliseconds(self.reset, 0.0)

    @property
    def calendar(self) -> bool:
        """Whether days or hours are said."""
        return bool(self.days or self.hours)

    def holds(self, window_end: int, window_ms: int) -> bool:
        """Whether it holds in a window of this length, by event time (epoch ms)."""
        begin, end = self.span
        if window_end <= begin or window_end - window_ms >= end:
            return False
        return not self.calendar or self._open(window_end - window_ms) or self._open(window_end - 1)

    def _open(self, at_ms: int) -> bool:
        """Whether a moment is in the calendar."""
        local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(self.zone))
        minute, day = 60 * local.hour + local.minute, local.weekday()
        begin, end = _minutes(self.hours) if self.hours else (0, DAY_MINUTES)
        if begin < end:
            return begin <= minute < end and self._on(day)
        return (minute >= begin and self._on(day)) or (minute < end and self._on((day - 1) % 7))

    def _on(self, day: int) -> bool:
        return not self.days or DAYS[day] in self.days

    def title(self, number: int) -> str:
        """What it is called: its name, or its place in the file from 1."""
        return self.name or f"rule {number + 1}"


def rules_of(values: Any) -> tuple[Rule, ...]:
    """Rules from JSON types. Raises ValueError for an unknown key."""
    return tuple(value if isinstance(value, Rule) else rule_of(value) for value in values)


def rule_of(value: Mapping[str, Any]) -> Rule:
    """A rule from JSON types. Raises ValueError for an unknown key."""
    unknown = value.keys() - {field.name for field in fields(Rule)}
    if unknown:
        msg = f"no key {sorted(unknown)[0]!r} in a rule"
        raise ValueError(msg)
    return Rule(**value)


def instant(name: str, value: Instant) -> str | None:
    """An instant as ISO 8601 text in UTC. Raises ValueError for what is none, or has no zone."""
    if value is None:
        return None
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except ValueError as error:
        msg = f"{name} is {value!r}; wanted an instant such as 2026-01-05T10:00:00Z"
        raise ValueError(msg) from error
    if at.tzinfo is None:
        msg = f"{name} is {value}, without a zone; wanted an instant such as 2026-01-05T10:00:00Z"
        raise ValueError(msg)
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _milliseconds(value: Instant, otherwise: float) -> float:
    if value is None:
        return otherwise
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return at.timestamp() * 1000


def _minutes(hours: str) -> tuple[int, int]:
    """Begin and end in minutes of the day. Raises ValueError for other text."""
    found = HOURS.fullmatch(hours)
    if found:
        a, b, c, d = map(int, found.groups())
        begin, end = 60 * a + b, 60 * c + d
        if begin < DAY_MINUTES and end <= DAY_MINUTES and max(b, d) < 60 and begin != end:
            return begin, end
    msg = f"hours is {hours!r}; wanted begin and end of day, such as 22:00-06:00"
    raise ValueError(msg)
