"""Small real HTTP servers that stand before Elasticsearch and behave like one that is overloaded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, bytes]
Forward = Callable[[bytes], Answer]
Rule = Callable[[bytes, Forward], Answer]

OVERLOAD = {"type": "es_rejected_execution_exception", "reason": "queue is full"}


class Overload:
    """The first `times` bulk requests are answered 429."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, body: bytes, forward: Forward) -> Answer:
        if self.left:
            self.left -= 1
            return 429, json.dumps({"error": OVERLOAD, "status": 429}).encode()
        return forward(body)


class HalfOverload:
    """Of the first `times` bulk requests only the first half of the documents is taken, the others are answered 429."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, body: bytes, forward: Forward) -> Answer:
        lines = body.splitlines(keepends=True)
        if not self.left or len(lines) < 4:
            return forward(body)
        self.left -= 1
        middle = len(lines) // 4 * 2
        status, answer = forward(b"".join(lines[:middle]))
        items = json.loads(answer).get("items") or []
        items = items or [{"create": {"status": 201}}] * (middle // 2)
        refused = [{"create": {"status": 429, "error": OVERLOAD}}] * ((len(lines) - middle) // 2)
        return status, json.dumps({"errors": True, "items": items + refused}).encode()


class TooLarge:
    """Bulk requests of more than `most` bytes are answered 413."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.refusals = 0

    def __call__(self, body: bytes, forward: Forward) -> Answer:
        if len(body) > self.most:
            self.refusals += 1
            return 413, b"{}"
        return forward(body)


def as_it_is(body: bytes, forward: Forward) -> Answer:
    """The rule of a server that is well."""
    return forward(body)


@contextmanager
def proxy(elasticsearch: str, rule: Rule = as_it_is, port: int = 0) -> Iterator[str]:
    """Serve Elasticsearch through a rule for `_bulk`; gives the proxy's URL."""
    target = urlsplit(elasticsearch)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self, body: bytes) -> Answer:
            connection = HTTPConnection(target.hostname or "", target.port or 80, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_bulk = "_bulk" in self.path
            status, answer = rule(body, self._forward) if is_bulk else self._forward(body)
            self.send_response(status)
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_HEAD = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
