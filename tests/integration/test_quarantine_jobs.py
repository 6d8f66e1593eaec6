"""What ends or hangs a process of `detect`, `correlate`, `index` and `extract` with a state of theirs is found by the restarted job."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faulty_chain import supervised
from support.live_jobs import feed, records, run_to_end, settings_file, wait_for

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, topics
from app.kafka.checkpoints import consumed_offsets
from app.kafka.connection import client_options
from app.kafka.producer import BoundedProducer
from benchmarks.reached import ends_of

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

MINUTES = 13  # the shortest that its faults fit into
GOOD = 6  # records before the one that ends a job, and as many after it
HANGS_AFTER = 60.0  # seconds without progress, where the usual 300 would make the test longer
PATIENCE = 1800.0


@dataclass(frozen=True)
class Killer:
    """A record that ends a job: which job, in which topic, and what it does to whoever reads it."""

    job: str
    kind: str
    marker: str
    reason: str
    hangs: bool = False


KILLERS = (
    Killer("extract", "logs", "kill-by-hanging", "took more than", hangs=True),
    Killer("detect", "statistics", "kill-python", "exited unexpectedly"),
    Killer("correlate", "novelties", "kill-by-exit", "JVM"),
    Killer("index", "late", "hang-python", "took more than", hangs=True),
)


def append(settings: Settings, killer: Killer) -> tuple[tuple[str, int, int], bytes]:
    """The record among others that are no use either, as whoever can write to the topic could send them; where it lies, and its bytes."""
    value = json.dumps({"record": "junk", "text": killer.marker}).encode()
    topic = settings.topic(killer.kind)
    sent = []
    with BoundedProducer(client_options(settings)) as outbox:
        for number in range(2 * GOOD + 1):
            own = value if number == GOOD else json.dumps({"record": "junk", "number": number}).encode()
            sent.append(outbox.send(topic, own, key=b"", partition=0))
    return (topic, 0, sent[GOOD].get().offset), value


def all_read(settings: Settings, killer: Killer) -> bool:
    """Whether the job has committed all that its topic holds."""
    read = consumed_offsets(settings.checkpoint(killer.job))
    return read is not None and all(
        read.offsets.get(p, 0) >= end for p, end in ends_of(settings, [killer.kind]).items()
    )


@pytest.mark.parametrize("killer", KILLERS, ids=lambda one: f"{one.job}-{one.marker}")
def test_a_job_finds_the_record_that_ends_it_and_goes_on_from_its_state(
    kafka_spark: SparkSession, stack: Addresses, folder: Path, unique: str, killer: Killer
) -> None:
    file = settings_file(folder, stack, unique, "live", 100_000)
    settings = load(file)
    topics.create(settings)
    feed(settings, MINUTES)
    assert run_to_end(kafka_spark, settings) == 0
    before = {kind: len(records(settings, kind)) for kind in ("scores", "statistics")}
    assert min(before.values()) > 0
    place, value = append(settings, killer)
    with supervised(file, killer.job, HANGS_AFTER if killer.hangs else None):
        wait_for(lambda: quarantine.read(settings).kept == 1, PATIENCE, "the record in quarantine")
        wait_for(lambda: all_read(settings, killer), PATIENCE, "the job to read all that comes after it")
    (found,) = quarantine.read(settings).found.records
    assert (found.place, found.job, found.sha256) == (place, killer.job, hashlib.sha256(value).hexdigest())
    assert killer.reason in found.reason
    # The letter of extract comes when its window closes, and nothing is written any more that closes it.
    if killer.job != "extract":
        letters = [dict(headers) for _, _, headers in records(settings, "dead-letters")]
        (own,) = [one for one in letters if one["kappa.reason"].startswith(b"quarantined: ")]
        assert own["kappa.offset"] == str(place[2]).encode()
    log = file.with_name("run.log").read_text()
    assert "record quarantined" in log
    assert "gave up" not in log
