"""A version that begins from scratch comes to the same results from a topic of rules that Kafka has compacted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.sql import SparkSession
from support.live_jobs import JARS, append_rule, feed, run_to_end, settings_file, wait_for
from support.replays import named, same, values

from app.core.settings import Settings, load
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import rule_topic, topics
from app.kafka.connection import open_admin, open_consumer
from app.kafka.record_range import records_between
from app.simulator import SimulatorSettings

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]

SECOND, MINUTES = 1_000, 24
START = SimulatorSettings().start


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A stack of its own: the live aliases are one for all versions of a cluster."""
    with running_stack(Stack(tmp_path_factory.mktemp("compacted-stack"), jars=JARS)) as addresses:
        yield addresses


COMPACTED = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}


def test_results_are_the_same_from_a_topic_of_rules_that_was_compacted(
    servers: Addresses, spark: SparkSession, tmp_path: Path
) -> None:
    live = load(settings_file(tmp_path, servers, "compacted", "live", 20_000))
    topics.create(live)
    with open_admin(live) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, live.topic("rules"), COMPACTED)])
    # One that no heartbeat takes away, two that are in effect nowhere, because the second takes the first away, one that is ended by
    # what is no rule, and two of which the second one counts: its first record is before that of the other, and is lost.
    mute: dict[str, Any] = {"host": "*", "mute": True}
    least: dict[str, Any] = {"host": "*", "kind": "gauge"}
    rules: list[tuple[str, str, dict[str, Any]]] = [
        ("heartbeat", "heartbeat", mute | {"kind": "template"}),
        ("lost", "x", mute | {"kind": "logs"}),
        ("last", "x", mute | {"kind": "logs"}),
        ("ended", "ended", mute | {"kind": "gauge"}),
        ("ended", "ended", {"mute": "yes"}),
        ("b", "b", least | {"least_deviation": 1e12}),
        ("a", "a", least | {"least_deviation": 1e12}),
        ("b", "b", least | {"least_deviation": 0.001}),
    ]
    for i, (name, key, keys) in enumerate(rules, -len(rules)):
        append_rule(live, START + 60 * SECOND * i, {"name": name, **keys}, key)
    assert feed(live, MINUTES) > 10_000
    assert run_to_end(spark, live) == 0
    wait_for(lambda: kept(live) < 200, 120, "the compaction of the topic")
    assert rule_topic.read(live).in_effect(START).known.keys() == {"a", "b", "heartbeat"}
    again = named(live, "again")
    topics.create(again)
    assert run_to_end(spark, again) == 0
    assert len(values(again, "scores")) > 10_000
    assert same(live, again)
    reported = {json.loads(value)["series"].split("/")[0] for value in values(live, "novelties")}
    assert {"gauge", "logs"} <= reported, "a rule that is not in effect has been"
    assert "template" not in reported, "no rule was in effect"


def kept(settings: Settings) -> int:
    """How many records the topic of rules holds."""
    at = TopicPartition(settings.topic("rules"), 0)
    with open_consumer(settings) as consumer:
        return sum(1 for _ in records_between(settings, consumer, at, 0, consumer.end_offsets([at])[at]))
