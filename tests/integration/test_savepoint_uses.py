"""What savepoints are for: each use goes on from one, or comes to one, and gives what an unbroken run gives."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.live_jobs import settings_file, start, wait_for, watermarks
from support.replays import named, same, values

from app.cli.run import set_start_position
from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import log_marks, topics
from app.kafka.connection import admin_client, client_options, kafka_connection
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.producer import BoundedProducer
from app.runtime import jobs
from app.runtime.run import prepare
from app.simulator import Planned, SimulatorSettings, simulate
from app.simulator.publish import Target, live, to_kafka
from app.versions import replay_manifest, start_position
from pipelines.runner import Runner
from pipelines.state import savepoint_format
from replay import recovery, run
from replay.savepoints import create_savepoint, savepoint_folder, savepoint_writer
from replay.slices import RequestedRange

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]

JOBS = ("extract", "detect", "correlate")
MINUTE = 60_000
HALF, WHOLE = 14, 22  # minutes of arrival
PLAN = [
    ("cpu_contention", 660, 120),
    ("log_silence", 780, 200),
    ("host_silent", 900, 120),
    ("cpu_contention", 1080, 100),
]


def fleet() -> Any:
    schedule = tuple(Planned(kind, start, seconds) for kind, start, seconds in PLAN)
    return simulate(SimulatorSettings(hosts=5, hours=WHOLE / 60, seed=11, late_share=0.005, schedule=schedule))


def target(settings: Settings) -> Target:
    return Target(client_options(settings), {kind: settings.topic(kind) for kind in topics.INPUTS})


def first_half(settings: Settings) -> None:
    simulation = fleet()
    to_kafka(simulation, target(settings), until=simulation.settings.start + HALF * MINUTE, processes=1)


def second_half(settings: Settings) -> None:
    """What arrives afterwards, as fast as the broker takes it."""
    simulation = fleet()
    begin = simulation.settings.start + HALF * MINUTE
    options: dict[str, Any] = {"begin": begin, "timestamps": "event", "heartbeats": True, "clock": lambda: 2**43}
    live(simulation, target(settings), threading.Event(), **options)


def run_chain(spark: SparkSession, settings: Settings) -> None:
    """extract, detect and correlate over what the log holds, one after the other, from where they stand."""
    prepare(settings, JOBS)
    runner = Runner(spark, kafka_connection(settings))
    try:
        for job in (jobs.extract_job, jobs.detect_job, jobs.correlate_job):
            runner.run_to_end(job(settings))
        assert runner.dropped_by_watermark == 0
    finally:
        runner.stop()


class PausedVersion:
    """A log, what an unbroken run makes of it, and a version that was paused half-way, with a savepoint of then."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.settings = settings
        topics.create(settings)
        first_half(settings)
        run_chain(spark, settings)
        self.taken = create_savepoint.create(spark, settings, "half-way")
        self.savepoint = savepoint_folder.find(settings.home, "half-way")
        self.history = run.plan(self.version("history"), RequestedRange(), None).whole
        second_half(settings)
        self.unbroken = self.version("unbroken")
        run_chain(spark, self.unbroken)

    def version(self, name: str) -> Settings:
        return named(self.settings, name)

    @property
    def watermark(self) -> int:
        return int(self.taken["watermark"])


@pytest.fixture(scope="module")
def deployment(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PausedVersion:
    folder = tmp_path_factory.mktemp("uses")
    made = PausedVersion(spark, load(settings_file(folder, stack, folder.name, "live", 20_000)))
    assert values(made.unbroken, "novelties", made.watermark)
    assert values(made.unbroken, "incidents", made.watermark)
    return made


def tuned(settings: Settings) -> Settings:
    """Settings that say other things."""
    return settings.model_copy(
        update={"detection": dataclasses.replace(settings.detection, silence_nats=6, spike_nats=9)}
    )


def test_pause_and_resume(spark: SparkSession, deployment: PausedVersion) -> None:
    assert not same(deployment.settings, deployment.unbroken)
    run_chain(spark, deployment.settings)  # from its checkpoints
    assert same(deployment.settings, deployment.unbroken)
    # and from the savepoint, where the checkpoints are set aside
    start_position.start_from(deployment.settings, deployment.savepoint, replace=True)
    run_chain(spark, deployment.settings)
    assert same(deployment.settings, deployment.unbroken)
    kept = deployment.settings.home / "checkpoints" / "live.replaced-1"
    assert {p.name for p in kept.iterdir()} >= {*JOBS, "configuration.json"}


def test_upgrade_of_code_goes_on_from_what_an_older_release_has_written(
    spark: SparkSession, deployment: PausedVersion
) -> None:
    older = savepoint_folder.savepoints_folder(deployment.settings.home) / "older"
    provenance = dataclasses.replace(
        savepoint_writer.provenance_of(deployment.settings, create_savepoint.pinned_configuration(deployment.settings)),
        code_version="0.0.1",
    )
    shards = (savepoint_format.load_shard(deployment.savepoint, n) for n in range(provenance.shards))
    savepoint_writer.write(
        older, provenance, (s for s in shards if s), savepoint_format.load_correlator(deployment.savepoint)
    )
    assert savepoint_format.read_manifest(older)["code_version"] == "0.0.1"
    upgraded = deployment.version("upgraded")
    start_position.start_from(upgraded, older)
    run_chain(spark, upgraded)
    assert values(upgraded, "scores")
    assert same(upgraded, deployment.unbroken, deployment.watermark)


def test_one_command_brings_back_a_version_that_lost_a_topic_and_its_state(
    spark: SparkSession, deployment: PausedVersion
) -> None:
    """`kappa recover`: first back to its savepoint, then, without one that can be used, from the log's beginning."""
    lost = deployment.version("lost")
    start_position.start_from(lost, deployment.savepoint)
    run_chain(spark, lost)
    assert not recovery.plan(lost).problems
    log_marks.write_marks(lost, "extract", log_marks.mark_now(lost))
    for file in [
        *lost.checkpoint("detect").glob("state/*/*/*.changelog"),
        *lost.checkpoint("detect").glob("commits/*"),
    ]:
        file.write_bytes(b"")
    client = admin_client(lost)
    client.delete_topics([lost.topic("statistics")])
    client.close()
    wait_for(lambda: lost.topic("statistics") not in log_marks.mark_now(lost), 60, "the topic to go")
    for after in (deployment.watermark, -1):
        what = recovery.plan(lost)
        torn = "detect" if after > 0 else "extract"
        assert any(f"checkpoint of {torn}" in problem for problem in what.problems)
        assert what.start is not None
        assert what.start.watermark == after
        assert what.losses == ()
        assert what.record() == recovery.plan(lost).record(), "finding out changes nothing"
        done = recovery.recover(lost, what, lambda *_: pytest.fail("no savepoint is taken"))
        assert Path(done["aside"]).is_dir()
        assert not recovery.plan(lost).problems
        run_chain(spark, lost)
        assert same(lost, deployment.unbroken, max(after, deployment.watermark))
        begun = start_position.start_position(lost)
        assert begun is not None
        if begun.folder is not None:  # the disk with the savepoint breaks as well
            manifest = begun.folder / "manifest.json"
            manifest.unlink()  # a second name of the savepoint's own file, from which other tests go on
            manifest.write_bytes(b"")
            for part in ("offsets", "commits"):  # of a later batch, as earlier ones are deleted in time
                for file in lost.checkpoint("extract").glob(f"{part}/[0-9]*"):
                    file.unlink()
                (lost.checkpoint("extract") / part / "90").write_bytes(b"")
    assert same(lost, deployment.unbroken)


def test_change_of_spark_partitions(spark: SparkSession, deployment: PausedVersion) -> None:
    wider = deployment.version("wider")
    wider = wider.model_copy(update={"spark": wider.spark.model_copy(update={"shuffle_partitions": 3})})
    start_position.start_from(wider, deployment.savepoint)
    with shuffled(spark, 3):
        run_chain(spark, wider)
    state = wider.checkpoint("detect") / "state" / "0"
    assert len([p for p in state.iterdir() if p.name.isdigit()]) == 3
    assert same(wider, deployment.unbroken, deployment.watermark)


@contextmanager
def shuffled(spark: SparkSession, partitions: int) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before or "2")


def test_bootstrap_from_history_then_live(spark: SparkSession, deployment: PausedVersion) -> None:
    learnt = deployment.version("learnt")
    made = run.replay(spark, run.plan(learnt, RequestedRange(to_offsets=deployment.history.ends), None))
    assert made["whole"]["until"] < values_until(deployment.unbroken)
    set_start_position(learnt, None, replace=False)  # what `kappa run all --version learnt` does first
    run_chain(spark, learnt)
    assert same(learnt, deployment.unbroken)


def values_until(settings: Settings) -> int:
    return int(max(json.loads(value)["window_end"] for value in values(settings, "scores")))


def test_time_travel_comes_to_the_state_and_the_findings_of_then(
    spark: SparkSession, deployment: PausedVersion
) -> None:
    then = deployment.version("then")
    run.replay(spark, run.plan(then, RequestedRange(to_ms=deployment.watermark), None))
    assert savepoint_format.read_manifest(replay_manifest.last_savepoint(then))["hash"] == deployment.taken["hash"]
    for kind in ("scores", "novelties", "incidents"):
        late = values(deployment.unbroken, kind, deployment.watermark)
        assert values(then, kind) == values(deployment.unbroken, kind) - late


def test_what_if_another_configuration_goes_on_from_the_same_point(
    spark: SparkSession, deployment: PausedVersion
) -> None:
    as_it_was, what_if = deployment.version("as-it-was"), tuned(deployment.version("what-if"))
    for settings in (as_it_was, what_if):
        run.replay(spark, run.plan(settings, RequestedRange(), deployment.savepoint))
    assert same(as_it_was, deployment.unbroken, deployment.watermark)
    after = min(json.loads(value)["window_end"] for value in values(what_if, "scores"))
    assert after == deployment.watermark + 1000 * deployment.settings.windowing.window_seconds
    assert values(what_if, "novelties") != values(as_it_was, "novelties")


def test_two_versions_side_by_side_on_the_same_events_are_what_each_is_alone(
    spark: SparkSession, deployment: PausedVersion, stack: Addresses, tmp_path: Path
) -> None:
    a = deployment.version("a")
    b = tuned(deployment.version("b"))
    last = watermarks(deployment.unbroken, "novelties")
    file = settings_file(tmp_path, stack, deployment.settings.topics.prefix[:-1], "b", 20_000)
    file.write_text(file.read_text().replace("[detection]\n", "[detection]\nsilence_nats = 6\nspike_nats = 9\n"))
    assert load(file).detection == b.detection
    with running(file) as process:
        run_chain(spark, a)
        wait_for(
            lambda: process.poll() is not None or watermarks(b, "novelties") >= last,
            240,
            "version b to come to the end",
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 0, (tmp_path / "run.log").read_text()[-500:]
    assert same(a, deployment.unbroken)
    alone = tuned(deployment.version("b-alone"))
    run.replay(spark, run.plan(alone, RequestedRange(), None))
    assert values(b, "scores") == values(alone, "scores")
    assert values(b, "novelties") == values(alone, "novelties")
    assert values(b, "novelties") != values(a, "novelties")


@contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(file, *JOBS)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_adding_partitions_to_an_input_topic(
    spark: SparkSession, stack: Addresses, tmp_path: Path, unique: str
) -> None:
    before = load(settings_file(tmp_path, stack, unique, "live", 20_000))
    topics.create(before)
    first_half(before)
    run_chain(spark, before)
    taken = create_savepoint.create(spark, before, "before")
    client = admin_client(before)
    client.create_partitions({before.topic("telemetry"): 5})
    client.close()
    # A new partition says nothing until its first record: heartbeats carry on from where the others stand.
    at = fleet().settings.start + HALF * MINUTE
    with BoundedProducer(client_options(before)) as outbox:
        queue_heartbeats(outbox, [(before.topic("telemetry"), partition) for partition in (3, 4)], at)
    second_half(before)
    after = before.model_copy(update={"topics": before.topics.model_copy(update={"telemetry_partitions": 5})})
    after = named(after, "live")
    start_position.start_from(after, savepoint_folder.find(after.home, "before"), replace=True)
    run_chain(spark, after)
    again = named(after, "again")
    run.replay(spark, run.plan(again, RequestedRange(), None))
    assert values(after, "scores", int(taken["watermark"]))
    assert same(after, again)
