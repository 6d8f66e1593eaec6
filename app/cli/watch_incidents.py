"""Incidents as they open and close, and the pipeline's health, from the log alone.

`incidents` has what is open, `novelties` the window up to which every shard has been scored, and the newest record of each
topic shows which job has stopped writing. So it works on any machine that reaches Kafka, wherever the jobs run; jobs of this
machine are asked for their own health as well (`/healthz`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from app.cli.watch_log import LogReader
from app.core.settings import Settings
from app.runtime.served_health import own_jobs, why_unhealthy
from app.versions import serving
from models.records.records import STATUS_ORDER, EarlyAlarm

HEALTH_SECONDS = 5.0
REMEMBERED = 10_000
Record = Mapping[str, Any]
Change = Literal["open", "update", "close"]


@dataclass(frozen=True)
class PipelineHealth:
    """The pipeline's health at one moment.

    `stalled` describes the jobs that have written nothing for `stale_seconds`, upstream first. `behind_seconds` is the clock
    minus the end of the last window that every shard has scored; None where that is not known. `late` and `dead_letters` count
    the records that were refused since the watch began. `jobs` are those of this machine, as `/healthz` has them.
    """

    stale_seconds: float
    stalled: tuple[str, ...] = ()
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
        stalled = [f"{name} for {self.stale_seconds:g} s" for name in self.stalled]
        unhealthy = [
            f"{name} is not healthy: {why_unhealthy(job)}" for name, job in self.jobs.items() if not job["healthy"]
        ]
        return (*stalled, *unhealthy)

    @property
    def healthy(self) -> bool:
        """Whether nothing is known to be wrong."""
        return not self.problems


class WatchView(Protocol):
    """Shows incidents and health."""

    def show_version(self, version: str, tracker: IncidentTracker) -> None:
        """A version is watched from now on; `tracker` has its open incidents."""

    def show_incident(self, change: Change, incident: Record, tracker: IncidentTracker) -> None:
        """An incident opened, was updated, or closed."""

    def show_early(self, alarm: EarlyAlarm, tracker: IncidentTracker) -> None:
        """An early alarm was raised, which is provisional, or settled."""

    def show_health(self, health: PipelineHealth, tracker: IncidentTracker) -> None:
        """The health now; called every few seconds."""


class IncidentTracker:
    """Open incidents by their ids, from the records of the topic. Repeated records, as after a crash, change nothing."""

    def __init__(self) -> None:
        self.open: dict[str, Record] = {}
        self._latest: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def update(self, incident: Record) -> Change | None:
        """Take in a record of the topic; what it changes, or None for a repeated one."""
        name, moment = incident["id"], (incident["window_end"], STATUS_ORDER[incident["status"]])
        if moment <= self._latest.get(name, (-1, -1)):
            return None
        self._latest[name] = moment
        self._latest.move_to_end(name)
        self._forget()
        known = name in self.open
        if incident["status"] == "close":
            self.open.pop(name, None)
            return "close"
        self.open[name] = incident
        return "update" if known else "open"

    def _forget(self) -> None:
        """Keep what is open, and the `REMEMBERED` newest of the others, which could be repeated."""
        while len(self._latest) > REMEMBERED + len(self.open):
            name, moment = self._latest.popitem(last=False)
            if name in self.open:
                self._latest[name] = moment  # still open: it moves to the newest end

    def strongest(self) -> list[Record]:
        """What is open, the worst first."""
        return sorted(
            self.open.values(), key=lambda i: (-i.get("severity_points", 0), -i["score"], i["start"], i["id"])
        )


def watch_until_stopped(
    settings: Settings, stopping: threading.Event, view: WatchView, days: float, *, follow: bool
) -> None:
    """Watch a version, or with `follow` the one that serves. `days`: how far back the topic of incidents is read.

    Raises ServiceUnavailable if Kafka does not answer at the start, InputError for a version without topics.
    """
    serves = serving.ServingVersionWatch(settings.home)

    def leave(version: str) -> bool:
        return stopping.is_set() or (follow and serves.version() != version)

    while not stopping.is_set():
        own = serving.current(settings) if follow else settings
        with closing(LogReader(own, days)) as reader:
            watch_version(own, reader, lambda version=own.version: leave(version), view)  # type: ignore[misc]


def watch_version(settings: Settings, reader: LogReader, leave: Callable[[], bool], view: WatchView) -> None:
    """Watch one version's topics until `leave` answers True."""
    tracker = IncidentTracker()
    for incident in reader.past(leave):
        tracker.update(incident)
    view.show_version(settings.version, tracker)
    due = time.monotonic()
    while not leave():
        for incident in reader.poll():
            change = tracker.update(incident)
            if change is not None:
                view.show_incident(change, incident, tracker)
        for alarm in reader.alarms():
            if alarm.version == settings.version:  # versions share the topic
                view.show_early(alarm, tracker)
        if time.monotonic() >= due:
            view.show_health(pipeline_health(settings, reader), tracker)
            due = time.monotonic() + HEALTH_SECONDS


def pipeline_health(settings: Settings, reader: LogReader) -> PipelineHealth:
    """The health as the log and the jobs of this machine show it."""
    stale = settings.health.stale_seconds + settings.windowing.window_seconds  # a window's messages come together
    health = PipelineHealth(stale, jobs=own_jobs(settings))
    activity = reader.activity(stale)
    if activity is None:
        return replace(health, unreachable="Kafka does not answer")
    return replace(
        health,
        stalled=activity.stalled,
        behind_seconds=activity.behind_seconds,
        late=activity.refused["late"],
        dead_letters=activity.refused["dead-letters"],
    )
