"""The events of an iCalendar file (RFC 5545) in a span of time, each recurrence by itself.

A calendar can cost any time to read: a recurrence that never comes is looked for until the year 9999. So `main` reads it in a process
of its own, whose time and memory are limited; `app.cli.calendar_files` starts that. Beside icalendar and dateutil nothing is imported.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.rrule import rruleset, rrulestr
from icalendar import Calendar
from icalendar.prop import TypesFactory, vDDDLists, vDDDTypes

CPU_SECONDS, MEMORY = 20, 1 << 30
MOST_STEPS = 100_000  # recurrences of a file that are gone through, those of the past included
MOST_EVENTS = 1_000  # in the span
LONGEST_SUMMARY = 200  # characters
READ = ("DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID")
NOT_READ = ("EXRULE",)  # RFC 5545 has no such thing any more
DURATION = re.compile(r"([-+]?)P(?:(\d{1,8})W)?(?:(\d{1,8})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,8})M)?(?:(\d{1,8})S)?)?")
ALL_DAY, AT_TIME = "%Y%m%d", "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class CalendarEvent:
    """An event, or one recurrence of it. `recurrence`: when it was to begin at first, empty of one that does not recur; epoch ms."""

    uid: str
    recurrence: str
    start: int
    end: int
    summary: str


@dataclass(frozen=True)
class Length:
    """How long something lasts: days of the calendar, and then time that passes."""

    days: int = 0
    passes: timedelta = timedelta()


@dataclass(frozen=True)
class Moment:
    """A time as the calendar has it: what the clock says in a zone; `all_day` where it is only a date."""

    wall: datetime
    zone: tzinfo
    all_day: bool

    @property
    def instant(self) -> datetime:
        """In UTC."""
        return self.wall.replace(tzinfo=self.zone).astimezone(UTC)

    @property
    def ms(self) -> int:
        """Epoch milliseconds."""
        return round(1000 * self.instant.timestamp())

    @property
    def text(self) -> str:
        """What tells recurrences apart."""
        return self.wall.strftime(ALL_DAY) if self.all_day else self.instant.strftime(AT_TIME)

    def at(self, wall: datetime) -> Moment:
        """Another time of the same zone."""
        return Moment(wall, self.zone, self.all_day)

    def after(self, length: Length) -> int:
        """When so much has passed since, epoch milliseconds."""
        day = self.at(self.wall + timedelta(days=length.days))
        return round(1000 * (day.instant + length.passes).timestamp())


class WrittenDuration:
    """A duration as it is written: icalendar makes 24 hours of a day, which has 23 or 25 when clocks change."""

    def __init__(self, length: Length) -> None:
        self.dt, self.params = length, dict[str, str]()

    @staticmethod
    def from_ical(text: str) -> Length:
        """How long it is. Raises ValueError for what is no duration."""
        found = DURATION.fullmatch(text)
        if found is None:
            msg = f"{shown(text)} is no duration"
            raise ValueError(msg)
        weeks, days, hours, minutes, seconds = (int(digits or 0) for digits in found.groups()[1:])
        sign = -1 if found[1] == "-" else 1
        return Length(sign * (7 * weeks + days), sign * timedelta(hours=hours, minutes=minutes, seconds=seconds))


class WrittenDates(vDDDLists):  # type: ignore[misc]  # of icalendar only part has types
    """Dates and periods, with durations as they are written."""

    @staticmethod
    def from_ical(text: str, timezone: str | None = None) -> list[Any]:
        """A date each, or a begin with an end or a `Length`. Raises ValueError."""
        found = []
        for one in text.split(","):
            begin, slash, lasts = one.partition("/")
            by_length = slash and lasts.lstrip("+-").startswith("P")
            value = vDDDTypes.from_ical(begin if by_length else one, timezone=timezone)
            found.append((value, WrittenDuration.from_ical(lasts)) if by_length else value)
        return found


class CalendarAsWritten(Calendar):  # type: ignore[misc]  # of icalendar only part has types
    """A calendar whose durations are read as they are written."""

    types_factory = TypesFactory()
    types_factory.update({"duration": WrittenDuration, "date-time-list": WrittenDates})


@dataclass
class AskedSpan:
    """What is asked for, epoch ms, and how many recurrences may still be gone through."""

    begin: int
    until: int
    steps: Iterator[int] = field(default_factory=lambda: iter(range(MOST_STEPS)))

    def step(self) -> None:
        """Go through one more recurrence. Raises ValueError for one too many."""
        if next(self.steps, None) is None:
            msg = f"there are more than {MOST_STEPS} recurrences; wanted fewer, or events that begin later"
            raise ValueError(msg)


def events_in(data: bytes, begin: int, until: int, zone: str | None = None) -> list[CalendarEvent]:
    """The events that end after `begin` and begin before `until`, epoch ms, in the order of their beginnings.

    Parameters
    ----------
    data
        The file.
    begin, until
        The span.
    zone
        Of times without one, and of whole days; None for the calendar's own (`X-WR-TIMEZONE`), or UTC.

    Returns
    -------
    list of CalendarEvent
        Without those that are cancelled, and those that last no time.

    Raises
    ------
    ValueError
        It is no calendar, has a time that cannot be meant, or too many events.
    """
    span, found = AskedSpan(begin, until), list[CalendarEvent]()
    for calendar in calendars_in(data.decode()):
        own = zone_named(zone or str(calendar.get("X-WR-TIMEZONE", "UTC")))
        for same in by_uid(calendar).values():
            for one in occurrences(same, own, span):
                found.append(one)
                if len(found) > MOST_EVENTS:
                    msg = f"there are more than {MOST_EVENTS} events in that time; wanted an earlier end of it"
                    raise ValueError(msg)
    return sorted(found, key=lambda one: (one.start, one.uid, one.recurrence))


def calendars_in(text: str) -> list[Any]:
    """The calendars of a file. Raises ValueError for none, and for one that has no end: its events would count as deleted."""
    found = CalendarAsWritten.from_ical(text, multiple=True)
    begun = sum(line.strip().upper() == "BEGIN:VCALENDAR" for line in text.splitlines())
    if not begun or begun != len(found) or any(one.name != "VCALENDAR" for one in found):
        msg = f"{begun} calendars begin, {len(found)} are whole; wanted a file with BEGIN:VCALENDAR to END:VCALENDAR"
        raise ValueError(msg)
    return list(found)


def by_uid(calendar: Any) -> dict[str, dict[str, Any]]:
    """The events of a calendar: by UID, then by RECURRENCE-ID as it stands there, the newest revision of each."""
    found: dict[str, dict[str, Any]] = {}
    for event in calendar.walk("VEVENT"):
        uid = str(event.get("UID", ""))
        wrong = [name for name, _ in event.errors if name in READ] + [name for name in NOT_READ if name in event]
        if not uid or wrong:
            msg = f"event {shown(uid)} has {f'a {wrong[0]} that cannot be read' if uid else 'no UID'}"
            raise ValueError(msg)
        own = found.setdefault(uid, {})
        key = event["RECURRENCE-ID"].to_ical().decode() if "RECURRENCE-ID" in event else ""
        if key not in own or int(own[key].get("SEQUENCE", 0)) <= int(event.get("SEQUENCE", 0)):
            own[key] = event
    return found


def occurrences(same: Mapping[str, Any], zone: tzinfo, span: AskedSpan) -> Iterator[CalendarEvent]:
    """The recurrences of one event in a span. `same`: the event, and those of its recurrences that were changed."""
    uid = str(next(iter(same.values()))["UID"])
    try:
        changed = {moment(event["RECURRENCE-ID"], zone).text: event for key, event in same.items() if key}
        if any("RANGE" in event["RECURRENCE-ID"].params for event in changed.values()):
            msg = "a change of all later recurrences (RANGE) is not read; wanted an event of its own for them"
            raise ValueError(msg)
        for recurrence, event in changed.items():
            yield from within(span, event, recurrence, moment(event["DTSTART"], zone), length(event, zone))
        if "" not in same:
            return
        recurs = "RRULE" in same[""] or "RDATE" in same[""]
        for start, lasts in starts(same[""], zone, span):
            if not recurs or start.text not in changed:
                yield from within(span, same[""], start.text if recurs else "", start, lasts)
    except (ValueError, KeyError, OverflowError, TypeError, AttributeError) as error:
        msg = f"event {shown(uid)} cannot be read: {error}"
        raise ValueError(msg) from error


def within(span: AskedSpan, event: Any, recurrence: str, start: Moment, lasts: Length) -> Iterator[CalendarEvent]:
    """The event, if it is in the span, lasts and was not cancelled."""
    begin, end = start.ms, start.after(lasts)
    if begin < min(end, span.until) and end > span.begin and str(event.get("STATUS", "")).upper() != "CANCELLED":
        yield CalendarEvent(str(event["UID"]), recurrence, begin, end, str(event.get("SUMMARY", ""))[:LONGEST_SUMMARY])


def starts(event: Any, zone: tzinfo, span: AskedSpan) -> Iterator[tuple[Moment, Length]]:
    """When the event begins that begin before the end of the span, in order, and how long it lasts then."""
    first, usual = moment(event["DTSTART"], zone), length(event, zone)
    periods: dict[datetime, Length] = {}
    days = rruleset()
    days.rdate(first.wall)
    for rule in listed(event.get("RRULE")):
        days.rrule(recurrence_rule(rule, first))
    for dates in listed(event.get("RDATE")):
        for one in dates.dts:
            begin, lasts = period(one.dt)
            wall = same_clock(moment_of(begin, dates, zone), first)
            days.rdate(wall)
            if lasts is not None:
                periods[wall] = lasts
    for dates in listed(event.get("EXDATE")):
        for one in dates.dts:
            days.exdate(same_clock(moment_of(one.dt, dates, zone), first))
    for wall in days:
        span.step()
        start = first.at(wall)
        if start.ms >= span.until:
            return
        yield start, periods.get(wall, usual)


def recurrence_rule(rule: Any, first: Moment) -> Any:
    """A recurrence rule on the clock of the event's zone. Raises ValueError for one that cannot be meant."""
    parts = dict(rule)
    last = parts.pop("UNTIL", [None])[0]
    if last is not None and "COUNT" in parts:
        msg = "RRULE has both COUNT and UNTIL; wanted one of them"
        raise ValueError(msg)
    found = rrulestr(type(rule)(parts).to_ical().decode(), dtstart=first.wall)
    if last is None:
        return found
    if not isinstance(last, datetime):
        last = datetime.combine(last, time.max)
    elif last.tzinfo is not None and not first.all_day:
        last = last.astimezone(first.zone)
    return found.replace(until=last.replace(tzinfo=None))


def length(event: Any, zone: tzinfo) -> Length:
    """How long an event lasts: until its end, for its duration, or the day that it begins on."""
    start = moment(event["DTSTART"], zone)
    if "DTEND" in event:
        end = moment(event["DTEND"], zone)
        whole = start.all_day and end.all_day
        return Length((end.wall - start.wall).days) if whole else Length(passes=end.instant - start.instant)
    if "DURATION" in event:
        lasts: Length = event["DURATION"].dt
        return lasts
    return Length(days=1 if start.all_day else 0)


def period(value: Any) -> tuple[date, Length | None]:
    """A date of RDATE: when it begins, and how long it lasts if it says so."""
    if not isinstance(value, tuple):
        return value, None
    begin, end = value
    return begin, end if isinstance(end, Length) else Length(passes=end - begin)


def moment(prop: Any, zone: tzinfo) -> Moment:
    """The time that a property has."""
    return moment_of(prop.dt, prop, zone)


def moment_of(value: date, prop: Any, zone: tzinfo) -> Moment:
    """A time of a property. Raises ValueError for a zone that nobody knows."""
    if not isinstance(value, datetime):
        return Moment(datetime.combine(value, time()), zone, all_day=True)
    if value.tzinfo is None and "TZID" in prop.params:
        msg = f"there is no time zone {shown(str(prop.params['TZID']))}; wanted a name such as Europe/Berlin, or a VTIMEZONE in the file"
        raise ValueError(msg)
    return Moment(value.replace(tzinfo=None), value.tzinfo or zone, all_day=False)


def same_clock(other: Moment, first: Moment) -> datetime:
    """What the clock of the first time's zone says at another time."""
    return other.wall if other.all_day else other.instant.astimezone(first.zone).replace(tzinfo=None)


def zone_named(name: str) -> ZoneInfo:
    """A time zone. Raises ValueError where there is none of this name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        msg = f"there is no time zone {shown(name)}; wanted a name such as UTC or Europe/Berlin"
        raise ValueError(msg) from error


def listed(value: Any) -> list[Any]:
    """The values of a property that may come several times."""
    return [] if value is None else value if isinstance(value, list) else [value]


def shown(text: str) -> str:
    """A text of the file in a message."""
    return repr(text[:60])


def main(begin: str, until: str, zone: str) -> None:
    """Read a file from stdin; write its events or why there are none as JSON to stdout."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answer: dict[str, Any]
    try:
        found = events_in(sys.stdin.buffer.read(), int(begin), int(until), zone or None)
        answer = {"events": [asdict(one) for one in found]}
    except ValueError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
