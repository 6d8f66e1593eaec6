"""`kappa rules calendar`: events of a calendar as rules of the log. `changes_by` does it from Python."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import DryRun, Json
from app.cli.rule_files import checked
from app.cli.rules import REMOVED, SAME, Author, Difference, about, carried_out, difference, warn
from app.core.settings import load
from app.core.timestamps import iso, milliseconds, wall_clock
from models.core.printable import printable
from models.records.records import RuleRecord
from models.rules.rule import FLAGS, SELECTED
from models.rules.rule_log import LoggedRule
from pipelines.errors import InputError

if TYPE_CHECKING:
    from app.cli.calendar_events import CalendarEvent
    from app.kafka.rule_topic import RulesNow

NAME = re.compile(r"\w[\w .-]{0,38}\w|\w")
ID_DIGITS = 12
DAYS, MOST_DAYS = 30, 400
DAY_MS = 86_400_000


def calendar(
    file: Annotated[Path | None, typer.Argument(help="An iCalendar file (.ics).")] = None,
    holidays: Annotated[str | None, typer.Option(help="Public holidays instead of a file: DE, or DE/BY.")] = None,
    host: Annotated[str | None, typer.Option(help="Pattern of the hosts that it is about.")] = None,
    service: Annotated[str | None, typer.Option(help="Pattern of the services.")] = None,
    metric: Annotated[str | None, typer.Option(help="Pattern of the metrics.")] = None,
    level: Annotated[str | None, typer.Option(help="Pattern of the levels of log lines.")] = None,
    template: Annotated[str | None, typer.Option(help="Pattern of the log templates.")] = None,
    kind: Annotated[str | None, typer.Option(help="Pattern of the kinds of series.")] = None,
    effect: Annotated[str, typer.Option(help="What events do: planned, mute or dont_learn.")] = "planned",
    name: Annotated[
        str | None, typer.Option(help="Name of the calendar. Default: the file's, or the country's.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Of whole days and times without a zone. Default: as the file says, or UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help=f"Events that begin before that, ISO 8601. Default: {DAYS} days from now.")
    ] = None,
    dry_run: DryRun = False,
    author: Author = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write the events of a calendar as rules: those that are new or moved; those that the calendar has no longer are ended."""
    from app.cli import calendar_files  # loads icalendar
    from app.kafka import rule_topic  # loads Kafka's client

    given = {"host": host, "service": service, "metric": metric, "level": level, "template": template, "kind": kind}
    head = {key: text for key, text in given.items() if text is not None} | {effect: True}
    if (file is None) == (holidays is None):
        msg = "rules calendar: wanted one calendar, FILE or --holidays COUNTRY, and the series that it is about, such as --host 'db-*'"
        raise InputError(msg)
    if effect not in FLAGS:
        msg = f"rules calendar: --effect is {effect!r}; wanted one of {', '.join(FLAGS)}"
        raise InputError(msg)
    if len(head) == 1:
        msg = f"rules calendar: wanted the series that it is about, by one or more of --{', --'.join(SELECTED)}; --host '*' is all hosts"
        raise InputError(msg)
    now = wall_clock()
    last = now + DAYS * DAY_MS if until is None else milliseconds("rules calendar: --until", until)
    if not now < last <= now + MOST_DAYS * DAY_MS:
        msg = f"rules calendar: --until is {until}; wanted a time from now to {iso(now + MOST_DAYS * DAY_MS)}"
        raise InputError(msg)
    prefix = prefix_of(name if name is not None else file.stem if file else f"holidays {holidays}".replace("/", "-"))
    if file is not None:
        events = calendar_files.events_of_file(file, now, last, zone)
    else:
        events = calendar_files.events_of_country(holidays or "", now, last, zone)
    records = [rule_of_event(prefix, event, head, **about("", author)) for event in events]
    settings = connected(load(config), ("kafka",))
    rules = rule_topic.read(settings).in_effect(now)
    found = changes_by(prefix, rules, records, now, last)
    carried_out(settings, found, [one for one in found if one.word != SAME], dry_run, as_json)
    warn([one.record for one in found if one.word not in (SAME, REMOVED)], rules.since, settings)


def changes_by(
    prefix: str, rules: RulesNow, records: Sequence[Mapping[str, Any]], now: int, until: int
) -> list[Difference]:
    """What a calendar changes.

    Parameters
    ----------
    prefix
        What the names of its rules begin with.
    rules
        Those of the log now.
    records
        Those of its events that end after `now` and begin before `until`, epoch ms.
    now, until
        Rules of this time that it does not have are removed; those of other times stay.

    Returns
    -------
    list of Difference
        First what is removed, so that there is room.

    Raises
    ------
    InputError
        There would be too many rules.
    """
    here = {record["name"] for record in records}
    gone = [one for one in rules.known.values() if one.name.startswith(prefix) and one.name not in here]
    gone = [one for one in gone if overlaps(one, now, until)]
    removed = [{"record": RuleRecord.KIND, "name": one.name, "removed": True} for one in gone]
    left = {name: one for name, one in rules.known.items() if one not in gone}
    ended = [Difference(REMOVED, one.name, record, one.rule) for one, record in zip(gone, removed, strict=True)]
    return ended + difference(replace(rules, known=left, room=rules.room + len(gone)), records)


def overlaps(one: LoggedRule, now: int, until: int) -> bool:
    """Whether a rule is about some of a time, epoch ms."""
    begin, end = one.effective_record().span
    return begin < until and end > now


def prefix_of(name: str) -> str:
    """What the names of a calendar's rules begin with. Raises InputError for a name that it cannot have."""
    if not NAME.fullmatch(name):
        msg = f"the calendar would have the name {name[:60]!r}; give --name with 1 to 40 letters, digits, spaces, dots or dashes"
        raise InputError(msg)
    return f"calendar {name}/"


def rule_of_event(prefix: str, event: CalendarEvent, head: Mapping[str, Any], **texts: str) -> dict[str, Any]:
    """The record of a rule for an event, named by its UID and recurrence, so that an event that was moved has the same name."""
    digest = hashlib.sha256(event.uid.encode()).hexdigest()[:ID_DIGITS]
    name = f"{prefix}{digest}{f' {event.recurrence}' if event.recurrence else ''}"
    summary = {"comment": printable(event.summary)} if event.summary else {}
    span = {"since": iso(event.start), "until": iso(event.end)}
    return checked(name, {"record": RuleRecord.KIND, "name": name, **head, **span, **texts, **summary})
