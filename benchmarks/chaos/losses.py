"""What takes records out of the log: a topic that is made again, ends that a power cut takes, records that retention deletes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kafka import TopicPartition
from kafka.errors import KafkaError

from app.core.settings import Settings
from app.kafka import log_marks, topics
from app.kafka.connection import admin_client
from benchmarks.chaos.fleet import pause
from benchmarks.chaos.outcome import ChaosFailed
from benchmarks.chaos.servers import KillableServer
from benchmarks.reached import ends_of
from pipelines.errors import ServiceUnavailable

MADE_BY_JOBS = ("statistics", "late", "dead-letters", "novelties", "incidents", "scores")
SHARE_KEPT = 0.6
PATIENCE_SECONDS = 120.0


def make_again(settings: Settings, kinds: Iterable[str]) -> None:
    """Delete topics, and create them again under their names."""
    names = [settings.topic(kind) for kind in kinds]
    client = admin_client(settings)
    try:
        client.delete_topics(names)
    finally:
        client.close()
    _until(lambda: not set(names) & log_marks.mark_now(settings).keys(), f"{names} to be deleted")
    _until(lambda: bool(topics.create(settings)), f"{names} to be made again")


def segments(settings: Settings, kinds: Iterable[str], broker: KillableServer) -> list[Path]:
    """The last file of records of each partition of topics."""
    logs, names = broker.home / "kafka", [settings.topic(kind) for kind in kinds]
    folders = [folder for name in names for folder in sorted(logs.glob(f"{name}-[0-9]*"))]
    return [max(found) for folder in folders if (found := list(folder.glob("*.log")))]


def sizes(settings: Settings, kinds: Iterable[str], broker: KillableServer) -> dict[Path, int]:
    """How long those files are, bytes."""
    return {file: file.stat().st_size for file in segments(settings, kinds, broker)}


def shares(settings: Settings, kinds: Iterable[str], broker: KillableServer) -> dict[Path, int]:
    """Most of how long they are: somewhere within a record."""
    return {file: int(SHARE_KEPT * size) for file, size in sizes(settings, kinds, broker).items()}


def cut(settings: Settings, kinds: Iterable[str], broker: KillableServer, keep: Mapping[Path, int]) -> None:
    """What a power cut does: the broker is gone at once, and the ends of its files with it. `keep`: the bytes that stay."""
    broker.kill_hard()
    for file in segments(settings, kinds, broker):
        if file in keep and keep[file] < file.stat().st_size:
            with file.open("r+b") as segment:
                segment.truncate(keep[file])
    broker.start()


def delete_all(settings: Settings, kinds: Iterable[str]) -> int:
    """What retention does: all records up to the end are deleted. Answers how many offsets that are.

    Not those of a topic that is compacted alone, as `rules` is: of it retention deletes nothing, and the broker refuses to.
    """
    kept = {one.name for one in topics.required_topics(settings) if one.config.get("cleanup.policy") == "compact"}
    ends = {place: end for place, end in ends_of(settings, kinds).items() if place[0] not in kept}
    client = admin_client(settings)
    try:
        client.delete_records({TopicPartition(*place): end for place, end in ends.items()})
    finally:
        client.close()
    return sum(ends.values())


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (ServiceUnavailable, KafkaError):
            pass
        pause(0.5)
    msg = f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}"
    raise ChaosFailed(msg)
