"""A small HTTP server that a client cannot exhaust: few connections at a time, each with little time to ask its one question.

It answers under names that are known alone. A page of the web whose name leads to an address of this machine (DNS rebinding) asks with its own
name in `Host`, and a browser would let it read the answer. An address there is no name: nobody can lead it elsewhere.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from app.core.ports import family_of, is_loopback

MOST_CONNECTIONS = 32
ASK_SECONDS = 5.0  # from the connection to the end of the request's headers
ANSWER_SECONDS = 10.0  # for a client to take the answer
MOST_PATH = 2_048  # characters
UNKNOWN_NAME = b"not a name of this server: ask by its address, or set health.names\n"


class BoundedServer(ThreadingHTTPServer):
    """Closes connections above `MOST_CONNECTIONS`, and those whose request is not there after `ASK_SECONDS`."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler], names: Iterable[str] = ()) -> None:
        """`names`: under which it answers, besides addresses, `localhost` and what it listens on.

        Without any, beyond loopback, it answers under each: nobody here knows how it is reached.
        """
        names = tuple(names)
        self._known = bool(names) or is_loopback(address[0])
        self._names = {name.lower() for name in ("localhost", address[0], *names)}
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._asking: dict[socket.socket, float] = {}
        self.address_family = family_of(address[0])
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; a connection too many is closed."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._asking[request] = time.monotonic() + ASK_SECONDS
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then let another one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def _leave(self, request: Any) -> None:
        self.asked(request)
        self._free.release()

    def asked(self, request: Any) -> None:
        """The request is there: from now on it is our time."""
        self._asking.pop(request, None)

    def is_known(self, host: str) -> bool:
        """Whether a header `Host` has an address, or a name that is known."""
        if not self._known:
            return True
        try:
            name = urlsplit(f"//{host.strip()}").hostname or ""
        except ValueError:
            return False
        return name.removesuffix(".") in self._names or is_address(name)

    def service_actions(self) -> None:
        """Twice a second: end connections that have not asked in time, byte after byte or not at all."""
        now = time.monotonic()
        for request in [each for each, until in list(self._asking.items()) if until < now]:
            self.asked(request)
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or was sent away, is no news."""


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads one request; `answer` is what a path is answered with: status, content type, body."""

    timeout = ANSWER_SECONDS

    def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
        """What is there under a path."""
        raise NotImplementedError

    def parse_request(self) -> bool:
        """Read line and headers of a request. One to a name that is not known has its answer then."""
        if not super().parse_request():
            return False
        hosts = self.headers.get_all("Host", [])  # HTTP/1.0 may have none, which no browser speaks
        if isinstance(self.server, BoundedServer) and not all(map(self.server.is_known, hosts)):
            self.close_connection = True
            self.reply(421, "text/plain", UNKNOWN_NAME)
            return False
        return True

    def do_GET(self) -> None:
        """Answer."""
        self.heard()
        path, _, query = self.path.partition("?")
        known = len(self.path) <= MOST_PATH
        self.reply(*(self.answer(path, query) if known else (414, "text/plain", b"the address is too long\n")))

    def heard(self) -> None:
        """The request is read: from now on it is our time."""
        if isinstance(self.server, BoundedServer):
            self.server.asked(self.request)

    def reply(self, status: int, content_type: str, body: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """No versions of ours for those who look for holes in them."""
        return "kappa"

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
