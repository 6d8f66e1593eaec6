"""A server on loopback that answers every request alike, for what cannot be had where tests run, and keeps what it is asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: Message
    body: bytes


@contextmanager
def server_that(
    status: int, answer: bytes, tls: ssl.SSLContext | None = None, /, **headers: str
) -> Iterator[tuple[str, list[Asked]]]:
    """A server that answers so, with headers (`_` in a name is `-`), on loopback or within TLS; its address, and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(Asked(self.path, self.headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(answer)

        do_PUT = do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
