"""Posts to an address that is a secret: redirects are not followed, answers are read up to a bound, what comes back does not say the address."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

import httpx

from app.core.errors import SettingsError
from app.core.notify_settings import ChannelSettings
from app.core.secrets import masking
from app.notify.channels.channel import ChannelRefused, Unreachable

MOST_ANSWER = 4_096  # bytes that are read
LONGEST_WAIT = 3_600.0  # seconds that an answer may make us wait
TRY_AGAIN = (408, 425, 429)
# Keys of pagers are part of the template of a webhook.
LIKE_A_KEY = re.compile(r"[\w+/=.-]{16,}")
OWN_HEADERS = {"User-Agent": "kappa", "Accept-Encoding": "identity"}


# Each question has a connection of its own, which can be ended while nobody else waits on it.
NONE_KEPT = httpx.Limits(max_keepalive_connections=0)


class HttpClient:
    """Asks the server of a channel."""

    def __init__(self, settings: ChannelSettings) -> None:
        """Raises SettingsError for a file of authorities that cannot be used."""
        self._url = settings.url.get_secret_value()
        self._seconds = settings.timeout_seconds
        self._headers = httpx.Headers({name: value.get_secret_value() for name, value in settings.headers.items()})
        keys = LIKE_A_KEY.findall(settings.template.get_secret_value())
        self._masked = masking(self._url, *self._headers.values(), *keys)
        try:
            context = ssl.create_default_context(cafile=settings.ca_certs)
        except (OSError, ssl.SSLError) as error:
            msg = f"ca_certs {settings.ca_certs} cannot be used ({error.strerror or error}); wanted a PEM file"
            raise SettingsError(msg) from error
        self._client = httpx.Client(
            timeout=settings.timeout_seconds,
            verify=context,
            follow_redirects=False,
            headers=OWN_HEADERS,
            limits=NONE_KEPT,
        )

    def post(self, body: bytes, headers: Mapping[str, str], path: str = "") -> str:
        """The answer's status and beginning, without what is secret. Raises Unreachable or ChannelRefused."""
        url, all_headers = self._url.rstrip("/") + path if path else self._url, httpx.Headers(headers)
        all_headers.update(self._headers)
        until = monotonic() + self._seconds
        try:
            with self._opened(url, body, all_headers) as answer:
                return judged(answer, self._masked(beginning(answer, until)))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, ValueError) as error:
            msg = f"the address or a header of the channel is malformed ({type(error).__name__})"
            raise ChannelRefused(msg) from error
        except httpx.HTTPError as error:
            msg = f"{type(error).__name__}: {self._masked(str(error))}"
            raise Unreachable(msg) from error

    def close(self) -> None:
        """Close what is open."""
        self._client.close()

    @contextmanager
    def _opened(self, url: str, body: bytes, headers: httpx.Headers) -> Iterator[httpx.Response]:
        """An answer of which the headers are there within the time of a try: httpx counts its own from each byte anew."""
        ending = Ending(self._seconds)
        try:
            asked = self._client.build_request("POST", url, content=body, headers=headers)
            asked.extensions["trace"] = ending.traced
            answer = self._client.send(asked, stream=True)
        except httpx.TransportError as error:
            if not ending.is_over:
                raise
            msg = f"no answer within {self._seconds:g} s"
            raise httpx.ReadTimeout(msg) from error
        finally:
            ending.cancel()
        try:
            yield answer
        finally:
            answer.close()


class Ending:
    """Ends the connections that are made for a question, once it has lasted so long."""

    def __init__(self, seconds: float) -> None:
        self._lock, self._connections = threading.Lock(), []  # type: threading.Lock, list[socket.socket]
        self.is_over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def traced(self, event: str, info: Mapping[str, Any]) -> None:
        """What httpx calls at each step of a question."""
        if not event.endswith("connect_tcp.complete"):
            return
        # A second handle of the same connection: TLS takes the first one away.
        own = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            self._connections.append(own)
            if self.is_over:
                shut(own)

    def cancel(self) -> None:
        """The answer has begun, or there is none."""
        self._timer.cancel()
        with self._lock:
            for own in self._connections:
                own.close()
            self._connections = []

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            for own in self._connections:
                shut(own)


def shut(connection: socket.socket) -> None:
    """Wake whoever waits on a connection: it is over."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def beginning(answer: httpx.Response, until: float) -> str:
    """The beginning of an answer's body as text, as much as comes until then, monotonic seconds.

    It is not unpacked: one of 400 bytes with `Content-Encoding: gzip, gzip` took 200 MB.
    """
    read = b""
    for chunk in answer.iter_raw():
        read += chunk
        if len(read) >= MOST_ANSWER or monotonic() > until:
            break
    return read[:MOST_ANSWER].decode(errors="replace")


def judged(answer: httpx.Response, text: str) -> str:
    """Status and text of an answer that takes the notification. Raises Unreachable or ChannelRefused for others."""
    found = f"{answer.status_code} {text}".strip()
    if answer.is_success:
        return found
    if answer.is_server_error or answer.status_code in TRY_AGAIN:
        raise Unreachable(found, retry_after(answer.headers.get("Retry-After"), datetime.now(UTC)))
    raise ChannelRefused(found)


def retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds that a header `Retry-After` asks for, LONGEST_WAIT at most; None where it says nothing that can be read."""
    if header is None:
        return None
    try:
        seconds = float(header) if header.strip().isdigit() else (parsedate_to_datetime(header) - now).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)
