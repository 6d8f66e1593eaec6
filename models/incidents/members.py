"""Episodes within an incident, and what each series contributes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from models.records.statements import LASTING_KINDS, Key, Statement

# Windows of one episode are not independent, so what they gather is no probability: nats it counts for at most.
MOST_FOR_LASTING = 4.0


@dataclass(frozen=True)
class Contribution:
    """What a series adds to an incident: `share` of all evidence, the largest `score` in nats, and why."""

    series: str
    share: float
    score: float
    kind: str
    reason: str


@dataclass
class Member:
    """An episode within an incident. `role` is what other hosts may do as well, `host` whose it is.

    `begun_with` is the evidence that it was opened with: of a silence, or of lines, that of a whole run. `fact` says that it
    is no matter of chance: see `Statement.is_fact`.
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
    def surprise(self) -> float:
        """What is held against chance, nats: the strongest moment, and a little for having lasted."""
        strongest = max(self.score, self.begun_with, 0.0)
        return strongest + min(max(self.weight - strongest, 0.0), MOST_FOR_LASTING)

    @property
    def lasts(self) -> bool:
        """Whether the episode goes on. What is `new` or a `change` has happened and is over."""
        return self.open and self.kind in LASTING_KINDS

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Member:
        """From JSON types."""
        return cls(**{**data, "keys": [tuple(key) for key in data["keys"]], "role": tuple(data["role"])})


def member_of(statement: Statement) -> Member:
    """An episode of which this is the first word."""
    return Member(
        id=statement.id,
        series=statement.series,
        host=statement.host,
        kind=statement.kind,
        keys=statement.keys,
        role=statement.role,
        start=statement.start,
        end=statement.window_end,
        open=statement.status != "close",
        score=statement.score,
        evidence=statement.evidence,
        begun_with=statement.evidence,
        reason=reason_of(statement),
        fact=statement.is_fact,
    )


def reason_of(statement: Statement) -> str:
    """The statement's reason, with its host in front unless it names it."""
    reason = statement.reason or f"{statement.series}: {statement.kind}"
    if not statement.host or re.search(rf"(?<![\w.-]){re.escape(statement.host)}(?![\w.-])", reason):
        return reason
    return f"{statement.host}: {reason}"


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
