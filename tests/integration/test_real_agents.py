"""Agents of the distribution write to a real Kafka, with the configuration that docs/inputs shows, and are read."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from pyspark.sql import DataFrame, SparkSession
from support.distribution_programs import program

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT
from app.embedded.stack_state import Addresses
from app.runtime.health import Health, HealthServer
from pipelines.inputs import log_lines, telemetry_points

pytestmark = [pytest.mark.stack, pytest.mark.spark]

EXAMPLES = PROJECT / "docs" / "inputs"
SECONDS = 120.0


def broker(stack: Addresses) -> str:
    assert stack.kafka is not None
    return stack.kafka


def topic(stack: Addresses, name: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=broker(stack))
    admin.create_topics([NewTopic(name, 1, 1)])
    admin.close()
    return name


def example(folder: Path, name: str, stack: Addresses, replaced: Mapping[str, str]) -> Path:
    """The file of the docs, with this Kafka's address and what else is replaced, such as a topic."""
    text = (EXAMPLES / name).read_text()
    for old, new in {"kafka-1.example.net:9092": broker(stack), **replaced}.items():
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    written = folder / name
    written.write_text(text)
    return written


@contextmanager
def running(log: Path, command: Sequence[str | Path], environment: Mapping[str, str]) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, env=environment)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def read_after(
    spark: SparkSession,
    stack: Addresses,
    name: str,
    count: int,
    read: Callable[[DataFrame], DataFrame],
    send: Callable[[], None] = lambda: None,
) -> list[Any]:
    """What is read of a topic once it has so many records; until then `send` is called again and again."""
    deadline, place = time.monotonic() + SECONDS, TopicPartition(name, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker(stack))
    while (written := consumer.end_offsets([place])[place]) < count:
        assert time.monotonic() < deadline, f"{written} records within {SECONDS} s, wanted {count}"
        send()
        psutil.cpu_percent(interval=0.5)  # lets others run
    consumer.close()
    raw = spark.read.format("kafka").option("kafka.bootstrap.servers", broker(stack)).option("subscribe", name).load()
    return read(raw).collect()


def test_lines_of_rsyslog_are_read(kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str) -> None:
    rsyslogd = program("rsyslogd")
    modules = rsyslogd.part("usr/lib/*/rsyslog")
    name, port = topic(stack, f"logs-{unique}"), free_port(None)
    given = example(folder, "rsyslog.conf", stack, {'"logs"': f'"{name}"'})
    main = folder / "main.conf"
    main.write_text(
        f'global(workDirectory="{folder}")\nmodule(load="imudp")\n'
        f'input(type="imudp" address="{LOOPBACK}" port="{port}")\ninclude(file="{given}")\n'
    )
    sent = [
        f"<{priority}>Jan  5 10:00:00 web-1 sshd[{i}]: Failed password for user {i}"
        for i, priority in enumerate((35, 38, 34))
    ]

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            for line in sent:  # what comes before rsyslog listens is lost
                udp.sendto(line.encode(), (LOOPBACK, port))

    command = (rsyslogd.path, "-n", "-f", main, "-i", folder / "pid", "-M", modules)
    with running(folder / "log", command, rsyslogd.environment):
        rows = read_after(kafka_spark, stack, name, 2 * len(sent), log_lines, send)
    assert {row["message"] for row in rows} == {f"Failed password for user {i}" for i in range(3)}
    assert {(row["host"], row["service"], row["level"], row["reason"]) for row in rows} == {
        ("web-1", "sshd", level, None) for level in ("error", "info", "fatal")
    }
    assert len({row["template"] for row in rows}) == 1


def test_values_of_collectd_are_read(kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str) -> None:
    collectd = program("collectd")
    types, own = collectd.part("usr/share/collectd/types.db"), collectd.part("usr/lib/collectd")
    name = topic(stack, f"telemetry-{unique}")
    given = example(folder, "collectd.conf", stack, {'"telemetry"': f'"{name}"'})
    main = folder / "main.conf"
    plugins = "".join(f"LoadPlugin {plugin}\n" for plugin in ("load", "memory", "cpu"))
    places = f'BaseDir "{folder}"\nPluginDir "{own}"\nTypesDB "{types}"\n'
    main.write_text(f'Hostname "web-1"\nInterval 1\n{places}{plugins}Include "{given}"\n')
    wanted = {
        *(f"gauge/web-1//load.{term}term" for term in ("short", "mid", "long")),
        "gauge/web-1//memory{type_instance=free}",
        "counter/web-1//cpu{plugin_instance=0,type_instance=idle}",
    }
    with running(folder / "log", (collectd.path, "-f", "-C", main, "-P", folder / "pid"), collectd.environment):
        rows = read_after(kafka_spark, stack, name, 100, telemetry_points)
    assert wanted <= {row["series"] for row in rows}
    assert {(row["host"], row["reason"]) for row in rows} == {("web-1", None)}
    free = [row["value"] for row in rows if row["series"] == "gauge/web-1//memory{type_instance=free}"]
    assert all(0 < value < 2 * psutil.virtual_memory().total for value in free)
    assert {abs(row["event_time"].timestamp() - row["timestamp"].timestamp()) < 60 for row in rows} == {True}


def test_metrics_and_lines_of_a_collector_are_read(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    command, metrics, lines = collector(), topic(stack, f"telemetry-{unique}"), topic(stack, f"logs-{unique}")
    file = folder / "app.log"
    file.touch()
    own = {
        "topic: telemetry": f"topic: {metrics}",
        "topic: logs": f"topic: {lines}",
        "collection_interval: 10s": "collection_interval: 1s",
        "/var/log/*.log": f"{folder}/*.log",
    }
    given = example(folder, "opentelemetry-collector.yaml", stack, own)

    def send() -> None:
        with file.open("a") as opened:  # what is there before the collector begins is not read
            opened.write("worker 17 lost its lease\n")

    environment = {**os.environ, "OTEL_RESOURCE_ATTRIBUTES": "host.name=web-1"}
    with running(folder / "collector.txt", (command, "--config", given), environment):
        points = read_after(kafka_spark, stack, metrics, 2, telemetry_points)
        written = read_after(kafka_spark, stack, lines, 2, log_lines, send)
    assert {(row["host"], row["reason"]) for row in points} == {("web-1", None)}
    assert {row["series"].split("/")[0] for row in points} == {"gauge", "counter"}
    assert "gauge/web-1//system.memory.usage{state=used}" in {row["series"] for row in points}
    assert {(row["host"], row["message"], row["reason"]) for row in written} == {
        ("web-1", "worker 17 lost its lease", None)
    }


def collector() -> str:
    """An OpenTelemetry Collector with the components of contrib. Skips the test where there is none."""
    found = shutil.which("otelcol-contrib")
    return found or pytest.skip("there is no OpenTelemetry Collector here (contrib, as otelcol-contrib)")


def test_what_prometheus_would_scrape_is_read(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    command = collector()
    name, health = topic(stack, f"telemetry-{unique}"), Health(stale_seconds=60.0)
    health.expect("detect")
    health.quarantined(3)
    health.metrics.refused.labels("late").inc(5)
    with HealthServer(health, LOOPBACK, 0) as server:
        own = {
            "topic: telemetry": f"topic: {name}",
            "scrape_interval: 10s": "scrape_interval: 1s",
            "web-1.example.net:9100": server.address.split("//")[1],
        }
        given = example(folder, "prometheus-collector.yaml", stack, own)
        with running(folder / "collector.txt", (command, "--config", given), os.environ):
            points = read_after(kafka_spark, stack, name, 3, telemetry_points)
    assert {(row["host"], row["reason"]) for row in points} == {(LOOPBACK, None)}
    values = {row["series"]: row["value"] for row in points}
    assert values[f"gauge/{LOOPBACK}/node/up"] == 1.0
    assert values[f"gauge/{LOOPBACK}/node/kappa_quarantined_records"] == 3.0
    assert values[f"counter/{LOOPBACK}/node/kappa_refused_total{{topic=late}}"] == 5.0
