"""What the processes of jobs on this machine serve as `/healthz`."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import structlog

from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.runtime.state_server import address_of

log = structlog.get_logger()

HTTP_SECONDS = 1.0
MOST_BYTES = 1_000_000


def addresses(settings: Settings) -> list[str]:
    """Where the jobs of this machine serve their health: at `health.port`, and the process with `detect`."""
    own = settings.health
    named = None if not own.port else f"http://{LOOPBACK if own.host == '0.0.0.0' else own.host}:{own.port}"
    return [address for address in (named, address_of(settings)) if address is not None]


def own_jobs(settings: Settings) -> dict[str, Mapping[str, Any]]:
    """The jobs of this machine that serve their health."""
    found: dict[str, Mapping[str, Any]] = {}
    for address in addresses(settings):
        try:
            found |= (health_at(address) or {}).get("jobs", {})
        except TypeError as error:
            log.debug("not an answer of /healthz", address=address, error=repr(error))
    return found


def health_at(address: str) -> Mapping[str, Any] | None:
    """What the process at an address says of its jobs; None where nobody answers, or something else does."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or LOOPBACK, where.port, timeout=HTTP_SECONDS)
    try:
        connection.connect()
        with ended_after(HTTP_SECONDS, connection.sock):
            connection.request("GET", "/healthz")
            body = connection.getresponse().read(MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        log.debug("no health", address=address, error=repr(error))
        return None
    finally:
        connection.close()
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        log.debug("not an answer of /healthz", address=address, error=repr(error))
        return None
    return found if isinstance(found, dict) and isinstance(found.get("jobs"), dict) else None


@contextmanager
def ended_after(seconds: float, connection: socket.socket) -> Iterator[None]:
    """Let a connection last so long and no longer, whatever comes of it: a timeout counts from each byte anew."""

    def end() -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
