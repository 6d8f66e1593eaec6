"""A record that ends `extract` whenever it is read is found and left unread, and the chain goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from support import killers
from support.faulty_chain import supervised
from support.live_jobs import beat, records, settings_file, wait_for
from support.malformed import iso
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, record_range
from app.kafka.connection import client_options, kafka_connection
from app.runtime import jobs, poison
from app.runtime.run import prepare
from models.records.records import QuarantinedRecord
from pipelines.errors import InputError
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import Runner

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
GOOD = 600
SELECTION = jobs.selected(["extract"])


@pytest.fixture(autouse=True)
def reader() -> Iterator[None]:
    """Whatever a test has installed is taken out."""
    yield
    killers.uninstall()


def line(second: int, host: str, message: str) -> bytes:
    return json.dumps({"@timestamp": iso(START + 1000 * second), "host.name": host, "message": message}).encode()


def feed(settings: Settings, bad: list[bytes]) -> list[tuple[str, int, int]]:
    """Good lines with bad ones at even distances among them, in both partitions; answers where the bad ones lie."""
    producer = KafkaProducer(**client_options(settings), acks="all", linger_ms=50)
    lines, places = settings.topic("logs"), []
    every = GOOD // (len(bad) + 1)
    for i in range(GOOD):
        second = i * 60 // GOOD
        at = START + 1000 * second
        producer.send(lines, line(second, f"good-{i % 5}", f"request {i} is done"), partition=i % 2, timestamp_ms=at)
        if i % every == every - 1 and i // every < len(bad):
            sent = producer.send(lines, bad[i // every], partition=i % 2, timestamp_ms=at)
            places.append(sent)
    producer.flush()
    beat(settings, (START + 1000 * second for second in (*range(60), 200)))
    found = [(lines, one.get().partition, one.get().offset) for one in places]
    producer.close()
    return found


def run_extract(spark: SparkSession, settings: Settings, unread: Quarantine) -> None:
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings, quarantine=unread))
        assert runner.dropped_by_watermark == 0
    finally:
        runner.stop()


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    found = (json.loads(value) for _, value, _ in records(settings, "statistics"))
    return [one for one in found if one["record"] == "statistics"]


def letters(settings: Settings) -> list[tuple[bytes, dict[str, str]]]:
    found = records(settings, "dead-letters")
    return [(value, {key: text.decode() for key, text in headers}) for _, value, headers in found]


def counted(settings: Settings) -> int:
    """The lines that are in statistics."""
    found = {(one["series"], one["window_end"]): one["n"] for one in rows_of(settings)}
    return sum(n for (series, _), n in found.items() if series.startswith("logs/"))


def search(settings: Settings, lines: list[str]) -> list[QuarantinedRecord]:
    """The third start with a batch in hand, after two."""
    for _ in range(2):
        known = poison.quarantine_before_start(settings, SELECTION, lines.append)
    return list(known.known.found.records)


def invoked(file: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["quarantine", *arguments, "--config", str(file)])
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_a_record_that_ends_extract_is_quarantined_and_all_others_are_counted(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    file = settings_file(folder, stack, unique, "live", 100_000)
    settings, lines = load(file), list[str]()
    prepare(settings, ("extract",))
    value = line(20, "bad", "kill-by-exception \x1b[31m")
    (place,) = feed(settings, [value])
    killers.install()
    with pytest.raises(Exception, match="cannot be read"):
        run_extract(kafka_spark, settings, NO_QUARANTINE)
    (found,) = search(settings, lines)
    assert (found.place, found.job, found.length) == (place, "extract", len(value))
    assert "cannot be read" in found.reason
    assert any("records left" in one for one in lines)
    # Every run reads the topic, and refuses the same.
    again = load(settings_file(folder, stack, unique, "again", 100_000))
    prepare(again, ("extract",))
    for one in (settings, again):
        run_extract(kafka_spark, one, quarantine.read(one).found)
        assert counted(one) == GOOD
        ((letter, headers),) = letters(one)
        assert letter == value
        assert (headers["kappa.topic"], headers["kappa.offset"]) == (place[0], str(place[2]))
        assert headers["kappa.reason"] == f"quarantined: {found.reason}"
        assert headers["kappa.sha256"] == hashlib.sha256(value).hexdigest()
    # With the batch committed nothing is counted, and the search is over.
    assert poison.quarantine_before_start(settings, SELECTION).known.kept == 1
    check_commands(file, settings, found, value)


def check_commands(file: Path, settings: Settings, found: QuarantinedRecord, value: bytes) -> None:
    """`kappa quarantine` names the record, shows it, and appends it again."""
    (listed,) = json.loads(invoked(file, "list", "--json"))["quarantine"]
    assert (listed["name"], listed["state"]) == (found.name, "quarantined")
    raw = file.with_name("raw")
    shown = invoked(file, "show", found.name, "--raw", str(raw))
    assert "\x1b" not in shown
    assert raw.read_bytes() == value
    planned = json.loads(invoked(file, "retry", found.name, "--dry-run", "--json"))
    assert quarantine.read(settings).kept == 1
    assert "released_as" not in planned
    made = json.loads(invoked(file, "retry", found.name, "--json"))
    copy = record_range.fetch_record(settings, found.topic, found.partition, made["released_as"])
    assert copy.value == value
    after = quarantine.read(settings)
    assert after.kept == 0
    assert [one.place for one in after.found.records] == [found.place]  # still unread
    again = CliRunner().invoke(app, ["quarantine", "retry", found.name, "--config", str(file)])
    assert isinstance(again.exception, InputError)
    assert "before" in str(again.exception)


@pytest.mark.timeout(1200)
def test_the_chain_finds_what_ends_its_jvm_and_goes_on(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    file = settings_file(folder, stack, unique, "live", 100_000)
    settings = load(file)
    prepare(settings, ("extract",))
    value = line(20, "bad", "kill-by-exit")
    (place,) = feed(settings, [value])
    with supervised(file, "extract"):
        wait_for(lambda: len(letters(settings)) == 1, 1000, "the letter of what is in quarantine")
    assert counted(settings) == GOOD
    (found,) = quarantine.read(settings).found.records
    assert (found.place, found.job, found.sha256) == (place, "extract", hashlib.sha256(value).hexdigest())
    # Whoever reads it, and be it with the same fault, refuses the same.
    again = load(settings_file(folder, stack, unique, "again", 100_000))
    prepare(again, ("extract",))
    killers.install()
    run_extract(kafka_spark, again, quarantine.read(again).found)
    assert counted(again) == GOOD
    assert letters(again) == letters(settings)
