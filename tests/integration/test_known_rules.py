"""What became known later is learnt as if it had been known: the whole chain, from the log to the version that serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.commands import answer, kappa
from support.live_jobs import JARS, append_rule, beat, feed, run_to_end, settings_file
from support.malformed import iso
from support.replays import named, same, values

from app.core.settings import Settings, load
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import rule_topic, topics
from app.kafka.connection import client_options
from app.kafka.producer import BoundedProducer
from app.simulator import SimulatorSettings
from app.versions import serving
from app.versions.pinned_configuration import with_pinned_models

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]

SECOND, MINUTES = 1_000, 24
START = SimulatorSettings().start
END = START + 60 * SECOND * MINUTES
LATER = END + 400 * SECOND  # behind the heartbeats that `feed` writes
WORK: dict[str, Any] = {
    "name": "work",
    "host": "vm-002",  # silent from 360 to 240 s before the end
    "planned": True,
    "since": iso(END - 370 * SECOND),
    "until": iso(END - 220 * SECOND),
}


ROUTE: dict[str, Any] = {"name": "route", "severity": "major", "channels": ["ops"]}  # is about no result


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A stack of its own: the live aliases are one for all versions of a cluster."""
    with running_stack(Stack(tmp_path_factory.mktemp("known-stack"), jars=JARS)) as addresses:
        yield addresses


def deployment(folder: Path, servers: Addresses, version: str) -> tuple[Path, Settings]:
    """Settings, in a file and as they are, of a deployment with a log of its own."""
    file = settings_file(folder, servers, version, version, 20_000)
    file.write_text(file.read_text().replace("scores = true", "scores = false"))
    settings = load(file)
    topics.create(settings)
    return file, settings


def incidents(settings: Settings) -> list[dict[str, Any]]:
    """The records of incidents of the host that was worked on, from before the end of the data."""
    found = [json.loads(value) for value in values(settings, "incidents")]
    return [one for one in found if one["start"] < END and WORK["host"] in one["hosts"]]


def test_a_promoted_replay_that_knows_a_rule_is_what_a_version_that_knew_it_beforehand_came_to(
    servers: Addresses, spark: SparkSession, tmp_path: Path
) -> None:
    file, live = deployment(tmp_path, servers, "live")
    append_rule(live, START - 60 * SECOND, ROUTE)
    assert feed(live, MINUTES) > 10_000
    assert run_to_end(spark, live) == 0
    assert incidents(live), "the data hold no fault that the work explains"
    append_rule(live, LATER, WORK)
    assert run_to_end(spark, live) == 0
    rules = rule_topic.read(live).in_effect(LATER)
    assert (list(rules.known), list(rules.over)) == (["route"], ["work"])

    _, knew = deployment(tmp_path, servers, "knew")
    append_rule(knew, START - 60 * SECOND, WORK)
    assert feed(knew, MINUTES) > 10_000
    beat(knew, range(LATER, LATER + 60 * SECOND, 1000))
    assert run_to_end(spark, knew) == 0

    for command in (
        ("replay", "--version", "corrected", "--rules-as-known-now", "--no-index"),
        ("replay", "promote", "corrected"),
    ):
        status, out, err = answer(kappa(*command, "--json", "--config", str(file)), 600)
        assert status == 0, err
    assert serving.read(live.home).version == json.loads(out)["version"] == "corrected"
    corrected = with_pinned_models(named(live, "corrected"), "corrected")
    assert len(values(knew, "scores")) > 10_000 and values(knew, "incidents")
    assert same(corrected, knew)
    assert not incidents(corrected)
    for kind in ("scores", "novelties", "incidents"):
        assert values(corrected, kind) != values(live, kind), kind

    later = LATER + 120 * SECOND
    for own in (live, knew):  # the version that serves takes in what is written from now on
        point = {"@timestamp": iso(later), "host.name": "vm-001", "metric.name": "system.cpu.utilization"}
        with BoundedProducer(client_options(own)) as outbox:
            value = json.dumps(point | {"metric.value": 40.0}).encode()
            outbox.send(own.topic("telemetry"), value, key=b"", partition=0, timestamp_ms=later)
        append_rule(own, later, {"name": "quiet", "host": "*", "mute": True})
    for own in (corrected, knew):
        assert run_to_end(spark, own) == 0
    assert values(knew, "scores", after=later), "nothing was taken in"
    assert same(corrected, knew)
