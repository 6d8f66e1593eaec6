"""An incident that people may be notified of: from a record of the topic `incidents`."""

from __future__ import annotations

from dataclasses import dataclass

from app.kafka.incident_records import affected_hosts, parse_incident_record
from models.core.printable import printable
from models.core.series import labels_of
from models.records.records import INFO, SEVERITIES, STATUS_ORDER

MOST_SERIES = 200  # whose labels are looked at
LONGEST_NAME, LONGEST_SERIES, LONGEST_REASON = 256, 2_048, 2_000  # characters


@dataclass(frozen=True)
class LogPlace:
    """Where a record is in the log."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class ReadIncident:
    """What one record of `incidents` says. Texts are printable and bounded; `series` has the largest share, `labels` are those of all its metrics.

    `hosts` are the first `affected` ones.
    """

    id: str
    version: str
    status: str
    kind: str
    severity: str
    start: int
    end: int | None
    window_end: int
    reason: str
    hosts: tuple[str, ...]
    affected: int
    services: tuple[str, ...]
    series: str
    labels: frozenset[tuple[str, str]]

    @property
    def rank(self) -> int:
        """How bad it is, from 0."""
        return SEVERITIES.index(self.severity)

    @property
    def order(self) -> tuple[int, int]:
        """What was published later is larger."""
        return self.window_end, STATUS_ORDER[self.status]


def parse_incident(value: bytes | None) -> ReadIncident | None:
    """The incident that the value of a record is; None for anything else."""
    found = parse_incident_record(value)
    if found is None:
        return None
    return ReadIncident(
        id=found.id,
        version=found.version,
        status=found.status,
        kind=found.kind,
        severity=found.severity,
        start=found.start,
        end=found.end,
        window_end=found.window_end,
        reason=printable(found.reason[:LONGEST_REASON]),
        hosts=_names(found.hosts),
        affected=affected_hosts(found.source),
        services=_names(found.services),
        labels=frozenset(label for one in found.series[:MOST_SERIES] for label in labels_of(one)),
        series=printable(found.series[0][:LONGEST_SERIES]) if found.series else "",
    )


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that can be shown."""
    return tuple(printable(one[:LONGEST_NAME]) for one in names)


def worst_severity(severities: list[str]) -> str:
    """The worst of severities; `info` of none."""
    return max(severities, key=SEVERITIES.index, default=INFO)
