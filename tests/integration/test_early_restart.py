"""What the early lane knows after a restart, of a real Kafka: which confirmed alarms have an open incident."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer
from support.incident_records import alarm, alarm_value
from support.incident_records import value as incident_value
from support.waiting import wait_until

from app.core.settings import load
from app.early.early_log import EarlyLog
from app.early.settlement import Settlement
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options

pytestmark = [pytest.mark.stack]

PATIENCE_MS = 120_000


@pytest.mark.parametrize("status", ["open", "close"])
def test_a_series_raises_nothing_as_long_as_the_incident_that_confirmed_its_alarm_is_open(
    folder: Path, stack: Addresses, unique: str, status: str
) -> None:
    settings = load(
        home=folder,
        kafka={"bootstrap_servers": stack.kafka},
        topics={"prefix": f"{unique}-", "telemetry_partitions": 1, "logs_partitions": 1, "partitions": 1},
        early={"enabled": True},
    )
    topics.create(settings)
    raised = alarm(1)
    confirmed = replace(raised, status="confirmed", incident=f"{1:024x}", settled_at=raised.window_end + 10_000)
    with closing(KafkaProducer(**client_options(settings), acks="all")) as producer:
        # The alarm waits no more, so the incident that confirmed it is older than all that wait.
        for topic, value in (
            ("incidents", incident_value(1)),
            *((("incidents", incident_value(1, status)),) if status == "close" else ()),
            *(("early", alarm_value(one)) for one in (raised, confirmed)),
        ):
            producer.send(settings.topic(topic), value, key=b"key", partition=0).get(10.0)
    with closing(EarlyLog(settings, Settlement(PATIENCE_MS))) as lane:

        def is_current() -> bool:
            lane.poll()
            return lane.is_current

        wait_until(is_current, 30.0)
        assert lane.settlement.waiting == {}
        assert lane.settlement.quiet == ({raised.series} if status == "open" else set())
