"""`kappa watch`: incidents as they open and close, and how the pipeline is, from the log alone.

The topics say enough: `incidents` what is open, `novelties` up to which window everything has been judged, and the
newest record of each topic which job has stopped writing. So it works on any machine that reaches Kafka, whatever runs
where; jobs of this machine are asked for their own health as well (`/healthz`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from app.cli.watch_log import LogReader, own_jobs
from app.core.settings import Settings
from app.versions import serving
from models.incidents.correlator import STATUS_ORDER

PULSE_SECONDS = 5.0
REMEMBERED = 10_000
Record = Mapping[str, Any]
What = Literal["open", "update", "close"]


@dataclass(frozen=True)
class Pulse:
    """How the pipeline is. `silent`: what has written nothing for `stale_seconds`, upstream first.

    `behind_seconds`: the clock minus the last window that every shard has judged; None where that is not known.
    `late`, `dead_letters`: records that were refused since the watch began. `jobs`: of this machine, as `/healthz` has it.
    """

    stale_seconds: float
    silent: tuple[str, ...] = ()
    behind_seconds: float | None = None
    late: int = 0
    dead_letters: int = 0
    jobs: Mapping[str, Record] = field(default_factory=dict)
    unreachable: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in words that stay the same while it is."""
        if self.unreachable:
            return (self.unreachable,)
        quiet = [f"{name} for {self.stale_seconds:g} s" for name in self.silent]
        return (
            *quiet,
            *(f"{name} is not healthy: {why(job)}" for name, job in self.jobs.items() if not job["healthy"]),
        )

    @property
    def healthy(self) -> bool:
        """Whether nothing is known to be wrong."""
        return not self.problems


def why(job: Record) -> str:
    """Why a job is not healthy."""
    return "the watermark dropped rows" if job["dropped_by_watermark"] else "it makes no progress"


class View(Protocol):
    """Where it is shown."""

    def began(self, version: str, book: Book) -> None:
        """A version is watched from now on, and this is what is open."""

    def said(self, what: What, incident: Record, book: Book) -> None:
        """Something was said of an incident."""

    def pulse(self, pulse: Pulse, book: Book) -> None:
        """How the pipeline is now; called every few seconds."""


class Book:
    """Incidents that are open, by their ids. Statements that come again, as after a crash, are no news."""

    def __init__(self) -> None:
        self.open: dict[str, Record] = {}
        self._heard: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def take(self, incident: Record) -> What | None:
        """Take in a statement; what it is news of, if it is news."""
        name, moment = incident["id"], (incident["window_end"], STATUS_ORDER[incident["status"]])
        if moment <= self._heard.get(name, (-1, -1)):
            return None
        self._heard[name] = moment
        self._heard.move_to_end(name)
        self._forget()
        known = name in self.open
        if incident["status"] == "close":
            self.open.pop(name, None)
            return "close"
        self.open[name] = incident
        return "update" if known else "open"

    def _forget(self) -> None:
        """Keep what is open, and as many of the others as could still be repeated."""
        while len(self._heard) > REMEMBERED + len(self.open):
            name, moment = self._heard.popitem(last=False)
            if name in self.open:
                self._heard[name] = moment  # it becomes the newest: it is still spoken of

    def strongest(self) -> list[Record]:
        """What is open, the highest score first."""
        return sorted(self.open.values(), key=lambda i: (-i["score"], i["start"], i["id"]))


def watch(settings: Settings, stopping: threading.Event, view: View, days: float, *, follow: bool) -> None:
    """Watch until told to stop: a version, or with `follow` the one that serves. `days`: how far back incidents may begin.

    Raises ServiceUnavailable if Kafka does not answer at the start, InputError for a version without topics.
    """
    serves = serving.Watch(settings.home)

    def leave(version: str) -> bool:
        return stopping.is_set() or (follow and serves.version() != version)

    while not stopping.is_set():
        own = serving.current(settings) if follow else settings
        with closing(LogReader(own, days)) as reader:
            watch_version(own, reader, lambda version=own.version: leave(version), view)  # type: ignore[misc]


def watch_version(settings: Settings, reader: LogReader, leave: Callable[[], bool], view: View) -> None:
    """Watch one version's topics until it is time to leave."""
    book = Book()
    for incident in reader.past(leave):
        book.take(incident)
    view.began(settings.version, book)
    due = time.monotonic()
    while not leave():
        for incident in reader.fresh():
            what = book.take(incident)
            if what is not None:
                view.said(what, incident, book)
        if time.monotonic() >= due:
            view.pulse(pulse_of(settings, reader), book)
            due = time.monotonic() + PULSE_SECONDS


def pulse_of(settings: Settings, reader: LogReader) -> Pulse:
    """Ask the log, and the jobs of this machine, how they are."""
    stale = settings.health.stale_seconds
    found = Pulse(stale, jobs=own_jobs(settings))
    seen = reader.look(stale)
    if seen is None:
        return replace(found, unreachable="Kafka does not answer")
    return replace(
        found,
        silent=seen.silent,
        behind_seconds=seen.behind_seconds,
        late=seen.refused["late"],
        dead_letters=seen.refused["dead-letters"],
    )
