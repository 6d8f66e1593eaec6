"""Results are a pure function of the log: whatever the batches, the backlogs and the crashes."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession
from support.live_jobs import (
    MINUTES,
    feed,
    records,
    run_to_end,
    settings_file,
    start,
    wait_for,
    watermarks,
)

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.search.connection import elasticsearch_connection

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]

KILLS = 2


def documents(settings: Settings) -> Counter[str]:
    """All documents of a version, without its name."""
    client = elasticsearch_connection(settings).connect()
    pattern = ",".join(
        f"kappa-{kind}-{settings.version}-*" for kind in ("scores", "novelties", "incidents", "pipeline")
    )
    client.indices.refresh(index=pattern)
    found: Counter[str] = Counter()
    after: list[Any] | None = None
    while True:
        page = client.search(
            index=pattern, size=5000, sort=["_index", "_doc"], search_after=after, track_total_hits=False
        )["hits"]["hits"]
        if not page:
            return found
        after = page[-1]["sort"]
        for hit in page:
            text = json.dumps(without_version(hit["_source"], settings.version), sort_keys=True)
            found[hit["_index"].split("-")[1] + text] += 1


def without_version(source: Any, version: str) -> Any:
    """A document without what names its version: ids and index names are made from it."""
    if isinstance(source, dict):
        return {
            k: without_version(v, version) for k, v in source.items() if v != version and k not in ("id", "incident_id")
        }
    return source


def beat(settings: Settings) -> None:
    """A heartbeat in every input partition, at the append time of its last record.

    A job that starts again knows no watermark of a partition before a record of it comes. In operation heartbeats come every
    second; these move no watermark beyond where it was.
    """
    options = client_options(settings)
    with BoundedProducer(options) as outbox, closing(KafkaConsumer(**options)) as consumer:
        for where in input_partitions(settings):
            part = TopicPartition(*where)
            consumer.assign([part])
            consumer.seek(part, consumer.end_offsets([part])[part] - 1)
            queue_heartbeats(outbox, [where], next(consumer).timestamp)


def test_crashes_batches_and_backlogs_change_nothing(
    stack: Addresses, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    whole = load(settings_file(tmp_path, stack, unique, "live", 50_000))
    topics.create(whole)
    assert feed(whole, MINUTES) > 8_000
    assert run_to_end(spark, whole) == 0
    expected = {kind: set(records(whole, kind)) for kind in ("scores", "late", "dead-letters")}
    last = watermarks(whole, "novelties")
    assert len(expected["scores"]) > 5_000
    assert expected["late"] and expected["dead-letters"]

    file = settings_file(tmp_path, stack, unique, "again", 2_000)
    again = load(file)
    moments = random.Random(20260105)
    topics.create(again)
    for _ in range(KILLS):
        process = start(file, "all")
        progressed = len(records(again, "statistics"))
        wait_for(
            lambda n=progressed, p=process: p.poll() is not None or len(records(again, "statistics")) > n,
            120,
            "statistics to grow",
        )
        assert process.poll() is None, f"the jobs ended by themselves: {(tmp_path / 'run.log').read_text()[-500:]}"
        threading.Event().wait(moments.uniform(0.0, 6.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    beat(again)
    process = start(file, "all")
    try:
        wait_for(lambda: watermarks(again, "novelties") >= last, 300, "the last watermark")
        wait_for(lambda: documents(again).total() >= documents(whole).total(), 120, "all documents")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 0

    for kind, wanted in expected.items():
        assert set(records(again, kind)) == wanted, f"{kind} differ"
    assert documents(again) == documents(whole)
