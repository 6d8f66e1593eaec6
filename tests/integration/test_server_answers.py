"""Whether the embedded servers work, as their supervisor asks them: one that hangs may still take connections."""

from __future__ import annotations

import socket

import pytest

from app.core.ports import LOOPBACK
from app.embedded.elasticsearch import elasticsearch_answers
from app.embedded.kafka import kafka_answers
from app.embedded.stack_state import Addresses

pytestmark = pytest.mark.stack


def test_servers_answer_and_what_only_takes_connections_does_not(stack: Addresses) -> None:
    kafka, elasticsearch = (int(str(address).rpartition(":")[2]) for address in (stack.kafka, stack.elasticsearch))
    assert kafka_answers(kafka, 10.0)
    assert elasticsearch_answers(elasticsearch, 10.0)
    assert not elasticsearch_answers(kafka, 0.5)
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        assert not kafka_answers(port, 0.2)
        assert not elasticsearch_answers(port, 0.2)
    assert not kafka_answers(port, 0.2)
    assert not elasticsearch_answers(port, 0.2)
