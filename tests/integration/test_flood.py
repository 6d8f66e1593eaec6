"""One host sends sixty thousand series and three thousand services: what it costs is bounded, and no other host sees it."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.live_jobs import records, settings_file
from support.malformed import iso

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime import jobs
from app.runtime.run import prepare
from models.core.limits import LimitParameters
from models.detection.limits import SHOWN_NAMES
from pipelines.runner import Runner

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]

START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
WINDOWS, WINDOW_MS = 30, 10_000
FLOODED = (22, 24)  # windows
SERIES, SERVICES = 60_000, 3_000
HOSTS = 3
LIMITS = LimitParameters(metrics_per_host=1_000, services_per_host=50, new_series_per_host=500)


def record(host: str, event: int, service: str, metric: str, value: float) -> bytes:
    own = {"@timestamp": iso(event), "host.name": host, "service.name": service}
    return json.dumps(own | {"metric.name": metric, "metric.value": value}).encode()


def send(settings: Settings, *, flood: bool) -> None:
    """The same honest records, with or without the flood between them."""
    source, partitions = random.Random(1), settings.input_partitions
    hosts = [f"honest-{h}" for h in range(HOSTS)] + ["greedy"]
    with BoundedProducer(client_options(settings)) as outbox:
        topic = settings.topic("telemetry")
        for window in range(WINDOWS):
            begin = START + window * WINDOW_MS
            for h, host in enumerate(hosts):
                for metric in range(6):
                    value = record(host, begin + 1000 * metric, "web", f"m{metric}", round(source.gauss(50, 5), 3))
                    where = h % partitions["telemetry"]
                    outbox.send(topic, value, key=b"", partition=where, timestamp_ms=begin + 1000 * metric)
            if flood and window in FLOODED:
                for i in range(SERIES):
                    value = record("greedy", begin + 7000, f"s{i % SERVICES}", f"x{i}", 1.0)
                    where = i % partitions["telemetry"]
                    outbox.send(topic, value, key=b"", partition=where, timestamp_ms=begin + 7000)
            for moment in range(begin, begin + WINDOW_MS, 5_000):
                queue_heartbeats(outbox, input_partitions(settings), moment)
        queue_heartbeats(outbox, input_partitions(settings), START + (WINDOWS + 10) * WINDOW_MS)


def run(spark: SparkSession, settings: Settings, *, flood: bool) -> None:
    topics.create(settings)
    send(settings, flood=flood)
    prepare(settings, ("extract", "detect"))
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
        runner.run_to_end(jobs.detect_job(settings))
        assert runner.dropped_by_watermark == 0
    finally:
        runner.stop()


def of_others(settings: Settings) -> list[bytes]:
    """The scores of the other hosts, as they are in the log."""
    return sorted(value for key, value, _ in records(settings, "scores") if key and b"/honest-" in key)


@pytest.mark.parametrize("name", ["flood"])
def test_a_flood_of_one_host_costs_no_more_than_its_limits_and_changes_nothing_for_others(
    spark: SparkSession, stack: Addresses, tmp_path: Path, name: str
) -> None:
    found: dict[bool, Settings] = {}
    for flood in (False, True):
        file = settings_file(tmp_path, stack, f"{name}{tmp_path.name[-6:]}{flood:d}".lower(), "live", 1_000_000)
        own = load(file).model_copy(update={"home": tmp_path / f"home-{flood:d}", "limits": LIMITS})
        run(spark, own, flood=flood)
        found[flood] = own
    assert of_others(found[True]) == of_others(found[False]) != []

    rows = [json.loads(value) for key, value, _ in records(found[True], "statistics") if key and b"/greedy/" in key]
    in_window = Counter(row["window_end"] for row in rows if row["series"].startswith("gauge/"))
    assert max(in_window.values()) == LIMITS.metric_rows
    scored = {key for key, _, _ in records(found[True], "scores") if key and b"/greedy/" in key}
    assert 6 < len(scored) <= LIMITS.metrics_per_host
    assert len({key.split(b"/")[2] for key in scored}) == LIMITS.services_per_host

    letters = [json.loads(value) for _, value, _ in records(found[True], "dead-letters")]
    assert Counter((one["limit"], one["window_end"]) for one in letters) == {
        (limit, START + (window + 1) * WINDOW_MS): 1 for window in FLOODED for limit in ("metrics", "services")
    }
    wanted = {one["wanted"] for one in letters if one["limit"] == "metrics"}
    kept = LIMITS.metric_rows + SHOWN_NAMES
    assert wanted
    assert all(one == pytest.approx(SERIES + 6, rel=4 / kept**0.5) for one in wanted)
    assert max(len(value) for _, value, _ in records(found[True], "dead-letters")) < 10_000
    assert not records(found[False], "dead-letters")

    events = [json.loads(value) for _, value, _ in records(found[True], "novelties")]
    about = [event for event in events if event["record"] == "episode" and event["part"] == "limit"]
    assert [(event["series"], event["status"]) for event in about] == [("host/greedy", "open")]
    reason = re.match(
        r"host greedy has ([\d,]+) metric series, [\d.]+ times the 1,000 that a host may have", about[0]["reason"]
    )
    assert reason is not None
    assert int(reason[1].replace(",", "")) in wanted
    assert not [event for event in events if event["record"] == "episode" and event["kind"] == "silence"]
