"""`kappa watch` on a real Kafka: open incidents, new ones, stalled jobs, and how it ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from app.cli.watch_incidents import IncidentTracker, PipelineHealth, watch_until_stopped
from app.core.ports import free_port
from app.core.settings import Settings
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from models.records.records import EarlyAlarm
from pipelines.errors import InputError, ServiceUnavailable

pytestmark = pytest.mark.stack

SHARDS = 2
WAIT_SECONDS = 60.0


def incident(name: str, status: str, window: int) -> tuple[str, dict[str, Any]]:
    """A record of the topic `incidents`."""
    at = int(time.time() * 1000) - 60_000 + window * 10_000
    fields = {"kind": "silence", "score": 20.0 + window, "hosts": ["vm-1"], "reason": f"vm-1 is silent ({name})"}
    return "incidents", {"id": name, "status": status, "start": at, "window_end": at, **fields}


def watermark(shard: int, seconds_ago: float) -> tuple[str, dict[str, Any]]:
    """A watermark message of a shard of `detect`."""
    return "novelties", {
        "record": "watermark",
        "watermark": int((time.time() - seconds_ago) * 1000),
        "shard": shard,
        "shards": SHARDS,
    }


class Log:
    """Topics of the test's own, and what is written to them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        topics.create(settings)
        self._producer = KafkaProducer(**client_options(settings), acks="all")

    def write(self, *records: tuple[str, Mapping[str, Any]]) -> None:
        """Append records, in order."""
        for kind, record in records:
            self._producer.send(self.settings.topic(kind), json.dumps(record).encode(), partition=0)
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


@pytest.fixture
def settings(folder: Path, stack: Addresses, unique: str) -> Settings:
    """Settings of the test's own topics."""
    own = {"bootstrap_servers": stack.kafka}
    return Settings(home=folder, kafka=own, topics={"prefix": f"{unique}-", "partitions": 2})  # type: ignore[arg-type]


@pytest.fixture
def log(settings: Settings) -> Iterator[Log]:
    made = Log(settings)
    yield made
    made.close()


class QueueView:
    """A view that queues what it has to show, as tuples."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def show_version(self, version: str, tracker: IncidentTracker) -> None:
        self._queue.put(("version", version, sorted(tracker.open)))

    def show_incident(self, change: str, incident: Mapping[str, Any], tracker: IncidentTracker) -> None:
        self._queue.put((change, incident["id"]))

    def show_early(self, alarm: EarlyAlarm, tracker: IncidentTracker) -> None:
        self._queue.put(("early", alarm.id, alarm.status))

    def show_health(self, health: PipelineHealth, tracker: IncidentTracker) -> None:
        self._queue.put(("health", health))

    def next(self, *wanted: str) -> tuple[Any, ...]:
        """The next tuple of these kinds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            shown = self._queue.get(timeout=max(0.1, deadline - time.monotonic()))
            if shown[0] in wanted:
                return shown

    def health_with(self, **wanted: Any) -> PipelineHealth:
        """The next health with these values."""
        while True:
            (_, health) = self.next("health")
            if all(getattr(health, name) == value for name, value in wanted.items()):
                return health  # type: ignore[no-any-return]


@contextmanager
def watched(settings: Settings, *, follow: bool = False) -> Iterator[QueueView]:
    """A thread watches while the block runs."""
    view, stopping = QueueView(), threading.Event()
    watcher = threading.Thread(
        target=watch_until_stopped, args=(settings, stopping, view, 1.0), kwargs={"follow": follow}
    )
    watcher.start()
    try:
        yield view
    finally:
        stopping.set()
        watcher.join(WAIT_SECONDS)
    assert not watcher.is_alive()


def test_watch_shows_open_incidents_and_then_what_opens_and_closes(settings: Settings, log: Log) -> None:
    log.write(incident("a", "open", 0), incident("b", "open", 0), incident("b", "close", 1))
    with watched(settings) as view:
        assert view.next("version") == ("version", "live", ["a"])
        log.write(
            incident("c", "open", 2), incident("a", "update", 3), incident("a", "close", 4), incident("c", "open", 2)
        )
        changes = [view.next("open", "update", "close") for _ in range(3)]
        assert changes == [("open", "c"), ("update", "a"), ("close", "a")]


def test_watch_shows_stalled_jobs_lag_of_windows_and_refused_records(settings: Settings, log: Log) -> None:
    with watched(settings) as view:
        first = view.health_with()
        assert [words.split()[0] for words in first.stalled] == ["nothing"]
        assert (first.behind_seconds, first.late, first.healthy) == (None, 0, False)
        log.write(
            ("telemetry", {}),
            ("statistics", {}),
            watermark(0, 40),
            watermark(1, 20),
            ("late", {}),
            ("dead-letters", {}),
        )
        second = view.health_with(healthy=True, late=1, dead_letters=1)
        assert second.behind_seconds is not None
        assert 40 <= second.behind_seconds < 40 + WAIT_SECONDS


def test_job_stalls_once_what_it_reads_is_old(settings: Settings, log: Log) -> None:
    health = settings.health.model_copy(update={"stale_seconds": 1.0})
    log.write(("telemetry", {}))
    with watched(settings.model_copy(update={"health": health})) as view:
        stalled = view.health_with(
            late=0, stalled=("nothing has come in, not even heartbeats,", "extract has written nothing")
        )
        assert stalled.behind_seconds is None


def test_job_of_long_windows_may_be_silent_until_one_has_ended(settings: Settings, log: Log) -> None:
    health = settings.health.model_copy(update={"stale_seconds": 1.0})
    windowing = replace(settings.windowing, window_seconds=600)
    log.write(("telemetry", {}))
    with watched(settings.model_copy(update={"health": health, "windowing": windowing})) as view:
        first = view.health_with()
        seen = [view.health_with() for _ in range(3)]  # five seconds apart
        assert {(one.stale_seconds, one.stalled) for one in (first, *seen)} == {(601.0, ())}


def test_watermark_messages_of_before_the_watch_count(settings: Settings, log: Log) -> None:
    log.write(*(watermark(shard, 30) for shard in range(SHARDS)))
    with watched(settings) as view:
        assert view.health_with().behind_seconds is not None


def test_version_that_never_ran_is_one_line(settings: Settings) -> None:
    with pytest.raises(InputError, match="has never run here"):
        watch_until_stopped(settings, threading.Event(), QueueView(), 1.0, follow=False)


def test_a_broker_that_is_away_is_one_line() -> None:
    nobody = {"bootstrap_servers": f"127.0.0.1:{free_port(0)}", "connect_seconds": 0.5}
    away = Settings(kafka=nobody)  # type: ignore[arg-type]
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        watch_until_stopped(away, threading.Event(), QueueView(), 1.0, follow=False)


@pytest.mark.parametrize("how", ["interrupted", "nobody reads"])
def test_command_ends_cleanly(settings: Settings, log: Log, how: str) -> None:
    log.write(incident("a", "open", 0))
    own = {
        "KAPPA_HOME": str(settings.home),
        "KAPPA_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers or "",
        "KAPPA_TOPICS__PREFIX": settings.topics.prefix,
    }
    command = [sys.executable, "-m", "app.cli", "watch", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=os.environ | own, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        events = [json.loads(process.stdout.readline())["event"] for _ in range(2)]
        assert events == ["watching", "open"]
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
        else:
            process.stdout.close()
            log.write(incident("b", "open", 1))
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stderr.read() == ""
