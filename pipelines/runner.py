"""Starts, supervises and stops jobs. No other module starts a streaming query of a job.

A `Job` names its inputs, the function from inputs to output, and the sink. The runner connects it to Kafka, reports each batch, and stops a
job whose results would no longer be deterministic, because the watermark has dropped a row.
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
from pipelines.gates import Gate, WindowGrid, make_gate
from pipelines.spark_internals import (
    ProgressListener,
    dropped_by_watermark,
    optimize,
    prepare_gates,
    strip_plan,
    use_gate,
)

log = structlog.get_logger()

MAX_TRIGGER_DELAY_SECONDS = 10
MAX_STARTS = 3
MIN_TRIGGER_SECONDS = 0.001  # with an interval of 0 Spark asks no gate

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
    """Topics that a job reads as one DataFrame.

    Parameters
    ----------
    topics, partitions
        Names, and the partitions of each, which are needed with `delay_seconds` alone.
    delay_seconds
        Delay of the watermark. With it each partition is a source of its own, with its own watermark.
    headers
        Read the records' headers as well.
    skip_deleted
        Go on where records were deleted before they were read; without it the job fails there.
    starting
        Offsets by topic and partition at which a job without a checkpoint begins; None for the beginning of the topics.
    min_records
        These topics alone start a batch only when so many records have come, or after MAX_TRIGGER_DELAY_SECONDS.
    max_records
        The most records in a batch; None for the job's `max_records_per_batch`.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    delay_seconds: int | None = None
    headers: bool = False
    skip_deleted: bool = False
    starting: Mapping[str, Mapping[int, int]] | None = None
    min_records: int = 1
    max_records: int | None = None


@dataclass(frozen=True)
class Job:
    """A streaming query: inputs -> transform -> sink.

    Parameters
    ----------
    transform
        Gets a DataFrame for each input, in their order, and returns the output.
    sink
        Writes a batch of the output; None to append its rows (`topic, partition, key, value`) to Kafka.
    readers
        One for each input, or none: the part of `transform` that parses single records. A dry run of them alone is planned in a fraction of
        the time.
    accepted_drops
        Numbers of batches whose rows the watermark may have dropped, because an operator has accepted it.
    windows
        The windows that the job closes; None if it closes none.
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
    """An input as a stream of at most `max_records` a batch. The watermark of the union is the least of its partitions': Spark's default policy."""
    loss = {"failOnDataLoss": str(not source.skip_deleted).lower()}
    if source.delay_seconds is None:
        which = {"subscribe": ",".join(source.topics), "includeHeaders": str(source.headers).lower()}
        return _kafka_stream(
            spark,
            kafka,
            which | loss | starting_offsets_option(source, source.topics) | min_batch_options(source),
            max_records,
        )
    share = records_per_partition(source, max_records)
    parts = [
        _kafka_stream(
            spark,
            kafka,
            {"assign": json.dumps({topic: [p]})} | loss | starting_offsets_option(source, (topic,), p),
            share,
        )
        for topic in source.topics
        for p in source.partitions
    ]
    delayed = [part.withWatermark("timestamp", f"{source.delay_seconds} seconds") for part in parts]
    return reduce(DataFrame.unionByName, delayed)


def starting_offsets_option(source: Input, topics: Sequence[str], partition: int | None = None) -> dict[str, str]:
    """Spark's option `startingOffsets`, for these topics or one of their partitions; empty to begin at the beginning."""
    if source.starting is None:
        return {}
    chosen = {
        topic: {str(p): offset for p, offset in source.starting[topic].items() if partition in (None, p)}
        for topic in topics
    }
    return {"startingOffsets": json.dumps(chosen)}


def min_batch_options(source: Input) -> dict[str, str]:
    """Spark's options for `min_records`: a batch waits until so many records have come, or for MAX_TRIGGER_DELAY_SECONDS."""
    if source.min_records <= 1:
        return {}
    return {"minOffsetsPerTrigger": str(source.min_records), "maxTriggerDelay": f"{MAX_TRIGGER_DELAY_SECONDS}s"}


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
    """The records between offsets, by topic and partition, with the columns of a Kafka source.

    `partitions` is the least number of Spark's partitions; None for one for each partition of Kafka.
    """
    options = {
        "assign": json.dumps({topic: sorted(map(int, parts)) for topic, parts in begins.items()}),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": str(headers).lower(),
        "failOnDataLoss": "true",
    }
    least = {} if partitions is None else {"minPartitions": str(partitions)}
    return spark.read.format("kafka").options(**kafka.prefixed(), **CONSUMER, **options, **least).load()


def dry_run(
    spark: SparkSession,
    kafka: Kafka,
    job: Job,
    begins: Mapping[str, Mapping[str, int]],
    ends: Mapping[str, Mapping[str, int]],
    *,
    whole: bool,
) -> None:
    """Run a job over some records, and write nothing. Raises what ends it.

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
        Run all of `transform`, from an empty state; else the job's `readers` alone, of the inputs that have such records.
    """
    frames = []
    for number, source in enumerate(job.inputs):
        first, last = ({t: given[t] for t in source.topics if t in given} for given in (begins, ends))
        if not whole and job.readers:
            if first:
                raw = read_bounded(spark, kafka, first, last, headers=source.headers)
                compute_all(job.readers[number](raw))
            continue
        # Of an input without records here Spark wants some partition all the same.
        nothing: dict[str, Mapping[str, int]] = {} if first else {source.topics[0]: {"0": 0}}
        frames.append(read_bounded(spark, kafka, first or nothing, last or nothing, headers=source.headers))
    if frames:
        compute_all(job.transform(*frames))


def compute_all(frame: DataFrame) -> None:
    """Compute every row and column, and discard them."""
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
    streams = [read_stream(spark, kafka, one, max_records_of(job, one)) for one in job.inputs]
    found = optimize(job.transform(*streams))
    writer = found.writeStream.queryName(job.name).option("checkpointLocation", job.checkpoint)
    writer = writer.trigger(**trigger)
    if job.sink is not None:
        return writer.foreachBatch(raise_on_dropped_rows(spark, job, job.sink)).start()
    return writer.format("kafka").options(**kafka.prefixed(), **JOB_PRODUCER).outputMode("append").start()


def raise_on_dropped_rows(spark: SparkSession, job: Job, sink: BatchSink) -> BatchSink:
    """A sink that raises DeterminismViolation before a batch is committed of which the watermark has dropped rows.

    As it is not committed, the batch is repeated at each start, and the violation is found again. Without watermarks `sink` itself is returned.
    """
    if all(source.delay_seconds is None for source in job.inputs):
        return sink

    def write(batch: DataFrame, number: int) -> None:
        sink(batch, number)
        dropped = 0 if number in job.accepted_drops else dropped_by_watermark(spark, job.name)
        if dropped:
            raise dropped_rows_error(job.name, dropped)

    return write


def dropped_rows_error(job: str, rows: int) -> DeterminismViolation:
    """The error for rows that the watermark dropped."""
    return DeterminismViolation(
        f"{job}: {rows} rows were dropped by the watermark, wanted 0: the topic's append times go back by more than "
        "disorder_seconds; set the broker's clock right, or raise it, then `kappa replay --version NAME`"
    )


class BatchListener(ProgressListener):
    """Reports the progress of every batch and every idle trigger to callbacks, and counts rows that the watermark dropped.

    Drops of batches in `accepted` are neither counted nor reported: an operator has accepted them, so they neither stop a job nor make it unhealthy.
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
        self._trigger = {"processingTime": f"{max(trigger_seconds, MIN_TRIGGER_SECONDS)} seconds"}
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
            gate.set_backlog(lag_of(progress))
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
        gate = make_gate(self._spark, self._kafka.client(), triggering_topics(job), job.windows)
        self._gates[job.name] = gate
        with use_gate(self._spark, gate.clock):
            query = start(self._spark, self._kafka, job, self._trigger)
        gate.attach_to(query)
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
        self, stopping: threading.Event, poll_seconds: float = 0.5, on_poll: Callable[[], None] = lambda: None
    ) -> None:
        """Supervise the jobs until `stopping` is set, calling `on_poll` every `poll_seconds`. Raises DeterminismViolation, or what ended a job."""
        while not stopping.wait(poll_seconds):
            on_poll()
            self.check_all()
            self._report_waiting_jobs()

    def _report_waiting_jobs(self) -> None:
        """Report jobs whose gate has polled Kafka while they waited as idle: that is progress as well, though no batch begins."""
        for name, gate in self._gates.items():
            if gate.has_polled() and self._on_idle is not None:
                self._on_idle(name)

    def _close_gate(self, name: str) -> None:
        gate = self._gates.pop(name, None)
        if gate is not None:
            gate.close()

    def check_all(self) -> None:
        """Raise DeterminismViolation, or what ended a job. A job whose first Python worker did not start is started again, up to MAX_STARTS times."""
        for name, query in self.queries.items():
            error = query.exception()
            unplanned = error is not None and failures.is_worker_start_failure(error)
            if unplanned and self._starts[name] < MAX_STARTS:
                log.warning(
                    "job starts again: its first Python worker took more than 10 s to start, or was killed", job=name
                )
                self.start(self._jobs[name])
            else:
                self.check(query)

    def check(self, query: StreamingQuery) -> None:
        """Raise if a job has failed or if rows were dropped. A KappaError that a task raised is handed on and raised again."""
        error = query.exception()
        raised = None if error is None else failures.raised_kappa_error(error) or failures.refused_by_kafka(error)
        if raised is None and self.dropped_by_watermark:
            raised = dropped_rows_error(query.name, self.dropped_by_watermark)
        if error is not None and failures.is_state_schema_mismatch(error):
            raised = failures.of_another_release(f"{query.name}: the state", "it has other columns")
        if raised is not None:
            self._on_known(query.name, raised)
            raise raised from error
        if error is not None:
            raise strip_plan(error)

    def stop(self, timeout_seconds: float = 60.0) -> None:
        """Stop every job after the batch that it is in."""
        deadline = time.monotonic() + timeout_seconds
        for name, query in self._queries.items():
            stop_after_batch(query, max(0.0, deadline - time.monotonic()))
            self._close_gate(name)
            log.info("job stopped", job=name)
        self._queries.clear()
        self._spark.streams.removeListener(self._listener)


def triggering_topics(job: Job) -> dict[str, int]:
    """The topics, or partitions as `TOPIC/PARTITION`, whose records start a batch of a job, with the most records of each in a batch.

    Inputs with `min_records` start none: they are read with the others.
    """
    found = [source for source in job.inputs if source.min_records <= 1]
    return {
        name: records_per_partition(source, max_records_of(job, source))
        for source in found
        for topic in source.topics
        for name in ([f"{topic}/{p}" for p in source.partitions] if source.partitions else [topic])
    }


def max_records_of(job: Job, source: Input) -> int:
    """The most records of an input in a batch."""
    return source.max_records or job.max_records_per_batch


def records_per_partition(source: Input, most: int) -> int:
    """The most records in a batch of each partition of an input that is a source of its own, where `most` is that of the input."""
    return max(1, most // max(1, len(source.partitions)))


def stop_after_batch(query: StreamingQuery, timeout_seconds: float) -> None:
    """Stop a query when its current batch has ended, or after `timeout_seconds`: then the batch is repeated at the next start."""
    deadline = time.monotonic() + timeout_seconds
    in_hand = last_batch_id(query)
    # Under load a trigger follows the last one at once: then the batch has ended when another one has been reported.
    while query.isActive and query.status["isTriggerActive"] and last_batch_id(query) == in_hand:
        if time.monotonic() > deadline:
            break
        try:
            query.awaitTermination(0.05)  # type: ignore[arg-type]  # fractions work, and say so in the docs
        except StreamingQueryException:
            break
    query.stop()


def last_batch_id(query: StreamingQuery) -> int:
    """The id of the last batch that a query has reported; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else progress["batchId"]
