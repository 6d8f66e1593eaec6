"""A watermark counts as indexed when every job has committed what belongs to it, and not before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from app.core.settings import Settings
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from pipelines.windowing import WindowingConfig
from replay import indexed
from replay.indexed import IndexedWatermark

pytestmark = [pytest.mark.stack]

SHARDS, PARTITIONS = 4, 2
SECOND = 1_000


@dataclass
class Version:
    """Topics of a version, and checkpoints as Spark writes them, without Spark."""

    settings: Settings
    producer: KafkaProducer
    written: dict[tuple[str, int], int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)

    def append(self, kind: str, partition: int, record: Any) -> None:
        topic = self.settings.topic(kind)
        self.producer.send(topic, json.dumps(record).encode(), partition=partition).get(timeout=30)
        self.written[topic, partition] = self.written.get((topic, partition), 0) + 1

    def watermark(self, at: int, shards: range = range(SHARDS)) -> None:
        """`detect` has spoken for a window."""
        for shard in shards:
            self.append(
                "novelties",
                shard % PARTITIONS,
                {"record": "watermark", "watermark": at, "shard": shard, "shards": SHARDS},
            )

    def commit(self, job: str, *kinds: str, watermark: int = 0) -> None:
        """A job has done a batch that holds all that these topics hold now."""
        folder, number = self.settings.checkpoint(job), self.batches.get(job, -1) + 1
        self.batches[job] = number
        ends = {
            self.settings.topic(kind): {
                str(p): self.written.get((self.settings.topic(kind), p), 0) for p in range(PARTITIONS)
            }
            for kind in kinds
        }
        for part in ("offsets", "commits"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        about = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 99 * SECOND})
        (folder / "offsets" / str(number)).write_text("\n".join(["v1", about, json.dumps(ends)]))
        (folder / "commits" / str(number)).write_text("v1\n{}")

    def index(self) -> None:
        self.commit("index", "novelties", "incidents", "late", "dead-letters")


@pytest.fixture
def version(stack: Addresses, tmp_path: Path, unique: str) -> Iterator[Version]:
    own = Settings(home=tmp_path, windowing=WindowingConfig(window_seconds=1, shards=SHARDS))
    settings = own.model_copy(
        update={
            "kafka": own.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "topics": own.topics.model_copy(update={"prefix": f"{unique}-", "partitions": PARTITIONS}),
        }
    )
    topics.create(settings)
    producer = KafkaProducer(**client_options(settings), acks="all")
    yield Version(settings, producer)
    producer.close()


@pytest.fixture
def consumer(version: Version) -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(**client_options(version.settings))
    yield made
    made.close()


def test_a_tick_counts_when_every_job_has_committed_it(version: Version, consumer: KafkaConsumer) -> None:
    look = IndexedWatermark(version.settings, consumer)
    assert look.poll() is None
    version.watermark(10 * SECOND)
    version.commit("correlate", "novelties")
    assert look.poll() is None, "extract has committed nothing"
    version.commit("extract", watermark=10 * SECOND + 400)
    version.append("incidents", 1, {"id": "a"})
    assert look.poll() is None, "index has committed nothing"
    assert look.unindexed() == SHARDS + 1
    version.index()
    assert look.poll() == 10 * SECOND


def test_a_tick_waits_for_the_last_shard_and_for_extract(version: Version, consumer: KafkaConsumer) -> None:
    look = IndexedWatermark(version.settings, consumer)
    version.watermark(10 * SECOND)
    version.watermark(20 * SECOND, range(3))
    version.commit("correlate", "novelties")
    version.commit("extract", watermark=15 * SECOND)
    version.index()
    assert look.poll() == 10 * SECOND, "a shard has not spoken for the second window"
    version.watermark(20 * SECOND, range(3, SHARDS))
    version.index()
    assert look.poll() == 10 * SECOND, "correlate has not read the last shard's watermark"
    version.commit("correlate", "novelties")
    assert look.poll() == 15 * SECOND, "extract may still write refused records of later windows"
    version.commit("extract", watermark=30 * SECOND)
    assert look.poll() == 20 * SECOND


def test_what_was_written_until_then_must_be_indexed(version: Version, consumer: KafkaConsumer) -> None:
    look = IndexedWatermark(version.settings, consumer)
    version.watermark(10 * SECOND)
    version.commit("correlate", "novelties")
    version.commit("extract", watermark=10 * SECOND)
    version.append("late", 0, {"any": 1})
    assert look.poll() is None
    version.append("incidents", 0, {"id": "later"})  # not there when the watermark was seen: need not be indexed for it
    topic = version.settings.topic("incidents")
    version.written[topic, 0] -= 1
    version.index()
    assert look.poll() == 10 * SECOND


def test_watermarks_are_found_behind_any_number_of_events(
    version: Version, consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed, "FIRST_LOOK", 2)
    version.watermark(10 * SECOND)
    for n in range(30):
        version.append("novelties", n % PARTITIONS, {"id": str(n), "window_end": 20 * SECOND})
    version.append("novelties", 0, ["no record of ours: watermark"])
    version.watermark(20 * SECOND, range(2))
    version.commit("correlate", "novelties")
    assert indexed.least_watermark(version.settings, consumer, "novelties", "correlate") == 10 * SECOND


def test_scores_wait_for_detect(version: Version, consumer: KafkaConsumer) -> None:
    settings = version.settings.model_copy(update={"index": version.settings.index.model_copy(update={"scores": True})})
    version.watermark(20 * SECOND)
    version.commit("correlate", "novelties")
    version.commit("extract", watermark=20 * SECOND)
    assert indexed.written_until(settings, consumer) is None
    for shard in range(SHARDS):
        watermark = {"record": "watermark", "watermark": 10 * SECOND, "shard": shard}
        version.append("statistics", shard % PARTITIONS, watermark)
    version.commit("detect", "statistics")
    assert indexed.written_until(settings, consumer) == 10 * SECOND
    assert indexed.written_until(version.settings, consumer) == 20 * SECOND
