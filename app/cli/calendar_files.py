"""Calendars as people keep them: iCalendar files and public holidays -> events."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path

from app.cli.calendar_events import CPU_SECONDS, MEMORY, CalendarEvent, Length, Moment, zone_named
from app.core.timestamps import iso
from app.supervision.parent import PYTHON
from models.core.printable import printable
from pipelines.errors import InputError

MOST_FILE = 4 << 20  # bytes
SECONDS = 6 * CPU_SECONDS  # on a machine that has other work
LONGEST_ERROR = 300  # characters
MODULE = "app.cli.calendar_events"


def events_of_file(file: Path, begin: int, until: int, zone: str | None) -> list[CalendarEvent]:
    """The events of an iCalendar file that end after `begin` and begin before `until`, epoch ms. `zone`: of times without one.

    Raises InputError for a file that cannot be read, or costs too much.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_FILE + 1)
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}; wanted an iCalendar file"
        raise InputError(msg) from error
    if len(data) > MOST_FILE:
        msg = f"{file}: wanted at most {MOST_FILE} bytes"
        raise InputError(msg)
    command = [*PYTHON, MODULE, str(begin), str(until), zone or ""]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        last = printable((error.stderr or b"").decode(errors="replace").strip().rpartition("\n")[2][:LONGEST_ERROR])
        msg = (
            f"{file}: could not be read in {CPU_SECONDS} s of a core and {MEMORY >> 20} MiB{f' ({last})' if last else ''}; "
            "wanted an iCalendar file with fewer events, whose recurrences come"
        )
        raise InputError(msg) from error
    answer = json.loads(done.stdout)
    if "error" in answer:
        msg = f"{file}, until {iso(until)}: {printable(answer['error'][:LONGEST_ERROR])}"
        raise InputError(msg)
    return [CalendarEvent(**one) for one in answer["events"]]


def events_of_country(where: str, begin: int, until: int, zone: str | None) -> list[CalendarEvent]:
    """The public holidays of a country, `DE`, or of a part of it, `DE/BY`, as whole days of a zone; UTC without one.

    Raises InputError for a country, part or zone that is not known.
    """
    from holidays import country_holidays  # takes 0.2 s

    country, _, part = where.partition("/")
    try:
        place = zone_named(zone or "UTC")
        first, last = (datetime.fromtimestamp(at / 1000, place) for at in (begin, until))
        days = country_holidays(country, subdiv=part or None, years=range(first.year, last.year + 1))
    except (NotImplementedError, ValueError) as error:
        msg = f"holidays of {where[:60]!r}: {error}; wanted a country such as DE, or a part such as DE/BY, and a zone such as Europe/Berlin"
        raise InputError(msg) from error
    found = []
    for day, summary in sorted(days.items()):
        start = Moment(datetime(day.year, day.month, day.day), place, all_day=True)  # noqa: DTZ001 - what the clock says
        found.append(CalendarEvent(day.isoformat(), "", start.ms, start.after(Length(days=1)), summary))
    return [one for one in found if one.start < until and one.end > begin]
