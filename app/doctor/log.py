"""Checks of Kafka: brokers, topics and their settings, rights, clocks, and what the jobs still have to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError

from app.core.settings import FEW, INPUTS, Settings
from app.core.timestamps import wall_clock
from app.doctor.finding import Finding, danger, ok, warning
from app.doctor.machine import listed
from app.kafka.checkpoints import ConsumedOffsets, consumed_offsets
from app.kafka.connection import client_options
from app.kafka.topics import Topic, alter_command, required_topics
from app.versions.start_position import checkpoint_home
from models.core.wording import counted, duration
from pipelines.errors import InputError, ServiceUnavailable

WAIT_MS = 5_000
OLDEST = (2, 8)  # the first with ids of topics
STALE_MS = 90_000
AHEAD_MS = 5_000
HOUR_MS = 3_600_000
SAFE_HOURS = 24
NEEDED = {"READ", "WRITE", "DESCRIBE"}
# Settings of a topic of which more is known than whether they are as the topic is created; any other is compared as it is.
LOOKED_AT = {
    "message.timestamp.type",
    "cleanup.policy",
    "retention.ms",
    "max.message.bytes",
    "min.compaction.lag.ms",
    "min.insync.replicas",
}
KEPT_BY = ("cleanup.policy", "min.compaction.lag.ms", "retention.ms", "segment.ms")


@dataclass(frozen=True)
class TopicState:
    """A topic as it is: partitions as Kafka describes them, settings by name, what the user may do (None: not known)."""

    partitions: tuple[Mapping[str, Any], ...]
    config: Mapping[str, str]
    rights: frozenset[str] | None = None


@dataclass(frozen=True)
class KafkaState:
    """Kafka as it is: version, number of brokers, the version's topics, ends of partitions, and their newest append times."""

    version: tuple[int, ...]
    brokers: int
    topics: Mapping[str, TopicState]
    ends: Mapping[tuple[str, int], int]
    newest: Mapping[tuple[str, int], int]


def kafka(settings: Settings) -> list[Finding]:
    """Everything about Kafka; one finding where it does not answer."""
    try:
        state = state_of(settings)
    except (KafkaError, OSError, ServiceUnavailable) as error:
        where = settings.kafka.bootstrap_servers or "the embedded broker"
        own = isinstance(error, ServiceUnavailable)
        text = str(error) if own else f"{where} does not answer ({type(error).__name__}: {str(error)[:80]})"
        return [danger("Kafka", text, "an answer", "start it (`kappa up`), or check kafka.* and the network")]
    found = [*brokers(settings, state)]
    for topic in required_topics(settings):
        found += topic_findings(settings, topic, state.topics.get(topic.name))
    return [*found, *arrivals(settings, state, wall_clock()), *lags(settings, state, wall_clock())]


def state_of(settings: Settings) -> KafkaState:
    """Kafka as it is now."""
    waits = {"request_timeout_ms": WAIT_MS, "bootstrap_timeout_ms": WAIT_MS}
    client = KafkaAdminClient(**(client_options(settings) | waits))
    try:
        names = [topic.name for topic in required_topics(settings)]
        found = {one["name"]: one for one in client.describe_topics(names) if one["partitions"]}
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in found]
        configs = client.describe_configs(asked, config_filter="all") if asked else {}
        by_topic = {name: values for kind in configs.values() for name, values in kind.items()}
        cluster = client.describe_cluster()
        parts = [TopicPartition(name, p["partition_index"]) for name, one in found.items() for p in one["partitions"]]
        ends = client.list_partition_offsets({part: OffsetSpec.LATEST for part in parts}) if parts else {}
        newest = client.list_partition_offsets({part: OffsetSpec.MAX_TIMESTAMP for part in parts}) if parts else {}
        return KafkaState(
            version_of(client, cluster),
            len(cluster.get("brokers", ())),
            {
                name: TopicState(
                    tuple(one["partitions"]),
                    {key: str(value["value"]) for key, value in by_topic.get(name, {}).items()},
                    rights_of(one),
                )
                for name, one in found.items()
            },
            {(part.topic, part.partition): end.offset for part, end in ends.items()},
            {(part.topic, part.partition): end.timestamp for part, end in newest.items()},
        )
    finally:
        client.close()


def version_of(client: KafkaAdminClient, cluster: Mapping[str, Any]) -> tuple[int, ...]:
    """The broker's version as far as its requests show it; empty where they do not."""
    brokers = cluster.get("brokers") or []
    if not brokers:
        return ()
    found = client.get_broker_version_data(brokers[0]["broker_id"]).broker_version
    return tuple(int(part) for part in found)


def rights_of(about: Mapping[str, Any]) -> frozenset[str] | None:
    """What the user may do with a topic; None where the broker does not say."""
    found = about.get("authorized_operations") or about.get("topic_authorized_operations")
    if not isinstance(found, list | set | tuple):
        return None
    return frozenset(getattr(one, "name", str(one)) for one in found)


def brokers(settings: Settings, state: KafkaState) -> list[Finding]:
    """Version and number of brokers."""
    text = f"{counted(state.brokers, 'broker')}, version {'.'.join(map(str, state.version)) or 'unknown'}"
    found = [ok("Kafka", f"{settings.kafka.bootstrap_servers} answers: {text}")]
    if state.version and state.version < OLDEST:
        found.append(warning("Kafka", text, "2.8 or newer", "upgrade: older ones have no ids of topics"))
    if state.brokers == 1:
        advice = "three brokers and topics.replication = 3: one that loses power loses acknowledged records"
        found.append(warning("Kafka", "one broker", "3", advice))
    return found


def topic_findings(settings: Settings, topic: Topic, state: TopicState | None) -> list[Finding]:
    """Whether a topic is there and has the settings that results depend on."""
    check = f"topic {topic.name}"
    if state is None:
        of_version = f"`kappa run` or `kappa replay` with --version {settings.version} makes it; check the name"
        make = of_version if topic.name.endswith(f".{settings.version}") else "`kappa topics create`"
        return [danger(check, "is missing, or may not be described", "it", f"{make}; check the user's rights")]
    found: list[Finding] = []
    if len(state.partitions) != topic.partitions:
        text = counted(len(state.partitions), "partition")
        found.append(
            danger(check, text, str(topic.partitions), "set topics.* to what it has; see docs/replay.md to add some")
        )
    found += [finding for finding in map_settings(settings, check, topic, state.config)]
    if topic.name in map(settings.topic, FEW):
        found += large_batches(settings, check, topic, state.config)
    copies = min((len(part["replica_nodes"]) for part in state.partitions), default=0)
    if any(part["leader_id"] < 0 for part in state.partitions):
        found.append(danger(check, "a partition has no leader", "one", "start its brokers"))
    elif any(len(part["isr_nodes"]) < len(part["replica_nodes"]) for part in state.partitions):
        found.append(warning(check, "copies are behind", "all in sync", "look after the brokers that are away"))
    least = int(state.config.get("min.insync.replicas") or 1)
    if copies >= 3 and least < 2:
        found.append(
            warning(
                check,
                f"min.insync.replicas {least}",
                "2",
                alter_command(settings, topic.name, "min.insync.replicas=2"),
            )
        )
    if copies and least > copies:
        found.append(
            danger(
                check,
                f"min.insync.replicas {least}, {copies} copies",
                f"{copies} at most",
                "lower it: nothing can be written",
            )
        )
    if copies > 1 and state.config.get("unclean.leader.election.enable") == "true":
        found.append(
            danger(
                check,
                "unclean leader election",
                "false",
                "a broker that is behind may become the leader: set it to false",
            )
        )
    missing = set() if state.rights is None else NEEDED - state.rights
    if missing:
        found.append(
            danger(
                check,
                f"may not {', '.join(sorted(missing)).lower()}",
                "read, write, describe",
                "grant it; see docs/security.md",
            )
        )
    return found or [ok(check, f"{counted(len(state.partitions), 'partition')}, {counted(copies, 'copy', 'copies')}")]


def map_settings(settings: Settings, check: str, topic: Topic, config: Mapping[str, str]) -> list[Finding]:
    """In what a topic's settings differ from those that it is created with."""
    found = []
    for name in ("message.timestamp.type", "cleanup.policy"):
        have, want = config.get(name), topic.config[name]
        if have not in (None, want):
            keys = {key: value for key, value in sorted(topic.config.items()) if key in KEPT_BY}
            more = ",".join(f"{key}=[{value}]" if "," in value else f"{key}={value}" for key, value in keys.items())
            advice = alter_command(settings, topic.name, more)
            if name == "message.timestamp.type":
                advice = "results depend on it: set it back, or another topics.prefix and --version"
            found.append(danger(check, f"{name} {have}", want, advice))
    for name in ("retention.ms", "max.message.bytes", "min.compaction.lag.ms"):
        kept, least = limit(config.get(name)), limit(topic.config.get(name))
        if kept is not None and least is not None and kept < least:
            make = warning if name == "retention.ms" else danger
            found.append(
                make(
                    check,
                    f"{name} {config[name]}",
                    topic.config[name],
                    alter_command(settings, topic.name, f"{name}={topic.config[name]}"),
                )
            )
    for name in sorted(topic.config.keys() - LOOKED_AT):
        have, want = config.get(name), topic.config[name]
        if have not in (None, want):
            advice = alter_command(settings, topic.name, f"{name}={want}")
            found.append(warning(check, f"{name} {have}", want, advice))
    found += longer_retention(settings, check, topic, config)
    most = limit(config.get("retention.bytes"))
    if most is not None and most != float("inf"):
        found.append(
            warning(
                check,
                f"retention.bytes {config['retention.bytes']}",
                "-1",
                "records may go before the jobs have read them",
            )
        )
    return found


def longer_retention(settings: Settings, check: str, topic: Topic, config: Mapping[str, str]) -> list[Finding]:
    """Whether a topic keeps its records longer than the settings say, which hold for topics that are created; one that keeps all was made so."""
    name = "retention.ms"
    kept, most = limit(config.get(name)), limit(topic.config[name])
    if kept is None or most is None or kept == float("inf") or kept <= most:
        return []
    setting = "input_retention_hours" if topic.name in map(settings.topic, INPUTS) else "retention_hours"
    advice = (
        f"set topics.{setting} to what it has, or {alter_command(settings, topic.name, f'{name}={topic.config[name]}')}"
    )
    return [warning(check, f"{name} {config[name]}", topic.config[name], advice)]


def large_batches(settings: Settings, check: str, topic: Topic, config: Mapping[str, str]) -> list[Finding]:
    """Whether a topic that people and tools write takes larger batches than it is created with, as those of older releases do."""
    name = "max.message.bytes"
    have, most = limit(config.get(name)), limit(topic.config[name])
    if have is None or most is None or have <= most:
        return []
    advice = (
        f"{alter_command(settings, topic.name, f'{name}={topic.config[name]}')}: "
        "what reads it unpacks batches whole, to hundreds of times their bytes"
    )
    return [danger(check, f"{name} {config[name]}", f"{topic.config[name]} at most", advice)]


def limit(value: str | None) -> float | None:
    """A setting that is a number; -1 is no limit, None where it is not known."""
    if value is None:
        return None
    return float("inf") if value == "-1" else float(value)


def arrivals(settings: Settings, state: KafkaState, now_ms: int) -> list[Finding]:
    """When each input partition has last taken a record: heartbeats come every five seconds, and at least once a minute. And the brokers' clock."""
    if settings.topics.timestamps != "append":
        return [ok("heartbeats", "not compared: the log holds history")]
    inputs = {settings.topic(kind) for kind in INPUTS}
    # Kafka has no time, -1, of a partition without records, and of one whose latest record is not on all replicas yet: it is of now.
    newest = {
        key: now_ms if at < 0 and state.ends.get(key) else at for key, at in state.newest.items() if key[0] in inputs
    }
    ahead = [f"{t}/{p} {(at - now_ms) / 1000:.0f} s" for (t, p), at in sorted(newest.items()) if at > now_ms + AHEAD_MS]
    old = [f"{t}/{p}" for (t, p), at in sorted(newest.items()) if at < now_ms - STALE_MS]
    found = []
    if ahead:
        found.append(
            danger(
                "clocks",
                f"the brokers' clock is ahead: {listed(ahead)}",
                "5 s at most",
                "synchronise the clocks of all machines (NTP)",
            )
        )
    if old:
        advice = (
            "start `kappa run extract`, which sends heartbeats: without them no window is closed; where it runs, the brokers' clock is "
            "behind: synchronise the clocks of all machines (NTP)"
        )
        found.append(warning("heartbeats", f"no record of the last 90 s in {listed(old)}", "one a minute", advice))
    return found or [ok("heartbeats", f"recent in {counted(len(newest), 'partition')}; clocks agree")]


def lags(settings: Settings, state: KafkaState, now_ms: int) -> list[Finding]:
    """How much each job has to read, and how long retention leaves it."""
    found = []
    for folder in sorted(checkpoint_home(settings).glob("*/offsets")):
        job = folder.parent.name
        try:
            read = consumed_offsets(folder.parent)
        except InputError:
            continue  # the check of checkpoints has it
        if read is not None:
            found.append(lag_finding(settings, job, unread(state, read), read.at_ms, now_ms))
    return found or [ok("lag", "no job has begun")]


@dataclass(frozen=True)
class UnreadRecords:
    """How many records a job has not read, and of those topics that have some the one that keeps them for the shortest time (ms)."""

    count: int
    topic: str = ""
    kept_ms: float = float("inf")


def unread(state: KafkaState, read: ConsumedOffsets) -> UnreadRecords:
    """What a job has not read, and how long the topics as they are keep it."""
    behind = {part: max(0, state.ends.get(part, offset) - offset) for part, offset in read.offsets.items()}
    configs = {topic: one.config for topic, one in state.topics.items()}
    kept = {
        topic: limit(configs.get(topic, {}).get("retention.ms")) for (topic, _), records in behind.items() if records
    }
    known = sorted((most, topic) for topic, most in kept.items() if most is not None)
    least, topic = known[0] if known else (float("inf"), "")
    return UnreadRecords(sum(behind.values()), topic, least)


def lag_finding(settings: Settings, job: str, left: UnreadRecords, at_ms: int | None, now_ms: int) -> Finding:
    """What a lag means: how long until retention deletes what has not been read. Less than a day, or half of a shorter retention, is a danger."""
    check = f"lag of {job}"
    if left.count == 0 or at_ms is None or left.kept_ms == float("inf"):
        return ok(check, counted(left.count, "record"))
    kept = left.kept_ms / HOUR_MS
    hours = kept - (now_ms - at_ms) / HOUR_MS
    safe = min(SAFE_HOURS, kept / 2)
    text = f"{counted(left.count, 'record')}; {duration(3600 * max(0.0, hours))} until {left.topic} deletes the oldest"
    longer = alter_command(settings, left.topic, f"retention.ms={2 * left.kept_ms:.0f}")
    advice = f"start the job, or keep records longer: {longer}"
    if hours < safe:
        return danger(check, text, f"{duration(3600 * safe)} or more", advice)
    if hours < kept / 2:
        return warning(check, text, "half of the retention", advice)
    return ok(check, text)
