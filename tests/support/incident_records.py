"""Incidents as the topic `incidents` has them, for tests of who is notified."""

from __future__ import annotations

import json
import time
from typing import Any

from app.notify.incident import ReadIncident, parse_incident
from models.records.records import EarlyAlarm
from models.records.schema import plain


def value(number: int = 1, status: str = "open", **more: Any) -> bytes:
    """The value of a record of incident `number`."""
    at = int(time.time() * 1000) - 60_000
    fields = {
        "record": "incident",
        "version": "live",
        "id": f"{number:024x}",
        "status": status,
        "kind": "anomaly",
        "severity": "major",
        "start": at,
        "end": at + 30_000 if status == "close" else None,
        "window_end": at + 20_000,
        "score": 20.0,
        "reason": f"web-{number}: cpu 97 %, expected 10 to 40",
        "hosts": [f"web-{number}"],
        "services": ["shop"],
        "series": [{"series": f"gauge/web-{number}/shop/cpu{{zone=a}}"}],
    }
    return json.dumps(fields | more).encode()


def incident(number: int = 1, status: str = "open", **more: Any) -> ReadIncident:
    """The incident of such a record."""
    found = parse_incident(value(number, status, **more))
    assert found is not None
    return found


def alarm(number: int = 1, status: str = "raised", **more: Any) -> EarlyAlarm:
    """An early alarm on the host of incident `number`, of the window before it was published."""
    at = int(time.time() * 1000) - 60_000
    fields: dict[str, Any] = {
        "id": f"{number:016x}",
        "version": "live",
        "series": f"gauge/web-{number}/shop/latency{{zone=a}}",
        "window_end": at + 10_000,
        "event_time": at + 3_000,
        "value": 74.2,
        "upper": 61.5,
        "bound_window_end": at,
    }
    return EarlyAlarm(status=status, **fields | more)


def alarm_value(one: EarlyAlarm) -> bytes:
    """The value of its record."""
    return json.dumps(plain(one)).encode()
