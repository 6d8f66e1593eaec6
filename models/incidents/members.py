"""Episodes within an incident, and what each series contributes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from models.core.calls import calls_of
from models.core.series import parse
from models.incidents.cause import Suspect
from models.records.records import LASTING_KINDS, Contribution, EpisodeEvent, Key
from models.stats.interval_distance import BORDER, distance_in_widths

# Windows of one episode are not independent, so what they gather is no probability: nats it counts for at most.
MOST_FOR_LASTING = 4.0
HAPPENED = {"silence": "missing", "new": "new"}  # to a metric, or lines, that have no value to be unusual


@dataclass
class Member:
    """An episode within an incident. `role` is what other hosts may do as well, `host` whose it is.

    `begun_with` is the evidence that it was opened with: of a silence, or of lines, that of a whole run. `fact` says that it
    is no matter of chance: see `EpisodeEvent.is_fact`. `found` is when it was opened (epoch ms), or when it began if it had been forgotten
    and is back. `what` is strange in it, by `strength` widths of its interval, and may be seen `delay`
    ms late: see `models.incidents.cause.Suspect`. `returned` says that the series is where it was before a change that is known, which
    is no evidence: see `models.incidents.returns`.
    """

    id: str
    series: str
    host: str
    kind: str
    keys: list[Key]
    role: Key
    start: int
    end: int
    open: bool
    score: float
    evidence: float
    begun_with: float
    reason: str
    fact: bool = False
    what: str = ""
    strength: float = BORDER
    delay: float = 0.0
    found: int = 0
    returned: bool = False
    service: str = ""
    template: str = ""

    def update(self, event: EpisodeEvent) -> None:
        """Take in the next event of this episode. The reason is that of its peak, or of its new kind."""
        score, evidence = finite_or_zero(event.score), finite_or_zero(event.evidence)
        if event.kind != self.kind or score > self.score:
            self.reason = reason_of(event)
        self.kind = event.kind
        self.score = max(self.score, score)
        self.evidence = max(self.evidence, evidence)
        self.end = event.window_end
        self.open = event.status != "close"
        # What its detector says of an episode may fall: a deviation of one window counts no more after the second.
        measured = math.isfinite(event.strength)
        self.strength = event.strength if measured else max(self.strength, strength_of(event))

    @property
    def weight(self) -> float:
        """Evidence in nats; the score where there is none."""
        return self.evidence if self.evidence > 0 else max(self.score, 0.0)

    @property
    def surprise(self) -> float:
        """What is held against chance, nats: the strongest moment, and a little for having lasted; 0 of a return."""
        if self.returned:
            return 0.0
        strongest = max(self.score, self.begun_with, 0.0)
        return strongest + min(max(self.weight - strongest, 0.0), MOST_FOR_LASTING)

    @property
    def lasts(self) -> bool:
        """Whether the episode goes on. What is `new` or a `change` has happened and is over."""
        return self.open and self.kind in LASTING_KINDS

    @property
    def is_partial(self) -> bool:
        """Whether it is the silence of a metric or log of a host that otherwise reports."""
        return says_missing(self.kind, self.series)

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Member:
        """From JSON types."""
        return cls(**{**data, "keys": [tuple(key) for key in data["keys"]], "role": tuple(data["role"])})


def member_of(event: EpisodeEvent) -> Member:
    """The member that an episode becomes, from its first event."""
    return Member(
        id=event.id,
        series=event.series,
        host=event.host,
        kind=event.kind,
        keys=event.keys,
        role=event.role,
        start=event.start,
        end=event.window_end,
        open=event.status != "close",
        score=finite_or_zero(event.score),
        evidence=finite_or_zero(event.evidence),
        begun_with=finite_or_zero(event.evidence),
        reason=reason_of(event),
        fact=event.is_fact,
        what=subject_of(event),
        strength=strength_of(event),
        delay=1000.0 * event.delay,
        found=event.window_end if event.status == "open" else event.start,
        service=event.service,
        template=event.template or "",
    )


def says_missing(kind: str, series: str) -> bool:
    """Whether an episode of this kind says that a metric or log of a host is missing, and not the host."""
    return kind == "silence" and not series.startswith("host/")


def subject_of(event: EpisodeEvent) -> str:
    """The metric of an episode, or another word for what is strange in it."""
    if event.metric or event.level:
        return event.metric or f"{event.level} lines"
    return "the mix of templates" if event.part == "mix" else event.part or event.kind


def strength_of(event: EpisodeEvent) -> float:
    """How far an episode has gone in widths of its interval: as its detector says, else by its peak; `BORDER` where there is no measure."""
    if math.isfinite(event.strength):
        return event.strength
    interval = (event.value, event.typical, event.lower, event.upper)
    found = distance_in_widths(*interval)
    return found if math.isfinite(found) else BORDER


def suspect_of(member: Member) -> Suspect:
    """The member as one who may be the cause."""
    found = parse(member.series)
    metric = found.metric or member.kind == "anomaly"
    # What is measured of a call, its time and its errors, is made by who is called, whoever measures it.
    called = next((callee for _, callee in calls_of(found.metric)), found.service)
    if member.kind == "silence" and member.series.startswith("host/"):
        went = f"host {found.host} is silent"
    elif member.kind == "silence" and not (found.metric or found.level):
        went = f"the log of {found.host} is silent"
    elif member.kind in HAPPENED and found.metric:
        went = f"{member.what} of {called or found.host} is {HAPPENED[member.kind]}"
    elif member.kind in HAPPENED and found.level:
        lines = f"{member.what} of a template" if found.template_id else member.what
        went = f"{lines} of {called or found.host} are {HAPPENED[member.kind]}"
    else:
        went = "" if metric else f"{member.what} of {called or found.host}: {member.kind}"
    return Suspect(found.host, called, member.what, member.start, member.strength, member.delay, member.series, went)


def finite_or_zero(value: float) -> float:
    """The number; 0 where it is not known or infinite."""
    return value if math.isfinite(value) else 0.0


def reason_of(event: EpisodeEvent) -> str:
    """The event's reason, with its host in front unless it names it."""
    reason = event.reason or f"{event.series}: {event.kind}"
    if not event.host or re.search(rf"(?<![\w.-]){re.escape(event.host)}(?![\w.-])", reason):
        return reason
    return f"{event.host}: {reason}"


def kind_of(members: Iterable[Member]) -> str:
    """What kind of incident its members make it. A change explains anomalies that have less evidence than it."""
    members = list(members)
    by_kind: dict[str, list[float]] = {}
    for member in members:
        by_kind.setdefault(member.kind, []).append(member.weight)
    # fsum is exact, so the order of members does not matter.
    total = {kind: math.fsum(weights) for kind, weights in by_kind.items()}
    trouble = math.fsum([total.get("anomaly", 0.0), total.get("silence", 0.0)])
    host_is_silent = any(m.kind == "silence" and m.series.startswith("host/") for m in members)
    if "change" in total and math.fsum([total["change"], total.get("new", 0.0)]) >= trouble:
        return "change"
    if "silence" in total and (host_is_silent or total["silence"] >= total.get("anomaly", 0.0)):
        return "silence"
    return "anomaly" if "anomaly" in total else next(k for k in ("change", "new", *sorted(total)) if k in total)


def contributions(members: Iterable[Member]) -> list[Contribution]:
    """All series by their share of the evidence, largest first."""
    by_series: dict[str, list[Member]] = {}
    for member in members:
        by_series.setdefault(member.series, []).append(member)
    weights = {series: math.fsum(m.weight for m in own) for series, own in by_series.items()}
    total = math.fsum(weights.values())
    found = [
        contribution(series, weights[series] / total if total > 0 else 1 / len(by_series), own)
        for series, own in by_series.items()
    ]
    return sorted(found, key=lambda c: (-c.share, c.series))


def contribution(series: str, share: float, members: list[Member]) -> Contribution:
    """What a series adds, in the words of its strongest episode."""
    strongest = min(members, key=lambda m: (-m.weight, m.id))
    return Contribution(series, share, max(m.score for m in members), strongest.kind, strongest.reason)


def surprise_of(members: Iterable[Member]) -> dict[str, float]:
    """The greatest surprise of any episode of a series, nats, by series."""
    found: dict[str, float] = {}
    for member in members:
        found[member.series] = max(member.surprise, found.get(member.series, 0.0))
    return found
