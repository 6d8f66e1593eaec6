"""Python workers that meet one partition's tasks and no others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pandas as pd
import pyspark
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from app.runtime.spark import NATIVE_MEMORY
from pipelines.spark_internals import jvm_of, own_workers

pytestmark = pytest.mark.spark

PARTITIONS = 3
ROUNDS = 5


def asking() -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """A function that says what its worker is called, what it is, and of which partitions it has had tasks."""

    def ask(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            partition = int(frame["id"].iloc[0])
            met = {*os.environ.get("MET", "").split(), str(partition)}
            os.environ["MET"] = " ".join(sorted(met))
            name = os.environ.get("KAPPA_WORKER", "")
            yield pd.DataFrame({"partition": [partition], "name": [name], "pid": [os.getpid()], "met": [len(met)]})

    return ask


def test_a_partition_keeps_its_worker(spark: SparkSession) -> None:
    """Whatever the order in which tasks end; a function that is made afterwards has the common workers."""
    rows = spark.range(0, PARTITIONS, 1, PARTITIONS)
    schema = "partition int, name string, pid int, met int"
    with own_workers(spark, "test"):
        asked = rows.mapInPandas(asking(), schema)
    found = [row for _ in range(ROUNDS) for row in asked.collect()]
    assert {(row.partition, row.name) for row in found} == {(i, f"test-{i}") for i in range(PARTITIONS)}
    assert len({(row.partition, row.pid) for row in found}) == PARTITIONS
    assert {row.met for row in found} == {1}
    assert {row.name for row in rows.mapInPandas(asking(), schema).collect()} == {""}


def test_workers_import_what_is_installed_and_not_an_archive(spark: SparkSession) -> None:
    """Nobody compiles what is in an archive, so each start would take four times as long."""

    def instance(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"file": [pyspark.__file__]})

    found = spark.range(1).mapInPandas(instance, "file string").collect()
    assert [row["file"] for row in found] == [pyspark.__file__]


def test_a_task_whose_worker_is_killed_is_run_again_in_the_same_jvm(spark: SparkSession) -> None:
    def dies_at_first(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        context = TaskContext.get()
        tries = -1 if context is None else context.attemptNumber()
        if tries == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        for frame in frames:
            yield frame.assign(tries=tries)

    found = spark.range(0, 5, 1, 1).mapInPandas(dies_at_first, "id long, tries int").collect()
    assert [(row.id, row.tries) for row in found] == [(i, 1) for i in range(5)]


def test_the_jvm_returns_native_memory_that_was_freed(spark: SparkSession) -> None:
    getenv = jvm_of(spark).java.lang.System.getenv
    assert {key: getenv(key) for key in NATIVE_MEMORY} == NATIVE_MEMORY


def test_workers_take_no_module_from_the_working_directory(spark: SparkSession) -> None:
    """`python -m` looks there first, and others may write there."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.flags.safe_path).collect()
    assert found == [True]
