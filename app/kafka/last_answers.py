"""A broker that refuses a client answers why and closes the connection: kafka-python takes the answer before it sees the end.

As it is, kafka-python drops bytes that it receives together with the end of the connection. Then a wrong password is a broker that does
not answer, each time that both come at once, and the client tries on for `kafka.connect_seconds`.
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
        transport._sock_recv = bytes_first(transport._sock_recv)


def bytes_first(receive: Callable[[Any], Received]) -> Callable[[Any], Received]:
    """The same, which says of the end at the next call where there are bytes: the socket says so again."""

    @wraps(receive)
    def receiving(transport: Any) -> Received:
        found, error = receive(transport)
        return found, None if found else error

    return receiving
