"""Marks of the log: the ids of a version's topics, and the end and leader epoch of each partition, when the version's jobs last looked.

    home/checkpoints/VERSION/log/JOB.json    written every few seconds by the process that runs the job

A topic with another id was deleted and created again. A partition has lost its end if the broker says that the leader epoch of
the mark has ended before the mark: a broker that lost power, or an unclean election of a leader. Both are found however far the
topic has grown since, which offsets alone do not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import admin_client, unavailable_error
from app.kafka.topic_marks import NO_EPOCH, LogMarks, TopicMark, marks_of, record_of

OffsetForLeaderPartition = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition

NO_ID = str(UUID(int=0))
FOLDER = "log"

PartitionEnds = Mapping[TopicPartition, tuple[int, int]]  # offset, leader epoch


@dataclass(frozen=True)
class LogChange:
    """A topic that is not the one that was marked.

    `partition` is None where the topic was deleted, and perhaps created again. Otherwise the partition was marked at offset
    `marked`, and what it holds from `end` on is not what it held then.
    """

    topic: str
    partition: int | None = None
    marked: int = 0
    end: int = 0

    @property
    def recreated(self) -> bool:
        """Whether the whole topic was deleted."""
        return self.partition is None

    @property
    def sentence(self) -> str:
        """What has happened, for people."""
        if self.partition is None:
            return f"topic {self.topic} was deleted, and is another one now or none"
        return f"{self.topic}/{self.partition} has lost its end: offsets {self.end} to {self.marked - 1} are gone, or have other records"


# --- files


def folder_of(settings: Settings) -> Path:
    """Where the marks of a version are."""
    return settings.checkpoint(FOLDER)


def read_marks(settings: Settings) -> list[LogMarks]:
    """The marks of every process of a version. Raises InputError for a file that is something else."""
    found = []
    for file in sorted(folder_of(settings).glob("*.json")):
        kept = read_json_object(file, "`kappa recover` goes on without it")
        if kept is not None:
            found.append(marks_of(kept))
    return found


def write_marks(settings: Settings, job: str, marks: LogMarks) -> None:
    """Keep the marks of the process that runs a job."""
    write_json_durably(folder_of(settings) / f"{job}.json", record_of(marks))


# --- the log


def mark_now(settings: Settings) -> LogMarks:
    """The marks of all topics of a version that exist now. Raises ServiceUnavailable if Kafka does not answer."""
    return compare_log(settings, [])[0]


def changes_since(settings: Settings, marks: Sequence[LogMarks]) -> list[LogChange]:
    """Topics that are not what they were when they were marked. Raises ServiceUnavailable if Kafka does not answer."""
    return compare_log(settings, marks)[1] if marks else []


def compare_log(settings: Settings, marks: Sequence[LogMarks]) -> tuple[LogMarks, list[LogChange]]:
    """Compare the log with earlier marks; returns the marks of all existing topics of a version, and the changes.

    The new marks are taken before the comparison, so that records that are lost meanwhile are found with them. Raises ServiceUnavailable if Kafka
    does not answer.
    """
    own = {topic.name for topic in topics.required_topics(settings)}
    client = admin_client(settings)
    try:
        found = describe_topics(client, own.union(*marks))
        ends = current_ends(client, found)
        changed = {change for one in marks for change in find_changes(client, one, found, ends)}
    except KafkaError as error:
        raise unavailable_error(settings, error) from error
    finally:
        client.close()
    now = {
        topic: TopicMark(
            str(about["topic_id"]), {part.partition: end for part, end in ends.items() if part.topic == topic}
        )
        for topic, about in found.items()
        if topic in own
    }
    return now, sorted(changed, key=lambda one: (one.topic, -1 if one.partition is None else one.partition, one.end))


def current_ends(client: KafkaAdminClient, found: Mapping[str, Mapping[str, Any]]) -> PartitionEnds:
    """The end of each partition of some topics, with the leader epoch in which it ends there."""
    parts = [
        TopicPartition(topic, one["partition_index"]) for topic, about in found.items() for one in about["partitions"]
    ]
    ends = client.list_partition_offsets({part: OffsetSpec.LATEST for part in parts}) if parts else {}
    return {part: (end.offset, epoch_or_unknown(end.leader_epoch)) for part, end in ends.items()}


def find_changes(
    client: KafkaAdminClient, marks: LogMarks, found: Mapping[str, Mapping[str, Any]], ends: PartitionEnds
) -> list[LogChange]:
    """The changes since one set of marks. `found` are descriptions of topics by name, `ends` the present ends of partitions."""
    gone = [topic for topic, mark in marks.items() if is_gone_or_recreated(mark.topic_id, found.get(topic))]
    kept = {topic: mark for topic, mark in marks.items() if topic not in gone}
    wanted = {
        TopicPartition(topic, partition): end for topic, mark in kept.items() for partition, end in mark.ends.items()
    }
    now = preserved_ends(client, found, ends, wanted)
    lost = [
        LogChange(part.topic, part.partition, marked, now[part])
        for part, (marked, _) in wanted.items()
        if part in now and now[part] < marked
    ]
    return [LogChange(topic) for topic in gone] + lost


def preserved_ends(
    client: KafkaAdminClient, found: Mapping[str, Mapping[str, Any]], ends: PartitionEnds, wanted: PartitionEnds
) -> dict[TopicPartition, int]:
    """Up to which offset each partition still has the records that it had: the end of the leader epoch of its mark, at most its own end."""
    there = {
        TopicPartition(topic, one["partition_index"]): one
        for topic, about in found.items()
        for one in about["partitions"]
    }
    kept = {part: ends[part][0] for part in wanted if part in ends}
    by_leader: dict[int, dict[str, list[Any]]] = {}
    for part in kept:
        epoch = wanted[part][1]
        if epoch != NO_EPOCH:
            question = OffsetForLeaderPartition(
                partition=part.partition, current_leader_epoch=NO_EPOCH, leader_epoch=epoch
            )
            by_leader.setdefault(there[part]["leader_id"], {}).setdefault(part.topic, []).append(question)
    for leader, questions in by_leader.items():
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(questions.items()))
        # The client's own way to send a request for which it has no method.
        response = client._manager.run(partial(client._manager.send, request, node_id=leader))
        for topic in response.topics:
            for answer in topic.partitions:
                part = TopicPartition(topic.topic, answer.partition)
                if answer.error_code == 0 and answer.end_offset >= 0:
                    kept[part] = min(kept[part], answer.end_offset)
    return kept


def is_gone_or_recreated(topic_id: str, about: Mapping[str, Any] | None) -> bool:
    """Whether a topic is gone, or has another id."""
    if about is None:
        return True
    return NO_ID not in (topic_id, str(about["topic_id"])) and topic_id != str(about["topic_id"])


def describe_topics(client: KafkaAdminClient, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Descriptions of the topics that exist, by name."""
    return existing_topics(client.describe_topics(sorted(set(names))))


def existing_topics(found: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The descriptions of existing topics, by name. Raises KafkaError where the broker does not say whether a topic exists.

    A topic that this user may not describe would otherwise look deleted.
    """
    topics_there = {}
    for one in found:
        error = for_code(one["error_code"])
        if error not in (NoError, UnknownTopicOrPartitionError):
            what = f"topic {one['name']}"
            raise error(what)
        if one["partitions"]:
            topics_there[one["name"]] = one
    return topics_there


def epoch_or_unknown(epoch: int | None) -> int:
    """A leader epoch, NO_EPOCH where the broker gave none."""
    return NO_EPOCH if epoch is None else epoch
