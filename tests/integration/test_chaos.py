"""Faults of real processes change no result, or end in a refusal that one command ends. More of them with `make chaos`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.core.settings import PROJECT, Settings
from app.runtime.run import index_to_end
from benchmarks.chaos.disks import may_mount
from benchmarks.chaos.experiment import ChaosPlan, run
from benchmarks.chaos.outcome import ChaosOutcome
from benchmarks.chaos.schedule import EVERYTHING, FULL_DISKS, KILLS, REFUSALS, PlannedFault, schedule
from replay.run import plan, replay
from replay.slices import RequestedRange

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.beside]

JARS = PROJECT / ".kappa" / "jars"
FEW = ("kill jvm", "kill broker", "kill run")
EXPECTED = ("scores", "novelties", "late")


def experiment(spark: SparkSession, sizes: ChaosPlan, faults: Sequence[PlannedFault], home: Path) -> ChaosOutcome:
    def fault_free_run(settings: Settings) -> None:
        replay(spark, plan(settings, RequestedRange()))
        index_to_end(spark, settings)

    return run(sizes, faults, home, JARS, fault_free_run)


def assert_passed(outcome: ChaosOutcome, home: Path, kinds: Sequence[str] = EXPECTED) -> None:
    report = outcome.record()
    log = (home / "run.log").read_text()[-3000:]
    assert outcome.passed, f"{json.dumps(report, indent=1)[:20_000]}\n{log}"
    assert all(fault.hit for fault in outcome.faults), report["faults"]
    assert min(outcome.records[kind].chaos for kind in kinds) > 0, report["records"]


def test_a_killed_jvm_and_broker_change_no_result(spark: SparkSession, tmp_path: Path) -> None:
    faults = [PlannedFault(1, "kill broker and jvm", 1, 0.5, 1.0)]
    outcome = experiment(spark, ChaosPlan(23, 300, hosts=2, drain_seconds=300, own_heartbeats=True), faults, tmp_path)
    assert outcome.kills == 1
    assert_passed(outcome, tmp_path, ("scores",))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_killed_jvm_broker_and_parent_change_no_result(spark: SparkSession, tmp_path: Path) -> None:
    faults = [PlannedFault(number, kind, 1, 0.5, 1.0) for number, kind in enumerate(FEW, 1)]
    outcome = experiment(spark, ChaosPlan(21, 600, hosts=3, drain_seconds=300), faults, tmp_path)
    assert outcome.kills == len(FEW)
    assert_passed(outcome, tmp_path, ("scores",))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_python_workers_change_no_result_and_restart_no_job(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ("kill one worker", "kill worker") * 10
    faults = [PlannedFault(number, kind, number % 2, 0.5, 0.1 * number) for number, kind in enumerate(kinds, 1)]
    outcome = experiment(spark, ChaosPlan(29, 900, hosts=2, drain_seconds=300), faults, tmp_path)
    assert_passed(outcome, tmp_path, ("scores",))
    assert outcome.kills == len(faults)
    assert "jobs ended" not in (tmp_path / "run.log").read_text()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_twenty_kills_change_no_result(spark: SparkSession, tmp_path: Path) -> None:
    outcome = experiment(spark, ChaosPlan(20, 2400, 20), list(islice(schedule(20, KILLS), 20)), tmp_path)
    assert_passed(outcome, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_twenty_faults_of_all_kinds_change_no_result(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {kind: weight for kind, weight in EVERYTHING.items() if kind not in FULL_DISKS or may_mount(tmp_path)}
    plan = ChaosPlan(22, 2400, 20, disks=may_mount(tmp_path))
    outcome = experiment(spark, plan, list(islice(schedule(22, kinds), 20)), tmp_path)
    assert_passed(outcome, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_loss_of_what_the_jobs_have_made_is_refused_until_one_command_makes_it_again(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    faults = [PlannedFault(1, kind, 2, 0.5, 1.0)]
    outcome = experiment(spark, ChaosPlan(24, 900, hosts=2, drain_seconds=600), faults, tmp_path)
    assert_passed(outcome, tmp_path, ("scores",))
    (refusal,) = outcome.refusals
    assert (refusal.kind, refusal.command) == (kind, "kappa recover")
    assert "kappa recover" in refusal.sentence
    assert refusal.answer["problems"] and not refusal.answer["lost"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", FULL_DISKS)
def test_a_full_disk_changes_no_result(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this user may not mount file systems")
    faults = [PlannedFault(1, kind, 1, 0.5, 20.0)]
    outcome = experiment(spark, ChaosPlan(25, 900, hosts=2, drain_seconds=600, disks=True), faults, tmp_path)
    assert_passed(outcome, tmp_path, ("scores",))


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_killed_promotion_and_a_killed_rollback_change_no_result(spark: SparkSession, tmp_path: Path) -> None:
    # The first is killed some seconds after its start, the second when the serving interval has been written.
    faults = [PlannedFault(1, "kill promotion", 1, 0.5, 12.0), PlannedFault(2, "kill rollback", 0, 0.5, 1.0)]
    outcome = experiment(spark, ChaosPlan(26, 1800, hosts=2, drain_seconds=900), faults, tmp_path)
    assert_passed(outcome, tmp_path, ("scores",))
    assert outcome.kills == len(faults)
