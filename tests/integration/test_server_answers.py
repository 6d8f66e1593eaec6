"""Whether the embedded servers work, as their supervisor asks them: one that hangs may still take connections."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.embedded.elasticsearch import elasticsearch_answers
from app.embedded.kafka import kafka_answers
from app.embedded.stack_state import Addresses
from app.kafka import topics
from pipelines.errors import InputError

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


def test_a_topic_with_more_copies_than_there_are_brokers_is_refused_in_the_brokers_words(
    stack: Addresses, unique: str, tmp_path: Path
) -> None:
    made = Settings(home=tmp_path)
    own = {"prefix": f"{unique}.", "replication": 3}
    settings = made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "topics": made.topics.model_copy(update=own),
        }
    )
    answer = rf"InvalidReplicationFactorError.*topic {unique}\.telemetry .*3 copies.*only 1 broker.*topics\.replication"
    with pytest.raises(InputError, match=answer):
        topics.create(settings)
