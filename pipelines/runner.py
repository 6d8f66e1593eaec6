"""Starts, supervises and stops jobs: the only module that starts streaming queries.

A `Job` says what it reads, the function from input to output, and where the output goes. The runner puts it on Kafka,
reports each batch, and stops a job that would not be deterministic (a row dropped by the watermark).
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines import failures
from pipelines.consumer_lag import QueryProgress, lag_of
from pipelines.errors import DeterminismViolation, KappaError
from pipelines.gates import Gate, WindowGrid, gate_of
from pipelines.spark_internals import (
    ProgressListener,
    dropped_by_watermark,
    gated,
    optimized,
    prepare_gates,
    without_plan,
)

log = structlog.get_logger()

PATIENCE_SECONDS = 10
MOST_STARTS = 3
LEAST_SECONDS = 0.001  # with an interval of 0 Spark asks no gate

BatchSink = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Kafka:
    """How to reach the log. `options` are those of Kafka's own clients without the prefix `kafka.`."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict)

    def prefixed(self) -> dict[str, str]:
        """Options as Spark's Kafka source and sink want them."""
        return {f"kafka.{k}": v for k, v in self.client().items()}

    def client(self) -> dict[str, str]:
        """Options as Kafka's own clients want them."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.options}


@dataclass(frozen=True)
class Input:
    """Topics to read. With `delay_seconds` each of their `partitions` is a source of its own, with its own watermark.

    With `skip_deleted` the job goes on where records were deleted before it read them; without, it fails there. A job that
    has no checkpoint yet begins at `starting`, offsets by topic and partition, or where there is none at the beginning.
    With `at_least` no batch begins for these topics alone before so many records have come, or PATIENCE_SECONDS have gone;
    `at_most` is how many a batch takes, where that is not the job's.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    delay_seconds: int | None = None
    headers: bool = False
    skip_deleted: bool = False
    starting: Mapping[str, Mapping[int, int]] | None = None
    at_least: int = 1
    at_most: int | None = None


@dataclass(frozen=True)
class Job:
    """One task: inputs -> transform -> sink.

    `transform` gets one DataFrame an input, in their order. `sink` is a function of a batch; without it, the output's
    rows (`topic, partition, key, value`) go to Kafka. `readers`, where there are any, one for each input, are the part of
    `transform` that looks into single records: it is planned in a fraction of the time. `accepted_drops` are batches that
    may end although the watermark dropped rows of theirs. `windows` are those that it closes, if it closes any.
    """

    name: str
    inputs: tuple[Input, ...]
    transform: Callable[..., DataFrame]
    checkpoint: str
    sink: BatchSink | None = None
    max_records_per_batch: int = 200_000
    readers: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    accepted_drops: frozenset[int] = frozenset()
    windows: WindowGrid | None = None


def read_stream(spark: SparkSession, kafka: Kafka, source: Input, max_records: int) -> DataFrame:
    """A topic as a stream. Several watermarks under a union count as their minimum: Spark's default policy."""
    loss = {"failOnDataLoss": str(not source.skip_deleted).lower()}
    if source.delay_seconds is None:
        which = {"subscribe": ",".join(source.topics), "includeHeaders": str(source.headers).lower()}
        return _kafka_stream(
            spark, kafka, which | loss | first_offsets(source, source.topics) | patience(source), max_records
        )
    share = share_of(source, max_records)
    parts = [
        _kafka_stream(
            spark, kafka, {"assign": json.dumps({topic: [p]})} | loss | first_offsets(source, (topic,), p), share
        )
        for topic in source.topics
        for p in source.partitions
    ]
    delayed = [part.withWatermark("timestamp", f"{source.delay_seconds} seconds") for part in parts]
    return reduce(DataFrame.unionByName, delayed)


def first_offsets(source: Input, topics: Sequence[str], partition: int | None = None) -> dict[str, str]:
    """Spark's option for where to begin: offsets of these topics, or of one of their partitions."""
    if source.starting is None:
        return {}
    chosen = {
        topic: {str(p): offset for p, offset in source.starting[topic].items() if partition in (None, p)}
        for topic in topics
    }
    return {"startingOffsets": json.dumps(chosen)}


def patience(source: Input) -> dict[str, str]:
    """Spark's options for how long records may wait for more of them."""
    if source.at_least <= 1:
        return {}
    return {"minOffsetsPerTrigger": str(source.at_least), "maxTriggerDelay": f"{PATIENCE_SECONDS}s"}


def _kafka_stream(spark: SparkSession, kafka: Kafka, which: dict[str, str], max_records: int) -> DataFrame:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(max_records), **CONSUMER}
    return spark.readStream.format("kafka").options(**(kafka.prefixed() | options | which)).load()


def read_bounded(
    spark: SparkSession,
    kafka: Kafka,
    begins: Mapping[str, Mapping[str, int]],
    ends: Mapping[str, Mapping[str, int]],
    partitions: int | None = None,
    *,
    headers: bool = False,
) -> DataFrame:
    """Records between offsets, by topic and partition, with the columns of a Kafka source, in at least so many of Spark's partitions."""
    options = {
        "assign": json.dumps({topic: sorted(map(int, parts)) for topic, parts in begins.items()}),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": str(headers).lower(),
        "failOnDataLoss": "true",
    }
    least = {} if partitions is None else {"minPartitions": str(partitions)}
    return spark.read.format("kafka").options(**kafka.prefixed(), **CONSUMER, **options, **least).load()


def rehearse(
    spark: SparkSession,
    kafka: Kafka,
    job: Job,
    begins: Mapping[str, Mapping[str, int]],
    ends: Mapping[str, Mapping[str, int]],
    *,
    whole: bool,
) -> None:
    """Do what a job does with some records, and write nothing. Raises what ends it.

    Parameters
    ----------
    spark
        A session.
    kafka
        The log.
    job
        Whose work it is.
    begins, ends
        Offsets by topic and partition.
    whole
        Do all that the job does, from an empty state; else only what its `readers` do, of the inputs that have such records.
    """
    frames = []
    for number, source in enumerate(job.inputs):
        first, last = ({t: given[t] for t in source.topics if t in given} for given in (begins, ends))
        if not whole and job.readers:
            if first:
                raw = read_bounded(spark, kafka, first, last, headers=source.headers)
                read_and_forget(job.readers[number](raw))
            continue
        # Of an input without records here Spark wants some partition all the same.
        nothing: dict[str, Mapping[str, int]] = {} if first else {source.topics[0]: {"0": 0}}
        frames.append(read_bounded(spark, kafka, first or nothing, last or nothing, headers=source.headers))
    if frames:
        read_and_forget(job.transform(*frames))


def read_and_forget(frame: DataFrame) -> None:
    """Compute every row and column."""
    frame.write.format("noop").mode("overwrite").save()


# A task reads what is there. It asks for more before it has done, and would wait half a second for the answer to that
# before it may ask for another partition's or batch's records. After each poll Spark asks the broker twice where a partition
# begins and ends, so a poll may answer all that has come.
CONSUMER = {
    "kafka.fetch.max.wait.ms": "20",
    "kafka.max.poll.records": "100000",
    "kafka.receive.buffer.bytes": str(2 << 20),
}


# Order within a partition is what watermark messages rely on: idempotent producers keep it through retries. A dead letter is the
# record as it came, with headers on top, so more than the megabyte that a record may have.
PRODUCER = {
    "kafka.enable.idempotence": "true",
    "kafka.acks": "all",
    "kafka.compression.type": "lz4",
    # A task's last records are sent when it ends. Sent one by one, they would start a batch of the next job for each few.
    "kafka.linger.ms": "500",
    "kafka.batch.size": "262144",
    "kafka.max.request.size": "4194304",
}


# A producer that gives a request up after a time (two minutes, by Kafka's default) sends those behind it, a watermark message among them, and
# what the task's next attempt writes would come behind that. So none of a job's is given up: the task waits, or ends with its process.
JOB_PRODUCER = PRODUCER | {"kafka.delivery.timeout.ms": str(2**31 - 1)}


def write_to_kafka(records: DataFrame, kafka: Kafka, producer: Mapping[str, str] = PRODUCER) -> None:
    """Append a bounded DataFrame of `topic, partition, key, value[, headers]` to the log; a job that goes on writes with `JOB_PRODUCER`."""
    records.write.format("kafka").options(**kafka.prefixed(), **producer).save()


def start(spark: SparkSession, kafka: Kafka, job: Job, trigger: Mapping[str, Any]) -> StreamingQuery:
    """Start a job; it goes on where its checkpoint says."""
    streams = [read_stream(spark, kafka, one, at_most(job, one)) for one in job.inputs]
    found = optimized(job.transform(*streams))
    writer = found.writeStream.queryName(job.name).option("checkpointLocation", job.checkpoint)
    writer = writer.trigger(**trigger)
    if job.sink is not None:
        return writer.foreachBatch(without_drops(spark, job, job.sink)).start()
    return writer.format("kafka").options(**kafka.prefixed(), **JOB_PRODUCER).outputMode("append").start()


def without_drops(spark: SparkSession, job: Job, sink: BatchSink) -> BatchSink:
    """A sink that raises DeterminismViolation where the watermark dropped rows, before the batch is committed.

    So the batch is repeated at each start, and the violation is found each time. A job whose inputs have no watermark drops none.
    """
    if all(source.delay_seconds is None for source in job.inputs):
        return sink

    def write(batch: DataFrame, number: int) -> None:
        sink(batch, number)
        dropped = 0 if number in job.accepted_drops else dropped_by_watermark(spark, job.name)
        if dropped:
            raise dropped_rows(job.name, dropped)

    return write


def dropped_rows(job: str, rows: int) -> DeterminismViolation:
    """The error for rows that the watermark dropped."""
    return DeterminismViolation(
        f"{job}: {rows} rows were dropped by the watermark, wanted 0: the topic's append times go back by more than "
        "disorder_seconds; set the broker's clock right, or raise it, then `kappa replay --version NAME`"
    )


class BatchListener(ProgressListener):
    """Hands on the progress of every batch and every idle trigger, and counts rows that the watermark dropped.

    Of a batch that an operator has `accepted` it neither counts them nor hands them on: they are no reason any more to stop or to be unhealthy.
    """

    def __init__(
        self,
        on_progress: Callable[[str, QueryProgress], None] | None = None,
        on_idle: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._on_progress, self._on_idle = on_progress, on_idle
        self._names: dict[str, str] = {}
        self.dropped: dict[str, int] = {}
        self.accepted: dict[str, frozenset[int]] = {}

    def query_started(self, query: str, name: str) -> None:
        """Remember the name: events of idle queries have only the id."""
        self._names[query] = name

    def query_progress(self, progress: QueryProgress) -> None:
        """Count dropped rows, and hand on the progress."""
        name = progress.get("name") or "?"
        operators = progress.get("stateOperators", [])
        if progress.get("batchId") in self.accepted.get(name, ()):
            operators = [op | {"numRowsDroppedByWatermark": 0} for op in operators]
            progress = {**progress, "stateOperators": operators}
        dropped = sum(op.get("numRowsDroppedByWatermark", 0) for op in operators)
        self.dropped[name] = self.dropped.get(name, 0) + dropped
        if self._on_progress is not None:
            self._on_progress(name, progress)

    def query_idle(self, query: str) -> None:
        """Hand on that a query has found no data."""
        name = self._names.get(query)
        if name is not None and self._on_idle is not None:
            self._on_idle(name)


class Runner:
    """Runs jobs in one Spark session until they are stopped, one fails, or the watermark drops a row."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        trigger_seconds: float = 1.0,
        on_progress: Callable[[str, QueryProgress], None] | None = None,
        on_idle: Callable[[str], None] | None = None,
        on_known: Callable[[str, KappaError], None] = lambda job, found: None,
    ) -> None:
        self._spark, self._kafka, self._on_known = spark, kafka, on_known
        self._trigger = {"processingTime": f"{max(trigger_seconds, LEAST_SECONDS)} seconds"}
        self._on_progress, self._on_idle = on_progress, on_idle
        self._listener = BatchListener(self._batch_ended, on_idle)
        self._gates: dict[str, Gate] = {}
        self._queries: dict[str, StreamingQuery] = {}
        self._jobs: dict[str, Job] = {}
        self._starts: Counter[str] = Counter()
        prepare_gates(spark)
        spark.streams.addListener(self._listener)

    def _batch_ended(self, name: str, progress: QueryProgress) -> None:
        gate = self._gates.get(name)
        if gate is not None:
            gate.behind(lag_of(progress))
        if self._on_progress is not None:
            self._on_progress(name, progress)

    @property
    def dropped_by_watermark(self) -> int:
        """Rows that Spark has dropped as too late: 0, or results are not deterministic."""
        return sum(self._listener.dropped.values())

    @property
    def queries(self) -> dict[str, StreamingQuery]:
        """The running queries by the name of their job."""
        return dict(self._queries)

    @property
    def gates(self) -> dict[str, Gate]:
        """What the running queries wait for, by the name of their job."""
        return dict(self._gates)

    def start(self, job: Job) -> StreamingQuery:
        """Start a job."""
        # A pool each, so that a long batch of one job does not hold up the others' short ones.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", job.name)
        self._listener.accepted[job.name] = job.accepted_drops
        self._close_gate(job.name)
        gate = gate_of(self._spark, self._kafka.client(), waited_for(job), job.windows)
        self._gates[job.name] = gate
        with gated(self._spark, gate.clock):
            query = start(self._spark, self._kafka, job, self._trigger)
        gate.belongs_to(query)
        self._queries[job.name] = query
        self._jobs[job.name] = job
        self._starts[job.name] += 1
        log.info("job started", job=job.name, checkpoint=job.checkpoint)
        return query

    def run_to_end(self, job: Job) -> StreamingQuery:
        """Run a job over all that is in its inputs now, then stop it. Raises what ended it early."""
        query = start(self._spark, self._kafka, job, {"availableNow": True})
        with suppress(StreamingQueryException):  # `check` raises what it was
            query.awaitTermination()
        self.check(query)
        return query

    def wait(
        self, stopping: threading.Event, poll_seconds: float = 0.5, also: Callable[[], None] = lambda: None
    ) -> None:
        """Watch over the jobs until they are stopped; call `also` now and then. Raises DeterminismViolation, or what ended a job."""
        while not stopping.wait(poll_seconds):
            also()
            self.check_all()
            self._tell_who_waits()

    def _tell_who_waits(self) -> None:
        """Hand on which jobs wait for something to do: that is progress as well as an idle trigger is."""
        for name, gate in self._gates.items():
            if gate.has_looked() and self._on_idle is not None:
                self._on_idle(name)

    def _close_gate(self, name: str) -> None:
        gate = self._gates.pop(name, None)
        if gate is not None:
            gate.close()

    def check_all(self) -> None:
        """Raise DeterminismViolation, or what ended a job. One that was kept from beginning is started again."""
        for name, query in self.queries.items():
            error = query.exception()
            unplanned = error is not None and failures.is_worker_start_failure(error)
            if unplanned and self._starts[name] < MOST_STARTS:
                log.warning(
                    "job starts again: its first Python worker took more than 10 s to start, or was killed", job=name
                )
                self.start(self._jobs[name])
            else:
                self.check(query)

    def check(self, query: StreamingQuery) -> None:
        """Raise if a job has failed or if rows were dropped. An error of ours that a task raised is that error again, and handed on first."""
        error = query.exception()
        ours = None if error is None else failures.raised_kappa_error(error) or failures.refused_by_kafka(error)
        if ours is None and self.dropped_by_watermark:
            ours = dropped_rows(query.name, self.dropped_by_watermark)
        if error is not None and failures.is_state_schema_mismatch(error):
            ours = failures.of_another_release(f"{query.name}: the state", "it has other columns")
        if ours is not None:
            self._on_known(query.name, ours)
            raise ours from error
        if error is not None:
            raise without_plan(error)

    def stop(self, timeout_seconds: float = 60.0) -> None:
        """Stop every job after the batch that it is in."""
        deadline = time.monotonic() + timeout_seconds
        for name, query in self._queries.items():
            stop_after_batch(query, max(0.0, deadline - time.monotonic()))
            self._close_gate(name)
            log.info("job stopped", job=name)
        self._queries.clear()
        self._spark.streams.removeListener(self._listener)


def waited_for(job: Job) -> dict[str, int]:
    """What is a reason for a batch of a job, and how many records it takes of it: topics, or partitions as `TOPIC/PARTITION`.

    Inputs with `at_least` are read with others.
    """
    found = [source for source in job.inputs if source.at_least <= 1]
    return {
        name: share_of(source, at_most(job, source))
        for source in found
        for topic in source.topics
        for name in ([f"{topic}/{p}" for p in source.partitions] if source.partitions else [topic])
    }


def at_most(job: Job, source: Input) -> int:
    """How many records of an input a batch takes."""
    return source.at_most or job.max_records_per_batch


def share_of(source: Input, most: int) -> int:
    """How many of an input's records a batch takes of each partition that is a source of its own."""
    return max(1, most // max(1, len(source.partitions)))


def stop_after_batch(query: StreamingQuery, timeout_seconds: float) -> None:
    """Let the current batch end, then stop. A batch that is interrupted is done again at the next start."""
    deadline = time.monotonic() + timeout_seconds
    in_hand = batches_done(query)
    # Under load a trigger follows the last one at once: then the batch has ended when another one has been reported.
    while query.isActive and query.status["isTriggerActive"] and batches_done(query) == in_hand:
        if time.monotonic() > deadline:
            break
        try:
            query.awaitTermination(0.05)  # type: ignore[arg-type]  # fractions work, and say so in the docs
        except StreamingQueryException:
            break
    query.stop()


def batches_done(query: StreamingQuery) -> int:
    """The number of the last batch that a query has reported; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else progress["batchId"]
