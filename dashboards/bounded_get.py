"""HTTP GET with a bound on the total time and size of the answer, for servers that are not trusted."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


def get_bounded(address: str, seconds: float, most: int) -> tuple[int, bytes]:
    """The status of an answer, and at most `most` bytes of its body. No proxy is used.

    Raises OSError where nobody answers, or the answer takes longer than `seconds` after the connection is made, HTTPException for an answer that is
    not HTTP, and ValueError for a malformed address.
    """
    where = urlsplit(address)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(where.hostname or "", where.port, timeout=seconds)
    try:
        connection.connect()
        with close_after(seconds, connection.sock):
            connection.request("GET", where.path or "/")
            answer = connection.getresponse()
            return answer.status, answer.read(most)
    finally:
        connection.close()


@contextmanager
def close_after(seconds: float, connection: socket.socket) -> Iterator[None]:
    """Shut a connection down after `seconds`: a timeout of a socket starts anew with each byte."""

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
