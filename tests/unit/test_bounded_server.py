"""The little HTTP server against clients that mean it harm."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.cli.demo_receiver import DemoReceiver
from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.runtime import bounded_server
from app.runtime.bounded_server import MOST_CONNECTIONS
from app.runtime.health import Health, HealthServer
from app.runtime.score_server import serving_scores


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


def test_it_answers_again_after_threads_could_not_be_started(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(MOST_CONNECTIONS):
            with socket.create_connection((LOOPBACK, port), 20) as connection:
                assert connection.recv(1) == b"", "closed without an answer"
    assert status(port, "/") == 404


def test_a_client_that_asks_byte_by_byte_is_closed(port: int) -> None:
    with socket.create_connection((LOOPBACK, port), 20) as slow:
        slow.settimeout(0.02)
        began, closed = time.monotonic(), False
        while not closed and time.monotonic() - began < 15:
            with suppress(TimeoutError):
                try:
                    slow.sendall(b"G")
                    closed = slow.recv(1) == b""
                except ConnectionError:
                    closed = True
        assert closed


def test_a_very_long_address_is_refused(port: int) -> None:
    assert status(port, "/state?series=" + "a" * 10_000) == 414
    assert status(port, "/state?series=" + "a" * 100_000) == 414


def test_it_answers_as_before_and_names_no_versions(port: int) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=20) as answer:
        assert answer.headers["Server"] == "kappa" and b"kappa" in answer.read()
    assert status(port, "/") == 404


def asked(port: int, *hosts: str, protocol: str = "HTTP/1.1", method: str = "GET") -> bytes:
    """The first line of the answer to a request with these headers `Host`."""
    with socket.create_connection((LOOPBACK, port), 20) as connection:
        lines = [f"{method} /metrics {protocol}", *(f"Host: {host}" for host in hosts), "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return connection.makefile("rb").readline()


KNOWN = ("127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "10.1.2.3", "jobs.example.net", "Jobs.example.net")


@pytest.mark.parametrize("host", KNOWN)
@pytest.mark.parametrize("suffix", ["", ":9464"])
def test_who_asks_by_an_address_or_a_known_name_is_answered(host: str, suffix: str) -> None:
    with HealthServer(Health(60.0), LOOPBACK, 0, names=["jobs.example.net"]) as server:
        assert b" 200 " in asked(int(server.address.rpartition(":")[2]), host + suffix)


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.example"],
        ["evil.example:9464"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example"],
        ["127.0.0.1@evil.example"],
        ["[::1"],
        [""],
        ["127.0.0.1", "evil.example"],
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_whose_name_leads_here_is_refused(port: int, hosts: list[str], method: str) -> None:
    assert b" 421 " in asked(port, *hosts, method=method)


@pytest.mark.parametrize(("names", "answer"), [((), b" 200 "), (("web-1.example.net",), b" 421 ")])
def test_beyond_loopback_any_name_will_do_until_some_are_given(names: tuple[str, ...], answer: bytes) -> None:
    with HealthServer(Health(60.0), "0.0.0.0", 0, names=names) as server:
        assert answer in asked(int(server.address.rpartition(":")[2]), "web-2.example.net")


def test_a_request_of_http_1_0_needs_no_host(port: int) -> None:
    assert b" 200 " in asked(port, protocol="HTTP/1.0")


def test_the_server_of_scores_and_the_receiver_of_the_demonstration_refuse_foreign_names_too(tmp_path: Path) -> None:
    with serving_scores(Settings(home=tmp_path)) as found, DemoReceiver(print) as receiver:
        urls = [found["SCORES_URL"], receiver.settings.channels["demo"].url.get_secret_value()]
        for url in urls:
            assert b" 421 " in asked(urlsplit(url).port or 0, "evil.example", method="POST")
