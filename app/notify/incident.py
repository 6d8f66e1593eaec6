"""An incident that people may be notified of: read from a record of the topic `incidents`, of which nothing is believed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.settings import VERSION_PATTERN
from app.core.timestamps import LAST_MS
from models.core.printable import printable
from models.core.series import labels_of
from models.records.records import EPISODE_KINDS, INFO, SEVERITIES, STATUS_ORDER

MOST_BYTES = 1_100_000  # a record has 1,000,000 at most
MOST_NAMES, MOST_SERIES = 1_000, 200
LONGEST_NAME, LONGEST_SERIES, LONGEST_REASON = 256, 2_048, 2_000  # characters
ID = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class LogPlace:
    """Where a record is in the log."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class ReadIncident:
    """What one record of `incidents` says. Texts are printable and bounded; `series` has the largest share, `labels` are those of all its metrics."""

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


def incident_of(value: bytes | None) -> ReadIncident | None:
    """The incident that the value of a record is; None for anything else, about which `index` writes a letter."""
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        found = json.loads(value)
        return _checked(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _checked(found: Mapping[str, Any]) -> ReadIncident | None:
    identity, severity, end = str(found["id"]), found.get("severity") or INFO, found.get("end")
    times = [_time(found["start"]), _time(found["window_end"]), 0 if end is None else _time(end)]
    version = str(found.get("version") or "live")
    sound = (
        ID.fullmatch(identity)
        and re.fullmatch(VERSION_PATTERN, version)
        and found["status"] in STATUS_ORDER
        and found["kind"] in EPISODE_KINDS
        and severity in SEVERITIES
        and isinstance(found["reason"], str)
        and math.isfinite(found["score"])
    )
    if not sound:
        return None
    return ReadIncident(
        id=identity,
        version=version,
        status=found["status"],
        kind=found["kind"],
        severity=severity,
        start=times[0],
        end=None if end is None else times[2],
        window_end=times[1],
        reason=printable(found["reason"][:LONGEST_REASON]),
        hosts=_names(found["hosts"]),
        services=_names(found.get("services") or ()),
        labels=frozenset(_labels(found.get("series") or ())),
        series=_first(found.get("series") or ()),
    )


def _time(value: Any) -> int:
    """A time in epoch milliseconds. Raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LAST_MS:
        msg = f"{value!r} is no time"
        raise ValueError(msg)
    return value


def _names(values: Any) -> tuple[str, ...]:
    """Names that can be shown. Raises TypeError where one is no text."""
    if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values[:MOST_NAMES]):
        msg = "no list of names"
        raise TypeError(msg)
    return tuple(printable(one[:LONGEST_NAME]) for one in values[:MOST_NAMES])


def _first(series: Any) -> str:
    """The series with the largest share; empty of none. Raises TypeError or KeyError for what is no list of contributions."""
    return printable(series[0]["series"][:LONGEST_SERIES]) if series else ""


def _labels(series: Any) -> set[tuple[str, str]]:
    """The labels of the metrics that contribute. Raises TypeError or KeyError for what is no list of contributions."""
    found: set[tuple[str, str]] = set()
    for one in series[:MOST_SERIES]:
        if not isinstance(one["series"], str):
            msg = "no name of a series"
            raise TypeError(msg)
        found.update(labels_of(one["series"]))
    return found


def worst(severities: list[str]) -> str:
    """The worst of severities; `info` of none."""
    return max(severities, key=SEVERITIES.index, default=INFO)
