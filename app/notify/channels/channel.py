"""What every kind of channel does, and how it fails.

Unreachable      it did not take the notification; another try may succeed
ChannelRefused   it will not take it, however often it is tried
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from app.notify.notification import Notification
from models.core.printable import printable
from pipelines.errors import InputError, ServiceUnavailable

LONGEST_ANSWER = 200  # characters


class Unreachable(ServiceUnavailable):
    """The channel did not take a notification; `after_seconds`: how long it asks us to wait, where it says so."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(shortened(message))
        self.after_seconds = after_seconds


class ChannelRefused(InputError):
    """The channel refuses a notification."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class Channel(Protocol):
    """Sends notifications."""

    #: What is open is sent again and again, as long as it is.
    resends: bool

    def send(self, note: Notification, now_ms: int) -> str:
        """Send one; returns the answer, for people. Raises Unreachable or ChannelRefused."""
        ...

    def resend(self, notes: Iterable[Notification], now_ms: int) -> str:
        """Send what is open again. Raises Unreachable or ChannelRefused."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def shortened(text: str) -> str:
    """An answer, on one line."""
    return printable(" ".join(text.split()))[:LONGEST_ANSWER]
