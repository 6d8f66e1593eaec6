"""Chat, e-mail, pagers and a hundred other services, by the library apprise: an address such as `slack://...` says which."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import apprise

from app.core.errors import SettingsError
from app.core.notify_settings import ChannelSettings
from app.notify.channels.apprise_process import asset, is_taken
from app.notify.channels.channel import Unreachable
from app.notify.notification import Notification, neutralize

MAIL = ("mailto://", "mailtos://")
GOOGLE_CHAT = "gchat://"
TYPES = {"open": "warning", "update": "failure", "close": "success"}


class AppriseService:
    """A service that apprise knows. It says only whether it took a message, so every failure is tried again."""

    resends = False

    def __init__(self, settings: ChannelSettings) -> None:
        """Raises SettingsError for an address that apprise does not know, which the error does not say."""
        self._url, self._seconds = settings.url.get_secret_value(), settings.timeout_seconds
        if apprise.Apprise.instantiate(self._url, asset=asset()) is None:
            scheme = self._url.partition("://")[0][:20]
            msg = f"apprise knows no such address of {scheme}://; its documentation has the form for each service"
            raise SettingsError(msg)

    def send(self, note: Notification, now_ms: int) -> str:
        """Send it."""
        links = (f"\n{note.link}" if note.link else "") + (f"\nrunbook: {note.runbook}" if note.runbook else "")
        message = {
            "url": self.address(note),
            "body": neutralize(note.text) + links,
            "title": neutralize(note.title),
            "notify_type": TYPES[note.status],
        }
        if not is_taken(message, self._seconds):
            msg = "the service did not take it"
            raise Unreachable(msg)
        return "taken"

    def address(self, note: Notification) -> str:
        """The address with what makes messages about one incident a thread, where apprise can: e-mail and Google Chat."""
        if self._url.startswith(GOOGLE_CHAT) and "thread" not in self._url:
            return f"{self._url}{'&' if '?' in self._url else '?'}thread={quote(note.key, safe='')}"
        if not self._url.startswith(MAIL):
            return self._url
        more = "" if "format=" in self._url else "&format=text"
        thread = quote(f"<{note.key}@kappa>")
        return f"{self._url}{'' if '?' in self._url else '?'}{more}&+References={thread}&+In-Reply-To={thread}"

    def resend(self, notes: Iterable[Notification], now_ms: int) -> str:
        """What is sent is not sent again."""
        raise NotImplementedError

    def close(self) -> None:
        """There is no connection."""
