"""Limits of what a host and the fleet may cost: new series beyond them are left out, counted, and reported.

What is known is kept. New hosts, services and series are admitted in the order of a hash of their names, which no sender's order of
sending changes, up to the limit; so an answer depends on the rows of the windows alone. `extract` has left out rows before, of
hosts that send far more than may be known, and says so in rows of series `overflow/HOST/LIMIT`: of such a host it is not known
which series were absent. What people and tools write has bounds of its own, with whoever reads it; what is over them is reported here.

Rows `overflow/HOST/late` and `overflow/HOST/ahead` are of records that `extract` has refused for their time. They are no limit: they are remembered
for the host, so that its silence can be explained (`models.detection.silence`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.core.arrays import Ints, Texts
from models.core.limits import LimitParameters
from models.core.parameters import DetectorParameters
from models.core.series import FLEET, Series, build, unquote
from models.core.windows import Windows
from models.detection import reasons
from models.detection.episodes import GROWTH, LIMITED, MOST_UPDATES, Episode
from models.detection.shard_state import ALL_SERIES, ShardState, context_of, host_of
from models.records.records import LIMIT, EpisodeEvent, Overflow
from models.rules.rule_log import MOST_A_WINDOW

METRICS, TEMPLATES, SERVICES, NEW, HOSTS = "metrics", "templates", "services", "new", "hosts"
CHANGES, LABELS, RULES = "changes", "labels", "rules"  # of what people and tools write: of no host
LATE, AHEAD = "late", "ahead"  # records of a host that were refused for their time
KINDS = (METRICS, TEMPLATES, SERVICES, NEW, HOSTS, ALL_SERIES, CHANGES, LABELS, RULES)
FIRST = "overflow/"  # names of overflow begin so
MOST_READ = {
    CHANGES: 3_000,
    LABELS: 3_000,
    RULES: MOST_A_WINDOW,
}  # of a shard in a window, the first that were appended
NAME_BYTES = 256  # of a name `extract` counts as one series: a longer one counts several times
SHOWN_NAMES, SHOWN_CHARACTERS = 10, 200
NATS = 30.0  # score of what is no matter of chance
QUIET_MS = 600_000  # an episode closes so long after the last series that was left out
PRESSED_MS = 3_600_000  # and so long a host counts as full: its series are forgotten sooner
WORDS = {
    METRICS: "metric series",
    TEMPLATES: "log templates",
    SERVICES: "services",
    NEW: "new series in a window",
    HOSTS: "hosts",
    ALL_SERIES: "series of all hosts",
    CHANGES: "announced changes or calls in a window",
    LABELS: "series with labels",
    RULES: "records about rules",
}


@dataclass
class LeftOut:
    """What is over one limit of one host in one window.

    `wanted` is how many there would be of what is limited without it, `count` how many were left out, `names` the first of these.
    """

    wanted: int = 0
    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, wanted: int, count: int, names: Iterable[str]) -> None:
        """Add what was left out elsewhere in the same window."""
        self.wanted, self.count = max(self.wanted, wanted), self.count + count
        self.names = sorted({*self.names, *(name[:SHOWN_CHARACTERS] for name in names)})[:SHOWN_NAMES]


class Limits:
    """Admits new series of a shard, and reports what is left out."""

    def __init__(self, state: ShardState, p: DetectorParameters, limits: LimitParameters | None, shard: int) -> None:
        self._state, self._p, self._limits, self._shard = state, p, limits, shard
        self._over: dict[tuple[str, str], LeftOut] = {}  # by quoted host and limit, of this window
        self._unsure: dict[str, set[str]] = {}  # by limit: hosts of which `extract` has left out rows in this window
        self._noted: Sequence[Overflow] = ()
        self._refused: dict[str, tuple[int, int]] = {}  # by quoted host: records refused for their time; delay, s
        self.overflow: list[Overflow] = []

    def take(self, rows: Windows) -> Windows:
        """Take in what `extract` has left out in a window. Answers the other rows."""
        self._over, self._unsure, self._noted, self._refused, self.overflow = {}, {}, (), {}, []
        overflow = rows.span(FIRST)
        others = rows.without_span(overflow)
        for at in range(overflow.start, overflow.stop):
            _, host, limit = rows.series[at].split("/")
            left, last = int(rows.n[at]), int(rows.last[at])
            if limit in (LATE, AHEAD):
                delay = last if limit == LATE else -last
                self._refused[host] = max(self._refused.get(host, (0, 0)), (left, delay))
                continue
            names = json.loads(rows.sample[at])
            if limit == ALL_SERIES:
                self._leave_out(host, limit, len(others) + left, left, names)
                for kind in (METRICS, TEMPLATES):
                    self._unsure.setdefault(kind, set()).update(hosts_with(others, last))
            else:
                self._leave_out(host, limit, last, left, names)
                self._unsure.setdefault(limit, set()).add(host)
        return others

    def add_overflow(self, found: Sequence[Overflow]) -> None:
        """Take in what others have left out of the window: what is of no host."""
        self._noted = found

    def _leave_out(self, host: str, limit: str, wanted: int, count: int, names: Iterable[str]) -> None:
        self._over.setdefault((host, limit), LeftOut()).add(wanted, count, names)

    @property
    def are_hosts_uncertain(self) -> bool:
        """Whether the absence of a host says nothing in this window."""
        return HOSTS in self._unsure

    def uncertain_rows(self, limit: str) -> Ints:
        """Rows of the hosts whose absent series of a limit say nothing in this window."""
        index = self._state.hosts.index
        found = sorted(index[host] for host in self._unsure.get(limit, ()) if host in index)
        return np.array(found, dtype=np.int64)

    def is_uncertain(self, limit: str, name: str) -> bool:
        """Whether the absence of a series says nothing in this window."""
        return host_of(name) in self._unsure.get(limit, ())

    def admit(self, missing: list[int], series: Texts) -> list[int]:
        """Which unknown series get rows in the tables; `missing` are their places in `series`, answered in that order."""
        limits = self._limits
        if limits is None:
            return missing
        by_host: dict[str, list[int]] = {}
        for at in missing:
            by_host.setdefault(host_of(series[at]), []).append(at)
        left_out = self._new_hosts(by_host, limits)
        gauges, templates = self._count_known(by_host)
        for host, places in by_host.items():
            if host not in left_out:
                row = self._state.hosts.index.get(host, -1)
                known = (int(gauges[row]), int(templates[row])) if row >= 0 else (0, 0)
                by_host[host] = self._admit_of_host(host, row, known, places, series, limits)
        admitted = [at for host, places in by_host.items() if host not in left_out for at in places]
        return sorted(self._admit_to_shard(admitted, series, limits))

    def _admit_to_shard(self, places: list[int], series: Texts, limits: LimitParameters) -> list[int]:
        """The places of the series that the shard has room for."""
        known = len(self._state.gauges) + len(self._state.counts)
        if len(places) <= limits.all_series - known:
            return places
        names = {at: str(series[at]) for at in places}
        kept, left = choose_by_hash(places, names, limits.all_series - known)
        self._note("", ALL_SERIES, max(known, limits.all_series) + len(left), left, names)
        return kept

    def _count_known(self, wanted: Iterable[str]) -> tuple[Ints, Ints]:
        """How many metric series and templates each host has, `(n_hosts,)`; of none where no host is known."""
        state, hosts = self._state, len(self._state.hosts)
        gauges = np.bincount(state.gauges.owner[0], minlength=hosts)
        templates = np.bincount(state.counts.owner[0], weights=state.counts.owner[2], minlength=hosts)
        return gauges, templates.astype(np.int64)

    def _new_hosts(self, by_host: dict[str, list[int]], limits: LimitParameters) -> set[str]:
        """The hosts that there is no room for."""
        known = self._state.hosts.index
        new, free = [host for host in by_host if host not in known], limits.hosts - len(known)
        if len(new) <= free:
            return set()
        left_out = sorted(new, key=name_hash)[max(free, 0) :]
        self._leave_out("", HOSTS, max(len(known), limits.hosts) + len(left_out), len(left_out), left_out)
        return set(left_out)

    def _admit_of_host(
        self, host: str, row: int, known: tuple[int, int], places: list[int], series: Texts, limits: LimitParameters
    ) -> list[int]:
        """The places of the series of one host that are admitted."""
        names = {at: str(series[at]) for at in places}
        services = self._new_services(host, row, names, limits)
        if services:
            names = {at: name for at, name in names.items() if context_of(name) not in services}
        of_limit: dict[str, list[int]] = {METRICS: [], TEMPLATES: []}
        others: list[int] = []  # levels: as many as services allow
        for at, name in names.items():
            kind = METRICS if name.startswith(("gauge/", "counter/")) else TEMPLATES
            (of_limit[kind] if kind == METRICS or name.startswith("template/") else others).append(at)
        admitted = []
        for (kind, found), before, most in zip(
            of_limit.items(), known, (limits.metrics_per_host, limits.templates_per_host), strict=True
        ):
            kept, left = choose_by_hash(found, names, most - before)
            self._note(host, kind, max(before, most) + len(left), left, names)
            admitted += kept
        kept, left = choose_by_hash(admitted, names, limits.new_series_per_host)
        self._note(host, NEW, len(admitted), left, names)
        return [*kept, *others]

    def _new_services(self, host: str, row: int, names: dict[int, str], limits: LimitParameters) -> set[str]:
        """The services of a host that there is no room for, as `HOST/SERVICE`."""
        state = self._state
        new = {context_of(name) for name in names.values()} - state.contexts.index.keys()
        before = int((state.contexts.owner[0] == row).sum()) if new and row >= 0 else 0
        free = limits.services_per_host - before
        if len(new) <= free:
            return set()
        left = sorted(new, key=name_hash)[max(free, 0) :]
        wanted = max(before, limits.services_per_host) + len(left)
        self._leave_out(host, SERVICES, wanted, len(left), (one.split("/", 1)[1] for one in left))
        return set(left)

    def _note(self, host: str, limit: str, wanted: int, left: list[int], names: dict[int, str]) -> None:
        if left:
            self._leave_out(host, limit, wanted, len(left), (names[at] for at in left))

    def step(self, now: int) -> list[EpisodeEvent]:
        """Report what was left out in a window, and close the episodes of hosts of which nothing was for a while."""
        for host, (_, delay) in self._refused.items():
            row = self._state.hosts.index.get(host)
            if row is not None:
                self._state.host_column("refused")[row] = now
                self._state.host_column("refused_delay")[row] = delay
        if not (self._over or self._noted or self._state.pressed):
            return []
        self.overflow = [
            Overflow(
                host=unquote(host), limit=limit, window_end=now, wanted=one.wanted, most=self._most(limit),
                left_out=one.count, names=one.names,
            )
            for (host, limit), one in sorted(self._over.items())
        ]  # fmt: skip
        by_owner: dict[str, list[Overflow]] = {}
        for (host, limit), found in zip(sorted(self._over), self.overflow, strict=True):
            by_owner.setdefault(host or owner_of(limit), []).append(found)
        for found in self._noted:
            by_owner.setdefault(owner_of(found.limit), []).append(found)
        self.overflow += self._noted
        events = [event for owner in sorted(by_owner) for event in self._report(owner, by_owner[owner], now)]
        return events + self._end(now)

    def _most(self, limit: str) -> int:
        of = self._limits or LimitParameters()
        return {
            METRICS: of.metrics_per_host,
            TEMPLATES: of.templates_per_host,
            SERVICES: of.services_per_host,
            NEW: of.new_series_per_host,
            HOSTS: of.hosts,
            ALL_SERIES: of.all_series,
            **MOST_READ,
        }[limit]

    def _report(self, owner: str, found: list[Overflow], now: int) -> list[EpisodeEvent]:
        """Open or continue the episode of a host that is known, or of the fleet; the largest excess speaks for it."""
        state = self._state
        row = state.hosts.index.get(owner)
        if found[0].host and row is None:
            return []  # the fleet has no room for it
        if row is not None and now - state.host_column("first")[row] < 60_000 * self._p.grace_minutes:
            found = [one for one in found if one.limit != NEW]  # all that a host has is new at first
        if not found:
            return []
        state.pressed[owner] = now
        worst = max(found, key=lambda one: (one.wanted / one.most, one.limit))
        score = NATS + math.log(max(worst.wanted / worst.most, 1.0))
        name = series_of(owner, self._shard)
        episode = state.episodes.get(name)
        if episode is None:
            nan, start = math.nan, now - int(1000 * self._p.window_seconds)
            episode = Episode(name, LIMITED, "anomaly", start, score, score, nan, nan, nan, nan, "", "", part=LIMIT)
            self._describe(episode, worst)
            return [state.episodes.begin(episode, now)]
        if episode.cause != LIMITED:
            return []  # that a host is new, or was silent, closes with the next window
        if worst.wanted < GROWTH * episode.value or episode.updates >= MOST_UPDATES:
            return []
        episode.updates += 1
        episode.score = episode.evidence = score
        self._describe(episode, worst)
        return [episode.event("update", now)]

    def _describe(self, episode: Episode, worst: Overflow) -> None:
        episode.value, episode.upper, episode.unit = float(worst.wanted), float(worst.most), WORDS[worst.limit]
        episode.reason = reasons.over_limit(worst, WORDS[worst.limit], self._shard)

    def _end(self, now: int) -> list[EpisodeEvent]:
        state, events = self._state, []
        for owner, last in sorted(state.pressed.items()):
            name = series_of(owner, self._shard)
            episode = state.episodes.get(name)
            if now - last >= QUIET_MS and episode is not None and episode.cause == LIMITED:
                events.append(state.episodes.close(name, now))
            if now - last >= PRESSED_MS:
                del state.pressed[owner]
        return events


def choose_by_hash(places: list[int], names: dict[int, str], free: int) -> tuple[list[int], list[int]]:
    """Which of the places are within the room that is free, by the hashes of their names, and which are not."""
    if len(places) <= free:
        return places, []
    order = sorted(places, key=lambda at: name_hash(names[at]))
    return order[: max(free, 0)], order[max(free, 0) :]


def owner_of(limit: str) -> str:
    """Of whom the episode about a limit of no host is: no quoted host has a slash."""
    return "" if limit == HOSTS else f"/{limit}"


def hosts_with(rows: Windows, least: int) -> list[str]:
    """The quoted hosts of which a window has so many rows, or more, each of which counts as one for each `NAME_BYTES` of its name."""
    found: Counter[str] = Counter()
    for name in rows.series.tolist():
        found[host_of(name)] += math.ceil(len(name.encode()) / NAME_BYTES)
    return [host for host, n in found.items() if n >= least]


def name_hash(name: str) -> bytes:
    """What new names are ordered by."""
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def series_of(owner: str, shard: int) -> str:
    """The series of the episode about a quoted host; of the fleet's hosts in a shard where it is empty; of a limit as `/LIMIT`."""
    if owner and not owner.startswith("/"):
        return build(Series("host", unquote(owner)))
    return build(Series(FLEET, "", metric=f"{owner[1:] or HOSTS} in shard {shard}"))
