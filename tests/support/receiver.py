"""A server on loopback that takes notifications: it answers as a test wants, late as well, and keeps what comes."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer: status, headers, body, and how late; one that is `endless`, or whose headers are, goes on byte by byte until nobody listens."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"taken"
    after_seconds: float = 0.0
    endless: bool = False
    endless_headers: bool = False


@dataclass(frozen=True)
class Post:
    """What came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """The answers that are still to be given, the first one first, and what came. Without any left it takes everything."""

    def __init__(self, port: int) -> None:
        self.posts: list[Post] = []
        self.answers: deque[Answer] = deque()
        self.on_post: Callable[[Post], None] = lambda post: None
        self.always: Answer = Answer()
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        """The ids of what came, in order."""
        return [post.headers["webhook-id"] for post in self.posts]

    def until(self, what: Callable[[Receiver], bool], seconds: float = 30.0) -> None:
        """Wait until something holds of what came."""
        end = time.monotonic() + seconds
        while not what(self):
            assert time.monotonic() < end, f"after {seconds:g} s only {self.ids}"
            threading.Event().wait(0.02)


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A server that runs in the block."""
    receiver = Receiver(port)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            post = Post(self.path, {k.lower(): v for k, v in self.headers.items()}, body, time.monotonic())
            receiver.posts.append(post)
            receiver.on_post(post)
            answer = receiver.answers.popleft() if receiver.answers else receiver.always
            threading.Event().wait(answer.after_seconds)
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if not answer.endless:
                    self.send_header("Content-Length", str(len(answer.body)))
                if answer.endless_headers:
                    self.flush_headers()
                else:
                    self.end_headers()
                    self.wfile.write(answer.body)
                while answer.endless or answer.endless_headers:
                    self.wfile.write(b".")
                    threading.Event().wait(0.02)
            except (BrokenPipeError, ConnectionResetError):
                return  # who asked has gone

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not news."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
