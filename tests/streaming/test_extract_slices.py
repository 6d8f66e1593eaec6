"""A log that is cut into slices of event time gives the statistics of the log in one piece, whatever the cuts."""

from __future__ import annotations

import random
from bisect import bisect_left
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.raw_records import NOON_MS, Raw, at, frame, line, point, raw

from app.kafka.partitions import Offsets
from app.versions.replay_manifest import Slice
from pipelines.jobs import extract
from pipelines.windowing import WindowingConfig
from replay.slice_run import keep_windows
from replay.slices import slices_at

pytestmark = pytest.mark.spark

WINDOWING = WindowingConfig(window_seconds=10, lateness_seconds=15, skew_seconds=60, shards=4)
SECONDS = 400
Partition = tuple[str, int]
Log = dict[Partition, list[Raw]]


def log_of(chance: random.Random) -> Log:
    """Two partitions of telemetry and one of logs: disorder up to both limits and beyond, junk, heartbeats."""
    return {
        ("telemetry", 0): partition_of(chance, "telemetry", 0, 260),
        ("telemetry", 1): partition_of(chance, "telemetry", 1, 120),
        ("logs", 0): partition_of(chance, "logs", 0, 160),
    }


def partition_of(chance: random.Random, topic: str, number: int, size: int) -> list[Raw]:
    appended = sorted(round(chance.uniform(0, SECONDS), 3) for _ in range(size))
    beats = sorted([*appended, *(float(s) for s in range(SECONDS) if chance.random() < 0.3)])
    return [
        raw(value_of(chance, topic, second, beat=second not in appended), offset, at(second), topic, number)
        for offset, second in enumerate(beats)
    ]


def value_of(chance: random.Random, topic: str, appended: float, *, beat: bool) -> bytes:
    if beat:
        return b'{"record":"heartbeat"}'
    delays = (
        chance.expovariate(1.0),
        chance.uniform(0, 15),
        15.0,
        15.001,
        40.0,
        -60.0,
        -60.001,
        chance.uniform(-60, 0),
    )
    delay = chance.choices(delays, (20, 8, 2, 2, 1, 2, 1, 6))[0]
    event = at(appended) - timedelta(seconds=delay)
    if chance.random() < 0.03:
        return b"junk"
    host = f"h{chance.randrange(3)}"
    if topic == "logs":
        return line(f"took {chance.randrange(99)} ms" if chance.random() < 0.7 else "failed", event, host)
    return point(round(chance.gauss(50, 9), 3), event, host, metric=f"m{chance.randrange(2)}")


def first_at(log: Log, at_ms: int) -> Offsets:
    """As the broker finds offsets by append time."""
    times = {key: [round(r.timestamp.timestamp() * 1000) for r in records] for key, records in log.items()}
    return {key: bisect_left(own, at_ms) for key, own in times.items()}


def closed_in(spark: SparkSession, log: Log, part: Slice, partitions: int) -> list[tuple[Any, ...]]:
    """What extract makes of a slice: statistics, what was refused, and so the windows that exist."""
    telemetry, logs = (
        frame(spark, [r for key, rs in log.items() if key[0] == topic for r in cut(key, rs, part)], partitions)
        for topic in ("telemetry", "logs")
    )
    closed = keep_windows(extract.closed_windows(telemetry, logs, WINDOWING), part)
    return [tuple(map(repr, row)) for row in closed.select(*sorted(closed.columns)).collect()]


def cut(key: Partition, records: list[Raw], part: Slice) -> list[Raw]:
    return records[part.begins[key] : part.ends[key]]


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_slices_of_any_cut_say_what_one_slice_says(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    log = log_of(chance)
    # As far as the watermark comes: what is open then is no window yet.
    until = NOON_MS + 1000 * ((SECONDS - 30) // 10 * 10)
    whole = Slice(None, until, dict.fromkeys(log, 0), {key: len(records) for key, records in log.items()})
    wanted = closed_in(spark, log, whole, 3)
    assert len(wanted) > 200
    cuts = sorted({NOON_MS + 10_000 * chance.randrange(1, SECONDS // 10 - 4) for _ in range(seed)})
    parts = slices_at(WINDOWING, lambda at_ms: first_at(log, at_ms), whole, cuts)
    assert len(parts) == len(cuts) + 1
    found = [row for part in parts for row in closed_in(spark, log, part, chance.randint(1, 5))]
    assert sorted(found) == sorted(wanted)
    assert {row[0] for row in found if "late/" in str(row)} and {row[0] for row in found if "heartbeat" in str(row)}
    assert sum(part.events for part in parts) < 2 * whole.events + 500
