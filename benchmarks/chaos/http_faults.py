"""HTTP servers on loopback before Elasticsearch: one that asks a rule, and one that on demand refuses requests or cuts connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

# What Elasticsearch itself answers. Where the status is for a whole request, so is the error.
ERRORS: dict[int, str] = {
    401: "security_exception",
    403: "security_exception",
    413: "content_too_long_exception",
    429: "es_rejected_execution_exception",
    503: "no_shard_available_action_exception",
}
CUT = 0
TOO_LARGE, MOST_BYTES = 413, 32_768  # a single document is smaller: refusing one for its size would be for good

Answer = tuple[int, bytes]
Forward = Callable[[bytes], Answer]


class RuledProxy:
    """Answers as its rule says, which gets the path and the body of a request, and a function that passes a body on.

    Where the rule says None, it closes the connection.
    """

    def __init__(self, url: str, rule: Callable[[str, bytes, Forward], Answer | None], port: int = 0) -> None:
        """`url` is that of Elasticsearch."""
        target = urlsplit(url)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                found = None
                with suppress(OSError, HTTPException):  # Elasticsearch is away: so is this, as far as clients see
                    found = rule(self.path, body, self._forward)
                if found is None:
                    self.close_connection = True
                    return
                status, answer = found
                self.send_response(status)
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(answer)

            def _forward(self, body: bytes) -> Answer:
                connection = HTTPConnection(target.hostname or "", target.port or 80, timeout=60)
                try:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
                    connection.request(self.command, self.path, body, headers)
                    answer = connection.getresponse()
                    return answer.status, answer.read()
                finally:
                    connection.close()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on stderr."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that was killed is no news."""

        self._server = Quiet(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """Its own address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class FaultyProxy(RuledProxy):
    """Passes requests on while `fault` is None. Else it answers with that status, 413 to large requests only, or closes the connection (`CUT`)."""

    def __init__(self, url: str) -> None:
        """`url` is that of Elasticsearch."""
        self.fault: int | None = None
        self.refused = 0
        super().__init__(url, self._answer)

    def _answer(self, _path: str, body: bytes, forward: Forward) -> Answer | None:
        fault = self.fault
        if fault is None or (fault == TOO_LARGE and len(body) <= MOST_BYTES):
            return forward(body)
        self.refused += 1
        return None if fault == CUT else (fault, _error(fault))


def _error(status: int) -> bytes:
    cause = {"type": ERRORS[status], "reason": "injected"}
    return json.dumps({"error": {**cause, "root_cause": [cause]}, "status": status}).encode()
