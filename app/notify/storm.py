"""Storms: where more than `storm_incidents` open within `storm_minutes`, one notification is sent in their place and they are held back.

The first critical ones are sent in spite of it, as many as may open without a storm.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from app.core.timestamps import is_due, time_of_digits
from app.notify.notification import Notification, kappa_notification
from models.core.wording import counted
from models.records.records import CRITICAL, DELIVERED, HELD, SEVERITIES, Delivery

MINUTE_MS = 60_000
PREFIX = "storm-"
ALERT = "KappaStorm"
MOST_OPENED = 100_000  # openings that are counted


@dataclass
class StormFilter:
    """Decides for one channel which notifications a storm holds back.

    `limit` is the most incidents that may open within `minutes`, by the ends of their windows; 0 for no limit. The order in which they are read
    matters little: after an outage partitions are read one after the other.
    """

    name: str
    limit: int
    minutes: float

    def __post_init__(self) -> None:
        # The ends of the windows of the last ones, of some ten partitions that are read one after the other.
        self._opened: deque[int] = deque(maxlen=min(10 * self.limit, MOST_OPENED))
        self._held: dict[str, str] = {}  # severity by key
        self._since: int | None = None
        self._until = 0  # epoch ms, as `_since`
        self._sent = 0  # critical ones in this storm

    @property
    def _minutes_ms(self) -> int:
        return int(self.minutes * MINUTE_MS)

    @property
    def key(self) -> str:
        """What the channel knows the storm by."""
        return f"{PREFIX}{self.name}-{self._since}"

    def remember(self, deliveries: Iterable[Delivery], now_ms: int, early: str) -> None:
        """Restore the state from the last delivery of each incident to this channel, the oldest first.

        `early` is the topic of early alarms: nothing comes of one that was held back.
        """
        known = list(deliveries)
        for one in known:
            if one.incident.startswith(PREFIX):
                self._since = time_of_digits(one.incident.rpartition("-")[2]) if one.status == "open" else None
            elif one.outcome == HELD and one.topic != early:
                self._held |= {one.incident: one.severity} if one.status != "close" else {}
            if one.status == "open" and one.outcome in (DELIVERED, HELD) and one.topic:
                self._opened.append(one.at)
        if self._since is not None:
            passed = (one for one in known if one.status == "open" and one.outcome == DELIVERED and one.topic)
            self._sent = sum(one.severity == CRITICAL and one.at >= self._since for one in passed)
            self._until = now_ms + self._minutes_ms

    def on_opening(self, key: str, severity: str, at_ms: int, now_ms: int) -> tuple[bool, Notification | None]:
        """Count an incident that opens; returns whether to hold its notification back, and the notification to send if a storm begins with it.

        `at_ms` is the end of its window.
        """
        self._opened.append(at_ms)
        if sum(abs(at_ms - one) < self._minutes_ms for one in self._opened) <= self.limit:
            return False, None
        begins = self._since is None
        if begins:
            self._since, self._sent = now_ms, 0
        self._until = now_ms + self._minutes_ms
        note = self._begun(now_ms) if begins else None
        if self._may_pass(severity):
            return False, note
        self._held[key] = severity
        return True, note

    def _may_pass(self, severity: str) -> bool:
        """Whether an incident is sent in spite of the storm; counts it."""
        passes = severity == CRITICAL and self._sent < self.limit
        self._sent += passes
        return passes

    def hold(self, key: str, severity: str) -> None:
        """Note an incident whose opening was held back for another reason than a storm."""
        self._held[key] = severity

    def is_held(self, key: str) -> bool:
        """Whether the opening of an incident was held back."""
        return key in self._held

    def on_follow_up(self, key: str, status: str, severity: str) -> bool:
        """Whether to hold back a later notification of an incident whose opening was held back.

        It is sent, as an opening, once the storm is over or the incident is critical; that it closes is never sent.
        """
        if key not in self._held:
            return False
        held = status == "close" or (self._since is not None and not self._may_pass(severity))
        if status == "close" or not held:
            del self._held[key]
        return held

    def end_if_over(self, now_ms: int) -> Notification | None:
        """End the storm if its time has passed; returns the notification to send, or None."""
        if self._since is None or not is_due(self._until, now_ms, self._minutes_ms):
            return None
        open_still = Counter(self._held.values())
        found = ", ".join(f"{open_still[name]} {name}" for name in reversed(SEVERITIES) if open_still[name])
        text = f"Fewer incidents open again; of those held back are still open: {found or 'none'}. See the dashboard."
        note = kappa_notification(self.key, "close", ALERT, text, self._since, now_ms)
        self._since = None
        return note

    def _begun(self, now_ms: int) -> Notification:
        opened = f"More than {self.limit:,} incidents have opened within {counted(self.minutes, 'minute')}."
        text = f"{opened} Until fewer do, only critical ones are sent one by one: see the dashboard."
        return kappa_notification(self.key, "open", ALERT, text, now_ms, now_ms)
