"""How `kappa watch` shows what it sees: a line for each event, an object for each event, or a page that stays.

Sentences hold words of log lines, which anybody may have written: control characters are shown as `?`, so that a line of
a log cannot move the cursor of who is on call.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.watch import Book, Pulse, Record, What

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SHOWN_HOSTS = 3
SHOWN_CLOSED = 8
# Two lines of the terminal are the health, four the headings.
OTHER_LINES = SHOWN_CLOSED + 8
STYLES = {"anomaly": "yellow", "silence": "magenta", "change": "cyan", "new": "blue"}
Write = Callable[[str], None]


def printable(text: str) -> str:
    """The text on one line, without what a terminal would obey."""
    return CONTROL.sub("?", text)


def moment(millis: int) -> str:
    """A time of the log."""
    return f"{datetime.fromtimestamp(millis / 1000, tz=UTC):%m-%d %H:%M:%SZ}"


def where(incident: Record) -> str:
    """Its hosts, as many as fit."""
    hosts = incident["hosts"]
    more = f" and {len(hosts) - SHOWN_HOSTS} more" if len(hosts) > SHOWN_HOSTS else ""
    return printable(", ".join(hosts[:SHOWN_HOSTS]) + more) or "-"


def health_line(pulse: Pulse) -> str:
    """How the pipeline is, in a line."""
    if not pulse.healthy:
        return "; ".join(pulse.problems)
    behind = "" if pulse.behind_seconds is None else f"; windows are judged {pulse.behind_seconds:.0f} s after they end"
    return f"healthy{behind}"


class Lines:
    """A line for each event: for a pipe, a log, or who prefers it."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._last: tuple[str, ...] | None = None

    def began(self, version: str, book: Book) -> None:
        """What is open, the highest score first."""
        self._last = None
        self._write(f"watching version {version}: {len(book.open)} incidents are open")
        for incident in book.strongest():
            self._write(self._line("open", incident))

    def said(self, what: What, incident: Record, book: Book) -> None:
        """An incident that opened, changed or closed."""
        self._write(self._line(what, incident))

    def pulse(self, pulse: Pulse, book: Book) -> None:
        """The health, when it has changed."""
        if pulse.problems != self._last:
            self._last = pulse.problems
            self._write(
                f"{datetime.now(tz=UTC):%m-%d %H:%M:%SZ} {'health' if pulse.healthy else 'HEALTH':6} {health_line(pulse)}"
            )

    @staticmethod
    def _line(what: What, incident: Record) -> str:
        about = (
            f"{incident['kind']:8} {incident['score']:7.1f} nats  {where(incident)}: {printable(incident['reason'])}"
        )
        return f"{moment(incident['window_end'])} {'OPEN' if what == 'open' else what:6} {about}"


class JsonLines:
    """An object for each event, on a line of its own."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._last: tuple[str, ...] | None = None

    def began(self, version: str, book: Book) -> None:
        """What is open, the highest score first."""
        self._last = None
        self._put("watching", version=version, open=len(book.open))
        for incident in book.strongest():
            self._put("open", incident=incident)

    def said(self, what: What, incident: Record, book: Book) -> None:
        """An incident that opened, changed or closed, as its topic has it."""
        self._put(what, incident=incident)

    def pulse(self, pulse: Pulse, book: Book) -> None:
        """The health, when it has changed."""
        if pulse.problems != self._last:
            self._last = pulse.problems
            self._put("health", healthy=pulse.healthy, problems=pulse.problems, **measured(pulse))

    def _put(self, event: str, **own: Any) -> None:
        self._write(json.dumps({"event": event, "at": datetime.now(tz=UTC).isoformat(timespec="seconds"), **own}))


def measured(pulse: Pulse) -> dict[str, Any]:
    """The numbers of a pulse."""
    names = ("behind_seconds", "late", "dead_letters", "jobs")
    return {name: value for name, value in asdict(pulse).items() if name in names}


class Page:
    """The whole terminal: health above, what is open, what closed lately."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console
        self._closed: deque[Record] = deque(maxlen=SHOWN_CLOSED)
        self._pulse: Pulse | None = None
        self._version = ""

    def began(self, version: str, book: Book) -> None:
        """A version's page begins empty."""
        self._version, self._pulse = version, None
        self._closed.clear()
        self._draw(book)

    def said(self, what: What, incident: Record, book: Book) -> None:
        """What has closed moves below."""
        if what == "close":
            self._closed.appendleft(incident)
        self._draw(book)

    def pulse(self, pulse: Pulse, book: Book) -> None:
        """The health is shown anew."""
        self._pulse = pulse
        self._draw(book)

    def _draw(self, book: Book) -> None:
        room = max(3, self._console.height - OTHER_LINES)
        found = book.strongest()
        more = f", {len(found) - room} more below" if len(found) > room else ""
        parts: list[Any] = [self._health(), incidents(f"open: {len(found)}{more}", found[:room])]
        if self._closed:
            parts.append(incidents("closed lately", list(self._closed)))
        self._live.update(Group(*parts), refresh=True)

    def _health(self) -> Text:
        clock = f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M:%SZ}  version {self._version}  "
        pulse = self._pulse
        if pulse is None:
            return Text(f"{clock}looking")
        refused = f"; refused since the start: {pulse.late} late, {pulse.dead_letters} dead letters"
        jobs = "".join(f"\n  {name}: {facts(job)}" for name, job in sorted(pulse.jobs.items()))
        return Text(f"{clock}{health_line(pulse)}{refused}{jobs}", style="" if pulse.healthy else "bold red")


def facts(job: Record) -> str:
    """A job of this machine."""
    word = "healthy" if job["healthy"] else "NOT HEALTHY"
    return f"{word}, {job['lag']:,} records behind, last batch {job['batch_seconds']:.1f} s"


def incidents(title: str, found: list[Record]) -> Table:
    """A table of incidents, one line each."""
    table = Table(title=title, title_justify="left", expand=True, show_lines=False, box=None)
    for column, style in (("since", ""), ("last word", ""), ("kind", ""), ("nats", "bold"), ("hosts", "")):
        table.add_column(column, style=style, no_wrap=True)
    table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis")
    for incident in found:
        kind = Text(incident["kind"], style=STYLES.get(incident["kind"], ""))
        times = moment(incident["start"]), moment(incident["window_end"])
        numbers = f"{incident['score']:.1f}"
        table.add_row(*times, kind, numbers, Text(where(incident)), Text(printable(incident["reason"])))
    return table
