"""Topics: their names, and the configuration that deterministic results need."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from dataclasses import dataclass

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import NoError, TopicAlreadyExistsError, for_code

from app.core.settings import INPUTS, Settings, TopicSettings
from app.kafka.connection import open_admin
from pipelines.errors import InputError

__all__ = [
    "CREDENTIALS",
    "DELIVERIES",
    "EARLY",
    "INDEXED",
    "INPUTS",
    "OUTPUTS",
    "QUARANTINE",
    "READ_WITH_STATE",
    "Topic",
    "alter_command",
    "check_timestamps",
    "create",
    "indexed_kinds",
    "input_topics_of_job",
    "required_topics",
    "topic_names",
]

OUTPUTS = ("statistics", "scores", "bounds", "novelties", "incidents", "late", "dead-letters")
COMPACTED = ("bounds",)  # the last record of each key counts
QUARANTINE = "quarantine"
DELIVERIES = "deliveries"
EARLY = "early"
INDEXED = ("novelties", "incidents", "late", "dead-letters")  # and `scores`, with `index.scores`
READ_WITH_STATE = {
    "extract": INPUTS,
    "detect": ("statistics",),
    "correlate": ("novelties",),
}  # by jobs that have a state
RULES = "rules"
CREDENTIALS = "--command-config admin.properties"  # of who may alter topics, for Kafka's own commands
# Bytes of a batch, compressed: of lz4 it holds 255 times as much, and what Python reads is unpacked whole, where nothing can bound it.
MOST_OF_LABELS, MOST_OF_RULES = "327680", "131072"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SAFE_REPLICATION = 3


@dataclass(frozen=True)
class Topic:
    """A topic with the partitions and the configuration that it needs."""

    name: str
    partitions: int
    config: dict[str, str]


def required_topics(settings: Settings) -> list[Topic]:
    """All topics of the version that the settings name."""
    own = settings.topics
    stamped = "LogAppendTime" if own.timestamps == "append" else "CreateTime"
    common = {"compression.type": own.compression, "max.message.bytes": "2097152", "cleanup.policy": "delete"}
    # Retention goes by the records' timestamps: history would be deleted as soon as it is written.
    kept = own.input_retention_hours * HOUR_MS if own.timestamps == "append" else -1
    if own.replication >= SAFE_REPLICATION:  # one broker may be away, and no acknowledged record is on one alone
        common["min.insync.replicas"] = "2"
    inputs = common | {"message.timestamp.type": stamped, "retention.ms": str(kept)}
    # Records of the pipeline's own topics carry old event times in a replay: retention goes by when they were written.
    outputs = common | {
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": str(own.retention_hours * HOUR_MS),
    }
    # What it names is left out of every replay, however late that is.
    for_ever = outputs | {"retention.ms": "-1"}
    of_kind = (
        dict.fromkeys(INPUTS, inputs)
        | {"labels": inputs | {"max.message.bytes": MOST_OF_LABELS}}
        | {RULES: inputs | {"max.message.bytes": MOST_OF_RULES} | compaction_config(own)}
        | dict.fromkeys(COMPACTED, outputs | {"cleanup.policy": "compact,delete"})
    )
    count = settings.input_partitions
    return [
        *(
            Topic(settings.topic(kind), count.get(kind, own.partitions), of_kind.get(kind, outputs))
            for kind in (*INPUTS, *OUTPUTS)
        ),
        Topic(settings.topic(QUARANTINE), 1, for_ever),
        Topic(settings.topic(DELIVERIES), 1, outputs),
        Topic(settings.topic(EARLY), 1, outputs),
    ]


def compaction_config(own: TopicSettings) -> dict[str, str]:
    """What the topic of rules has beside other inputs: the last record of each name stays however old it is, all of them as long as inputs do.

    Heartbeats have one key, so they go with the retention of inputs. History is kept as it is: all of it is old.
    """
    if own.timestamps != "append":
        return {}
    lag = str(own.input_retention_hours * HOUR_MS)
    # A segment that is written to is not compacted.
    segments = {"segment.ms": str(DAY_MS), "retention.ms": "-1"}
    return {"cleanup.policy": "compact", "min.compaction.lag.ms": lag} | segments


def topic_names(settings: Settings) -> dict[str, str]:
    """Names of this version's topics by kind."""
    return {kind: settings.topic(kind) for kind in (*INPUTS, *OUTPUTS)}


def indexed_kinds(settings: Settings) -> tuple[str, ...]:
    """The kinds of topics whose records `index` writes to Elasticsearch, without `labels`."""
    return (*INDEXED, *(("scores",) if settings.index.scores else ()))


def input_topics_of_job(settings: Settings, job: str) -> list[tuple[str, ...]]:
    """The names of the topics that a job reads, for each of its inputs."""
    if job == "index":
        # Nearly all of `labels` are heartbeats, which are no reason for a batch: it is an input of its own.
        kinds: list[tuple[str, ...]] = [(*indexed_kinds(settings), DELIVERIES, EARLY), ("labels",)]
    else:
        kinds = [(kind,) for kind in READ_WITH_STATE[job]]
    return [tuple(map(settings.topic, one)) for one in kinds]


def create(settings: Settings) -> dict[str, str]:
    """Create the topics of the settings' version that are missing.

    Parameters
    ----------
    settings
        `topics` has partitions, replication, timestamps and retention.

    Returns
    -------
    dict
        By the name of each topic, `created` or `there already`.

    Raises
    ------
    InputError
        A topic exists with another number of partitions, or with other timestamps: changing these under running jobs would
        move series between partitions, or change which records are late.
    ServiceUnavailable
        Kafka does not answer.
    """
    with open_admin(settings) as client:
        topics = required_topics(settings)
        existing = {
            t["name"]: len(t["partitions"]) for t in client.describe_topics([t.name for t in topics]) if t["partitions"]
        }
        result: dict[str, str] = {}
        for topic in topics:
            found = existing.get(topic.name)
            if found is None:
                _create(client, topic, settings.topics.replication)
                result[topic.name] = "created"
            elif found != topic.partitions:
                msg = (
                    f"topic {topic.name} has {found} partitions, wanted {topic.partitions}: set topics.* to what it has; "
                    "if nothing in it is needed, delete it and run `kappa topics create`"
                )
                raise InputError(msg)
            else:
                result[topic.name] = "there already"
        _compare_timestamps(client, settings, [topic for topic in topics if topic.name in existing])
        return result


def check_timestamps(settings: Settings, existing: Container[str]) -> None:
    """Raise InputError where records of an `existing` topic get other times than wanted: they decide which records are late.

    Raises ServiceUnavailable if Kafka does not answer.
    """
    with open_admin(settings) as client:
        _compare_timestamps(client, settings, [topic for topic in required_topics(settings) if topic.name in existing])


def alter_command(settings: Settings, topic: str, change: str) -> str:
    """The command of Kafka that sets a configuration of a topic, `NAME=VALUE`."""
    servers = settings.kafka.bootstrap_servers or "HOST:9092"
    login = "" if settings.kafka.security_protocol == "PLAINTEXT" else f" {CREDENTIALS}"
    what = f"--alter --entity-type topics --entity-name {topic} --add-config {change}"
    return f"kafka-configs.sh --bootstrap-server {shlex.quote(servers)}{login} {what}"


def _compare_timestamps(client: KafkaAdminClient, settings: Settings, topics: Sequence[Topic]) -> None:
    """The same of some topics, those that are missing left out."""
    name = "message.timestamp.type"
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic.name, configs={name: None}) for topic in topics]
    found = client.describe_configs(asked, config_filter="all") if asked else {}
    have = {topic: of[name]["value"] for kind in found.values() for topic, of in kind.items() if name in of}
    for topic in topics:
        if have.get(topic.name) not in (None, topic.config[name]):
            msg = (
                f"topic {topic.name} has {name}={have[topic.name]}, wanted {topic.config[name]}: these times decide which records are late. "
                f"Set it back: {alter_command(settings, topic.name, f'{name}={topic.config[name]}')}. If nothing in it is needed, delete it and "
                "run `kappa topics create`. `topics.timestamps` may only be another for history that is imported"
            )
            raise InputError(msg)


def _create(client: KafkaAdminClient, topic: Topic, replication: int) -> None:
    new = NewTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=replication,
        topic_configs=topic.config,
    )
    for made in client.create_topics([new], raise_errors=False)["topics"]:
        error = for_code(made["error_code"])
        if error not in (NoError, TopicAlreadyExistsError):  # another process may just have created it
            what = f"topic {topic.name} with {topic.partitions} partitions, {replication} copies of each"
            msg = f"{what}: {made['error_message'] or 'no reason given'}"
            raise error(msg)
