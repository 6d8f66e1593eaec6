"""Records of the topic `incidents`, for all that read them: nothing in them is believed, and their size is bounded once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.timestamps import LAST_MS
from app.core.version_name import VERSION_PATTERN
from models.records.records import EPISODE_KINDS, INFO, SEVERITIES, STATUS_ORDER

MOST_BYTES = 1_100_000  # a record has 1,000,000 at most
MOST_NAMES = 1_000  # of hosts, services and series; others are left out
MOST_AFFECTED = 2**53  # an exact number in JSON
ID = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class IncidentRecord:
    """What one record says. Texts are as they were sent, not made printable; `series` has the largest share first.

    `source` is the whole record. Of it all is checked that has a field here, and `severity_points` and `causes` as well.
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
    services: tuple[str, ...]
    series: tuple[str, ...]
    source: Mapping[str, Any]


def parse_incident_record(value: bytes | None) -> IncidentRecord | None:
    """The incident that the value of a record is; None for anything else, about which `index` writes a letter."""
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        found = json.loads(value)
        return _checked(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def affected_hosts(source: Mapping[str, Any]) -> int:
    """How many hosts an incident is about, of which its record names the first ones."""
    known, given = len(source["hosts"]), source.get("affected")
    if not isinstance(given, int) or isinstance(given, bool) or given >= MOST_AFFECTED:
        return known
    return max(known, given)


def _checked(found: Mapping[str, Any]) -> IncidentRecord | None:
    """Raises ValueError, TypeError, KeyError or OverflowError for what is no incident."""
    identity, version, end = _text(found["id"]), _text(found.get("version") or "live"), found.get("end")
    severity, points = found.get("severity", INFO), found.get("severity_points", 0)
    for cause in _list(found.get("causes") or ()):
        for part in ("kind", "why"):
            _text(cause[part])
    sound = (
        ID.fullmatch(identity)
        and re.fullmatch(VERSION_PATTERN, version)
        and found["status"] in STATUS_ORDER
        and found["kind"] in EPISODE_KINDS
        and severity in SEVERITIES
        and math.isfinite(found["score"])
        and isinstance(points, int)
    )
    if not sound:
        return None
    return IncidentRecord(
        id=identity,
        version=version,
        status=found["status"],
        kind=found["kind"],
        severity=severity,
        start=_time(found["start"]),
        end=None if end is None else _time(end),
        window_end=_time(found["window_end"]),
        reason=_text(found["reason"]),
        hosts=tuple(map(_text, _list(found["hosts"]))),
        services=tuple(map(_text, _list(found.get("services") or ()))),
        series=tuple(_text(one["series"]) for one in _list(found.get("series") or ())),
        source=found,
    )


def _time(value: Any) -> int:
    """A time in epoch milliseconds. Raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LAST_MS:
        msg = "no time"
        raise ValueError(msg)
    return value


def _text(value: Any) -> str:
    """A text. Raises TypeError for any other value, ValueError for one with half of a pair, which nothing can write."""
    if not isinstance(value, str):
        msg = f"{type(value).__name__} is no text"
        raise TypeError(msg)
    value.encode()
    return value


def _list(values: Any) -> list[Any] | tuple[Any, ...]:
    """The first entries of a list. Raises TypeError for any other value."""
    if not isinstance(values, list | tuple):
        msg = f"{type(values).__name__} is no list"
        raise TypeError(msg)
    return values[:MOST_NAMES]
