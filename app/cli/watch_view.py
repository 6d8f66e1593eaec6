"""The views of `kappa watch`: a line for each event, an object for each event, or a page that is redrawn.

Reasons hold words of log lines, which anybody may have written: they are made printable, so that a log line cannot control the
reader's terminal.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, tzinfo
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.local_time import clock, moment
from app.cli.watch_incidents import Change, IncidentTracker, PipelineHealth, Record
from app.kafka.incident_records import affected_hosts
from models.core.printable import printable
from models.core.wording import counted
from models.records.records import RAISED, EarlyAlarm
from models.records.schema import plain

SHOWN_HOSTS = 3
SHOWN_CLOSED = 8
SHOWN_EARLY = 5
# Two lines of the terminal are the health, four the headings.
OTHER_LINES = SHOWN_CLOSED + SHOWN_EARLY + 9
STYLES = {"anomaly": "yellow", "silence": "magenta", "change": "cyan", "new": "blue"}
Write = Callable[[str], None]


def where(incident: Record) -> str:
    """Its hosts, as many as fit, and how many more there are."""
    first, known = incident["hosts"][:SHOWN_HOSTS], affected_hosts(incident)
    more = f" and {known - len(first):,} more" if 0 < len(first) < known else ""
    return printable(", ".join(first) + more) or "-"


def why(incident: Record) -> str:
    """Its reason, and the likeliest cause where that is a choice of several or a change that was announced."""
    causes = incident.get("causes") or []
    is_news = len(causes) > 1 or any(cause["kind"] == "change" for cause in causes[:1])
    return printable(incident["reason"] + (f"; probably: {causes[0]['why']}" if is_news else ""))


def health_line(health: PipelineHealth) -> str:
    """The pipeline's health, in a line."""
    if not health.healthy:
        return printable("; ".join(health.problems))
    behind = (
        "" if health.behind_seconds is None else f"; windows are judged {health.behind_seconds:.0f} s after they end"
    )
    return f"healthy{behind}"


class LineView:
    """A line for each event: for a pipe, a log, or who prefers it. `zone`: of its times; None is that of the terminal."""

    def __init__(self, write: Write, zone: tzinfo | None = None) -> None:
        self._write, self._zone = write, zone
        self._last: tuple[str, ...] | None = None

    def show_version(self, version: str, tracker: IncidentTracker) -> None:
        """What is open, the worst first."""
        self._last = None
        self._write(f"watching version {version}: open incidents: {len(tracker.open)}")
        for incident in tracker.strongest():
            self._write(self._line("open", incident))

    def show_incident(self, change: Change, incident: Record, tracker: IncidentTracker) -> None:
        """An incident that opened, changed or closed."""
        self._write(self._line(change, incident))

    def show_early(self, alarm: EarlyAlarm, tracker: IncidentTracker) -> None:
        """An early alarm that was raised, confirmed or withdrawn."""
        self._write(printable(f"{moment(alarm.event_time, self._zone)} early  {alarm.reason}"))

    def show_health(self, health: PipelineHealth, tracker: IncidentTracker) -> None:
        """The health, when its problems have changed."""
        if health.problems != self._last:
            self._last = health.problems
            word = "health" if health.healthy else "HEALTH"
            self._write(f"{moment(1000 * time.time(), self._zone)} {word:6} {health_line(health)}")

    def _line(self, change: Change, incident: Record) -> str:
        hosts, reason, end = where(incident), why(incident), incident["window_end"]
        text = reason if reason.startswith(f"{hosts}: ") else f"{hosts}: {reason}"
        text += f"; since {clock(incident['start'], end, self._zone)}; incident {incident['id']}"
        about = f"{incident.get('severity', ''):8} {incident['kind']:8}  {text}"
        return printable(f"{moment(end, self._zone)} {'OPEN' if change == 'open' else change:6} {about}")


class JsonView:
    """An object for each event, on a line of its own."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._last: tuple[str, ...] | None = None

    def show_version(self, version: str, tracker: IncidentTracker) -> None:
        """What is open, the worst first."""
        self._last = None
        self._put("watching", version=version, open=len(tracker.open))
        for incident in tracker.strongest():
            self._put("open", incident=incident)

    def show_incident(self, change: Change, incident: Record, tracker: IncidentTracker) -> None:
        """An incident that opened, changed or closed, as its topic has it."""
        self._put(change, incident=incident)

    def show_early(self, alarm: EarlyAlarm, tracker: IncidentTracker) -> None:
        """An early alarm, as its topic has it."""
        self._put("early", alarm=plain(alarm))

    def show_health(self, health: PipelineHealth, tracker: IncidentTracker) -> None:
        """The health, when its problems have changed."""
        if health.problems != self._last:
            self._last = health.problems
            self._put("health", healthy=health.healthy, problems=health.problems, **numbers_of(health))

    def _put(self, event: str, **own: Any) -> None:
        self._write(json.dumps({"event": event, "at": datetime.now(tz=UTC).isoformat(timespec="seconds"), **own}))


def numbers_of(health: PipelineHealth) -> dict[str, Any]:
    """The numbers of the health, by their names in JSON."""
    names = ("behind_seconds", "late", "dead_letters", "jobs")
    return {name: value for name, value in asdict(health).items() if name in names}


class TerminalView:
    """The whole terminal: health above, what is open, what closed lately."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console
        self._closed: deque[Record] = deque(maxlen=SHOWN_CLOSED)
        self._early: dict[str, EarlyAlarm] = {}
        self._latest: PipelineHealth | None = None
        self._version = ""

    def show_version(self, version: str, tracker: IncidentTracker) -> None:
        """A version's page begins empty."""
        self._version, self._latest = version, None
        self._closed.clear()
        self._early.clear()
        self._draw(tracker)

    def show_incident(self, change: Change, incident: Record, tracker: IncidentTracker) -> None:
        """A closed incident moves to the list below."""
        if change == "close":
            self._closed.appendleft(incident)
        self._draw(tracker)

    def show_early(self, alarm: EarlyAlarm, tracker: IncidentTracker) -> None:
        """An early alarm is shown until it is settled."""
        if alarm.status == RAISED:
            self._early[alarm.id] = alarm
        else:
            self._early.pop(alarm.id, None)
        self._draw(tracker)

    def show_health(self, health: PipelineHealth, tracker: IncidentTracker) -> None:
        """The health is shown again."""
        self._latest = health
        self._draw(tracker)

    def _draw(self, tracker: IncidentTracker) -> None:
        room = max(3, self._console.height - OTHER_LINES)
        found = tracker.strongest()
        more = f", {len(found) - room} more below" if len(found) > room else ""
        parts: list[Any] = [self._health(), *self._early_lines(), incidents(f"open: {len(found)}{more}", found[:room])]
        if self._closed:
            parts.append(incidents("closed lately", list(self._closed)))
        self._live.update(Group(*parts), refresh=True)

    def _early_lines(self) -> list[Text]:
        """The latest early alarms that wait, which are provisional."""
        shown = list(self._early.values())[-SHOWN_EARLY:]
        left = len(self._early) - len(shown)
        more = [f"and {counted(left, 'more early alarm')}"] if left else []
        lines = [*(f"{moment(alarm.event_time)} early: {alarm.reason}" for alarm in shown), *more]
        return [Text(printable(line), style="italic", no_wrap=True, overflow="ellipsis") for line in lines]

    def _health(self) -> Text:
        head = f"{moment(1000 * time.time())}  version {self._version}  "
        health = self._latest
        if health is None:
            return Text(f"{head}reading")
        refused = f"; refused since the start: {health.late} late, {health.dead_letters} dead letters"
        jobs = "".join(f"\n  {printable(name)}: {facts(job)}" for name, job in sorted(health.jobs.items()))
        return Text(f"{head}{health_line(health)}{refused}{jobs}", style="" if health.healthy else "bold red")


def facts(job: Record) -> str:
    """A job of this machine."""
    word = "healthy" if job["healthy"] else "NOT HEALTHY"
    return f"{word}, {job['lag']:,} records behind, last batch {job['batch_seconds']:.1f} s"


def incidents(title: str, found: list[Record]) -> Table:
    """A table of incidents, one line each."""
    table = Table(title=title, title_justify="left", expand=True, show_lines=False, box=None)
    for column, style in (("since", ""), ("updated", ""), ("severity", "bold"), ("kind", ""), ("hosts", "")):
        table.add_column(column, style=style, no_wrap=True)
    table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis")
    for incident in found:
        kind = Text(printable(incident["kind"]), style=STYLES.get(incident["kind"], ""))
        times = moment(incident["start"]), moment(incident["window_end"])
        how_bad = printable(str(incident.get("severity", "")))
        table.add_row(*times, how_bad, kind, Text(where(incident)), Text(why(incident)))
    return table
