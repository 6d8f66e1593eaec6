"""Asking the jobs how they are, where something else answers in their place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from support.recording_server import server_that

from app.runtime.bounded_server import UNKNOWN_NAME
from app.runtime.served_health import health_at
from dashboards import jobs


@pytest.mark.parametrize("ask", [health_at, jobs.fetch], ids=["notifier", "page"])
@pytest.mark.parametrize("given", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["headers", "body"])
def test_what_answers_byte_by_byte_holds_nobody_up(given: bytes, ask: Callable[[str], object]) -> None:
    gone = threading.Event()

    def answer() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(4_096)
            connection.sendall(given)
            while not gone.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer)
        answering.start()
        ended = threading.Timer(15, gone.set)  # so that a failure ends as well
        ended.start()
        began = time.monotonic()
        assert not isinstance(ask(f"http://127.0.0.1:{server.getsockname()[1]}"), dict | jobs.JobReport)
        assert time.monotonic() - began < 14
        gone.set()
        ended.cancel()
        answering.join()


def test_the_page_says_with_what_a_process_refuses_to_answer() -> None:
    with server_that(421, UNKNOWN_NAME) as (address, asked):
        assert jobs.fetch(f"{address}/behind") == f"HTTP 421: {UNKNOWN_NAME.decode().strip()}"
    assert [one.path for one in asked] == ["/behind/healthz"]
