"""Records of people and tools, for the input topics that have one partition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.kafka.connection import client_options
from app.kafka.producer import BoundedProducer


def append(settings: Settings, kind: str, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Append records with their keys to the topic of a kind, and wait for Kafka. Raises ServiceUnavailable if it does not take them."""
    topic = settings.topic(kind)
    with BoundedProducer(client_options(settings)) as outbox:
        outbox.partitions(topic)
        for key, record in records:
            value = json.dumps(record, ensure_ascii=False).encode()
            outbox.send(topic, value, key=key.encode(), partition=0, timestamp_ms=wall_clock())
