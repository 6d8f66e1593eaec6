"""What a broker sends before it closes a connection is read, also where both come at once."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from kafka.errors import KafkaConnectionError
from kafka.net.transport import KafkaTCPTransport

import app.kafka.connection  # noqa: F401  every client of ours comes from there


def test_bytes_that_come_with_the_end_of_a_connection_are_handed_on_and_the_end_comes_next() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        theirs.sendall(b"no: wrong password")
        theirs.close()
        transport = SimpleNamespace(_sock=ours)
        assert KafkaTCPTransport._sock_recv(transport) == (b"no: wrong password", None)
        found, error = KafkaTCPTransport._sock_recv(transport)
        assert found == b""
        assert isinstance(error, KafkaConnectionError)
