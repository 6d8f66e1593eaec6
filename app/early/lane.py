"""The query of the lane in a Spark session of its own, with the table of bounds in the same JVM.

The session is local, whatever `spark.master` says: the table is in one JVM, and every input partition needs a task slot all the time.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from kafka import TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.core.settings import Settings
from app.kafka.connection import kafka_connection, open_consumer
from app.kafka.topics import EARLY
from app.runtime.spark import session
from models.records.records import HeldAlarms
from pipelines.errors import KappaError, ServiceUnavailable
from pipelines.jobs import early
from pipelines.spark_internals import java_object, jvm_of

log = structlog.get_logger()

LOOK_SECONDS = 0.1
SPARE_SLOTS = 1


def of_version(settings: Settings) -> early.Lane:
    """The lane of the version that the settings name."""
    telemetry, logs, bounds, own = (settings.topic(kind) for kind in ("telemetry", "logs", "bounds", EARLY))
    return early.Lane(telemetry, logs, bounds, own, settings.version, settings.windowing)


def local(settings: Settings) -> Settings:
    """The settings with a local Spark that has a task slot for each input partition. A task is tried once: a lane that fails begins anew."""
    slots = settings.topics.telemetry_partitions + settings.topics.logs_partitions + SPARE_SLOTS
    return settings.model_copy(update={"spark": settings.spark.model_copy(update={"master": f"local[{slots},1]"})})


class BoundsTable:
    """The table of bounds in Spark's JVM, which a thread there fills from the topic."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        jvm, topic = jvm_of(spark), settings.topic("bounds")
        client = jvm.java.util.HashMap()
        for name, value in kafka_connection(settings).client().items():
            client.put(name, value)
        self._reader: Any = java_object(spark, "BoundsReader", client, topic)
        self._java: Any = jvm.kappa.AlarmBounds.of(topic)
        self._topic = topic
        self._quiet: set[str] = set()
        self._reader.start()

    def is_ready(self) -> bool:
        """Whether all bounds are read that were there at the start. Raises ServiceUnavailable where the topic cannot be read."""
        problem = self._reader.failure()
        if problem is not None:
            msg = f"early: the topic {self._topic} cannot be read ({problem}); see whether Kafka runs, and `kappa topics create`"
            raise ServiceUnavailable(msg)
        return bool(self._reader.isReady())

    def judged(self, until: int, quiet: Iterable[str]) -> None:
        """The jobs have judged up to a window, epoch ms; these series raise nothing."""
        wanted = set(quiet)
        for series in wanted - self._quiet:
            self._java.quiet(series)
        for series in self._quiet - wanted:
            self._java.speak(series)
        self._quiet = wanted
        if until:
            self._java.judged(until)

    def held(self, version: str) -> list[HeldAlarms]:
        """What was held back in the windows that have been judged since the last call."""
        found = json.loads(self._java.held())
        return [HeldAlarms(version=version, window_end=end, held=series, hosts=hosts) for end, series, hosts in found]

    @property
    def series(self) -> int:
        """How many series have a bound."""
        return int(self._java.size())

    @property
    def seen(self) -> int:
        """How many points and lines were compared, or had no bound; heartbeats among them."""
        return int(self._java.seen())

    @property
    def refused(self) -> int:
        """How many records of the topic were no bounds."""
        return int(self._java.refused())

    def close(self) -> None:
        """End the thread."""
        self._reader.end()


@contextmanager
def bounds_table(spark: SparkSession, settings: Settings, leave: Callable[[], bool]) -> Iterator[BoundsTable]:
    """A table that has read its topic, unless `leave` says that nobody waits for it."""
    table = BoundsTable(spark, settings)
    try:
        while not table.is_ready() and not leave():
            time.sleep(LOOK_SECONDS)
        log.info("bounds are read", series=table.series, refused=table.refused)
        yield table
    finally:
        table.close()


@contextmanager
def running_query(spark: SparkSession, settings: Settings) -> Iterator[StreamingQuery]:
    """The query in the block, from the end of the inputs on."""
    checkpoint = settings.home / "spark" / "early"
    shutil.rmtree(checkpoint, ignore_errors=True)  # of an earlier run: it begins at the end of the log, always
    own = of_version(settings)
    query = early.start(
        spark, kafka_connection(settings), own, ends_of(settings, own.telemetry, own.logs), str(checkpoint)
    )
    try:
        yield query
    finally:
        query.stop()


def ends_of(settings: Settings, *names: str) -> dict[str, dict[int, int]]:
    """Where topics end now, by topic and partition. Raises ServiceUnavailable if Kafka does not answer."""
    with open_consumer(settings) as consumer:
        parts = [TopicPartition(name, p) for name in names for p in consumer.partitions_for_topic(name) or ()]
        ends = consumer.end_offsets(parts)
    return {name: {at.partition: ends[at] for at in parts if at.topic == name} for name in names}


def check(query: StreamingQuery) -> None:
    """Raise KappaError for a query that has ended."""
    error: StreamingQueryException | None = query.exception()
    if error is not None or not query.isActive:
        lines = str(error).strip().splitlines() or ["no reason"]
        msg = f"early: the query has ended ({lines[0][:300]}); it begins again at the end of the log"
        raise KappaError(msg) from error


@contextmanager
def own_session(settings: Settings) -> Iterator[SparkSession]:
    """A session with a task slot for each input partition, which is stopped at the end."""
    spark = session(local(settings), "kappa-early")
    try:
        yield spark
    finally:
        spark.stop()
