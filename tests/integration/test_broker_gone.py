"""What writes into Kafka when its broker is gone: it closes in the time that it was given, and hides no other error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.waiting import wait_until

from app.collector.collector import MOST_WAITING, Collected, collect
from app.core.settings import PROJECT, Settings
from app.embedded.stack import Stack, running_stack
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.kafka.producer import BoundedProducer
from app.notify.deliveries import DeliveryLog
from models.records.records import DeliveriesUntil
from pipelines.errors import ServiceUnavailable
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.stack

RECORD = DeliveriesUntil(topic="incidents", partition=0, offset=1)


@dataclass
class Writers:
    """What was connected to a broker that is gone."""

    topic: str
    outboxes: tuple[BoundedProducer, BoundedProducer]
    heartbeats: Heartbeats
    deliveries: DeliveryLog
    collector: Future[Collected]
    stop_collecting: threading.Event
    lines: Path
    sent: list[str]


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writers]:
    stack = Stack(tmp_path_factory.mktemp("gone"), jars=PROJECT / ".kappa" / "jars", elasticsearch=False)
    pool = ThreadPoolExecutor()
    with running_stack(stack) as addresses:
        made = Settings(home=stack.home)
        kafka = made.kafka.model_copy(update={"bootstrap_servers": addresses.kafka})
        settings = made.model_copy(update={"kafka": kafka})
        topics.create(settings)
        options, topic = client_options(settings), settings.topic("telemetry")
        file, stop, sent = stack.home / "a.log", threading.Event(), list[str]()
        own = {kind: settings.topic(kind) for kind in ("telemetry", "logs")}
        found = Writers(
            topic,
            (BoundedProducer(options), BoundedProducer(options)),
            Heartbeats(options, [topic], WindowingConfig()),
            DeliveryLog(settings, threading.Event()),
            pool.submit(collect, options, own, stop, files=[str(file)], on_event=lambda kind, _: sent.append(kind)),
            stop,
            file,
            sent,
        )
        for outbox in found.outboxes:
            queue(outbox, topic)
            outbox.flush()
        assert found.deliveries.append(RECORD)
        found.heartbeats.start()
        wait_until(lambda: found.heartbeats.beats > 0)
        wait_until(lambda: bool(sent))
    wait_until(lambda: bool(found.heartbeats.problem))  # which is logged once, in none of the tests
    yield found
    stop.set()
    found.heartbeats.stop()
    found.deliveries.close(1.0)
    for outbox in found.outboxes:
        outbox.close(0.0)
    pool.shutdown()


def queue(outbox: BoundedProducer, topic: str) -> None:
    outbox.send(topic, b"{}", key=b"", partition=0)


def test_what_is_not_taken_in_time_is_given_up_in_one_line(writers: Writers) -> None:
    outbox = writers.outboxes[0]
    for _ in range(3):
        queue(outbox, writers.topic)
    with capture_logs() as lines:
        outbox.close(0.2)
        outbox.close(0.2)
    assert [(line["event"], line["records"]) for line in lines] == [("records were given up", 3)]
    with pytest.raises(ServiceUnavailable):
        outbox.settle()  # they will never be sent


def test_an_error_of_whoever_writes_is_not_replaced_by_what_waits(writers: Writers) -> None:
    with pytest.raises(ValueError, match="of its own"), writers.outboxes[1] as outbox:
        queue(outbox, writers.topic)
        raise ValueError("of its own")


def test_what_a_notifier_records_waits_for_the_broker(writers: Writers) -> None:
    with capture_logs() as lines:
        assert not writers.deliveries.append(RECORD)
        writers.deliveries.close(1.0)
    assert [line["event"] for line in lines] == ["deliveries cannot be recorded now"]


def test_heartbeats_stop_in_one_line(writers: Writers) -> None:
    with capture_logs() as lines:
        writers.heartbeats.stop()
    assert [line["event"] for line in lines] == ["records were given up"]


def test_a_collector_stops_also_when_it_has_no_room_for_more(writers: Writers) -> None:
    """Its records wait for a day."""
    writers.lines.write_text("a line\n" * (MOST_WAITING + 1))
    wait_until(lambda: len(writers.sent) >= MOST_WAITING)
    writers.stop_collecting.set()
    with pytest.raises(ServiceUnavailable, match="did not take records"):
        writers.collector.result(timeout=60)
