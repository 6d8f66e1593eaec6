"""What people say of incidents: a record on the topic of labels, so that it is part of the log and replays see it.

The only thing that these pages write. A record is JSON:

    @timestamp   when it was said, ISO 8601
    label        true, false-alarm or expected-change
    incident     its id, and `version`, whose it is
    series       names of the series that contribute to it; `host`, its hosts
    start, end   of the incident, ISO 8601; `end` is null while it is open
    comment      at most 1000 characters; `author`, at most 100

    LabelError   it could not be written or read: one sentence for a person
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from dashboards.queries.incident import Incident
from dashboards.queries.search import PREFIX

LABELS = {
    "true": "True: this was worth knowing",
    "false-alarm": "False alarm: nothing was wrong or new",
    "expected-change": "Expected change: this is the new normal",
}
COMMENT_CHARACTERS, AUTHOR_CHARACTERS = 1_000, 100
MAX_READ = 20_000  # nearly all are heartbeats, two a second: not quite three hours
MAX_KEPT = 10_000
TIMEOUT_MS = 5_000


class LabelError(Exception):
    """A label could not be written, or labels could not be read: one sentence for a person."""


@dataclass(frozen=True)
class Log:
    """Where labels are: kafka-python's options, secrets among them, and the topic."""

    topic: str
    options: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Log:
        """Read KAPPA_DASHBOARD_KAFKA and KAPPA_DASHBOARD_LABELS. Raises LabelError where they name no broker."""
        options = json.loads(environment.get(f"{PREFIX}KAFKA") or "{}")
        topic = environment.get(f"{PREFIX}LABELS") or ""
        if not options.get("bootstrap_servers") or not topic:
            msg = "No Kafka is named, so labels have nowhere to go: set kafka.bootstrap_servers, and start these pages anew."
            raise LabelError(msg)
        return cls(topic, options)


def record(of: Incident, label: str, comment: str, author: str, now: datetime) -> dict[str, Any]:
    """What is written about an incident. Raises LabelError for a label that there is not, or a text that is too long."""
    if label not in LABELS:
        msg = f"There is no label {label!r}: wanted {', '.join(LABELS)}."
        raise LabelError(msg)
    for name, text, most in (("comment", comment, COMMENT_CHARACTERS), ("name", author, AUTHOR_CHARACTERS)):
        if len(text) > most:
            msg = f"The {name} has {len(text):,} characters; wanted at most {most:,}."
            raise LabelError(msg)
    return {
        "@timestamp": iso(now),
        "label": label,
        "incident": of.id,
        "version": of.version,
        "series": of.series,
        "host": list(of.hosts),
        "start": iso(of.since),
        "end": None if of.until is None else iso(of.until),
        "comment": comment,
        "author": author,
    }


def iso(time: datetime) -> str:
    """A time as the log has it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(log: Log, said: Mapping[str, Any]) -> None:
    """Append a label, and wait until the broker has it. Raises LabelError where it does not take it."""
    value = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    try:
        producer = KafkaProducer(
            **{
                **log.options,
                "acks": "all",
                "metrics_enabled": False,
                "max_block_ms": TIMEOUT_MS,
                "bootstrap_timeout_ms": TIMEOUT_MS,
                "request_timeout_ms": TIMEOUT_MS,
                "delivery_timeout_ms": 2 * TIMEOUT_MS,
                "allow_auto_create_topics": False,
            }
        )
        try:
            producer.send(log.topic, value=value, key=str(said["incident"]).encode()).get(timeout=2 * TIMEOUT_MS / 1000)
        finally:
            producer.close(timeout=1)
    except (KafkaError, OSError) as error:
        raise LabelError(sentence("The label was not written", log, error)) from error


class Reader:
    """Labels as they come. A record is read once, because nearly all are heartbeats; the first time the last `most`.

    So a label is known that was written since these pages began, or not long before.
    """

    def __init__(self, log: Log, most: int = MAX_READ) -> None:
        self._log, self._most = log, most
        self._next: int | None = None
        self._found: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def labels(self) -> list[dict[str, Any]]:
        """All that are known, the oldest first. Raises LabelError where Kafka does not answer in time."""
        with self._lock:
            try:
                consumer = KafkaConsumer(
                    **{
                        **self._log.options,
                        "enable_auto_commit": False,
                        "bootstrap_timeout_ms": TIMEOUT_MS,
                        "request_timeout_ms": TIMEOUT_MS,
                        "consumer_timeout_ms": TIMEOUT_MS,
                        "metrics_enabled": False,
                        "allow_auto_create_topics": False,
                    }
                )
                try:
                    self._found = [*self._found, *labels_in(self._read(consumer))][-MAX_KEPT:]
                finally:
                    consumer.close()
            except (KafkaError, OSError) as error:
                raise LabelError(sentence("Labels cannot be read", self._log, error)) from error
            return list(self._found)

    def _read(self, consumer: Any) -> list[bytes]:
        """The values that have come to the topic's one partition. Stops at what was its end, or when nothing comes."""
        part = TopicPartition(self._log.topic, 0)
        if not consumer.partitions_for_topic(self._log.topic):
            return []
        consumer.assign([part])
        begin, end = consumer.beginning_offsets([part])[part], consumer.end_offsets([part])[part]
        first = end - self._most if self._next is None or self._next > end else self._next
        first = max(begin, first)
        if first < end:
            consumer.seek(part, first)
        found: list[bytes] = []
        while first < end and (message := next(consumer, None)) is not None:
            found.append(message.value)
            first = message.offset + 1
        self._next = first
        return found


def recent(log: Log, most: int = MAX_READ) -> list[dict[str, Any]]:
    """Labels among the last `most` records, the oldest first. Raises LabelError where Kafka does not answer in time."""
    return Reader(log, most).labels()


def labels_in(values: Iterable[bytes]) -> list[dict[str, Any]]:
    """Records that are labels; heartbeats and what somebody else wrote are left out."""
    found = []
    for value in values:
        try:
            said = json.loads(value)
        except ValueError:
            continue  # not ours: the pipeline refuses it, with its reason
        if isinstance(said, dict) and said.get("label") in LABELS and isinstance(said.get("incident"), str):
            found.append(said)
    return found


def latest(found: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last word on each incident, by its id."""
    return {said["incident"]: said for said in found}


def sentence(what: str, log: Log, error: Exception) -> str:
    """What went wrong and what to do, for a person."""
    return (
        f"{what}: Kafka at {log.options.get('bootstrap_servers')}, topic {log.topic}, does not do as asked "
        f"({type(error).__name__}); see whether it runs (`kappa status`), and that the topic is there "
        "(`kappa topics create`)."
    )


def log() -> Log:
    """Where labels go, as this process was told."""
    return Log.of(os.environ)
