"""Asks a server that may be another one than is thought, and may mean it ill: an answer has a time in all and a size."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


def get(address: str, seconds: float, most: int) -> tuple[int, bytes]:
    """Status of an answer, and at most so many bytes of its body. It is asked for directly, without a proxy.

    Raises OSError where nobody answers or it takes longer than `seconds` once there is a connection, HTTPException for what is no HTTP and
    ValueError for a malformed address.
    """
    where = urlsplit(address)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(where.hostname or "", where.port, timeout=seconds)
    try:
        connection.connect()
        with ended_after(seconds, connection.sock):
            connection.request("GET", where.path or "/")
            answer = connection.getresponse()
            return answer.status, answer.read(most)
    finally:
        connection.close()


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
