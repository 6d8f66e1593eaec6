"""A savepoint of running jobs is the one of the same jobs when they have stopped, and a run can go on from it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession
from support.lost_records import marked_beyond

from app.core.settings import PROJECT, Settings
from app.embedded.stack_state import Addresses
from app.kafka import log_marks, topics
from app.kafka.connection import client_options, kafka_connection
from app.runtime import jobs
from app.simulator import Planned, SimulatorSettings, simulate
from app.simulator.publish import Target, to_kafka
from app.versions.pinned_configuration import pin_configuration
from models.detection.detector import ShardDetector
from models.detection.shard_state import is_template
from models.incidents.correlator import Correlator
from pipelines.errors import DeterminismViolation, InputError
from pipelines.jobs.correlate import NO_WINDOW, EpisodeEventBuffer, incident_json, load_state
from pipelines.jobs.correlate import advance as correlate_on
from pipelines.runner import Runner
from pipelines.state import savepoint_format
from pipelines.state.savepoint_format import CorrelatorState
from pipelines.windowing import WindowingConfig
from replay.savepoints import create_savepoint, savepoint_folder, savepoint_writer

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(600)]

SHARDS = 3


@pytest.fixture
def settings(folder: Path, stack: Addresses, unique: str) -> Settings:
    made = Settings(home=folder, jar_folder=PROJECT / ".kappa" / "jars", windowing=WindowingConfig(shards=SHARDS))
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": stack.kafka}),
            "topics": made.topics.model_copy(update={"prefix": f"{unique}-", "timestamps": "create", "partitions": 2}),
        }
    )


def feed(settings: Settings) -> None:
    plan = [("cpu_contention", 480, 120), ("log_silence", 420, 120), ("host_silent", 600, 100)]
    schedule = tuple(Planned(kind, start, seconds) for kind, start, seconds in plan)
    simulation = simulate(SimulatorSettings(hosts=5, hours=0.25, seed=7, schedule=schedule))
    names = {kind: settings.topic(kind) for kind in topics.INPUTS}
    to_kafka(simulation, Target(client_options(settings), names), processes=1)


def values(settings: Settings, kind: str) -> list[dict[str, Any]]:
    """All records of a topic."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [json.loads(r.value) for batch in consumer.poll(timeout_ms=500).values() for r in batch]
    consumer.close()
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what}")
        threading.Event().wait(0.5)


def test_a_savepoint_of_running_jobs_is_that_of_stopped_ones(spark: SparkSession, settings: Settings) -> None:
    with pytest.raises(InputError, match="version live has never run"):
        create_savepoint.create(spark, settings, "too-early")
    topics.create(settings)
    pin_configuration(settings)
    feed(settings)
    runner = Runner(spark, kafka_connection(settings), trigger_seconds=0.5)
    try:
        runner.run_to_end(jobs.extract_job(settings))
        runner.run_to_end(jobs.detect_job(settings))
        # correlate has never been started: all events of detect wait for it.
        before = savepoint_format.load_correlator(
            folder_of(settings, create_savepoint.create(spark, settings, "lagging"))
        )
        assert before is not None
        assert before.done == NO_WINDOW
        waiting = {(key[2], key[0]) for key in EpisodeEventBuffer.load(before.waiting).waiting}
        assert (
            waiting
            == {(r["id"], r["window_end"]) for r in values(settings, "novelties") if r["record"] != "watermark"}
            != set()
        )
        correlating = runner.start(jobs.correlate_job(settings))
        detecting = runner.start(jobs.detect_job(settings))
        watermarks = watermarks_of(settings)

        def caught_up() -> bool:
            runner.check(correlating)
            return correlated(spark, settings) == min(watermarks.values())

        wait_for(caught_up, "correlate to hear of every window")
        while_running = create_savepoint.create(spark, settings, "while-running")
        assert correlating.isActive and detecting.isActive
        runner.check(correlating)
        runner.check(detecting)
    finally:
        runner.stop()
    afterwards = by_command(settings, "afterwards")
    assert_none_is_taken_of_a_changed_log(spark, settings)
    assert (
        create_savepoint.correlator_at(spark, settings.checkpoint("correlate"), -2) is None
    )  # all that is kept is beyond

    assert savepoint_format.verify(folder_of(settings, while_running)) == []
    assert while_running["hash"] == afterwards["hash"]
    assert while_running["watermark"] == min(watermarks.values()) == while_running["correlated"]
    assert sorted(p.name for p in savepoint_folder.savepoints_folder(settings.home).iterdir()) == [
        "afterwards",
        "lagging",
        "while-running",
    ]
    assert_shards_are_those_of_the_log(settings, while_running, watermarks)
    assert_correlator_can_lag(spark, settings, watermarks)


def assert_none_is_taken_of_a_changed_log(spark: SparkSession, settings: Settings) -> None:
    """The version had marked a record that is not there: a savepoint that marks the log of today would hide its loss."""
    now, topic = log_marks.mark_now(settings), settings.topic("scores")
    log_marks.write_marks(settings, "extract", marked_beyond(now, topic, 1))
    with pytest.raises(DeterminismViolation, match=f"{topic}/0 has lost its end"):
        create_savepoint.create(spark, settings, "of-less")
    log_marks.write_marks(settings, "extract", now)


def by_command(settings: Settings, name: str) -> dict[str, Any]:
    """`kappa savepoint create` in a process of its own."""
    config = settings.home / "kappa.toml"
    config.write_text(
        f"""
home = "{settings.home}"
jar_folder = "{settings.jar_folder}"
[windowing]
shards = {SHARDS}
[topics]
prefix = "{settings.topics.prefix}"
[kafka]
bootstrap_servers = "{settings.kafka.bootstrap_servers}"
"""
    )
    command = [sys.executable, "-m", "app.cli", "savepoint", "create", name, "--json", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    manifest: dict[str, Any] = json.loads(done.stdout)
    return manifest


def folder_of(settings: Settings, manifest: dict[str, Any]) -> Path:
    return savepoint_folder.find(settings.home, manifest["name"])


def watermarks_of(settings: Settings) -> dict[int, int]:
    """The last watermark of each shard in the log."""
    found: dict[int, int] = {}
    for record in values(settings, "novelties"):
        if record["record"] == "watermark":
            found[record["shard"]] = max(record["watermark"], found.get(record["shard"], -1))
    return dict(sorted(found.items()))


def correlated(spark: SparkSession, settings: Settings) -> int:
    checkpoint = settings.checkpoint("correlate")
    found = create_savepoint.correlator_at(spark, checkpoint, 2**62)
    return found[0].done if found else -1


def assert_shards_are_those_of_the_log(
    settings: Settings, manifest: dict[str, Any], watermarks: dict[int, int]
) -> None:
    """Each shard is loaded, stands at its last watermark, and knows the series that were scored, but for templates that others took in."""
    known: set[str] = set()
    for shard in range(SHARDS):
        loaded = savepoint_format.load_shard(folder_of(settings, manifest), shard)
        assert loaded is not None
        assert loaded.done == watermarks[shard]
        state = ShardDetector.load(loaded.parts, settings.detector)._state
        assert state.last == watermarks[shard]
        known |= {*state.gauges.names, *state.counts.names}
    scored = {record["series"] for record in values(settings, "scores")}
    assert known <= scored
    assert all(is_template(name) for name in scored - known)
    assert manifest["series"] == len(known) > 100


def assert_correlator_can_lag(spark: SparkSession, settings: Settings, watermarks: dict[int, int]) -> None:
    """From a state that has read nothing yet, what waits at earlier watermarks gives the same incidents as the log."""
    provenance = savepoint_writer.provenance_of(settings, create_savepoint.pinned_configuration(settings))
    earlier = {shard: watermark - 20_000 * (1 + shard) for shard, watermark in watermarks.items()}
    nothing = CorrelatorState(NO_WINDOW, Correlator(settings.correlation).dump(), EpisodeEventBuffer().dump())
    state = create_savepoint.with_unread_events(spark, settings, provenance, earlier, nothing, {})
    buffer = EpisodeEventBuffer.load(state.waiting)
    assert buffer.latest == earlier
    events = [r for r in values(settings, "novelties") if r["record"] != "watermark"]
    shards = create_savepoint.shards_by_series(spark, {r["series"] for r in events}, SHARDS)
    wanted = {(r["id"], r["window_end"]) for r in events if r["window_end"] <= earlier[shards[r["series"]]]}
    assert {(key[2], key[0]) for key in buffer.waiting} == wanted
    assert len(wanted) > 0

    buffer, correlator = load_state((state.done, state.model, state.waiting), settings.correlation)
    incidents = [json.loads(incident_json(i, settings.version)) for i in correlate_on(buffer, correlator)]
    written = [r for r in values(settings, "incidents") if r["window_end"] <= buffer.done]
    assert written
    assert sorted(map(canonical, incidents)) == sorted(map(canonical, written))


def canonical(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True)
