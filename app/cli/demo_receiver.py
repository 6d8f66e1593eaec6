"""Who is notified in the demonstration: a webhook on loopback, which checks the signature of each notification and prints its title."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from typing import Any, Self

from pydantic import SecretStr

from app.core.notify_settings import ChannelSettings, NotifySettings
from app.core.ports import LOOPBACK
from app.core.report import Report
from app.notify.channels.webhook import signature
from app.runtime.bounded_server import BoundedHandler, BoundedServer
from models.rules.route import Route

MOST_BODY = 1_000_000
NAME = "demo"


class DemoReceiver:
    """The receiver, as a context manager."""

    def __init__(self, report: Report) -> None:
        """`report` gets a line for each notification that is taken."""
        self._report, self._secret = report, secrets.token_hex(16)
        self._lock, self.taken = threading.Lock(), set[str]()
        self._server = BoundedServer((LOOPBACK, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True)

    @property
    def settings(self) -> NotifySettings:
        """Settings by which all that is minor or worse comes here."""
        url = f"http://{LOOPBACK}:{self._server.server_port}/"
        channel = ChannelSettings(kind="webhook", url=SecretStr(url), secret=SecretStr(self._secret), pipeline=False)
        route = Route(name="minor or worse", severity="minor", channels=(NAME,))
        return NotifySettings(channels={NAME: channel}, routes=(route,), default=())

    def take(self, headers: Any, body: bytes) -> int:
        """The status for a notification: 401 with a wrong signature, 204 for one that is taken, also a second time."""
        identity, seconds = str(headers["webhook-id"]), str(headers["webhook-timestamp"])
        wanted = signature(self._secret.encode(), identity, seconds, body)
        if not hmac.compare_digest(wanted, str(headers["webhook-signature"])):
            return 401
        with self._lock:
            is_new = identity not in self.taken
            self.taken.add(identity)
        if is_new:
            self._report(f"notified: {json.loads(body)['title']}")
        return 204

    def _handler(self) -> type[BoundedHandler]:
        receiver = self

        class Handler(BoundedHandler):
            def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
                return 405, "text/plain", b"wanted POST\n"

            def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
                length = self.headers.get("Content-Length", "")
                body = self.rfile.read(int(length)) if length.isdecimal() and int(length) <= MOST_BODY else None
                self.heard()
                self.reply(413 if body is None else receiver.take(self.headers, body), "text/plain", b"")

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
