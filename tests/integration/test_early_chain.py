"""The whole chain with early alarms: a live fault, the lane killed and held up meanwhile, and the results without any of it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession
from support.live_jobs import records, run_to_end, settings_file, start, wait_for, watermarks

from app.core.settings import Settings, load
from app.core.timestamps import iso_millis, wall_clock
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1500)]

HISTORY_SECONDS = 2_400
HOSTS = ("web-1", "web-2", "web-3")
USUAL = {"cpu": 20.0, "latency": 100.0}
EARLY = "[early]\nenabled = true\nfalse_alarms_a_day = 500\n"


class LiveLog:
    """A log that goes on with the clock: two metrics of some hosts every ten seconds, lines of a service, heartbeats everywhere."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._chance = settings, random.Random(1)
        self._outbox = BoundedProducer(client_options(settings))
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._go_on, daemon=True)
        self.factor = dict.fromkeys(HOSTS, 1.0)
        self._at = wall_clock() // 1000 * 1000 - 1000 * HISTORY_SECONDS
        self._until(wall_clock() - 1_000)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(10.0)
        self._outbox.close(0.0)

    def _go_on(self) -> None:
        while not self._stop.wait(0.5):
            self._until(wall_clock())

    def _until(self, end: int) -> None:
        while self._at <= end:
            self._second(self._at)
            self._at += 1000
        self._outbox.flush(30.0)

    def _second(self, at: int) -> None:
        queue_heartbeats(self._outbox, input_partitions(self._settings), at)
        for host in HOSTS if at % 10_000 == 0 else ():
            for metric, level in USUAL.items():
                value = self.factor[host] * level * self._chance.gauss(1.0, 0.05)
                point = {"@timestamp": iso_millis(at), "host.name": host, "metric.name": metric, "metric.value": value}
                self._send("telemetry", point, at)
        if at % 2_000 == 0:
            line = {"@timestamp": iso_millis(at), "host.name": HOSTS[0], "service.name": "shop", "log.level": "info"}
            self._send("logs", line | {"message": f"served {at % 977} items"}, at)

    def _send(self, kind: str, event: dict[str, Any], at: int) -> None:
        topic = self._settings.topic(kind)
        self._outbox.send(topic, json.dumps(event).encode(), key=b"agent", partition=0, timestamp_ms=at)


def alarms(settings: Settings) -> list[dict[str, Any]]:
    """The records of `early`, with their append times."""
    part = TopicPartition(settings.topic("early"), 0)
    with closing(KafkaConsumer(**client_options(settings))) as consumer:
        consumer.assign([part])
        consumer.seek_to_beginning(part)
        end, found = consumer.end_offsets([part])[part], []
        while consumer.position(part) < end:
            for one in (one for batch in consumer.poll(500).values() for one in batch):
                found.append(json.loads(one.value) | {"appended": one.timestamp})
    return [one for one in found if one["record"] == "early"]


def bounded(settings: Settings) -> set[bytes | None]:
    """The series that have had a bound."""
    return {key for key, value, _ in records(settings, "bounds") if b'"upper"' in value}


def judged(settings: Settings) -> int:
    """The last window that all shards have judged."""
    last: Counter[int] = Counter()
    for end, shard in watermarks(settings, "novelties"):
        last[shard] = max(last[shard], end)
    return min(last.values()) if len(last) == settings.windowing.shards else 0


def lane_of(jobs: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes of the lane that live, those that were started last first."""
    children: list[psutil.Process] = psutil.Process(jobs.pid).children(recursive=True)
    return sorted(filter(is_of_lane, children), key=lambda one: -one.create_time())


def is_of_lane(process: psutil.Process) -> bool:
    """Whether it is the lane's, and not ended."""
    with suppress(psutil.NoSuchProcess):  # a zombie too
        return "early" in process.cmdline()
    return False


def until(settings: Settings, kind: str, end: int) -> set[tuple[Any, ...]]:
    """The records of a kind of windows up to one, without the version's name."""
    read = [(key, json.loads(value) | {"version": ""}) for key, value, _ in records(settings, kind)]
    return {
        (key, json.dumps(value, sort_keys=True))
        for key, value in read
        if value["record"] != "watermark" and value["window_end"] <= end
    }


def test_the_lane_finds_a_fault_early_settles_all_and_changes_no_result(
    stack: Addresses, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    file = settings_file(tmp_path, stack, unique, "live", 50_000)
    file.write_text(file.read_text() + EARLY)
    settings = load(file)
    topics.create(settings)
    log, run_log = LiveLog(settings), tmp_path / "run.log"
    process = start(file, "all")
    try:
        wait_for(lambda: b"records from now on are compared" in run_log.read_bytes(), 300, "the lane")
        wait_for(lambda: judged(settings) > wall_clock() - 90_000, 300, "the jobs to follow the clock")
        wait_for(lambda: {b"gauge/web-1//cpu", b"gauge/web-2//cpu"} <= bounded(settings), 60, "bounds")

        # a fault, and the lane is killed while its alarms wait
        log.factor["web-1"] = 8.0
        wait_for(lambda: any(one["host"] == "web-1" for one in map(with_host, alarms(settings))), 60, "an early alarm")
        before = judged(settings)
        lane_of(process)[0].send_signal(signal.SIGKILL)
        wait_for(lambda: judged(settings) >= before + 30_000, 120, "the jobs to go on")
        wait_for(lambda: any(one["status"] == "confirmed" for one in alarms(settings)), 240, "a confirmation")
        log.factor["web-1"] = 1.0

        # the lane is minutes behind: another fault begins and is judged while it stands still
        held = lane_of(process)
        for one in held:
            one.suspend()
        log.factor["web-2"], begins = 8.0, wall_clock()
        wait_for(lambda: judged(settings) >= begins + 60_000, 240, "the jobs to judge the fault without the lane")
        for one in held:
            one.resume()
        log.factor["web-2"], ends = 1.0, wall_clock()
        wait_for(lambda: judged(settings) >= ends + 300_000, 520, "all to be settled")
        wait_for(lambda: len(waiting(alarms(settings))) == 0, 60, "all to be settled")
    finally:
        process.send_signal(signal.SIGTERM)
        log.end()
        assert process.wait(timeout=120) == 0

    found = alarms(settings)
    assert max(Counter((one["series"], one["window_end"], one["status"]) for one in found).values()) == 1
    settled = Counter(one["id"] for one in found if one["status"] != "raised")
    assert settled == Counter({one["id"]: 1 for one in found if one["status"] == "raised"})
    confirmed = [one for one in found if one["status"] == "confirmed" and one.get("seconds_won") is not None]
    assert max(one["seconds_won"] for one in confirmed) > 20
    quick = [one["appended"] - one["event_time"] for one in found if one["status"] == "raised"]
    assert min(quick) < 5_000

    plain = load(settings_file(tmp_path, stack, unique, "plain", 50_000))
    topics.create(plain)
    assert run_to_end(spark, plain) == 0
    end = min(judged(settings), judged(plain))
    for kind in ("scores", "novelties", "incidents"):
        own = until(settings, kind, end)
        assert own and own == until(plain, kind, end), kind
    assert not records(plain, "bounds") and records(settings, "bounds")


def with_host(alarm: dict[str, Any]) -> dict[str, Any]:
    """The alarm with the host of its series."""
    return alarm | {"host": alarm["series"].split("/")[1]}


def waiting(found: list[dict[str, Any]]) -> set[str]:
    """The ids of alarms that are not settled."""
    return {one["id"] for one in found} - {one["id"] for one in found if one["status"] != "raised"}
