"""Mends kafka-python: bytes that are received together with the end of a connection are handed on, and not dropped.

A broker that refuses a client answers why, and closes the connection. Where both come at once, kafka-python loses the answer: a wrong
password looks like a broker that does not answer, and the client tries again for `kafka.connect_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

Received = tuple[bytes, Exception | None]  # and why there will be no more


def keep_last_answers() -> None:
    """From now on every connection of this process hands on what it has received before it ends. There is no setting for it."""
    for transport in (KafkaTCPTransport, KafkaSSLTransport):
        transport._sock_recv = report_bytes_first(transport._sock_recv)


def report_bytes_first(receive: Callable[[Any], Received]) -> Callable[[Any], Received]:
    """`receive`, which reports the end of the connection at its next call where it has bytes: the socket reports it again."""

    @wraps(receive)
    def receiving(transport: Any) -> Received:
        found, error = receive(transport)
        return found, None if found else error

    return receiving
