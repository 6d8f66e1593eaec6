"""The jobs on a real Spark cluster, a master and two workers, give the scores that they give in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.exposed import family, named_on_command_lines
from support.live_jobs import MINUTES, feed, records, settings_file, watermarks

from app.core.ports import LOOPBACK
from app.core.settings import PROJECT, Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import kafka_connection
from app.runtime import jobs
from app.runtime.run import prepare
from benchmarks.spark_cluster import BIN, environment, process, running_cluster, wait_for
from pipelines.runner import Runner

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]

JOBS = ("extract", "detect")
WORKERS = 2
SECRET = {"KAPPA_SPARK__SECRET": "c4nary-of-the-cluster"}
STRANGER = """
from pyspark.sql import SparkSession
of = {"spark.master": %r, "spark.authenticate": "true", "spark.authenticate.secret": "another", "spark.network.crypto.enabled": "true"}
builder = SparkSession.builder.config(map=of | {"spark.driver.host": "127.0.0.1", "spark.cores.max": "1"})
print("let in", builder.getOrCreate().range(5).count())
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of two cores."""
    with running_cluster(tmp_path, SECRET["KAPPA_SPARK__SECRET"], WORKERS, 2) as running:
        yield running.address


def on_the_cluster(file: Path, address: str) -> Settings:
    """The settings of a file with the cluster as their master, written back."""
    text = file.read_text().replace('master = "local[2]"', f'master = "{address}"')
    extra = {
        "spark.driver.host": LOOPBACK,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "768m",
    }
    lines = "".join(f'"{key}" = "{value}"\n' for key, value in extra.items())
    file.write_text(f"{text}[spark.extra]\n{lines}")
    assert tomllib.loads(file.read_text())["spark"]["master"] == address
    return load(file)


def in_one_process(spark: SparkSession, settings: Settings) -> None:
    """Both jobs, one after the other, over what the log holds."""
    prepare(settings, JOBS)
    runner = Runner(spark, kafka_connection(settings))
    try:
        runner.run_to_end(jobs.extract_job(settings))
        runner.run_to_end(jobs.detect_job(settings))
    finally:
        runner.stop()


def workers_used(folder: Path) -> dict[str, set[str]]:
    """The workers on which each application has had an executor."""
    found: dict[str, set[str]] = {}
    for path in folder.glob("worker-*/app-*/*"):
        found.setdefault(path.parent.name, set()).add(path.parent.parent.name)
    return found


def by_kappa(file: Path, *arguments: str) -> list[str]:
    """The command of a person: the driver is that process."""
    return [sys.executable, "-m", "app.cli", *arguments, "--config", str(file)]


def by_submit(file: Path, *arguments: str) -> list[str]:
    """The command that has spark-submit start `kappa`, with the configuration that `kappa` says."""
    options = file.with_suffix(".conf")
    own = os.environ | SECRET
    asked = subprocess.run(by_kappa(file, "config", "spark"), capture_output=True, check=True, cwd=PROJECT, env=own)
    assert SECRET["KAPPA_SPARK__SECRET"].encode() not in asked.stdout
    options.write_bytes(asked.stdout)
    submit = [str(BIN / "spark-submit"), "--properties-file", str(options), str(PROJECT / "deploy" / "submit.py")]
    return [*submit, *arguments, "--config", str(file)]


def test_cluster_gives_the_same_scores(
    stack: Addresses, spark: SparkSession, cluster: str, tmp_path: Path, unique: str
) -> None:
    alone = load(settings_file(tmp_path, stack, unique, "live", 50_000))
    topics.create(alone)
    assert feed(alone, MINUTES) > 8_000
    in_one_process(spark, alone)
    expected = set(records(alone, "scores"))
    assert len(expected) > 5_000

    file = settings_file(tmp_path, stack, unique, "cluster", 5_000)
    settings = on_the_cluster(file, cluster)
    topics.create(settings)
    own = environment(tmp_path) | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)} | SECRET
    # One job after the other, each a process of its own and started in its own way; the last watermark says that it is done.
    for job, written, start in (("extract", "statistics", by_submit), ("detect", "novelties", by_kappa)):
        log, last = tmp_path / f"{job}.log", watermarks(alone, written)
        with process(start(file, "run", job, "--no-heartbeats"), log, own) as driver:
            wait_for(lambda kind=written, all_=last: watermarks(settings, kind) >= all_, driver, 300, log)  # type: ignore[misc]
            assert named_on_command_lines(family(driver.pid), SECRET["KAPPA_SPARK__SECRET"]) == []
    assert set(records(settings, "scores")) == expected
    used = workers_used(tmp_path)
    assert len(used) == 2  # applications: one for each job
    assert all(len(workers) == WORKERS for workers in used.values())


def test_client_with_another_secret_is_not_let_in(cluster: str, tmp_path: Path) -> None:
    own = environment(tmp_path) | {"PYSPARK_PYTHON": sys.executable}
    asked = subprocess.run(
        [sys.executable, "-c", STRANGER % cluster], env=own, capture_output=True, text=True, timeout=200, check=False
    )
    assert asked.returncode != 0 and "let in" not in asked.stdout
    assert workers_used(tmp_path) == {}
