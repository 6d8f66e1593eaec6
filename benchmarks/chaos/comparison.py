"""All that two versions wrote, record by record and document by document.

A record is what it says, without the name of its version; topics are at-least-once, so repeats count once. Two records of
one version that are of the same window and series and say different things are two records here, and so a difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.connection import client_options
from app.search.connection import elasticsearch_connection
from models.records.index_names import INDEX_KINDS, alias_of
from models.records.records import WatermarkMessage

RECORDS = ("scores", "novelties", "incidents", "late", "dead-letters")
REFUSED = ("late", "dead-letters")
NAMED_BY_VERSION = ("id", "incident_id")  # made from the version's name, in documents
MOST_SHOWN = 5
PAGE = 5_000

Digest = bytes


@dataclass
class SideBySide:
    """How many distinct records two versions have of one kind, how many only one has, and the first of those."""

    fault_free: int
    chaos: int
    only_fault_free: int
    only_chaos: int
    repeats: int = 0
    first: list[str] = field(default_factory=list)

    @property
    def differences(self) -> int:
        """Anything but 0 violates the determinism rules."""
        return self.only_fault_free + self.only_chaos


@dataclass
class Written:
    """What a version wrote of one kind: digests of distinct records, and how many there were with repeats."""

    digests: set[Digest] = field(default_factory=set)
    records: int = 0

    def add(self, text: bytes) -> None:
        """One more record."""
        self.digests.add(digest_of(text))
        self.records += 1


def digest_of(text: bytes) -> Digest:
    """16 bytes that stand for a record: millions fit in memory."""
    return hashlib.blake2b(text, digest_size=16).digest()


# --- topics


def results(settings: Settings, kind: str) -> Iterator[bytes]:
    """The records of a kind that a version's topic holds now, without watermark messages and the version's name."""
    consumer = KafkaConsumer(**client_options(settings))
    try:
        topic = settings.topic(kind)
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            for batch in consumer.poll(timeout_ms=500).values():
                for record in batch:
                    text = text_of(kind, record)
                    if text is not None:
                        yield text
    finally:
        consumer.close()


def text_of(kind: str, record: Any) -> bytes | None:
    """What is compared of a Kafka record; None of a watermark message."""
    if kind in REFUSED:
        headers = [(name, (value or b"").decode(errors="replace")) for name, value in record.headers or ()]
        return json.dumps([record.key and record.key.hex(), (record.value or b"").hex(), headers]).encode()
    value = bytes(record.value or b"")
    if kind == "scores":
        return value  # it names no version: byte for byte
    try:
        found = json.loads(value)
    except ValueError:
        return value
    if not isinstance(found, dict):
        return value
    if found.get("record") == WatermarkMessage.KIND:
        return None
    found.pop("version", None)
    return json.dumps(found, sort_keys=True).encode()


def written(settings: Settings, kind: str) -> Written:
    """What a version wrote of one kind."""
    found = Written()
    for text in results(settings, kind):
        found.add(text)
    return found


def compare_records(fault_free: Settings, chaos: Settings) -> dict[str, SideBySide]:
    """The records of two versions by kind."""
    return {kind: side_by_side(kind, fault_free, chaos) for kind in RECORDS}


def side_by_side(kind: str, fault_free: Settings, chaos: Settings) -> SideBySide:
    """Two versions' records of one kind."""
    one, other = written(fault_free, kind), written(chaos, kind)
    found = held_against(one, other)
    if found.differences:
        found.first = examples(results(fault_free, kind), one.digests - other.digests, "fault-free")
        found.first += examples(results(chaos, kind), other.digests - one.digests, "chaos")
    return found


def held_against(fault_free: Written, chaos: Written) -> SideBySide:
    """Numbers of what both and only one has."""
    return SideBySide(
        len(fault_free.digests),
        len(chaos.digests),
        len(fault_free.digests - chaos.digests),
        len(chaos.digests - fault_free.digests),
        chaos.records - len(chaos.digests),
    )


def examples(texts: Iterator[bytes], wanted: set[Digest], side: str) -> list[str]:
    """The first few records whose digests are wanted."""
    found: list[str] = []
    for text in texts:
        if len(found) == MOST_SHOWN:
            break
        if digest_of(text) in wanted:
            found.append(f"only {side}: {text.decode(errors='replace')[:1000]}")
    return found


# --- documents


def documents(settings: Settings, kind: str) -> Iterator[bytes]:
    """The documents of a version's indices of one kind, without what names the version."""
    client = elasticsearch_connection(settings).connect()
    pattern = f"{alias_of(kind, settings.version)}-*"
    try:
        client.indices.refresh(index=pattern)
        after: list[Any] | None = None
        while True:
            page = client.search(
                index=pattern, size=PAGE, sort=["_index", "_doc"], search_after=after, track_total_hits=False
            )["hits"]["hits"]
            if not page:
                return
            after = page[-1]["sort"]
            for hit in page:
                yield json.dumps(without_version(hit["_source"], settings.version), sort_keys=True).encode()
    finally:
        client.close()


def without_version(source: Any, version: str) -> Any:
    """A document without what names its version: ids and index names are made from it."""
    if isinstance(source, dict):
        return {k: without_version(v, version) for k, v in source.items() if v != version and k not in NAMED_BY_VERSION}
    return source


def compare_documents(fault_free: Settings, chaos: Settings) -> dict[str, SideBySide]:
    """The documents of two versions by kind of index. Here a repeat is a second document: a difference."""
    found = {}
    for kind in INDEX_KINDS:
        sides = Written(), Written()
        for side, settings in zip(sides, (fault_free, chaos), strict=True):
            for text in documents(settings, kind):
                side.add(text)
        found[kind] = held_against(*sides)
        if found[kind].differences:
            found[kind].first = examples(
                documents(fault_free, kind), sides[0].digests - sides[1].digests, "fault-free"
            ) + examples(documents(chaos, kind), sides[1].digests - sides[0].digests, "chaos")
    return found


def compare_with_topics(settings: Settings) -> dict[str, dict[str, int]]:
    """For each kind of index, how many things a version's topics speak of, and how many documents there are."""
    wanted = {
        "scores": len(set(results(settings, "scores"))),
        "novelties": len(set(map(_id, results(settings, "novelties")))),
        "incidents": len(set(map(_id, results(settings, "incidents")))),
        "pipeline": sum(len(set(results(settings, kind))) for kind in REFUSED),
    }
    found = {kind: sum(1 for _ in documents(settings, kind)) for kind in wanted}
    return {kind: {"topics": wanted[kind], "documents": found[kind]} for kind in wanted}


def _id(text: bytes) -> str:
    return str(json.loads(text)["id"])
