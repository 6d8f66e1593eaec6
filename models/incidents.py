"""Joins novelties that belong together into incidents, window by window.

A novelty joins an open incident that it touches in time (`join_seconds`) when they share a host, a service with the
same metric or log level, or a log template. Novelties of one window that are linked by these rules join together. A
group that touches several incidents joins the one that was opened first: incidents are never merged, so that what was
once said of an incident stays true.

It fails where independent faults hit one host, or one metric of one service, at the same time: they become one
incident. Without knowledge of the physical topology nothing in the records tells them apart.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 2
MILLIS = 1_000
STATUS_ORDER = {"open": 0, "update": 1, "close": 2}
LASTING_KINDS = ("anomaly", "silence")

Key = tuple[str, ...]


@dataclass(frozen=True)
class CorrelationParameters:
    """How novelties are joined.

    `join_seconds`    how far apart episodes may lie and still touch. Raising it joins more.
    `close_seconds`   quiet event time after the last episode's end that closes an incident. Raising it makes incidents
                      fewer and longer.
    `stale_seconds`   an episode without a word for so long counts as ended: bounds the life of an incident.
    `growth`          an update is worth saying when the score has grown by this factor.
    `max_members`     episodes an incident remembers, about 400 bytes each; ended ones with the least evidence go first.
    `max_shown`       contributions and templates that a statement lists.
    """

    join_seconds: int = 60
    close_seconds: int = 60
    stale_seconds: int = 7 * 86_400
    growth: float = 1.5
    max_members: int = 500
    max_shown: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        for name, least in (
            ("join_seconds", 0),
            ("close_seconds", 0),
            ("stale_seconds", 1),
            ("growth", 1),
            ("max_members", 1),
            ("max_shown", 1),
        ):
            value = getattr(self, name)
            if not value >= least:
                msg = f"{name} is {value}; wanted at least {least}"
                raise ValueError(msg)


@dataclass(frozen=True)
class Statement:
    """A record of `novelties`: what is said of one episode in one window. Times are epoch milliseconds."""

    id: str
    series: str
    kind: str
    status: str
    start: int
    window_end: int
    score: float
    evidence: float
    reason: str
    host: str = ""
    service: str = ""
    metric: str = ""
    level: str = ""
    template: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Statement:
        """Read a record. Raises ValueError where it lacks something or says something unknown."""
        try:
            optional = ("reason", "host", "service", "metric", "level", "template")
            statement = cls(
                **{name: str(record[name]) for name in ("id", "series", "kind", "status")},
                start=int(record["start"]),
                window_end=int(record["window_end"]),
                score=number(record.get("score")),
                evidence=number(record.get("evidence")),
                **{name: str(record.get(name) or "") for name in optional},
            )
        except (KeyError, TypeError) as error:
            msg = f"not a novelty: {error!r} in {record!r}"
            raise ValueError(msg) from error
        if statement.status not in STATUS_ORDER:
            msg = f"novelty {statement.id}: status {statement.status!r}; wanted one of {', '.join(STATUS_ORDER)}"
            raise ValueError(msg)
        return statement

    @property
    def order(self) -> tuple[str, str, int]:
        """Sorts the statements of a window: by series, episode, and what comes first in an episode."""
        return self.series, self.id, STATUS_ORDER[self.status]

    @property
    def template_id(self) -> str:
        """The id of the log template that this is about, or empty."""
        return self.series.rsplit("/", 1)[1] if self.series.startswith("template/") else ""

    @property
    def keys(self) -> list[Key]:
        """What this shares with another statement if the two belong together."""
        metric = self.metric.partition("{")[0]
        found: list[Key] = []
        if self.host:
            found.append(("host", self.host))
        if self.service and metric:
            found.append(("metric", self.service, metric))
        if self.service and self.level:
            found.append(("level", self.service, self.level))
        if self.template_id:
            found.append(("template", self.template_id))
        return found


def number(value: Any) -> float:
    """A finite number; what is missing or not finite counts as 0."""
    found = float(value) if value is not None else 0.0
    return found if math.isfinite(found) else 0.0


@dataclass(frozen=True)
class Contribution:
    """What a series adds to an incident: `share` of all evidence, the largest `score` in nats, and why."""

    series: str
    share: float
    score: float
    kind: str
    reason: str


@dataclass(frozen=True)
class Incident:
    """One statement about an incident. `end` is None until it is closed; times are epoch milliseconds."""

    id: str
    status: str
    kind: str
    start: int
    end: int | None
    window_end: int
    score: float
    hosts: list[str]
    services: list[str]
    templates: list[str]
    series: list[Contribution]
    novelties: int
    reason: str

    def record(self) -> dict[str, Any]:
        """Its fields, as JSON types."""
        return asdict(self)


@dataclass
class Member:
    """An episode within an incident."""

    id: str
    series: str
    kind: str
    keys: list[Key]
    end: int
    open: bool
    score: float
    evidence: float
    reason: str

    def hear(self, statement: Statement) -> None:
        """Take in what is said next of this episode. The reason is that of its peak, or of its new kind."""
        if statement.kind != self.kind or statement.score > self.score:
            self.reason = reason_of(statement)
        self.kind = statement.kind
        self.score = max(self.score, statement.score)
        self.evidence = max(self.evidence, statement.evidence)
        self.end = statement.window_end
        self.open = statement.status != "close"

    @property
    def weight(self) -> float:
        """Evidence in nats; the score where there is none."""
        return self.evidence if self.evidence > 0 else max(self.score, 0.0)

    @property
    def lasts(self) -> bool:
        """Whether the episode goes on. What is `new` or a `change` has happened and is over."""
        return self.open and self.kind in LASTING_KINDS


def member_of(statement: Statement) -> Member:
    """An episode of which this is the first word."""
    return Member(
        id=statement.id,
        series=statement.series,
        kind=statement.kind,
        keys=statement.keys,
        end=statement.window_end,
        open=statement.status != "close",
        score=statement.score,
        evidence=statement.evidence,
        reason=reason_of(statement),
    )


def reason_of(statement: Statement) -> str:
    """The statement's reason, with its host in front unless it names it."""
    reason = statement.reason or f"{statement.series}: {statement.kind}"
    if not statement.host or re.search(rf"(?<![\w.-]){re.escape(statement.host)}(?![\w.-])", reason):
        return reason
    return f"{statement.host}: {reason}"


@dataclass
class OpenIncident:
    """An incident that is not closed yet.

    `told_*` is what was last said of it, `news` whether a series or host has joined since, `forgotten` how many members
    had to go.
    """

    id: str
    opened: int
    start: int
    end: int
    novelties: int = 0
    score: float = 0.0
    told_score: float = 0.0
    told_kind: str = ""
    news: bool = False
    forgotten: int = 0
    hosts: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)

    def take_in(self, statements: list[Statement], limits: CorrelationParameters) -> None:
        """Take in statements about members, or about episodes that become members with them."""
        known = {m.series for m in self.members.values()}
        for statement in statements:
            if statement.id in self.members:
                self.hear(statement)
            else:
                self.news |= statement.series not in known
                self._join(statement, limits)

    def _join(self, statement: Statement, limits: CorrelationParameters) -> None:
        # A forgotten episode may come back: it was counted when it opened.
        self.novelties += not self.forgotten or statement.status == "open"
        self.members[statement.id] = member_of(statement)
        self.news |= add(self.hosts, statement.host, limits.max_members)
        add(self.services, statement.service, limits.max_members)
        add(self.templates, statement.template, limits.max_shown)
        self._stretch(statement)

    def hear(self, statement: Statement) -> None:
        """Take in what is said next of a member."""
        self.members[statement.id].hear(statement)
        self._stretch(statement)

    def _stretch(self, statement: Statement) -> None:
        self.end = max(self.end, statement.window_end)
        self.score = max(self.score, statement.score)

    def forget(self, most: int) -> None:
        """Keep at most so many members."""
        if len(self.members) <= most:
            return
        ranked = sorted(self.members.values(), key=lambda m: (not m.lasts, -m.weight, m.series, m.id))
        self.forgotten += len(ranked) - most
        self.members = {m.id: m for m in ranked[:most]}

    def due(self, limits: CorrelationParameters) -> int:
        """When it closes, unless something comes until then."""
        stale = [m.end + limits.stale_seconds * MILLIS for m in self.members.values() if m.lasts]
        return max([self.end, *stale]) + limits.close_seconds * MILLIS

    def reach(self, limits: CorrelationParameters) -> dict[Key, float]:
        """For each key, the latest start with which an episode touches a member that has it."""
        until: dict[Key, float] = {}
        for member in self.members.values():
            last = math.inf if member.lasts else member.end + limits.join_seconds * MILLIS
            for key in member.keys:
                until[key] = max(last, until.get(key, -math.inf))
        return until

    @property
    def kind(self) -> str:
        """What kind of incident its members make it. A change explains anomalies that have less evidence than it."""
        by_kind: dict[str, list[float]] = {}
        for member in self.members.values():
            by_kind.setdefault(member.kind, []).append(member.weight)
        # fsum is exact, so the order of members does not matter.
        total = {kind: math.fsum(weights) for kind, weights in by_kind.items()}
        trouble = math.fsum([total.get("anomaly", 0.0), total.get("silence", 0.0)])
        if "change" in total and math.fsum([total["change"], total.get("new", 0.0)]) >= trouble:
            return "change"
        if "silence" in total and (self._host_is_silent or total["silence"] >= total.get("anomaly", 0.0)):
            return "silence"
        return "anomaly" if "anomaly" in total else next(k for k in ("change", "new", *sorted(total)) if k in total)

    @property
    def _host_is_silent(self) -> bool:
        return any(m.kind == "silence" and m.series.startswith("host/") for m in self.members.values())

    def contributions(self) -> list[Contribution]:
        """All series by their share of the evidence, largest first."""
        by_series: dict[str, list[Member]] = {}
        for member in self.members.values():
            by_series.setdefault(member.series, []).append(member)
        weights = {series: math.fsum(m.weight for m in members) for series, members in by_series.items()}
        total = math.fsum(weights.values())
        found = [
            contribution(series, weights[series] / total if total > 0 else 1 / len(by_series), members)
            for series, members in by_series.items()
        ]
        return sorted(found, key=lambda c: (-c.share, c.series))

    def say(self, status: str, window_end: int, limits: CorrelationParameters) -> Incident:
        """State what is known of it, and remember that it was said."""
        ranked, kind = self.contributions(), self.kind
        self.told_score, self.told_kind, self.news = self.score, kind, False
        return Incident(
            id=self.id,
            status=status,
            kind=kind,
            start=self.start,
            end=self.end if status == "close" else None,
            window_end=window_end,
            score=self.score,
            hosts=sorted(self.hosts),
            services=sorted(self.services),
            templates=sorted(self.templates),
            series=ranked[: limits.max_shown],
            novelties=self.novelties,
            reason=headline(ranked, kind, len(self.hosts)),
        )

    def worth_saying(self, growth: float) -> bool:
        """Whether something has come that its reader does not know."""
        return self.news or self.kind != self.told_kind or (self.score > 0 and self.score >= growth * self.told_score)

    def dump(self) -> dict[str, Any]:
        """As JSON types."""
        members = sorted(self.members.values(), key=lambda m: m.id)
        return {**vars(self), "members": [vars(m) for m in members]}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> OpenIncident:
        """The inverse of `dump`."""
        members = [Member(**{**m, "keys": [tuple(k) for k in m["keys"]]}) for m in data["members"]]
        return cls(**{**data, "members": {m.id: m for m in members}})


def contribution(series: str, share: float, members: list[Member]) -> Contribution:
    """What a series adds, in the words of its strongest episode."""
    strongest = min(members, key=lambda m: (-m.weight, m.id))
    return Contribution(series, share, max(m.score for m in members), strongest.kind, strongest.reason)


def add(names: list[str], name: str, most: int) -> bool:
    """Put a name on a list of different ones, if it is new and there is room; answer whether it was put there."""
    if not name or name in names or len(names) >= most:
        return False
    names.append(name)
    return True


def headline(ranked: list[Contribution], kind: str, hosts: int) -> str:
    """One sentence for a person: what contributes most, and how much more there is."""
    lead = next((c for c in ranked if c.kind == kind), ranked[0])
    more = f" (+{len(ranked) - 1} series" if len(ranked) > 1 else ""
    if more and hosts > 1:
        more += f", {hosts} hosts"
    return lead.reason + (f"{more})" if more else "")


class Correlator:
    """Statements of windows in, statements about incidents out.

    What it says depends on the statements alone: steps of windows without any, and the order within a window, change
    nothing. Memory is bounded by `max_members` episodes for each open incident.
    """

    def __init__(self, parameters: CorrelationParameters) -> None:
        self._parameters = parameters
        self._last = -1
        self._open: list[OpenIncident] = []

    @property
    def last(self) -> int:
        """The last window that was stepped, epoch milliseconds; -1 before the first."""
        return self._last

    def step(self, window_end: int, statements: Iterable[Statement]) -> list[Incident]:
        """Take in the next window. Raises ValueError if it is not after the last one."""
        if window_end <= self._last:
            msg = f"window {window_end} comes after {self._last}; wanted windows in order"
            raise ValueError(msg)
        self._last = window_end
        said = self._close(window_end - 1)
        touched = self._take_in(sorted(statements, key=lambda s: s.order), window_end)
        for incident in touched:
            incident.forget(self._parameters.max_members)
            if not incident.told_kind:
                said.append(incident.say("open", window_end, self._parameters))
            elif incident.due(self._parameters) > window_end and incident.worth_saying(self._parameters.growth):
                said.append(incident.say("update", window_end, self._parameters))
        return said + self._close(window_end)

    def _take_in(self, statements: list[Statement], window_end: int) -> list[OpenIncident]:
        """Give every statement to its incident; answer the incidents that got some, oldest first."""
        owners = {i: incident for incident in self._open for i in incident.members}
        touched: dict[str, OpenIncident] = {}
        unknown: list[Statement] = []
        for statement in statements:
            if statement.id in owners:
                owners[statement.id].hear(statement)
                touched[owners[statement.id].id] = owners[statement.id]
            elif not self._long_gone(statement):
                unknown.append(statement)
        # Groups share no keys, so that what one adds to an incident does not change what another touches.
        within_reach = self._reach() if unknown else {}
        for group in linked(unknown):
            incident = oldest_touched(group, within_reach) or self._begin(group, window_end)
            incident.take_in(group, self._parameters)
            touched[incident.id] = incident
        return sorted(touched.values(), key=age)

    def _long_gone(self, statement: Statement) -> bool:
        """The end of an episode whose incident was closed as stale: no news."""
        length = statement.window_end - statement.start
        return statement.status == "close" and length > self._parameters.stale_seconds * MILLIS

    def _reach(self) -> dict[Key, list[tuple[float, OpenIncident]]]:
        """For each key, the open incidents that have it, and the latest start that touches each."""
        found: dict[Key, list[tuple[float, OpenIncident]]] = {}
        for incident in self._open:
            for key, until in incident.reach(self._parameters).items():
                found.setdefault(key, []).append((until, incident))
        return found

    def _begin(self, group: list[Statement], window_end: int) -> OpenIncident:
        """Open an incident, named for the first novelty of the group."""
        first = min(group, key=lambda s: (s.start, *s.order))
        name = hashlib.sha256(first.id.encode()).hexdigest()[:20]
        incident = OpenIncident(name, window_end, first.start, window_end)
        self._open.append(incident)
        return incident

    def _close(self, until: int) -> list[Incident]:
        """Close the incidents that are due, each at its own time."""
        due = sorted((i.due(self._parameters), i.id) for i in self._open)
        over = [(when, name) for when, name in due if when <= until]
        by_name = {i.id: i for i in self._open}
        self._open = [i for i in self._open if i.id not in {name for _, name in over}]
        return [by_name[name].say("close", when, self._parameters) for when, name in over]

    def dump(self) -> bytes:
        """Canonical bytes: equal states give equal bytes."""
        state = {"format": FORMAT, "last": self._last, "open": [i.dump() for i in sorted(self._open, key=age)]}
        return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def load(cls, data: bytes, parameters: CorrelationParameters) -> Correlator:
        """The inverse of `dump`. Raises ValueError for another format."""
        state = json.loads(data)
        if state.get("format") != FORMAT:
            msg = f"state of the correlator has format {state.get('format')!r}; wanted {FORMAT}"
            raise ValueError(msg)
        correlator = cls(parameters)
        correlator._last = state["last"]
        correlator._open = [OpenIncident.load(i) for i in state["open"]]
        return correlator


def age(incident: OpenIncident) -> tuple[int, int, str]:
    """Sorts incidents: the one that was opened first comes first."""
    return incident.opened, incident.start, incident.id


def linked(statements: list[Statement]) -> list[list[Statement]]:
    """Groups of one window's statements that share keys, directly or through others. As all end now, all touch."""
    leader: dict[Key, Key] = {}

    def find(key: Key) -> Key:
        leader.setdefault(key, key)
        while leader[key] != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for statement in statements:
        own = find(("id", statement.id))
        for key in statement.keys:
            # The least key leads, so that the groups come out in the same order every time.
            one, other = sorted((own, find(key)))
            leader[other] = one
            own = one
    groups: dict[Key, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(find(("id", statement.id)), []).append(statement)
    return list(groups.values())


def oldest_touched(
    group: list[Statement], reach: Mapping[Key, list[tuple[float, OpenIncident]]]
) -> OpenIncident | None:
    """The open incident that was opened first of those that a statement of the group touches."""
    touched = [i for s in group for key in s.keys for until, i in reach.get(key, []) if s.start <= until]
    return min(touched, key=age, default=None)
