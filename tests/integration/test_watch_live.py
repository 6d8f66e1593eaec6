"""`kappa watch` on a real Kafka: what is open already, what comes, who is silent, and how it ends."""

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
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from app.cli.watch import Book, Pulse, watch
from app.core.ports import free_port
from app.core.settings import Settings
from app.embedded.stack import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from pipelines.errors import InputError, ServiceUnavailable

pytestmark = pytest.mark.stack

SHARDS = 2
WAIT_SECONDS = 60.0


def incident(name: str, status: str, window: int) -> tuple[str, dict[str, Any]]:
    """A statement about an incident."""
    at = int(time.time() * 1000) - 60_000 + window * 10_000
    said = {"kind": "silence", "score": 20.0 + window, "hosts": ["vm-1"], "reason": f"vm-1 is silent ({name})"}
    return "incidents", {"id": name, "status": status, "start": at, "window_end": at, **said}


def watermark(shard: int, seconds_ago: float) -> tuple[str, dict[str, Any]]:
    """A shard of `detect` has judged everything up to then."""
    return "novelties", {"tick": int((time.time() - seconds_ago) * 1000), "shard": shard, "shards": SHARDS}


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


class Told:
    """A view that hands on what it is told, as tuples."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def began(self, version: str, book: Book) -> None:
        self._queue.put(("began", version, sorted(book.open)))

    def said(self, what: str, found: Mapping[str, Any], book: Book) -> None:
        self._queue.put((what, found["id"]))

    def pulse(self, pulse: Pulse, book: Book) -> None:
        self._queue.put(("pulse", pulse))

    def next(self, *wanted: str) -> tuple[Any, ...]:
        """What is told next, of these kinds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            told = self._queue.get(timeout=max(0.1, deadline - time.monotonic()))
            if told[0] in wanted:
                return told

    def pulse_with(self, **wanted: Any) -> Pulse:
        """The next pulse with these values."""
        while True:
            (_, pulse) = self.next("pulse")
            if all(getattr(pulse, name) == value for name, value in wanted.items()):
                return pulse  # type: ignore[no-any-return]


@contextmanager
def watched(settings: Settings, *, follow: bool = False) -> Iterator[Told]:
    """Somebody watches while the block runs."""
    told, stopping = Told(), threading.Event()
    watcher = threading.Thread(target=watch, args=(settings, stopping, told, 1.0), kwargs={"follow": follow})
    watcher.start()
    try:
        yield told
    finally:
        stopping.set()
        watcher.join(WAIT_SECONDS)
    assert not watcher.is_alive()


def test_watch_tells_what_is_open_and_then_what_opens_and_closes(settings: Settings, log: Log) -> None:
    log.write(incident("a", "open", 0), incident("b", "open", 0), incident("b", "close", 1))
    with watched(settings) as told:
        assert told.next("began") == ("began", "live", ["a"])
        log.write(
            incident("c", "open", 2), incident("a", "update", 3), incident("a", "close", 4), incident("c", "open", 2)
        )
        said = [told.next("open", "update", "close") for _ in range(3)]
        assert said == [("open", "c"), ("update", "a"), ("close", "a")]


def test_watch_sees_who_is_silent_how_far_behind_the_windows_are_and_what_is_refused(
    settings: Settings, log: Log
) -> None:
    with watched(settings) as told:
        first = told.pulse_with()
        assert [words.split()[0] for words in first.silent] == ["nothing", "extract", "detect"]
        assert (first.behind_seconds, first.late, first.healthy) == (None, 0, False)
        log.write(
            ("telemetry", {}),
            ("statistics", {}),
            watermark(0, 40),
            watermark(1, 20),
            ("late", {}),
            ("dead-letters", {}),
        )
        second = told.pulse_with(healthy=True, late=1, dead_letters=1)
        assert second.behind_seconds is not None
        assert 40 <= second.behind_seconds < 40 + WAIT_SECONDS


def test_ticks_of_before_the_watch_count(settings: Settings, log: Log) -> None:
    log.write(*(watermark(shard, 30) for shard in range(SHARDS)))
    with watched(settings) as told:
        assert told.pulse_with().behind_seconds is not None


def test_version_that_never_ran_and_a_broker_that_is_away_are_one_line(settings: Settings) -> None:
    with pytest.raises(InputError, match="has never run here"):
        watch(settings, threading.Event(), Told(), 1.0, follow=False)
    nobody = f"127.0.0.1:{free_port(0)}"
    away = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"bootstrap_servers": nobody})})
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        watch(away, threading.Event(), Told(), 1.0, follow=False)


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
