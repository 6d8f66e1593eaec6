"""Single records against the bounds of their series, on a real Kafka: early alarms are raised once, and each is settled once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.sql import SparkSession
from support.incident_records import value as incident_value

from app.core.settings import Settings, load
from app.core.timestamps import iso_millis, wall_clock
from app.early import service
from app.early.metrics import LaneHealth
from app.early.settlement import patience_ms
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from models.records.records import WatermarkMessage, early_id
from models.records.schema import plain
from models.templates.extraction import template_id, template_of

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.long]

SHARDS = 4
CPU, DISK, KNOWN_LINE, NEW_LINE = "gauge/web-1//cpu", "counter/web-2//disk", "user 17 logged in", "cannot reach shard 5"


class EarlyTopics:
    """Topics of the test's own: what agents and the jobs would write, and what the lane has written."""

    def __init__(self, settings: Settings) -> None:
        topics.create(settings)
        self.settings = settings
        self._producer = KafkaProducer(**client_options(settings), acks="all")

    def append(self, kind: str, *records: dict[str, Any], partition: int = 0) -> None:
        for one in records:
            key = str(one.get("series", "none")).encode()
            sent = self._producer.send(
                self.settings.topic(kind), json.dumps(one).encode(), key=key, partition=partition
            )
            sent.get(10.0)

    def bound(self, series: str, **what: Any) -> None:
        self.append("bounds", {"record": "bound", "series": series, "window_end": 1_000, "chance": 1e-9} | what)

    def point(self, series: str, number: float, at: int) -> None:
        kind, host, _, metric = series.split("/")
        event = {"@timestamp": iso_millis(at), "host.name": host, "metric.name": metric, "metric.value": number}
        self.append("telemetry", event | ({"metric.type": "counter"} if kind == "counter" else {}))

    def line(self, message: str, at: int) -> None:
        event = {"@timestamp": iso_millis(at), "host.name": "web-1", "service.name": "shop", "log.level": "warn"}
        self.append("logs", event | {"message": message})

    def judged(self, until: int) -> None:
        for shard in range(SHARDS):
            message = WatermarkMessage(watermark=until, shard=shard, shards=SHARDS)
            self.append("novelties", plain(message), partition=shard % 2)

    def alarms(self) -> list[dict[str, Any]]:
        part = TopicPartition(self.settings.topic("early"), 0)
        with closing(KafkaConsumer(**client_options(self.settings))) as consumer:
            consumer.assign([part])
            consumer.seek_to_beginning(part)
            end, found = consumer.end_offsets([part])[part], []
            while consumer.position(part) < end:
                found += [json.loads(one.value) for batch in consumer.poll(500).values() for one in batch]
        return found

    def statuses(self) -> Counter[tuple[str, str]]:
        return Counter((one["series"], one["status"]) for one in self.alarms())


@pytest.fixture
def log(folder: Path, stack: Addresses, unique: str) -> EarlyTopics:
    own = {"prefix": f"{unique}-", "telemetry_partitions": 1, "logs_partitions": 1, "partitions": 2}
    windows = {"shards": SHARDS}
    kafka = {"bootstrap_servers": stack.kafka}
    return EarlyTopics(load(home=folder, kafka=kafka, topics=own, windowing=windows, early={"enabled": True}))


@contextmanager
def running(spark: SparkSession, settings: Settings) -> Iterator[None]:
    """The lane, from when it compares records until nobody wants it any more."""
    stopping, compares, failed = threading.Event(), threading.Event(), []
    health = LaneHealth(settings)

    def run() -> None:
        try:
            service.run_version(spark, settings, stopping, health, follow=False, report=lambda line: compares.set())
        except Exception as error:
            failed.append(error)
            compares.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        assert compares.wait(120.0) and not failed, failed
        assert health.health.summary()["version"] == settings.version
        yield
    finally:
        stopping.set()
        thread.join(30.0)
    assert not thread.is_alive() and not failed, failed


def until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        threading.Event().wait(0.1)


def test_each_alarm_is_raised_once_and_settled_once_also_when_the_lane_begins_again(
    kafka_spark: SparkSession, log: EarlyTopics
) -> None:
    settings, window = log.settings, 10_000
    log.bound(CPU, lower=0.1, upper=0.9, typical=0.5)
    log.bound(DISK, upper=100.0, typical=10.0)
    log.bound("template/web-1/shop", known=[template_id(template_of(KNOWN_LINE))])
    template_series = f"template/web-1/shop/warn/{template_id(template_of(NEW_LINE))}"
    log.append("bounds", {"record": "no bound"})
    now = wall_clock()
    log.judged(now // window * window - 2 * window)

    def send() -> None:
        at = wall_clock()
        log.point(CPU, 0.95, at - 60_000)  # late
        log.point("gauge/web-9//cpu", 99.0, at)  # of a series without a bound
        log.point(DISK, 1_000.0, at - 2_000)
        log.point(DISK, 1_100.0, at)  # 50 a second
        log.line(KNOWN_LINE, at)
        for number in (0.5, 0.95, 0.97):
            log.point(CPU, number, at)
        log.line(NEW_LINE, at)

    raised = {(CPU, "raised"): 1, (template_series, "raised"): 1}
    with running(kafka_spark, settings):
        send()
        until(lambda: log.statuses() == raised)
        alarm = next(one for one in log.alarms() if one["series"] == CPU)
        assert alarm["id"] == early_id(CPU, alarm["window_end"])
        assert (alarm["value"], alarm["upper"], alarm["bound_window_end"]) == (0.95, 0.9, 1_000)
        assert "lower" not in alarm and alarm["event_time"] < alarm["window_end"] <= alarm["event_time"] + window
    with running(kafka_spark, settings):
        send()
        log.point(DISK, 9_100.0, wall_clock() + 1_000)
        until(lambda: log.statuses() == raised | {(DISK, "raised"): 1})
        opened = json.loads(incident_value(1)) | {
            "window_end": alarm["window_end"],
            "start": alarm["window_end"] - window,
        }
        log.append("incidents", opened | {"hosts": ["web-1"], "series": [{"series": CPU}]})
        until(lambda: log.statuses()[CPU, "confirmed"] == 1)
        log.judged(wall_clock() + 2 * window + patience_ms(settings.detection, 10.0))
        until(lambda: log.statuses()[DISK, "withdrawn"] == 1)
        send()
    found = log.alarms()
    assert Counter(one["status"] for one in found) == {"raised": 3, "confirmed": 2, "withdrawn": 1}
    confirmed = next(one for one in found if one["series"] == CPU and one["status"] == "confirmed")
    assert confirmed["incident"] == opened["id"] and confirmed["seconds_won"] > 0
