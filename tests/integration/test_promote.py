"""Another version takes over while events flow: each window is shown once, whatever is killed on the way, and back again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaConsumer, TopicPartition
from support.commands import Running, answer, assert_one_line, healthz, kappa
from support.live_jobs import records
from support.malformed import iso

from app.core.settings import PROJECT, Settings, load
from app.core.timestamps import wall_clock
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.search.connection import elasticsearch_connection
from app.versions import serving
from app.versions.pinned_configuration import with_pinned_models
from app.versions.serving import Serving, TimeRange
from models.records.index_names import alias_of
from replay import promote
from replay.indexed import IndexedWatermark

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1_800)]

JARS = PROJECT / ".kappa" / "jars"
HOSTS = tuple(f"web-{i}" for i in range(4))
SECOND = 1_000
KINDS = ("scores", "novelties", "incidents", "pipeline")
MORE_WINDOWS = 6
PATIENCE = 600  # seconds: two versions of windows of a second share the machine


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A stack of its own: the live aliases are one for all versions of a cluster."""
    with running_stack(Stack(tmp_path_factory.mktemp("promote-stack"), jars=JARS)) as addresses:
        yield addresses


def settings_file(folder: Path, servers: Addresses, name: str, detection: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(
        f"""
home = "{folder / "home"}"
jar_folder = "{JARS}"
[windowing]
window_seconds = 1
lateness_seconds = 1
shards = 2
[detection]
warm_up_minutes = 0.1
grace_minutes = 0.1
clear_windows = 2
{detection}
[correlation]
join_seconds = 2
close_seconds = 2
[topics]
telemetry_partitions = 1
logs_partitions = 1
partitions = 2
[kafka]
bootstrap_servers = "{servers.kafka}"
[elasticsearch]
url = "{servers.elasticsearch}"
[index]
scores = true
[spark]
master = "local[2]"
driver_memory = "1g"
trigger_seconds = 2
shuffle_partitions = 1
[health]
port = 0
"""
    )
    return file


@dataclass
class EventSender:
    """Events of now until it is stopped, of them some that are news: a service that was never there, late records, no records."""

    settings: Settings
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> EventSender:
        self._thread = ThreadPoolExecutor(1)
        self._sending = self._thread.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        """End. Raises what Kafka refused."""
        self.stop.set()
        self._thread.shutdown()
        self._sending.result()

    def _run(self) -> None:
        with BoundedProducer(client_options(self.settings)) as outbox:
            noise = random.Random(5)
            for number in count(1):
                if self.stop.wait(0.2):
                    break
                self._send(outbox, number, noise)
                outbox.settle()

    def _send(self, outbox: BoundedProducer, number: int, noise: random.Random) -> None:
        now, telemetry = wall_clock(), self.settings.topic("telemetry")
        for host in HOSTS:
            outbox.send(telemetry, point(host, now, noise.gauss(50, 1)), key=b"")
        if number % 50 == 0:
            host = HOSTS[number // 50 % len(HOSTS)]
            outbox.send(telemetry, point(host, now, 1.0, f"job-{number}"), key=b"")
        if number % 10 == 0:
            queue_heartbeats(outbox, input_partitions(self.settings), now)
            outbox.send(telemetry, point(HOSTS[0], now - 5 * SECOND, 1.0), key=b"")
            outbox.send(self.settings.topic("logs"), b"not a record", key=b"")


def point(host: str, at: int, value: float, service: str = "web") -> bytes:
    return json.dumps(
        {
            "@timestamp": iso(at),
            "host.name": host,
            "service.name": service,
            "metric.name": "load",
            "metric.value": value,
        }
    ).encode()


class PromotionHome:
    """One home in which versions run, and what is seen of them from outside."""

    def __init__(self, folder: Path, servers: Addresses) -> None:
        self.file = settings_file(folder, servers, "live", "spike_nats = 20.7")
        self.other = settings_file(folder, servers, "v2", "spike_nats = 15.0")
        self.settings = load(self.file)
        self.seen: dict[str, IndexedWatermark] = {}
        self.consumer = KafkaConsumer(**client_options(self.settings))

    def version(self, name: str) -> Settings:
        return with_pinned_models(self.settings, name)

    def command(self, *arguments: str) -> Any:
        return kappa(*arguments, "--config", str(self.file))

    def promoted(self, *arguments: str) -> dict[str, Any]:
        status, out, err = answer(self.command("replay", *arguments, "--json"), PATIENCE)
        assert status == 0, err
        made: dict[str, Any] = json.loads(out)
        return made

    def indexed(self, name: str) -> int:
        """The last watermark up to which a version is in Elasticsearch; -1 before there is one."""
        if name not in self.seen:
            self.seen[name] = IndexedWatermark(self.version(name), self.consumer)
        return self.seen[name].poll() or -1

    def reaches(self, name: str, watermark: int) -> Callable[[], bool]:
        return lambda: self.indexed(name) >= watermark


@pytest.fixture(scope="module")
def deployment(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PromotionHome]:
    made = PromotionHome(tmp_path_factory.mktemp("promote"), servers)
    topics.create(made.settings)
    yield made
    made.consumer.close()


def test_versions_go_over_and_back_while_events_flow_and_promotions_are_killed(deployment: PromotionHome) -> None:
    moments = random.Random(20261121)
    with EventSender(deployment.settings), Running(deployment.command("run", "all")) as process:
        address = process.address()
        process.wait(lambda: deployment.indexed("live") > 0, PATIENCE, "the first watermark to be indexed")
        first = deployment.indexed("live")
        process.wait(deployment.reaches("live", first + 12 * SECOND), PATIENCE, "windows of live")
        replayed(deployment)

        refused_ones(deployment)
        for _ in range(2):
            broken = deployment.command("replay", "promote", "v2", "--json")
            threading.Event().wait(moments.uniform(6.0, 25.0))
            broken.kill()
            broken.wait()
        there = deployment.promoted("promote", "v2")
        served = serving.read(deployment.settings.home)
        assert served.aliased and [t.version for t in served.intervals] == ["live", "v2"]
        assert there["after"] == served.intervals[1].after and there["previous"] == "live"
        again = deployment.promoted("promote", "v2")
        assert again["already"] and again["after"] == there["after"]
        process.wait(lambda: "index of version v2;" in process.output, PATIENCE, "the jobs of v2")
        process.wait(deployment.reaches("v2", there["after"] + MORE_WINDOWS * SECOND), PATIENCE, "windows of v2")
        assert process.address() == address
        status, summary = healthz(address)
        assert (status, summary["version"]) == (200, "v2")
        assert_one_line(deployment.command("replay", "drop", "v2", "--yes"), "version v2 serves")

        back = deployment.promoted("rollback")
        assert back["version"] == "live" and back["previous"] == "v2" and back["running"]
        assert back["after"] > there["after"]
        process.wait(
            deployment.reaches("live", back["after"] + MORE_WINDOWS * SECOND), PATIENCE, "windows of live again"
        )
        process.stop()
    assert process.output.count("running extract, detect, correlate, index") == 3
    each_moment_is_shown_once(deployment, first)


def test_a_version_serves_where_live_never_ran_though_the_promotion_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone(tmp_path) as deployment:
        filled(deployment)
        replayed(deployment)
        what = promote.plan(deployment.settings, "v2")
        assert what.first

        def killed(settings: Settings) -> None:
            raise KilledHereError(settings.version)

        with monkeypatch.context() as patch, pytest.raises(KilledHereError):
            patch.setattr(promote, "set_aliases", killed)
            promote.take_over(what, threading.Event())
        served = serving.read(deployment.settings.home)
        assert served.version == "v2" and not served.aliased, "the interval is written before the aliases are set"
        there = deployment.promoted("promote", "v2")
        assert there["already"] and there["after"] is None
        assert serving.read(deployment.settings.home).aliased
        decided_by_v2 = {(r["series"], r["window_end"]) for r in records_of(deployment.version("v2"), "scores")}
        client = elasticsearch_connection(deployment.settings).connect()
        shown = {(d["novelty"]["series"], millis(d["@timestamp"])) for d in documents(client, "kappa-scores")}
        client.close()
        assert shown == decided_by_v2 != set()


def test_what_nobody_indexed_is_indexed_and_a_candidate_that_runs_elsewhere_is_left_alone(tmp_path: Path) -> None:
    with alone(tmp_path) as deployment, EventSender(deployment.settings):
        with Running(deployment.command("run", "extract", "detect", "correlate")) as live:
            live.wait(
                lambda: len(records_of(deployment.settings, "scores")) > 10 * len(HOSTS), PATIENCE, "scores of live"
            )
            live.stop()
        assert deployment.indexed("live") == -1
        replayed(deployment)
        with Running(deployment.command("run", "all", "--version", "v2")) as candidate:
            candidate.wait(lambda: deployment.indexed("v2") > 0, PATIENCE, "the first watermark of v2")
            status, out, err = answer(deployment.command("replay", "promote", "v2", "--json"), PATIENCE)
            assert status == 0, err
            assert "nobody indexes version live" in err
            assert "the jobs of version v2 run in another process" in err
            there = json.loads(out)
            assert there["running"] and not there["already"]
            candidate.wait(deployment.reaches("v2", there["after"] + MORE_WINDOWS * SECOND), PATIENCE, "windows of v2")
            candidate.stop()
        served = serving.read(deployment.settings.home)
        assert served.aliased and [t.version for t in served.intervals] == ["live", "v2"]
        client = elasticsearch_connection(deployment.settings).connect()
        found = documents(client, "kappa-scores")
        client.close()
        by = Counter((d["novelty"]["series"], d["@timestamp"]) for d in found)
        assert set(by.values()) == {1}
        after = there["after"]
        assert all((d["novelty"]["version"] == "v2") == (millis(d["@timestamp"]) > after) for d in found)
        assert {d["novelty"]["version"] for d in found} == {"live", "v2"}


class KilledHereError(Exception):
    """Stands for a SIGKILL at this very place."""


@contextmanager
def alone(folder: Path) -> Iterator[PromotionHome]:
    """A deployment on a stack of its own."""
    with running_stack(Stack(folder / "stack", jars=JARS)) as servers:
        made = PromotionHome(folder, servers)
        topics.create(made.settings)
        try:
            yield made
        finally:
            made.consumer.close()


def filled(deployment: PromotionHome) -> None:
    """Half a minute of events in the log."""
    until = time.monotonic() + 120
    partition = TopicPartition(deployment.settings.topic("telemetry"), 0)
    with EventSender(deployment.settings):
        while deployment.consumer.end_offsets([partition])[partition] < 150 * len(HOSTS):
            assert time.monotonic() < until
            threading.Event().wait(0.2)


def replayed(deployment: PromotionHome) -> None:
    made = kappa("replay", "--version", "v2", "--config", str(deployment.other), "--partitions", "1", "--json")
    status, _, err = answer(made, PATIENCE)
    assert status == 0, err


def refused_ones(deployment: PromotionHome) -> None:
    """What cannot be promoted is refused in one line, and a plan alone changes nothing."""
    unknown = deployment.command("replay", "promote", "gone")
    nowhere = deployment.command("replay", "rollback")
    plan = deployment.promoted("promote", "v2", "--dry-run")
    assert_one_line(unknown, "no version 'gone'", "v2")
    assert_one_line(nowhere, "none to go back to")
    assert plan["dry_run"] and plan["previous"] == "live" and plan["previous_running"]
    assert plan["covers_from"] is None
    assert not serving.file_of(deployment.settings.home).exists()


def each_moment_is_shown_once(deployment: PromotionHome, first: int) -> None:
    """The aliases show of each version what it decided in the intervals in which it served: what the topics say, nothing else, and all of it."""
    served = serving.read(deployment.settings.home)
    assert served.aliased
    until = deployment.indexed("live")
    client = elasticsearch_connection(deployment.settings).connect()
    try:
        shown = {kind: documents(client, alias_of(kind)) for kind in KINDS}
    finally:
        client.close()
    scores = Counter((d["novelty"]["series"], d["@timestamp"]) for d in shown["scores"])
    assert set(scores.values()) == {1}
    expected: set[tuple[str, str, int]] = set()
    for version in served.versions:
        found = {(r["series"], r["window_end"]) for r in records_of(deployment.version(version), "scores")}
        expected |= {
            (version, series, at) for series, at in found if at <= until and within(served.ranges(version), at)
        }
    seen = {
        (d["novelty"]["version"], d["novelty"]["series"], millis(d["@timestamp"]))
        for d in shown["scores"]
        if millis(d["@timestamp"]) <= until
    }
    assert seen == expected
    windows = {r["window_end"] for r in records_of(deployment.version("live"), "scores") if r["window_end"] <= until}
    assert {at for _, _, at in seen} == windows, "a window is missing"
    assert {version for version, _, at in seen if at > first} == {"live", "v2"}
    for kind in ("novelties", "incidents"):
        assert counted(shown[kind], until) == decided(deployment, served, kind, until)
        assert {d["novelty"]["version"] for d in shown[kind]} == {"live", "v2"}, f"no {kind} of one of them"
        assert {d["novelty"]["version"] for d in shown[kind] if d["novelty"]["status"] != "close"} <= {served.version}
    refused = Counter(
        (d["pipeline"]["topic"], d["pipeline"]["partition"], d["pipeline"]["offset"]) for d in shown["pipeline"]
    )
    assert set(refused.values()) == {1}
    late = {
        tuple(headers[f"kappa.{name}"] for name in ("topic", "partition", "offset"))
        for kind in ("late", "dead-letters")
        for headers in headers_of(deployment.version("live"), kind)
        if int(headers["kappa.timestamp"]) < until
    }
    assert late and {(t, int(p), int(o)) for t, p, o in late} <= refused.keys()


def headers_of(settings: Settings, kind: str) -> list[dict[str, str]]:
    return [{name: value.decode() for name, value in headers} for _, _, headers in records(settings, kind)]


def records_of(settings: Settings, kind: str) -> list[dict[str, Any]]:
    """All records of a topic but its watermarks."""
    found = [json.loads(value) for _, value, _ in records(settings, kind)]
    return [record for record in found if record["record"] != "watermark"]


def within(spans: list[TimeRange], at: int) -> bool:
    return any((after is None or at > after) and (end is None or at <= end) for after, end in spans)


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def counted(found: list[dict[str, Any]], until: int) -> Counter[tuple[str, int, int]]:
    """What was closed up to a window: whose, from when, in which window."""
    return Counter(
        (d["novelty"]["version"], millis(d["@timestamp"]), millis(d["novelty"]["window_end"]))
        for d in found
        if d["novelty"]["status"] == "close" and millis(d["novelty"]["window_end"]) <= until
    )


def decided(deployment: PromotionHome, served: Serving, kind: str, until: int) -> Counter[tuple[str, int, int]]:
    """The same from the topics of all versions, by the intervals in which they served."""
    closed = {
        (r["id"], version, r["start"], r["window_end"])
        for version in served.versions
        for r in records_of(deployment.version(version), kind)
        if r["status"] == "close" and r["window_end"] <= until and within(served.ranges(version), r["window_end"])
    }
    return Counter((version, start, end) for _, version, start, end in closed)


def documents(client: Elasticsearch, alias: str) -> list[dict[str, Any]]:
    """Everything that an alias shows."""
    client.indices.refresh(index=alias)
    found: list[dict[str, Any]] = []
    after: list[Any] | None = None
    while True:
        page = client.search(index=alias, size=5000, sort=["_index", "_doc"], search_after=after)["hits"]["hits"]
        if not page:
            return found
        after = page[-1]["sort"]
        found += [hit["_source"] for hit in page]
