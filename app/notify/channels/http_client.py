"""Posts to an address that is a secret: redirects are not followed, answers are read up to a bound, errors do not say the address."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic

import httpx

from app.core.errors import SettingsError
from app.core.notify_settings import ChannelSettings
from app.notify.channels.channel import ChannelRefused, Unreachable

MOST_ANSWER = 4_096  # bytes that are read
LONGEST_WAIT = 3_600.0  # seconds that an answer may make us wait
TRY_AGAIN = (408, 425, 429)
OWN_HEADERS = {"User-Agent": "kappa", "Accept-Encoding": "identity"}


class HttpClient:
    """A connection to the server of a channel."""

    def __init__(self, settings: ChannelSettings) -> None:
        """Raises SettingsError for a file of authorities that cannot be used."""
        self._url = settings.url.get_secret_value()
        self._seconds = settings.timeout_seconds
        self._headers = httpx.Headers({name: value.get_secret_value() for name, value in settings.headers.items()})
        try:
            context = ssl.create_default_context(cafile=settings.ca_certs)
        except (OSError, ssl.SSLError) as error:
            msg = f"ca_certs {settings.ca_certs} cannot be used ({error.strerror or error}); wanted a PEM file"
            raise SettingsError(msg) from error
        self._client = httpx.Client(
            timeout=settings.timeout_seconds, verify=context, follow_redirects=False, headers=OWN_HEADERS
        )

    def post(self, body: bytes, headers: Mapping[str, str], path: str = "") -> str:
        """The answer's status and beginning. Raises Unreachable or ChannelRefused."""
        url, all_headers = self._url.rstrip("/") + path if path else self._url, httpx.Headers(headers)
        all_headers.update(self._headers)
        try:
            with self._client.stream("POST", url, content=body, headers=all_headers) as answer:
                text = beginning(answer, self._seconds)
                return judged(answer, text)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, ValueError) as error:
            msg = f"the address or a header of the channel is malformed ({type(error).__name__})"
            raise ChannelRefused(msg) from error
        except httpx.HTTPError as error:
            reason = str(error).replace(url, "the channel's address").replace(self._url, "the channel's address")
            msg = f"{type(error).__name__}: {reason}"
            raise Unreachable(msg) from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def beginning(answer: httpx.Response, most_seconds: float) -> str:
    """The beginning of an answer's body as text, as much as comes in the time.

    It is not unpacked: one of 400 bytes with `Content-Encoding: gzip, gzip` took 200 MB.
    """
    read, until = b"", monotonic() + most_seconds
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
