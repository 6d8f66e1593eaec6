"""A notification: what people read of an incident, as plain text that no channel takes for markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.notify.incident import ReadIncident
from app.notify.links import Links
from models.core.printable import printable
from models.core.series import parse
from models.records.records import INFO, RAISED, EarlyAlarm

LONGEST_TITLE, LONGEST_TEXT = 200, 3_000  # characters
MOST_NAMES = 8
MOST_IN_TITLE, LONGEST_IN_TITLE = 3, 40  # names, and characters of each: a title shows its reason as well
URGENT = ("KappaBehind", "KappaUnhealthy", "KappaViolation")
EARLY_ALERT = "KappaEarly"
BEGUN = {"open": "new", "update": "worse", "close": "over"}
# What chat and mail programs take for markup, mentions and links, beside characters that look alike and mean nothing to them.
INERT = str.maketrans({"@": "＠", "<": "‹", ">": "›", "`": "ʼ", "*": "∗", "~": "∼", "|": "¦", "#": "＃", "\\": "⧵"})
# What makes an address: `://`, `www.`, and schemes without slashes.
ADDRESS = re.compile(r":(?=//)|(?<=www)\.|(?<=\bmailto):|(?<=\btel):", re.IGNORECASE)


@dataclass(frozen=True)
class Notification:
    """What a channel sends. Times are epoch milliseconds.

    `key` is what the channel knows the thread by: the incident's id, or that of the early alarm that it confirmed, and then `incident` is its
    own. `text` has a line for each fact; the first says what the title says. `hosts` are the first `affected` ones.
    """

    key: str
    status: str
    severity: str
    kind: str
    version: str
    title: str
    text: str
    hosts: tuple[str, ...]
    services: tuple[str, ...]
    start: int
    end: int | None
    window_end: int
    reason: str
    link: str = ""
    runbook: str = ""
    alertname: str = "KappaIncident"
    incident: str = ""
    affected: int = 0

    @property
    def identity(self) -> str:
        """The same for a repeat of this notification, and for nothing else."""
        return "/".join(part for part in (self.key, self.incident, self.status, self.severity) if part)


def incident_notification(one: ReadIncident, status: str, key: str, links: Links, alarm: str = "") -> Notification:
    """The notification of an incident. `status`: open, update (it has become worse) or close; `alarm`: the early alarm under whose key it goes on."""
    lines = [one.reason, f"since {_clock(one.start)}" + (f", until {_clock(one.end)}" if one.end is not None else "")]
    lines += [f"incident {one.id} of version {one.version}"]
    lines += [f"hosts: {_some(one.hosts, one.affected)}"] if one.hosts else []
    lines += [f"services: {_some(one.services, len(one.services))}"] if one.services else []
    lines += [f"confirms early alarm {alarm}"] if alarm else []
    made = Notification(
        key=alarm or key,
        incident=key if alarm else "",
        status=status,
        severity=one.severity,
        kind=one.kind,
        version=one.version,
        title="",
        text="\n".join(lines)[:LONGEST_TEXT],
        hosts=one.hosts,
        services=one.services,
        start=one.start,
        end=one.end,
        window_end=one.window_end,
        reason=one.reason,
        link=links.page(one),
        runbook=links.runbook(one),
        affected=one.affected,
    )
    return set_status(made, status)


def set_status(note: Notification, status: str) -> Notification:
    """The notification of an incident with a status, which its title says."""
    shown = [truncate(one, LONGEST_IN_TITLE) for one in note.hosts[:MOST_IN_TITLE]]
    head = f"[{note.severity}] {BEGUN[status]}: {note.kind} on {_some(shown, note.affected) or 'the fleet'}"
    return replace(note, status=status, title=truncate(f"{head}: {note.reason}", LONGEST_TITLE))


def alarm_notification(alarm: EarlyAlarm, status: str, links: Links) -> Notification:
    """The notification of an early alarm. `status`: open, which is provisional, or close, however it ended."""
    found, reason = parse(alarm.series), printable(alarm.reason[:LONGEST_TEXT])
    lines = [reason, f"seen at {_clock(alarm.event_time)}", f"early alarm {alarm.id} of version {alarm.version}"]
    known = "provisional" if status == "open" else BEGUN[status]
    became = known if alarm.status == RAISED else alarm.status
    lines += ["the exact result of its window follows: confirmed or withdrawn"] if status == "open" else []
    return Notification(
        key=alarm.id,
        status=status,
        severity=INFO,
        kind=EarlyAlarm.KIND,
        version=alarm.version,
        title=truncate(f"[early] {became}: {printable(alarm.seen)}", LONGEST_TITLE),
        text="\n".join(lines)[:LONGEST_TEXT],
        hosts=(printable(found.host),),
        services=(printable(found.service),) if found.service else (),
        start=alarm.event_time,
        end=alarm.window_end if status == "close" else None,
        window_end=alarm.window_end,
        reason=reason,
        link=links.series(alarm),
        alertname=EARLY_ALERT,
        affected=1,
    )


def kappa_notification(key: str, status: str, alertname: str, text: str, start: int, now_ms: int) -> Notification:
    """What is sent of kappa itself, epoch milliseconds."""
    severity = "critical" if alertname in URGENT else "major" if alertname != "KappaAlive" else "info"
    over = status == "close"
    return Notification(
        key=key,
        status=status,
        severity=severity,
        kind="pipeline",
        version="",
        title=truncate(f"[{severity}] kappa, {BEGUN[status]}: {text}", LONGEST_TITLE),
        text=text,
        hosts=(),
        services=(),
        start=start,
        end=now_ms if over else None,
        window_end=now_ms,
        reason=text,
        alertname=alertname,
    )


def channel_test(now_ms: int, status: str = "close") -> Notification:
    """What a channel is tried with. `status`: close, so that it opens nothing that somebody would have to close; open where that ends by itself."""
    return Notification(
        key=f"test-{now_ms}",
        status=status,
        severity="info",
        kind="new",
        version="",
        title="kappa: a test of this channel",
        text="kappa can reach this channel. This is a test: nothing has happened.",
        hosts=(),
        services=(),
        start=now_ms,
        end=now_ms,
        window_end=now_ms,
        reason="a test of this channel",
        alertname="KappaTest",
    )


def neutralize(text: str) -> str:
    """The text without anything that a chat or mail program would obey: markup, mentions, links, invisible characters."""
    text = ADDRESS.sub(r"[\g<0>]", text).replace("](", "] (")
    return "\n".join(printable(line) for line in text.translate(INERT).split("\n"))


def truncate(text: str, most: int) -> str:
    """A text of at most `most` characters, which shows where something was left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _some(names: Sequence[str], count: int) -> str:
    """The first names, and how many more there are of `count` in all; empty without names."""
    shown = names[:MOST_NAMES]
    more = f" and {count - len(shown):,} more" if shown and count > len(shown) else ""
    return ", ".join(shown) + more


def _clock(at_ms: int) -> str:
    """A time as people where this process runs write it (`TZ`, or that of the machine), with the zone's name."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
