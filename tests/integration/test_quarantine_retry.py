"""`kappa quarantine retry` with a real broker: a record is appended again once, whatever is killed, and whoever else does so meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from support.live_jobs import settings_file

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, quarantine_retry, record_range, topics
from app.kafka.connection import open_consumer
from app.kafka.quarantine import Outgoing, QuarantineLog
from app.kafka.quarantine_retry import Retry
from models.records.records import QuarantinedRecord
from pipelines.errors import InputError

pytestmark = [pytest.mark.stack]

VALUE = b"what ends a job"
HEADERS = [("shipper", b"a")]


@pytest.fixture
def settings(stack: Addresses, folder: Path, unique: str) -> Settings:
    """A log with a record in quarantine, at offset 0, and others that are like it in part."""
    found = load(settings_file(folder, stack, unique, "live", 1_000))
    topics.create(found)
    topic = found.topic("telemetry")
    quarantine.send(found, [(topic, 0, b"key", VALUE, HEADERS, None)])
    record = record_range.fetch_record(found, topic, 0, 0)
    one = quarantine.quarantine_entry(record, job="extract", reason="it ended", version="live", software="1")
    quarantine.append(found, [one])
    others: list[Outgoing] = [(topic, 0, b"key", b"x", HEADERS, None), (topic, 0, None, VALUE, HEADERS, None)]
    quarantine.send(found, others)
    return found


def planned(settings: Settings) -> Retry:
    return quarantine_retry.plan_retry(settings, quarantine.read(settings), (settings.topic("telemetry"), 0, 0))


def copies(settings: Settings) -> list[int]:
    """The offsets of the copies in the log."""
    topic = settings.topic("telemetry")
    with open_consumer(settings) as consumer:
        at = TopicPartition(topic, 0)
        found = record_range.records_between(settings, consumer, at, 1, consumer.end_offsets([at])[at])
        return [one.offset for one in found if (one.key, one.value) == (b"key", VALUE)]


class Killed(Exception):
    """In the place of a signal."""


def test_a_record_that_is_appended_again_is_noted(settings: Settings) -> None:
    made = quarantine_retry.retry(settings, planned(settings))
    known = quarantine.read(settings)
    assert copies(settings) == [made.released_as]
    assert (known.kept, known.released) == (0, (made,))
    with pytest.raises(InputError, match="was appended again before"):
        planned(settings)


def test_a_retry_that_is_killed_before_it_has_noted_the_copy_is_completed_by_the_next_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = quarantine.append

    def killed(settings: Settings, records: Sequence[QuarantinedRecord]) -> None:
        if records[0].status == "released":
            raise Killed
        append(settings, records)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(quarantine_retry, "append", killed)
        quarantine_retry.retry(settings, planned(settings))
    assert quarantine.read(settings).kept == 1
    made = quarantine_retry.retry(settings, planned(settings))
    assert copies(settings) == [made.released_as]
    assert quarantine.read(settings).kept == 0


def test_a_retry_that_is_killed_before_it_has_appended_the_copy_is_made_by_the_next_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = quarantine.send

    def killed(settings: Settings, records: Sequence[Outgoing]) -> list[int]:
        if records[0][0] == settings.topic("telemetry"):
            raise Killed
        return send(settings, records)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(quarantine_retry, "send", killed)
        quarantine_retry.retry(settings, planned(settings))
    assert (copies(settings), quarantine.read(settings).kept) == ([], 1)
    made = quarantine_retry.retry(settings, planned(settings))
    assert copies(settings) == [made.released_as]


def test_of_two_retries_at_once_one_appends_the_record(settings: Settings) -> None:
    both = [planned(settings), planned(settings)]

    def tried(one: Retry) -> Any:
        try:
            return quarantine_retry.retry(settings, one)
        except InputError as error:
            return str(error)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(tried, both))
    made = [one for one in found if isinstance(one, QuarantinedRecord)]
    assert copies(settings) == [one.released_as for one in made]
    assert [one for one in found if isinstance(one, str) and "was appended again before" in one]


def test_what_is_noted_of_a_retry_that_began_changes_nothing_that_jobs_leave_out(settings: Settings) -> None:
    before = quarantine.read(settings)
    quarantine.append(settings, [quarantine_retry.retry_intent(planned(settings), "live")])
    after = quarantine.read(settings)
    assert isinstance(after, QuarantineLog) and after.found == before.found


def test_what_has_the_place_of_a_record_since_its_topic_was_made_again_is_not_appended(settings: Settings) -> None:
    (one,) = quarantine.read(settings).found.records
    quarantine.append(settings, [replace(one, offset=1, timestamp=one.timestamp - 1)])
    with pytest.raises(InputError, match="made again"):
        quarantine_retry.plan_retry(settings, quarantine.read(settings), (one.topic, 0, 1))
