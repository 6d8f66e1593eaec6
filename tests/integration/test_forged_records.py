"""Junk and forgeries in every internal topic, around good records: the results are those of a run without, and each has a letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support.live_jobs import feed, records, run_to_end, settings_file

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.runtime import jobs
from app.runtime.run import index_to_end, prepare
from pipelines.runner import Runner

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

FAR = 9 * 10**15
JUNK: list[bytes | None] = [
    None,
    b"",
    b"\xff\xfe\x00junk",
    b"not JSON",
    b"[1, 2]",
    b"[" * 50_000,
    b'{"record":"statistics"}',
    b'{"record":"episode"}',
    b'{"record":"incident","window_end":1e400}',
    b"x" * 900_000,
]
MESSAGES = [
    {"record": "watermark", "watermark": at, "shard": shard, **more}
    for shard in range(4)
    for at, more in (
        (FAR, {}),
        (FAR, {"instance": 0, "instances": 1}),
        (FAR, {"shards": 4}),
        (-10_000, {"shards": 4}),
        (10_001, {}),
        (10_000, {"shards": 5_000}),
    )
]
FORGED = [*JUNK, *(json.dumps(message, separators=(",", ":")).encode() for message in MESSAGES)]
EPISODE = {"record": "episode", "id": "0" * 20, "series": "host/ghost", "kind": "silence", "status": "open", "start": 0}
INTERNAL = ("statistics", "novelties")


def send(
    settings: Settings, kinds: tuple[str, ...], values: list[bytes | None], headers: list[Any] | None = None
) -> int:
    """Append values to every partition of topics; answers how many records."""
    producer = KafkaProducer(**client_options(settings), acks="all", compression_type="lz4", max_request_size=2**21)
    for kind in kinds:
        for partition in range(settings.topics.partitions):
            for value in values:
                key = b"junk" if value is None else None  # the client wants one of them
                producer.send(settings.topic(kind), value, key=key, partition=partition, headers=headers or [])
    producer.flush()
    producer.close()
    return len(kinds) * settings.topics.partitions * len(values)


def results(settings: Settings, kind: str) -> list[str]:
    """What a version has come to, without its name and without watermark messages, and without what the test has sent."""
    found = []
    for _, value, _ in records(settings, kind):
        try:
            record = json.loads(value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and record.get("record") in ("score", "episode", "incident") and "series" in record:
            record.pop("version", None)
            found.append(json.dumps(record, sort_keys=True))
    return sorted(text for text in found if "ghost" not in text)


def run_among_forgeries(spark: SparkSession, settings: Settings) -> dict[str, int]:
    """The jobs one after the other, with forgeries before and behind what each writes; answers how many each has to refuse."""
    prepare(settings, jobs.NAMES)
    event = json.dumps(EPISODE | {"window_end": FAR}).encode()
    sent = {
        "detect": send(settings, ("statistics",), FORGED),
        "correlate": send(settings, ("novelties",), [*FORGED, event]),
    }
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
        sent["detect"] += send(settings, ("statistics",), FORGED)
        runner.run_to_end(jobs.detect_job(settings))
        sent["correlate"] += send(settings, ("novelties",), [event, *FORGED])
        runner.run_to_end(jobs.correlate_job(settings))
    finally:
        runner.stop()
    odd = [("kappa.timestamp", b"soon"), ("kappa.offset", b"\xff" * 50_000), ("kappa.reason", b""), ("x", b"")]
    send(settings, ("incidents",), JUNK)
    send(settings, ("late", "dead-letters"), JUNK, odd)
    for _ in range(2):  # the second reads what the first has refused, and makes no letters of it
        index_to_end(spark, settings)
    return sent


def test_what_jobs_have_not_written_changes_no_result_and_ends_no_job(
    stack: Addresses, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    plain = load(settings_file(tmp_path, stack, unique, "plain", 40_000))
    topics.create(plain)
    feed(plain, 14)
    assert run_to_end(spark, plain) == 0
    wanted = {kind: results(plain, kind) for kind in ("scores", "novelties", "incidents")}
    assert all(wanted.values())

    forged = load(settings_file(tmp_path, stack, unique, "forged", 40_000))
    topics.create(forged)
    sent = run_among_forgeries(spark, forged)

    assert {kind: results(forged, kind) for kind in wanted} == wanted
    letters = [
        {k: v.decode(errors="replace") for k, v in headers if v} for _, _, headers in records(forged, "dead-letters")
    ]
    for stage, count in sent.items():
        places = [
            (h["kappa.topic"], h["kappa.partition"], h["kappa.offset"])
            for h in letters
            if h.get("kappa.stage") == stage
        ]
        assert len(set(places)) == len(places) == count, stage
    by_index = [h for h in letters if h.get("kappa.stage") == "index"]
    assert {h["kappa.topic"] for h in by_index} == {forged.topic("novelties"), forged.topic("incidents")}
