"""What is said of novelties, as it is correlated: statements, and what they may share with one another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STATUS_ORDER = {"open": 0, "update": 1, "close": 2}
LASTING_KINDS = ("anomaly", "silence")
APPEARANCES = ("new host", "new service", "new metric", "new template")

Key = tuple[str, ...]


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
    part: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Statement:
        """Read a record. Raises ValueError where it lacks something or says something unknown."""
        try:
            optional = ("reason", "host", "service", "metric", "level", "template", "part")
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
    def is_fact(self) -> bool:
        """Whether it says that something is there that has never been: no matter of chance, as a new level is."""
        return self.kind not in LASTING_KINDS and self.part in APPEARANCES

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

    @property
    def about(self) -> str:
        """The kind of its series: gauge, counter, logs, template, host or service."""
        return self.series.partition("/")[0]

    @property
    def role(self) -> Key:
        """What other hosts may do as well: the service, and its metric, level, template, or coming and going; or empty."""
        metric = self.metric.partition("{")[0]
        if not self.host:
            return ()
        if self.about in ("host", "service"):
            return (self.about, self.service, self.kind)
        if self.template_id:
            return ("template", self.service, self.template_id)
        return ("metric", self.service, metric) if metric else ("level", self.service, self.level)


def number(value: Any) -> float:
    """A finite number; what is missing or not finite counts as 0."""
    found = float(value) if value is not None else 0.0
    return found if math.isfinite(found) else 0.0
