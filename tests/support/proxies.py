"""Small real HTTP servers that stand before Elasticsearch and behave like one that is overloaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.chaos.http_faults import Answer, Forward, RuledProxy

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

    def bulk_alone(path: str, body: bytes, forward: Forward) -> Answer:
        return rule(body, forward) if "_bulk" in path else forward(body)

    with RuledProxy(elasticsearch, bulk_alone, port) as found:
        yield found.url
