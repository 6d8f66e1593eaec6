"""The little HTTP server against clients that mean it harm."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from app.core.ports import LOOPBACK
from app.runtime import bounded_server
from app.runtime.bounded_server import MOST_CONNECTIONS
from app.runtime.health import Health, HealthServer


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(bounded_server, "ASK_SECONDS", 0.2)
    with HealthServer(Health(60.0), LOOPBACK, 0) as server:
        yield int(server.address.rpartition(":")[2])


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=20)
    connection.request("GET", path)
    return connection.getresponse().status


def test_clients_that_never_finish_their_question_are_closed_and_hold_few_threads(port: int) -> None:
    before = threading.active_count()
    with ExitStack() as held:
        slow = [held.enter_context(socket.create_connection((LOOPBACK, port), 20)) for _ in range(3 * MOST_CONNECTIONS)]
        for each in slow:
            with suppress(ConnectionError):
                each.sendall(b"GET /healthz HTT")
        assert threading.active_count() <= before + MOST_CONNECTIONS
        for each in slow:
            with suppress(ConnectionError):
                assert each.recv(1) == b"", "closed without an answer"
    assert status(port, "/healthz") in (200, 503)


def test_a_very_long_address_is_refused(port: int) -> None:
    assert status(port, "/state?series=" + "a" * 10_000) == 414
    assert status(port, "/state?series=" + "a" * 100_000) == 414


def test_it_answers_as_before_and_names_no_versions(port: int) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=20) as answer:
        assert answer.headers["Server"] == "kappa" and b"kappa" in answer.read()
    assert status(port, "/") == 404
