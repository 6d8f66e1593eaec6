"""Ten thousand records that nobody should send: each is kept with a reason, and none harms the good ones around it."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support.live_jobs import records, settings_file
from support.malformed import KINDS, MEGABYTE, Kind, iso

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.heartbeats import heartbeat
from app.runtime import jobs
from app.runtime.run import prepare
from models.core import series as names
from pipelines.runner import Runner

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(600)]

MALFORMED = 10_000
MEGABYTES = 7  # of each kind that is so large
SECONDS = 360  # longer than the warm-up
HOSTS = 6
START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
LATENESS_MS = 15_000
KEY = "any"  # of every record


@dataclass(frozen=True)
class Sent:
    """A record as it is appended, and what it should become: a row of this series and window, or what its kind says."""

    append: int
    topic: str
    partition: int
    value: bytes | None
    series: str | None = None
    event: int = 0
    kind: Kind | None = None


def good_records(source: random.Random, partitions: dict[str, int]) -> Iterator[Sent]:
    """A gauge, a counter and a log line a second and host, out of order up to the lateness."""
    for second in range(SECONDS):
        for host in (f"good-{h}" for h in range(HOSTS)):
            event = START + second * 1000 + source.randrange(1000)
            own = {"@timestamp": iso(event), "host.name": host, "service.name": "web"}
            value = {"metric.name": "load", "metric.value": source.gauss(50, 5)}
            total = {"metric.name": "bytes", "metric.value": float(second * 1000), "metric.type": "counter"}
            text = {"log.level": "info", "message": f"request {source.randrange(10**6)} is done"}
            for topic, series, more in (
                ("telemetry", f"gauge/{host}/web/load", value),
                ("telemetry", f"counter/{host}/web/bytes", total),
                ("logs", f"logs/{host}/web/info", text),
            ):
                append = event + source.choice((0, source.randrange(LATENESS_MS), LATENESS_MS))
                partition = source.randrange(partitions[topic])
                yield Sent(append, topic, partition, json.dumps(own | more).encode(), series, event)


def bad_records(source: random.Random, partitions: dict[str, int]) -> Iterator[Sent]:
    """All kinds in turn, at random moments."""
    few = [kind for kind in KINDS if "megabyte" in kind.name]
    many = [kind for kind in KINDS if kind not in few]
    kinds = few * MEGABYTES + [many[i % len(many)] for i in range(MALFORMED - MEGABYTES * len(few))]
    for i, kind in enumerate(kinds):
        append = START + source.randrange(SECONDS * 1000)
        partition = source.randrange(partitions[kind.topic])
        yield Sent(append, kind.topic, partition, kind.make(append, i), kind=kind)


def heartbeats(partitions: dict[str, int]) -> Iterator[Sent]:
    """One a second and partition, and a last one that closes all windows."""
    for second in (*range(SECONDS), SECONDS + 100):
        moment = START + second * 1000
        for topic, count in partitions.items():
            yield from (Sent(moment, topic, partition, heartbeat(moment)) for partition in range(count))


def send(settings: Settings, plan: list[Sent]) -> dict[tuple[str, int, int], Sent]:
    """Append everything in the order of the append times; answers what lies where."""
    producer = KafkaProducer(
        **client_options(settings),
        acks="all",
        compression_type="lz4",
        linger_ms=50,
        batch_size=262_144,
        max_request_size=2 * MEGABYTE,
    )
    next_offset: Counter[tuple[str, int]] = Counter()
    placed, under_way = {}, []
    for record in sorted(plan, key=lambda r: r.append):
        where = (settings.topic(record.topic), record.partition)
        sent = producer.send(where[0], record.value, key=KEY.encode(), partition=where[1], timestamp_ms=record.append)
        under_way.append(sent)
        placed[*where, next_offset[where]] = record
        next_offset[where] += 1
    producer.flush()
    assert [sent.get().offset for sent in under_way] == [offset for _, _, offset in placed]
    producer.close()
    return placed


def run_to_end(spark: SparkSession, settings: Settings) -> int:
    """extract, then detect, over what the log holds. Answers rows dropped by the watermark."""
    prepare(settings, ("extract", "detect"))
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
        runner.run_to_end(jobs.detect_job(settings))
        return runner.dropped_by_watermark
    finally:
        runner.stop()


def check_letters(settings: Settings, placed: dict[tuple[str, int, int], Sent]) -> None:
    """Every record of a kind that is refused is in `dead-letters`, once, byte for byte, with its reason and source position."""
    wanted = {where: record for where, record in placed.items() if record.kind is not None and record.kind.reason}
    letters: dict[tuple[str, int, int], list[tuple[bytes, dict[str, str]]]] = defaultdict(list)
    for _, value, headers in records(settings, "dead-letters"):
        given = {key: text.decode() for key, text in headers}
        where = (given["kappa.topic"], int(given["kappa.partition"]), int(given["kappa.offset"]))
        letters[where].append((value, given))
    unexpected = {where: (placed[where], letters[where]) for where in letters.keys() - wanted.keys()}
    assert not unexpected
    lost = Counter(f"{r.topic}: {r.kind.name}" for where, r in wanted.items() if r.kind and where not in letters)
    assert not lost
    for where, found in letters.items():
        record = wanted[where]
        assert record.kind is not None
        assert len(found) == 1, record.kind
        value, given = found[0]
        assert value == (record.value or b"")[:65_536], record.kind  # a record without a value has one without bytes
        assert given["kappa.reason"].startswith(record.kind.reason), record.kind
        assert given["kappa.stage"] == "extract"
        assert given["kappa.timestamp"] == str(record.append)


def check_statistics(rows: list[dict[str, Any]], placed: dict[tuple[str, int, int], Sent]) -> None:
    """Good records and accepted ones, and nothing else, are counted: each in its window, once."""
    window = 10_000
    wanted: Counter[tuple[str, int]] = Counter()
    accepted: Counter[str] = Counter()
    for record in placed.values():
        if record.series is not None:
            wanted[record.series, (record.event // window + 1) * window] += 1
        if record.kind is not None and record.kind.cause:
            accepted[record.kind.host] += 1
    found: Counter[tuple[str, int]] = Counter()
    others: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for row in rows:
        parts = names.parse(row["series"])
        if parts.kind == "template":
            lines[parts.host] += row["n"]
        elif parts.host.startswith("good-"):
            found[row["series"], row["window_end"]] += row["n"]
        else:
            others[parts.host] += row["n"]
    assert found == wanted
    assert others == accepted
    totals = Counter({host: n for host, n in accepted.items() if host.startswith("accepted-logs")})
    assert lines == totals + Counter({f"good-{h}": SECONDS for h in range(HOSTS)})


def test_ten_thousand_malformed_records_are_kept_with_a_reason_and_harm_no_good_one(
    stack: Addresses, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    file = settings_file(tmp_path, stack, unique, "live", 6_000)
    settings = load(file)
    source = random.Random(20261121)
    topics.create(settings)
    partitions = settings.input_partitions
    bad = list(bad_records(source, partitions))
    assert len(bad) == MALFORMED
    assert {record.kind for record in bad} == set(KINDS)
    assert all(bool(kind.reason) != bool(kind.cause) for kind in KINDS)
    placed = send(settings, [*good_records(source, partitions), *bad, *heartbeats(partitions)])

    assert run_to_end(spark, settings) == 0

    check_letters(settings, placed)
    assert records(settings, "late") == []
    given = [json.loads(value) for _, value, _ in records(settings, "statistics")]
    found = [row for row in given if "series" in row]
    rules = [row for row in found if row["series"].startswith("rule/")]
    assert rules and {(row["template"], row.get("sample")) for row in rules} == {(KEY, None)}, "each ends a rule"
    rows = [row for row in found if not row["series"].startswith("rule/")]
    check_statistics(rows, placed)
    scores = [json.loads(value) for _, value, _ in records(settings, "scores")]
    assert {(row["series"], row["window_end"]) for row in rows} <= {(s["series"], s["window_end"]) for s in scores}
    scored = {s["series"] for s in scores if "score" in s}
    assert {record.series for record in placed.values() if record.series is not None} <= scored
