"""Prometheus Alertmanager, API v2: an alert for each incident, sent again while it is open, resolved when it closes.

Labels say which alert it is, so those of an incident change only when a notification is due: when it becomes worse, the alert of
before is resolved and another one fires.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from app.core.notify_settings import ChannelSettings
from app.notify.channels.http_client import HttpClient
from app.notify.notification import Notification

PATH = "/api/v2/alerts"
LASTS = 5  # intervals of sending after which an alert that is not sent again is over
PIPELINE = "pipeline"  # kind of what is sent of kappa itself, of which there is one alert each
MOST_ALERTS = 500  # in a request
MOST_HOSTS, LONGEST_LABEL = 10, 512
JSON = {"Content-Type": "application/json"}


class Alertmanager:
    """An Alertmanager."""

    resends = True

    def __init__(self, settings: ChannelSettings, resend_seconds: float) -> None:
        """`resend_seconds`: how often `resend` is called."""
        self._http, self._lasts_ms = HttpClient(settings), int(1000 * LASTS * resend_seconds)
        self._firing: dict[str, dict[str, str]] = {}  # labels by key

    def send(self, note: Notification, now_ms: int) -> str:
        """Fire or resolve an alert; where its labels have changed, the one of before is resolved with the same request."""
        before = self._firing.get(note.key, labels_of(note))
        labels = before if note.status == "close" else labels_of(note)
        alerts = [self.alert(note, labels, now_ms)]
        if before != labels:
            alerts.append(resolved(self.alert(note, before, now_ms), now_ms))
        answer = self._post(alerts)
        if note.status == "close":
            self._firing.pop(note.key, None)
        else:
            self._firing[note.key] = labels
        return answer

    def resend(self, notes: Iterable[Notification], now_ms: int) -> str:
        """Send all that is open."""
        alerts, answer = [], "nothing is open"
        for note in notes:
            self._firing[note.key] = labels_of(note)
            alerts.append(self.alert(note, self._firing[note.key], now_ms))
        for i in range(0, len(alerts), MOST_ALERTS):
            answer = self._post(alerts[i : i + MOST_ALERTS])
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def alert(self, note: Notification, labels: dict[str, str], now_ms: int) -> dict[str, Any]:
        """The alert of a notification, as the API has it."""
        over = note.status == "close"
        ends = now_ms if over else now_ms + self._lasts_ms
        return {
            "labels": labels,
            "annotations": {"summary": note.title, "description": note.text}
            | ({"link": note.link} if note.link else {})
            | ({"runbook_url": note.runbook} if note.runbook else {}),
            "startsAt": iso(min(note.start, ends)),
            "endsAt": iso(ends),
        } | ({"generatorURL": note.link} if note.link else {})

    def _post(self, alerts: list[dict[str, Any]]) -> str:
        return self._http.post(json.dumps(alerts).encode(), JSON, PATH)


def resolved(alert: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """The same alert, over now."""
    return alert | {"endsAt": iso(now_ms)}


def labels_of(note: Notification) -> dict[str, str]:
    """What an Alertmanager routes, groups and silences by. Empty labels are none for it."""
    shown = note.hosts[:MOST_HOSTS]
    hosts = ",".join(shown) + (f",+{note.affected - len(shown)}" if note.affected > len(shown) else "")
    found = {
        "alertname": note.alertname,
        "severity": note.severity,
        "kind": note.kind,
        "incident": "" if note.kind == PIPELINE else note.incident or note.key,
        "host": hosts,
        "service": ",".join(note.services[:MOST_HOSTS]),
    }
    return {name: value[:LONGEST_LABEL] for name, value in found.items() if value}


def iso(at_ms: int) -> str:
    """A time as the API has it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
