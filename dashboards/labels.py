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
MAX_READ = 2_000
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


def recent(log: Log, most: int = MAX_READ) -> list[dict[str, Any]]:
    """The last labels, the oldest first, `most` of them. Raises LabelError where Kafka does not answer in time."""
    try:
        consumer = KafkaConsumer(
            **{
                **log.options,
                "enable_auto_commit": False,
                "bootstrap_timeout_ms": TIMEOUT_MS,
                "request_timeout_ms": TIMEOUT_MS,
                "consumer_timeout_ms": TIMEOUT_MS,
                "metrics_enabled": False,
                "allow_auto_create_topics": False,
            }
        )
        try:
            return labels_in(read(consumer, log.topic, most))
        finally:
            consumer.close()
    except (KafkaError, OSError) as error:
        raise LabelError(sentence("Labels cannot be read", log, error)) from error


def read(consumer: Any, topic: str, most: int) -> Iterable[bytes]:
    """The values of the last records of a topic's one partition. Stops at what was its end, or when nothing comes."""
    part = TopicPartition(topic, 0)
    if not consumer.partitions_for_topic(topic):
        return
    consumer.assign([part])
    end = consumer.end_offsets([part])[part]
    first = max(consumer.beginning_offsets([part])[part], end - most)
    if first >= end:
        return
    consumer.seek(part, first)
    for message in consumer:
        yield message.value
        if message.offset >= end - 1:
            return


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
