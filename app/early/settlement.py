"""What becomes of early alarms: confirmed by an incident, or withdrawn. Decided by the log alone, once for each alarm."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from models.core.parameters import DetectorParameters
from models.records.records import CONFIRMED, RAISED, WITHDRAWN, EarlyAlarm

SPARE_SECONDS = 180.0
CONFIRMING_WINDOWS = 2
MOST_INCIDENTS = 10_000  # closed ones are forgotten first


def patience_ms(detection: DetectorParameters, window_seconds: float) -> int:
    """How far the jobs must have judged beyond an alarm's window before it is withdrawn.

    An anomaly opens an episode within `detection.confirm_seconds` and two windows; `correlate` and what other series add have
    three minutes more: the incident of a deployment comes that late.
    """
    return int(1000 * (detection.confirm_seconds + CONFIRMING_WINDOWS * window_seconds + SPARE_SECONDS))


@dataclass(frozen=True)
class IncidentSeen:
    """What one record of `incidents` says that matters here; `appended` is its append time, epoch ms."""

    id: str
    status: str
    start: int
    end: int | None
    window_end: int
    series: frozenset[str]
    hosts: frozenset[str]
    appended: int


@dataclass
class KnownIncident:
    """What is known of an incident: all of its series and hosts so far. `first` is the append time of its first record, if that was read."""

    id: str
    first: int | None
    end: int | None
    window_end: int
    series: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)

    def reaches(self, window_end: int) -> bool:
        """Whether it was published of this window or a later one, and had not ended before."""
        return self.window_end >= window_end and (self.end is None or self.end >= window_end)


@dataclass(frozen=True)
class WaitingAlarm:
    """An alarm that is not settled, and when it was appended, epoch ms."""

    alarm: EarlyAlarm
    appended: int


class Settlement:
    """Takes in alarms, incidents and how far the jobs have judged; answers what becomes of the alarms."""

    def __init__(self, patience: int) -> None:
        """`patience`: as `patience_ms` has it."""
        self._patience = patience
        self.judged = 0
        self.waiting: dict[str, WaitingAlarm] = {}
        self._confirmed: dict[str, str] = {}  # series -> incident that is open
        self._incidents: dict[str, KnownIncident] = {}
        self._at: defaultdict[str, dict[str, KnownIncident]] = defaultdict(dict)  # by series or host, then id
        self._news = False

    def take_alarm(self, alarm: EarlyAlarm, appended: int) -> None:
        """Take in a record of `early`. One that is settled waits no more; what is repeated changes nothing."""
        self._news = True
        if alarm.status == RAISED:
            self.waiting.setdefault(alarm.id, WaitingAlarm(alarm, appended))
            return
        self.waiting.pop(alarm.id, None)
        if alarm.status == CONFIRMED:
            self._confirmed[alarm.series] = alarm.incident

    def take_incident(self, seen: IncidentSeen) -> None:
        """Take in a record of `incidents`."""
        found = self._incidents.get(seen.id)
        if found is None:
            first = seen.appended if seen.status == "open" else None
            found = self._incidents[seen.id] = KnownIncident(seen.id, first, seen.end, seen.window_end)
            self._forget()
        if seen.window_end >= found.window_end:  # an older record that is repeated says nothing new
            found.end, found.window_end = seen.end, seen.window_end
        found.series |= seen.series
        found.hosts |= seen.hosts
        for name in (*seen.series, *seen.hosts):
            self._at[name][found.id] = found
        self._news = True

    def _forget(self) -> None:
        if len(self._incidents) > MOST_INCIDENTS:
            closed = [known.id for known in self._incidents.values() if known.end is not None]
            for known in closed[: len(closed) // 2 + 1]:
                gone = self._incidents.pop(known)
                for name in (*gone.series, *gone.hosts):
                    self._at[name].pop(known, None)
                    if not self._at[name]:
                        del self._at[name]

    def take_judged(self, until: int) -> None:
        """The jobs have judged all shards up to a window, epoch ms."""
        self._news |= until > self.judged
        self.judged = max(self.judged, until)

    def decide(self) -> list[EarlyAlarm]:
        """The records of the alarms that are settled now, in the order in which they were raised."""
        settled: list[EarlyAlarm] = []
        if not self._news:
            return settled
        self._news = False
        for waiting in list(self.waiting.values()):
            alarm = self._settled(waiting)
            if alarm is not None:
                settled.append(alarm)
        for alarm in settled:
            self.take_alarm(alarm, 0)
        return settled

    def _settled(self, waiting: WaitingAlarm) -> EarlyAlarm | None:
        alarm = waiting.alarm
        about = {**self._at.get(alarm.host, {}), **self._at.get(alarm.series, {})}
        incident = confirming(alarm, about.values())
        if incident is not None:
            first = -math.inf if incident.first is None else incident.first
            won = (first - waiting.appended) / 1000
            won = won if won >= 0 else math.nan
            return replace(alarm, status=CONFIRMED, incident=incident.id, seconds_won=won, settled_at=self.judged)
        if self.judged >= alarm.window_end + self._patience:
            return replace(alarm, status=WITHDRAWN, settled_at=self.judged)
        return None

    @property
    def quiet(self) -> set[str]:
        """The series that raise nothing now: those with an alarm that waits, and those whose incident is open."""
        over = [
            series
            for series, incident in self._confirmed.items()
            if incident not in self._incidents or self._incidents[incident].end is not None
        ]
        for series in over:
            del self._confirmed[series]
        return {waiting.alarm.series for waiting in self.waiting.values()} | self._confirmed.keys()


def confirming(alarm: EarlyAlarm, incidents: Iterable[KnownIncident]) -> KnownIncident | None:
    """The incident that an alarm was about: one with its series, else one with its host, the first to be published of several."""
    reached = [one for one in incidents if one.reaches(alarm.window_end)]
    of_series = [one for one in reached if alarm.series in one.series]
    found = of_series or [one for one in reached if alarm.host in one.hosts]
    return min(found, key=lambda one: (one.first or 0, one.id), default=None)
