"""What reading a record costs: processor time of the task that reads copies of it, of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from support.poison import Poison
from support.raw_records import SOURCE, WINDOWING, at, raw

from pipelines.jobs import extract
from pipelines.spark_internals import jvm_of

OF_TOPIC = {"telemetry": 0, "logs": 1, "labels": 2, "changes": 3, "rules": 4}
MOST_MS, MOST_OF_LINES = 50.0, 128 << 10


def bound_ms(record: Poison) -> float:
    """The most milliseconds of a core that a record may take: one of many log lines for each so many bytes of it."""
    lines = len(record.value or b"") if record.topic == "logs" else 0
    return MOST_MS * max(1.0, lines / MOST_OF_LINES)


def costs(spark: SparkSession, topic: str, records: Sequence[Poison], copies: int, rounds: int) -> list[float]:
    """Milliseconds of a core that each record takes from its bytes to the rows that are summed: the least of some rounds.

    A task reads `copies` of one record and of no other; what one costs that reads empty objects is taken off.
    """
    found = [_taken(spark, topic, records, copies) for _ in range(rounds)]
    least = [min(times) for times in zip(*found, strict=True)]
    return [max(0.0, taken - least[-1]) / copies / 1e6 for taken in least[:-1]]


def _taken(spark: SparkSession, topic: str, records: Sequence[Poison], copies: int) -> list[int]:
    """Nanoseconds of the processor for each record's task, and for empty objects."""
    # plain values: Python workers know nothing of the tests' modules
    rows = [tuple(raw(each.value, i, at(2), topic=topic, key=each.key)) for each in records for i in range(copies)]
    given = spark.sparkContext.parallelize([*rows, *[tuple(raw(b"{}", 0, at(2)))] * copies], len(records) + 1)
    read = extract.make_readers(WINDOWING)[OF_TOPIC[topic]](spark.createDataFrame(given, SOURCE))
    return _of_tasks(spark, extract.admit_or_refuse(read, ["series"], WINDOWING), len(records) + 1)


def _of_tasks(spark: SparkSession, frame: DataFrame, tasks: int) -> list[int]:
    """Nanoseconds of the processor that each task takes which makes this frame, by the number of its partition."""
    group = f"costs-{threading.get_ident()}"
    context: Any = spark.sparkContext
    before = {job for job in context.statusTracker().getJobIdsForGroup(group)}
    context.setJobGroup(group, group)
    frame.write.format("noop").mode("overwrite").save()
    (job,) = set(context.statusTracker().getJobIdsForGroup(group)) - before
    (stage,) = context.statusTracker().getJobInfo(job).stageIds
    store = context._jsc.sc().statusStore()
    jvm_of(spark).org.apache.spark.SparkContext.getOrCreate().listenerBus().waitUntilEmpty()
    listed = store.taskList(stage, 0, tasks)
    taken = [0] * tasks
    for place in range(listed.size()):
        task = listed.apply(place)
        taken[task.partitionId()] = int(task.taskMetrics().get().executorCpuTime())
    return taken
