"""Rules about what is reported of a series and what is learnt of it, as people write them into the settings.

A rule selects series, holds at certain times, and has effects. Times are event times: a rule holds in a window that
overlaps `since` to `until` and whose first or last moment is in its calendar. No clock is read, so a replay applies the
same rules in the same windows.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from models.core.arrays import Bools, Ints
from models.core.series import LEVELS, PARTS, SERIES_KINDS, Series, parse

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DIRECTIONS = ("up", "down", "both")
NUMBERS = ("least_deviation", "least_relative_deviation", "alarm_chance", "half_life_days", "warm_up_minutes")
FLAGS = ("mute", "planned", "dont_learn")
DOES = (*FLAGS, "reset", "direction", *NUMBERS)
HOURS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")
DAY_MINUTES = 1440
FIRST_YEAR, LAST_YEAR = 1970, 2200
SELECTED = ("host", "service", "metric", "level", "template", "kind")
MAY_LACK = ("service", "level")  # parts that a series may lack whose kind can have them
REGEX = "re:"
BARE_METRIC, TEXT = "metric without labels", "text of the template"  # parts that a name has besides
OF_MACHINES = ("localtime", "posixrules")  # each machine has its own: results would depend on it
LARGEST = 1e15  # as of the values of metrics

Instant = str | datetime | None


class Selector:
    """Patterns by part of a series' name; all must match.

    A series that lacks a part matches the empty pattern for it and no other, and none where its kind has no such part.

    A pattern is a glob (`*`, `?`, `[abc]`), or after `re:` a regular expression of RE2, for the whole of the part. Case matters. A
    glob for a metric without `{` matches any labels. A pattern for a template is compared with its id and with the beginning
    of its text. Nothing is remembered: names are what senders choose, and there is no end of them.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        """Raises ValueError for a malformed pattern."""
        any_labels = "{" not in patterns.get("metric", "{") and not patterns["metric"].startswith(REGEX)
        self._patterns = [
            (BARE_METRIC if part == "metric" and any_labels else part, Matcher(part, text))
            for part, text in patterns.items()
        ]

    def matches(self, name: str, text: str | None = None) -> bool:
        """Whether a series matches; `text` is the beginning of its template, if it has one."""
        return bool(self.mask(SeriesParts([parse(name)], [text]))[0])

    def mask(self, series: SeriesParts) -> Bools:
        """Which of many series match, `(n,)`."""
        found = np.ones(len(series), dtype=bool)
        for part, pattern in self._patterns:
            fits = series.matches_pattern(part, pattern)
            found &= (fits | series.matches_pattern(TEXT, pattern)) if part == "template" else fits
        return found


class SeriesParts:
    """The parts of the names of many series, for patterns: each distinct text is compared once."""

    def __init__(self, series: Sequence[Series], texts: Sequence[str | None]) -> None:
        """`texts` are the beginnings of their templates, None where there is none."""
        self._series, self._texts = series, texts
        self._parts: dict[str, tuple[list[str | None], Ints]] = {}

    def __len__(self) -> int:
        return len(self._series)

    def matches_pattern(self, part: str, pattern: Matcher) -> Bools:
        """Which series match a pattern for the part, `(n,)`."""
        if part not in self._parts:
            texts = self._texts_of(part)
            distinct = dict.fromkeys(texts)
            places = {text: at for at, text in enumerate(distinct)}
            self._parts[part] = list(distinct), np.array([places[text] for text in texts], dtype=np.int64)
        known, at = self._parts[part]
        may = np.array([bool(text) or (text is not None and pattern.empty) for text in known], dtype=bool)
        fits = may & pattern.of([text or "" for text in known])
        found: Bools = fits[at]
        return found

    def _texts_of(self, part: str) -> list[str | None]:
        """The texts of a part: empty where a series has none, None where its kind has no such part."""
        if part == BARE_METRIC:
            return [one.metric.partition("{")[0] or None for one in self._series]
        if part == TEXT:
            pairs = zip(self._series, self._texts, strict=True)
            return [(one.template_id and text) or None for one, text in pairs]
        name = "template_id" if part == "template" else part
        return [getattr(one, name) or ("" if part in PARTS[one.kind] else None) for one in self._series]


class Matcher:
    """A pattern for the whole of a text.

    Regular expressions are RE2's, whose time is linear in the length of the text: names are what senders choose. A glob as Python
    translates it never goes back behind a `*`.
    """

    def __init__(self, part: str, text: str) -> None:
        """Raises ValueError for a malformed pattern."""
        self.empty = not text
        self._glob = None if text.startswith(REGEX) else re.compile(fnmatch.translate(text))
        expression = text.removeprefix(REGEX)
        self._whole = rf"\A(?:{expression})\z"
        if self._glob is None:
            try:
                pc.match_substring_regex(pa.scalar(""), pattern=expression)
            except pa.ArrowInvalid as error:
                msg = f"{part} is {text!r}, which is no regular expression of RE2: {error}"
                raise ValueError(msg) from error

    def __call__(self, text: str) -> bool:
        """Whether a text matches."""
        return bool(self.of([text])[0])

    def of(self, texts: Sequence[str]) -> Bools:
        """Which of several texts match, `(n,)`: regular expressions are compiled once for all of them, which takes longer than a text."""
        if self._glob is not None:
            match = self._glob.match
            return np.array([match(text) is not None for text in texts], dtype=bool)
        found = pc.match_substring_regex(pa.array(texts, pa.string()), pattern=self._whole)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def literal(text: str) -> str:
    """The pattern that matches this text and no other, whatever characters it has: senders choose names."""
    escaped = glob.escape(text)
    return f"[{escaped[0]}]{escaped[1:]}" if escaped.startswith(REGEX) else escaped


def check_selected(patterns: Mapping[str, str]) -> None:
    """Raise ValueError for patterns that no series can match: a kind or level that there is none of, or parts that no kind has together."""
    for part, known in {"kind": SERIES_KINDS, "level": LEVELS}.items():
        if patterns.get(part) and not any(map(Matcher(part, patterns[part]), known)):
            msg = f"{part} is {patterns[part]!r}, which no series has; there are {', '.join(known)}"
            raise ValueError(msg)
    check_filled({part: text for part, text in patterns.items() if text or part not in MAY_LACK})
    kind = Matcher("kind", patterns.get("kind", "*"))
    parts = [part for part in patterns if part != "kind"]
    if not any(kind(name) and set(parts) <= set(own) for name, own in PARTS.items()):
        of = f" of kind {patterns['kind']!r}" if "kind" in patterns else ""
        msg = f"no series{of} has {' and '.join(parts)}; there are " + "; ".join(
            f"{name} with {', '.join(own)}" for name, own in PARTS.items()
        )
        raise ValueError(msg)


def check_filled(patterns: Mapping[str, str]) -> None:
    """Raise ValueError for a pattern without text."""
    empty = [part for part, text in patterns.items() if text in ("", REGEX)]
    if empty:
        msg = f"{empty[0]} is empty; leave it out where all are meant"
        raise ValueError(msg)


def place_patterns(host: str | None, service: str | None, labels: Mapping[str, str]) -> dict[str, Matcher]:
    """Patterns of what incidents are about, those that are given, by `host`, `service` and `labels.NAME`. Raises ValueError."""
    given = {"host": host, "service": service} | {f"labels.{name}": text for name, text in labels.items()}
    patterns = {part: text for part, text in given.items() if text is not None}
    check_filled(patterns)
    return {part: Matcher(part, text) for part, text in patterns.items()}


@dataclass(frozen=True)
class Rule:
    """One rule: which series it is about, when it holds, and what it does. Keys that are not given have no effect.

    Parameters
    ----------
    name
        What people call it; its number in the file if empty.
    host, service, metric, level, template, kind
        Patterns that select series, see `Selector`; all that are given must match.
    since, until
        Instants with a zone between which the rule holds; without them always.
    days, hours, zone
        A calendar: days of the week, `HH:MM-HH:MM`, and a named time zone. Hours that pass midnight belong to the day on
        which they begin.
    mute
        No episode of these series is reported; they are scored and learnt.
    planned
        A planned event: these series are neither scored nor learnt, as if they had sent nothing.
    dont_learn
        They are scored and reported, but not learnt.
    reset
        An instant: with the first window after it, what is known of these series is forgotten.
    direction
        `up` or `down`: deviations in the other direction open no episode. `both` cancels an earlier rule.
    least_deviation
        Smallest distance from the typical value that opens an episode: in the unit of the metric, or lines a minute.
    least_relative_deviation
        The same as a share of the typical value.
    alarm_chance
        Instead of the setting of that name; metrics only.
    half_life_days
        Memory of the normal values of a metric, or of the rate of a count series.
    warm_up_minutes
        Instead of the setting of that name.

    Raises
    ------
    ValueError
        For a rule that does nothing, a value out of range, or `planned` and `dont_learn` without an end.
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
        """Check the values. Instants become text, so that a rule read from JSON equals the one that was written."""
        for name in ("since", "until", "reset"):
            object.__setattr__(self, name, instant(name, getattr(self, name)))
        object.__setattr__(self, "days", tuple(self.days))
        self._check_effects()
        self._check_times()
        _ = self.selector  # raises for a malformed pattern

    def _check_effects(self) -> None:
        if not self.given_effects:
            msg = f"the rule does nothing; wanted one or more of {', '.join(DOES)}"
            raise ValueError(msg)
        if self.direction not in (None, *DIRECTIONS):
            msg = f"direction is {self.direction!r}; wanted {', '.join(DIRECTIONS)}"
            raise ValueError(msg)
        for name in NUMBERS:
            value = getattr(self, name)
            if value is not None and not 0 < value <= LARGEST:
                msg = f"{name} is {value}; wanted a number above 0, at most {LARGEST:g}"
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
            if self.zone in OF_MACHINES:
                raise ZoneInfoNotFoundError(self.zone)
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder of the database is no file
            msg = f"zone is {self.zone!r}, which is none; wanted a name such as UTC or Europe/Berlin"
            raise ValueError(msg) from error
        begin, end = self.span
        if begin >= end:
            msg = f"since is {self.since} and until is {self.until}; wanted since before until"
            raise ValueError(msg)
        endless = begin == -float("inf") or end == float("inf")
        if (self.planned or self.dont_learn) and endless and not self.has_calendar:
            lacking = " and ".join(name for name in ("since", "until") if getattr(self, name) is None)
            msg = f"planned and dont_learn without {lacking} would never learn; wanted both since and until, or days or hours"
            raise ValueError(msg)
        if self.reset is not None and (self.has_calendar or begin != -float("inf") or end != float("inf")):
            msg = "reset is at an instant of its own; wanted a rule without since, until, days and hours"
            raise ValueError(msg)

    @cached_property
    def selector(self) -> Selector:
        """The patterns that select series."""
        return Selector(self.selected)

    @property
    def selected(self) -> dict[str, str]:
        """The patterns that are given, by part."""
        return {name: text for name in SELECTED if (text := getattr(self, name)) is not None}

    @property
    def given_effects(self) -> dict[str, Any]:
        """The effects that are given, by key."""
        return {name: value for name in DOES if (value := getattr(self, name)) is not None and value is not False}

    @cached_property
    def span(self) -> tuple[float, float]:
        """`since` and `until`, epoch milliseconds; infinite where they are not given."""
        return _milliseconds(self.since, -float("inf")), _milliseconds(self.until, float("inf"))

    @cached_property
    def reset_ms(self) -> float | None:
        """When the series are reset, epoch milliseconds; None if never."""
        return None if self.reset is None else _milliseconds(self.reset, 0.0)

    @property
    def has_calendar(self) -> bool:
        """Whether the rule has days or hours."""
        return bool(self.days or self.hours)

    def holds(self, window_end: int, window_ms: int) -> bool:
        """Whether it holds in the window of `window_ms` that ends at `window_end`, epoch ms."""
        begin, end = self.span
        if window_end <= begin or window_end - window_ms >= end:
            return False
        return not self.has_calendar or self._open(window_end - window_ms) or self._open(window_end - 1)

    def _open(self, at_ms: int) -> bool:
        """Whether a moment, epoch milliseconds, is in the calendar."""
        local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(self.zone))
        minute, day = 60 * local.hour + local.minute, local.weekday()
        begin, end = _minutes(self.hours) if self.hours else (0, DAY_MINUTES)
        if begin < end:
            return begin <= minute < end and self._on(day)
        return (minute >= begin and self._on(day)) or (minute < end and self._on((day - 1) % 7))

    def _on(self, day: int) -> bool:
        return not self.days or DAYS[day] in self.days

    def title(self, number: int) -> str:
        """Its name, or its number in the file from 1."""
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
    """An instant as ISO 8601 text in UTC. Raises ValueError for other text, one without a zone, or one outside 1970 to 2200."""
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
    if not (FIRST_YEAR <= at.year < LAST_YEAR and FIRST_YEAR <= at.astimezone(UTC).year < LAST_YEAR):
        msg = f"{name} is {value}; wanted an instant from {FIRST_YEAR} to before {LAST_YEAR}"
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
