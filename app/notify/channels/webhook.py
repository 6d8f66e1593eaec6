"""A webhook: a POST for each notification, signed as Standard Webhooks has it where there is a secret.

`webhook-id` is the same for every try of a notification, `webhook-timestamp` seconds, and `webhook-signature`
`v1,BASE64(HMAC-SHA256(secret, id.timestamp.body))`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from app.core.errors import SettingsError
from app.core.notify_settings import ChannelSettings
from app.notify.channels.http_client import HttpClient
from app.notify.channels.template import compiled, rendered
from app.notify.notification import Notification

SECRET_BEGINS = "whsec_"  # of one that is Base64


class Webhook:
    """An address that takes POST."""

    resends = False

    def __init__(self, settings: ChannelSettings) -> None:
        """Raises SettingsError for a template, or a secret, that is malformed."""
        self._template = compiled(settings.template.get_secret_value()) if settings.template else None
        self._secret = None if settings.secret is None else key_of(settings.secret.get_secret_value())
        self._type, self._http = settings.content_type, HttpClient(settings)

    def send(self, note: Notification, now_ms: int) -> str:
        """Post it."""
        body, seconds = rendered(self._template, note), str(now_ms // 1000)
        headers = {"Content-Type": self._type, "webhook-id": note.identity, "webhook-timestamp": seconds}
        if self._secret is not None:
            headers["webhook-signature"] = signature(self._secret, note.identity, seconds, body)
        return self._http.post(body, headers)

    def resend(self, notes: Iterable[Notification], now_ms: int) -> str:
        """What is posted is not posted again."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def signature(secret: bytes, identity: str, seconds: str, body: bytes) -> str:
    """The header `webhook-signature`."""
    signed = hmac.new(secret, f"{identity}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def key_of(secret: str) -> bytes:
    """The key of a secret: what `whsec_` is followed by is Base64, any other text is the key itself. Raises SettingsError for no Base64."""
    if not secret.startswith(SECRET_BEGINS):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_BEGINS), validate=True)
    except binascii.Error as error:
        msg = f"secret begins with {SECRET_BEGINS} and is not Base64 after it"
        raise SettingsError(msg) from error
    if not key:
        msg = f"secret is {SECRET_BEGINS} alone, so that everybody could sign"
        raise SettingsError(msg)
    return key
