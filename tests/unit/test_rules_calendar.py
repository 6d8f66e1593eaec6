"""`kappa rules calendar`: which events a calendar has in a time, which rules they become, and which calendars are refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.rule_stories import keyed
from typer.testing import CliRunner

from app.cli import calendar_events, calendar_files, main
from app.cli.calendar_events import CalendarEvent, events_in
from app.cli.calendar_files import events_of_country, events_of_file
from app.cli.rules_calendar import changes_by, prefix_of, rule_of_event
from app.core.timestamps import iso
from app.kafka.rule_topic import RulesNow
from models.rules.rule_log import MOST_RULES, RuleLog
from pipelines.errors import InputError

WEEKLY = """UID:backup@example.net
SUMMARY:Backup
DTSTART;TZID=Europe/Berlin:20260316T220000
DTEND;TZID=Europe/Berlin:20260317T010000
RRULE:FREQ=WEEKLY;BYDAY=MO"""


def ms(text: str) -> int:
    return round(1000 * datetime.fromisoformat(text).timestamp())


MARCH, MAY = ms("2026-03-10T00:00:00Z"), ms("2026-05-01T00:00:00Z")


def ics(*events: str, head: str = "") -> bytes:
    lines = [head, *(f"BEGIN:VEVENT\n{one}\nEND:VEVENT" for one in events)]
    text = "\n".join(line for line in ("BEGIN:VCALENDAR", *lines, "END:VCALENDAR", "") if line or line == "")
    return text.replace("\n\n", "\n").replace("\n", "\r\n").encode()


def spans(data: bytes, zone: str | None = None) -> list[tuple[str, str]]:
    return [(iso(one.start), iso(one.end)) for one in events_in(data, MARCH, MAY, zone)]


def test_a_recurring_event_keeps_the_clock_of_its_zone_when_clocks_change_and_ends_with_the_span() -> None:
    found = events_in(ics(WEEKLY), MARCH, MAY)
    assert [(iso(one.start), iso(one.end)) for one in found[1:3]] == [
        ("2026-03-23T21:00:00Z", "2026-03-24T00:00:00Z"),
        ("2026-03-30T20:00:00Z", "2026-03-30T23:00:00Z"),
    ]
    assert (len(found), found[0].recurrence, found[0].summary) == (7, "20260316T210000Z", "Backup")


def test_exceptions_moves_cancellations_and_ends_of_a_recurrence_count() -> None:
    rule = WEEKLY.replace("BYDAY=MO", "BYDAY=MO;UNTIL=20260413T200000Z")
    without = f"{rule}\nEXDATE;TZID=Europe/Berlin:20260323T220000\nRDATE;TZID=Europe/Berlin:20260318T120000"
    moved = """UID:backup@example.net
SEQUENCE:1
RECURRENCE-ID;TZID=Europe/Berlin:20260330T220000
DTSTART;TZID=Europe/Berlin:20260401T220000
DTEND;TZID=Europe/Berlin:20260401T230000"""
    cancelled = moved.replace("20260330T220000", "20260406T220000") + "\nSTATUS:CANCELLED"
    older = moved.replace("SEQUENCE:1", "SEQUENCE:0").replace("20260401", "20260402")
    assert spans(ics(without, moved, cancelled, older)) == [
        ("2026-03-16T21:00:00Z", "2026-03-17T00:00:00Z"),
        ("2026-03-18T11:00:00Z", "2026-03-18T14:00:00Z"),
        ("2026-04-01T20:00:00Z", "2026-04-01T21:00:00Z"),
        ("2026-04-13T20:00:00Z", "2026-04-13T23:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("lasts", "end"),
    [
        ("P1D", "2026-03-29T10:00:00Z"),
        ("+P1W", "2026-04-04T10:00:00Z"),
        ("P1DT2H", "2026-03-29T12:00:00Z"),
        ("P0DT24H", "2026-03-29T11:00:00Z"),
        ("PT24H", "2026-03-29T11:00:00Z"),
        ("PT1440M", "2026-03-29T11:00:00Z"),
        ("PT86400S", "2026-03-29T11:00:00Z"),
        ("P1DT24H", "2026-03-30T10:00:00Z"),
    ],
)
def test_days_and_weeks_are_those_of_the_calendar_and_hours_those_that_pass_when_clocks_change(
    lasts: str, end: str
) -> None:
    """RFC 5545, 3.3.6: the 29th of March has 23 hours in Berlin."""
    begin = "DTSTART;TZID=Europe/Berlin:20260328T120000"
    assert spans(ics(f"UID:1\n{begin}\nDURATION:{lasts}")) == [("2026-03-28T11:00:00Z", end)]
    dates = f"RDATE;VALUE=PERIOD;TZID=Europe/Berlin:20260328T120000/{lasts}"
    first = "UID:1\nDTSTART;TZID=Europe/Berlin:20260320T120000\nDURATION:PT1H"
    assert spans(ics(f"{first}\n{dates}"))[1] == ("2026-03-28T11:00:00Z", end)


def test_an_end_in_the_hour_that_comes_twice_is_in_the_second_one_where_so_much_has_passed() -> None:
    event = ics("UID:1\nDTSTART;TZID=Europe/Berlin:20261025T010000\nDURATION:PT2H30M")
    (found,) = events_in(event, ms("2026-10-20T00:00:00Z"), ms("2026-10-30T00:00:00Z"))
    assert (iso(found.start), iso(found.end)) == ("2026-10-24T23:00:00Z", "2026-10-25T01:30:00Z")


def test_the_end_of_an_event_is_when_it_says_and_recurrences_last_as_long() -> None:
    begin = (
        "DTSTART;TZID=Europe/Berlin:20260327T220000\nDTEND;TZID=Europe/Berlin:20260328T060000\nRRULE:FREQ=DAILY;COUNT=2"
    )
    assert [end for _, end in spans(ics(f"UID:1\n{begin}"))] == ["2026-03-28T05:00:00Z", "2026-03-29T05:00:00Z"]


def test_whole_days_and_times_without_a_zone_are_of_the_zone_that_is_named() -> None:
    day = "UID:1\nDTSTART;VALUE=DATE:20260328\nDTEND;VALUE=DATE:20260330"
    at = "UID:2\nDTSTART:20260401T100000\nDURATION:PT30M"
    berlin = [("2026-03-27T23:00:00Z", "2026-03-29T22:00:00Z"), ("2026-04-01T08:00:00Z", "2026-04-01T08:30:00Z")]
    assert spans(ics(day, at), "Europe/Berlin") == berlin
    assert spans(ics(day, at, head="X-WR-TIMEZONE:Europe/Berlin")) == berlin
    assert spans(ics(day, at))[0] == ("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z")


def test_a_zone_that_the_file_defines_and_a_period_with_its_own_length_are_read() -> None:
    zone = """BEGIN:VTIMEZONE
TZID:Ours
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0300
TZOFFSETTO:+0300
END:STANDARD
END:VTIMEZONE"""
    event = "UID:1\nDTSTART;TZID=Ours:20260401T100000\nDURATION:PT1H\nRDATE;VALUE=PERIOD:20260402T100000Z/PT2H"
    assert spans(ics(event, head=zone)) == [
        ("2026-04-01T07:00:00Z", "2026-04-01T08:00:00Z"),
        ("2026-04-02T10:00:00Z", "2026-04-02T12:00:00Z"),
    ]


def test_what_is_over_comes_later_or_lasts_no_time_is_left_out_and_what_goes_on_is_not() -> None:
    events = [
        f"UID:{i}\nDTSTART:{start}\nDTEND:{end}"
        for i, (start, end) in enumerate(
            [
                ("20260301T000000Z", "20260310T000000Z"),
                ("20260301T000000Z", "20260310T000001Z"),
                ("20260501T000000Z", "20260502T000000Z"),
                ("20260401T000000Z", "20260401T000000Z"),
            ]
        )
    ]
    assert spans(ics(*events)) == [("2026-03-01T00:00:00Z", "2026-03-10T00:00:01Z")]


BEGIN = "UID:1\nDTEND:20260401T110000Z\nDTSTART"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 calendars begin"),
        (ics(WEEKLY).replace(b"END:VCALENDAR", b""), "1 calendars begin, 0 are whole"),
        (b"junk", "Invalid content line"),
        (b"\xff\xfe", "codec can't decode"),
        (ics(f"{BEGIN};TZID=Nowhere/Bad:20260401T100000"), "there is no time zone 'Nowhere/Bad'"),
        (ics(f"{BEGIN}:20260401T100000Z", head="X-WR-TIMEZONE:../../etc/passwd"), "there is no time zone"),
        (ics(f"{BEGIN}:junk"), "event '1' has a DTSTART that cannot be read"),
        (ics(f"{BEGIN}:20260401T100000Z\nRRULE:FREQ=NEVER"), "a RRULE that cannot be read"),
        (ics(f"{BEGIN}:20260401T100000Z\nRRULE:FREQ=SECONDLY"), "more than 1000 events|more than 100000 recurrences"),
        (ics("UID:1\nDTSTART:20150401T100000Z\nDURATION:PT1M\nRRULE:FREQ=MINUTELY"), "more than 100000 recurrences"),
        (ics(f"{BEGIN}:20260401T100000Z\nRRULE:FREQ=DAILY;COUNT=3;UNTIL=20260501T000000Z"), "both COUNT and UNTIL"),
        (ics(f"{BEGIN}:20260401T100000Z\nEXRULE:FREQ=DAILY"), "a EXRULE that cannot be read"),
        (ics(f"{BEGIN}:20260401T100000Z\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260401T090000Z"), "all later recurrences"),
        (ics("UID:1\nDTSTART:20260401T100000Z\nDURATION:1 day"), "a DURATION that cannot be read"),
        (ics("UID:1\nDTSTART:20260401T100000Z\nDURATION:P99999999W"), "event '1' cannot be read"),
        (ics(f"UID:1\nDTSTART:20260401T100000Z\nDURATION:PT{'9' * 30}H"), "a DURATION that cannot be read"),
        (ics(f"{BEGIN}:20260401T100000Z\nRDATE;VALUE=PERIOD:20260402T100000Z/PX"), "a RDATE that cannot be read"),
        (ics("DTSTART:20260401T100000Z"), "has no UID"),
        (ics("UID:1\nSUMMARY:x"), "cannot be read: 'DTSTART'"),
        (ics(*(f"UID:{i}\nDTSTART;VALUE=DATE:20260401" for i in range(1_001))), "more than 1000 events"),
    ],
)
def test_what_cannot_be_meant_and_what_is_too_much_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        events_in(data, MARCH, MAY)


def test_a_file_is_read_by_a_process_of_its_own_and_what_costs_too_much_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ours.ics"
    file.write_bytes(ics(WEEKLY))
    assert events_of_file(file, MARCH, MAY, None) == events_in(ics(WEEKLY), MARCH, MAY)
    file.write_bytes(ics(f"{BEGIN}:20260401T100000\x1b[31m"))
    with pytest.raises(InputError, match=r"ours.ics, until 2026-05-01T00:00:00Z: event '1'"):
        events_of_file(file, MARCH, MAY, None)
    never = "UID:1\nDTSTART:20260401T100000Z\nDURATION:PT1H\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"
    file.write_bytes(ics(never))
    monkeypatch.setattr(calendar_files, "SECONDS", 3)
    with pytest.raises(InputError, match=r"could not be read in 20 s of a core and 1024 MiB.*whose recurrences come"):
        events_of_file(file, MARCH, MAY, None)
    file.write_bytes(b" " * (calendar_files.MOST_FILE + 1))
    with pytest.raises(InputError, match="wanted at most 4194304 bytes"):
        events_of_file(file, MARCH, MAY, None)
    with pytest.raises(InputError, match="cannot be read"):
        events_of_file(tmp_path / "none.ics", MARCH, MAY, None)


def test_public_holidays_are_whole_days_of_the_zone() -> None:
    begin, until = ms("2026-12-20T00:00:00Z"), ms("2027-01-10T00:00:00Z")
    bavaria, germany = (events_of_country(one, begin, until, "Europe/Berlin") for one in ("DE/BY", "DE"))
    assert [(one.uid, iso(one.start), iso(one.end)) for one in bavaria][:2] == [
        ("2026-12-25", "2026-12-24T23:00:00Z", "2026-12-25T23:00:00Z"),
        ("2026-12-26", "2026-12-25T23:00:00Z", "2026-12-26T23:00:00Z"),
    ]
    assert {one.uid for one in bavaria} - {one.uid for one in germany} == {"2027-01-06"}


@pytest.mark.parametrize(("where", "zone"), [("Nowhere", None), ("DE/Nowhere", None), ("DE", "Nowhere/Bad")])
def test_a_country_part_or_zone_that_is_not_known_is_refused(where: str, zone: str | None) -> None:
    with pytest.raises(InputError, match="wanted a country such as DE"):
        events_of_country(where, MARCH, MAY, zone)


def records(*events: CalendarEvent) -> list[dict[str, Any]]:
    return [rule_of_event("calendar ours/", one, {"host": "db-*", "planned": True}, author="me") for one in events]


def test_the_same_calendar_changes_nothing_a_moved_event_replaces_and_a_deleted_one_is_removed() -> None:
    log = RuleLog()

    def applied(*events: CalendarEvent) -> list[str]:
        rules = RulesNow(MARCH, log.known, MOST_RULES - len(log.known), {})
        found = changes_by("calendar ours/", rules, records(*events), MARCH, MAY)
        for offset, one in enumerate(found, len(log.known)):
            log.take(*keyed(one.record), offset, MARCH)
        return [one.word for one in found]

    other = {"record": "rule", "name": "calendar other/1", "host": "x", "mute": True}
    log.take(*keyed(other), 0, MARCH)
    first, second = (CalendarEvent(uid, "", MARCH + 1_000, MAY - 1_000, "Rack") for uid in ("a", "b"))
    later = CalendarEvent("c", "20260601T000000Z", MAY + 1_000, MAY + 9_000, "")
    assert applied(first, second, later) == ["new", "new", "new"]
    assert applied(second, first) == ["unchanged", "unchanged"]
    assert applied(CalendarEvent("a", "", MARCH + 2_000, MAY, "Rack"), second) == ["changed", "unchanged"]
    assert applied(second) == ["removed", "unchanged"]
    assert [name.partition("/")[0] for name in log.known] == ["calendar other", "calendar ours", "calendar ours"]


def test_an_event_becomes_a_planned_rule_with_its_summary_as_the_comment() -> None:
    (found,) = records(CalendarEvent("u" * 10_000, "20260401T000000Z", MARCH, MAY, "Rack\x1b[31m\nnew"))
    assert found == {
        "record": "rule",
        "name": f"calendar ours/{found['name'][14:26]} 20260401T000000Z",
        "host": "db-*",
        "planned": True,
        "since": "2026-03-10T00:00:00Z",
        "until": "2026-05-01T00:00:00Z",
        "author": "me",
        "comment": "Rack?[31m?new",
    }


@pytest.mark.parametrize("name", ["", "a/b", "x" * 41, " a", "a\n"])
def test_a_name_that_a_calendar_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="give --name"):
        prefix_of(name)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--host", "x"], "wanted one calendar, FILE or --holidays"),
        (["a.ics", "--holidays", "DE", "--host", "x"], "wanted one calendar, FILE or --holidays"),
        (["a.ics"], "one or more of --host"),
        (["a.ics", "--host", "x", "--effect", "reset"], "--effect is 'reset'; wanted one of mute, planned, dont_learn"),
        (["a.ics", "--host", "x", "--until", "2020-01-01T00:00:00Z"], "wanted a time from now to"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: list[str], why: str) -> None:
    answer = CliRunner().invoke(main.app, ["rules", "calendar", *given])
    assert isinstance(answer.exception, InputError), answer.output
    with pytest.raises(InputError, match=why):
        raise answer.exception


def test_limits_are_those_of_the_documentation() -> None:
    page = (Path(main.__file__).parents[2] / "docs" / "control.md").read_text()
    limits = (calendar_events.MOST_STEPS, calendar_events.MOST_EVENTS)
    assert [one for one in limits if f"{one:,}" not in page] == []
