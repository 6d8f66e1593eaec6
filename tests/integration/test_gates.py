"""Batches begin when there is something for them to do, on a real Kafka."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.timestamps import wall_clock
from app.embedded.stack_state import Addresses
from app.kafka.heartbeats import Heartbeats
from app.kafka.producer import BoundedProducer
from pipelines.gates import Gate, WindowGrid, make_gate
from pipelines.runner import Input, Job, Kafka, Runner
from pipelines.spark_internals import jvm_of
from pipelines.windowing import WindowingConfig

pytestmark = [pytest.mark.spark, pytest.mark.stack]

MOST_SECONDS = 15.0


def topic_of(stack: Addresses, name: str, partitions: int, times: str = "LogAppendTime") -> str:
    """A new topic whose times are the broker's."""
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka)
    admin.create_topics([NewTopic(name, partitions, 1, topic_configs={"message.timestamp.type": times})])
    admin.close()
    return name


@contextmanager
def opened(gate: Gate) -> Iterator[Callable[[], float | None]]:
    """A query's thread that waits for a gate: answers when it has opened, epoch seconds, and None as long as it is closed."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: gate.clock.waitTillTime(0) / 1000)
        yield lambda: found.result() if found.done() else None
        found.result(timeout=2 * MOST_SECONDS)
    gate.close()


def client_of(stack: Addresses) -> dict[str, str]:
    return {"bootstrap.servers": stack.kafka or ""}


def append(stack: Addresses, topic: str, partition: int, records: int = 1, at_ms: int | None = None) -> None:
    with BoundedProducer({"bootstrap_servers": stack.kafka}) as outbox:
        for _ in range(records):
            outbox.send(topic, b"{}", key=b"", partition=partition, timestamp_ms=at_ms)


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "not within the time"
        threading.Event().wait(0.02)


def test_a_window_can_be_closed_when_every_partition_has_come_so_far(
    kafka_spark: SparkSession, stack: Addresses, unique: str
) -> None:
    topic = topic_of(stack, unique, 2)
    gate = make_gate(kafka_spark, client_of(stack), {f"{topic}/0": 100, f"{topic}/1": 100}, WindowGrid(1, 3))
    append(stack, topic, 0)
    append(stack, topic, 1)
    begun = wall_clock()
    gate.clock.waitTillTime(0)  # a query that has just begun reads what it finds
    gate.clock.waitTillTime(0)  # and closes it
    assert wall_clock() - begun < 5_000
    threading.Event().wait(1.1)
    with opened(gate) as at:
        append(stack, topic, 1)
        wait_for(gate.has_polled)
        wait_for(gate.has_polled)
        assert at() is None, "a partition has no record with which another window could be closed"
        append(stack, topic, 0)
        wait_for(at)
    begun = wall_clock()
    assert gate.clock.waitTillTime(0) - begun < 1_000, "the batch that closes the window follows"


def test_a_log_that_holds_history_has_its_own_time(kafka_spark: SparkSession, stack: Addresses, unique: str) -> None:
    topic = topic_of(stack, unique, 1, "CreateTime")
    gate = make_gate(kafka_spark, client_of(stack), {f"{topic}/0": 100}, WindowGrid(10, 15))
    for at_ms, closable in ((1_000_000_005_000, True), (1_000_000_014_999, False), (1_000_000_015_000, True)):
        with opened(gate) as at:
            append(stack, topic, 0, at_ms=at_ms)
            wait_for(gate.has_polled)
            wait_for(at if closable else gate.has_polled)
            assert (at() is not None) is closable, at_ms
            gate.set_backlog(1)
        if closable:
            gate.clock.waitTillTime(0)  # closes it


def test_a_partition_whose_latest_record_is_not_on_all_replicas_yet_keeps_its_time(kafka_spark: SparkSession) -> None:
    jvm = jvm_of(kafka_spark)
    known, place = jvm.java.util.HashMap(), jvm.org.apache.kafka.common.TopicPartition
    result = getattr(jvm.org.apache.kafka.clients.admin, "ListOffsetsResult$ListOffsetsResultInfo")

    def time_of(*times: int) -> int:
        """The log's time where Kafka answers these times of its partitions; -1 while it has none."""
        found = jvm.java.util.HashMap()
        for number, at in enumerate(times):
            found.put(place("telemetry", number), result(0, at, jvm.java.util.Optional.empty()))
        return int(jvm.kappa.Gate.leastTime(known, found))

    assert time_of(-1, 2_000) == -1, "it may never have had a record"
    assert time_of(1_000, -1) == 1_000
    assert time_of(-1, 3_000) == 1_000
    assert time_of(4_000, -1) == 3_000


def test_half_of_a_batch_is_reason_enough_and_few_records_wait_for_the_window(
    kafka_spark: SparkSession, stack: Addresses, unique: str, tmp_path: Path
) -> None:
    topic = topic_of(stack, unique, 1)
    read: list[int] = []
    job = Job(
        unique,
        (Input((topic,), (0,), delay_seconds=0, max_records=1_000),),
        lambda raw: raw,
        str(tmp_path / "checkpoint"),
        lambda batch, number: read.append(batch.count()),
        windows=WindowGrid(3600, 0),
    )
    append(stack, topic, 0)
    runner = Runner(kafka_spark, Kafka(stack.kafka or ""), 0.1)
    query = runner.start(job)
    try:
        gate = runner.gates[unique]
        wait_for(lambda: sum(read) == 1 and gate.has_polled(), 60.0)
        append(stack, topic, 0, 400)
        gate.has_polled()
        wait_for(gate.has_polled)
        wait_for(gate.has_polled)
        assert sum(read) == 1
        append(stack, topic, 0, 200)
        wait_for(lambda: sum(read) == 601)
        runner.check(query)
    finally:
        runner.stop()


@pytest.mark.parametrize(
    ("waiting", "full", "left", "took", "worth"),
    [
        pytest.param(10**6, 0.5, 4_000, 1_500, True, id="half of a batch"),
        pytest.param(10**6, 0.5, 1_400, 1_500, False, id="it would end too late"),
        pytest.param(50_000, 0.1, 3_000, 1_500, True, id="it ends just before a window can be closed"),
        pytest.param(50_000, 0.1, 3_001, 1_500, False, id="not yet"),
        pytest.param(49_999, 0.1, 3_000, 1_500, False, id="few"),
    ],
)
def test_no_batch_begins_that_would_not_have_ended_when_a_window_can_be_closed(
    kafka_spark: SparkSession, waiting: int, full: float, left: int, took: int, worth: bool
) -> None:
    assert jvm_of(kafka_spark).kappa.ClosingGate.isWorthABatch(waiting, full, left, took) is worth


def test_every_gate_opens_in_the_end_and_at_once_for_what_a_batch_has_left(
    kafka_spark: SparkSession, stack: Addresses, unique: str
) -> None:
    topic = topic_of(stack, unique, 1)
    client = client_of(stack)
    arrival, closing, left = (
        make_gate(kafka_spark, client, {f"{topic}/0": 100}, windows) for windows in (None, WindowGrid(3600, 0), None)
    )
    begun = time.time()
    with opened(left) as left_at, opened(arrival) as arrival_at, opened(closing) as closing_at:
        wait_for(left.has_polled)
        left.set_backlog(1)
        wait_for(left_at, 2.0)
    for at in (arrival_at(), closing_at()):
        assert at is not None
        assert MOST_SECONDS - 1.0 < at - begun < MOST_SECONDS + 5.0


def test_records_that_come_in_parts_are_one_batch_and_none_begins_without_records(
    kafka_spark: SparkSession, stack: Addresses, unique: str, tmp_path: Path
) -> None:
    topic = topic_of(stack, unique, 2)
    batches: list[int] = []

    def sink(batch: DataFrame, number: int) -> None:
        batches.append(batch.count())

    waits: list[str] = []
    runner = Runner(kafka_spark, Kafka(stack.kafka or ""), 0.1, on_idle=waits.append)
    stopping = threading.Event()
    job = Job(unique, (Input((topic,)),), lambda raw: raw, str(tmp_path / "checkpoint"), sink)
    query = runner.start(job)
    try:
        # The first trigger is Spark's; from then on the gate decides.
        wait_for(runner.gates[unique].has_polled, 60.0)
        with BoundedProducer({"bootstrap_servers": stack.kafka}) as outbox:
            times: list[float] = []
            for part in range(6):
                for _ in range(10):
                    outbox.send(topic, b"{}", key=b"", partition=part % 2)
                outbox.flush(10.0)
                times.append(time.monotonic())
                threading.Event().wait(0.05)
        wait_for(lambda: sum(batches) == 60, 60.0)
        threading.Timer(1.5, stopping.set).start()
        runner.wait(stopping, poll_seconds=0.2)
        assert query.lastProgress is not None
        # Where the machine pauses between two parts, what is there begins: so many batches more may be right.
        pauses = sum(later - earlier > 0.15 for earlier, later in itertools.pairwise(times))
        assert len([n for n in batches if n]) <= 2 + pauses + int(times[-1] - times[0]), (
            f"{batches} for parts at {times}"
        )
        assert waits, "a job that waits is known to be alive"
    finally:
        runner.stop()
    assert not query.isActive


def raised_watermarks(checkpoint: Path) -> list[int]:
    """Batches whose watermark is later than the one that Spark had found when the batch before had ended."""
    found = []
    for number in sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()):
        following = checkpoint / "offsets" / str(number + 1)
        if following.exists():
            left = json.loads((checkpoint / "commits" / str(number)).read_text().splitlines()[1])
            begun = json.loads(following.read_text().splitlines()[1])
            if begun["batchWatermarkMs"] > left["nextBatchWatermarkMs"]:
                found.append(number + 1)
    return found


def counting_job(
    name: str,
    topic: str,
    checkpoint: Path,
    sink: Callable[[DataFrame, int], None],
    at_most: int = 1_000,
    append_times: bool = True,
) -> Job:
    """Counts the records of two partitions in windows of two seconds: `end`, epoch ms, and `records`."""
    return Job(
        name,
        (Input((topic,), (0, 1), delay_seconds=1, max_records=at_most),),
        lambda raw: (
            raw.groupBy(F.window("timestamp", "2 seconds"))
            .agg(F.count("*").alias("records"))
            .select(F.unix_millis("window.end").alias("end"), "records")
        ),
        str(checkpoint),
        sink,
        windows=WindowGrid(2, 1, append_times=append_times),
    )


@pytest.mark.parametrize(
    ("at_most", "append_times", "raised"),
    [(1_000, True, True), (4, True, None), (1_000, False, False)],
    ids=["it reads them all", "it reads a part of them", "append times may go back"],
)
def test_the_batch_that_reads_the_last_records_of_a_window_closes_it_where_it_can_know(
    kafka_spark: SparkSession,
    stack: Addresses,
    unique: str,
    tmp_path: Path,
    at_most: int,
    append_times: bool,
    raised: bool | None,
) -> None:
    topic = topic_of(stack, unique, 2)
    windows: dict[int, int] = {}  # end -> records
    checkpoint = tmp_path / "checkpoint"

    def sink(batch: DataFrame, number: int) -> None:
        for row in batch.collect():
            assert row["end"] not in windows, "a window is closed once"
            windows[row["end"]] = row["records"]

    runner = Runner(kafka_spark, Kafka(stack.kafka or ""), 0.1)
    query = runner.start(counting_job(unique, topic, checkpoint, sink, at_most, append_times))
    try:
        wait_for(runner.gates[unique].has_polled, 60.0)
        first = 20
        append(stack, topic, 0, first // 2)
        append(stack, topic, 1, first // 2)
        sent = first
        while len(windows) < 4 or sum(windows.values()) < first:
            threading.Event().wait(0.25)  # time goes on in the log
            append(stack, topic, 0)
            append(stack, topic, 1)
            sent += 2
            runner.check(query)
            assert sent < 400
    finally:
        runner.stop()
    assert sum(windows.values()) <= sent
    assert runner.dropped_by_watermark == 0
    if raised is not None:
        assert bool(raised_watermarks(checkpoint)) is raised
    with KafkaConsumer(bootstrap_servers=stack.kafka, auto_offset_reset="earliest", consumer_timeout_ms=2_000) as log:
        log.assign([TopicPartition(topic, number) for number in range(2)])
        times = [record.timestamp for record in log]
    for end, records in windows.items():
        assert records == sum(end - 2_000 <= time < end for time in times), "a window has all of its records"


def test_a_query_that_has_found_nothing_to_do_goes_on(
    kafka_spark: SparkSession, stack: Addresses, unique: str, tmp_path: Path
) -> None:
    """Spark ends one whose next batch has another watermark than when it last looked for something to do."""
    topic, windows = topic_of(stack, unique, 2), list[int]()

    def sink(batch: DataFrame, number: int) -> None:
        windows.extend(row["end"] for row in batch.collect())

    runner = Runner(kafka_spark, Kafka(stack.kafka or ""), 0.1)
    query = runner.start(counting_job(unique, topic, tmp_path / "checkpoint", sink))
    gate = runner.gates[unique]

    def has_polled() -> bool:
        runner.check(query)
        return gate.has_polled()

    def has_windows(wanted: int) -> bool:
        runner.check(query)
        append(stack, topic, 0)
        append(stack, topic, 1)
        threading.Event().wait(0.25)  # time goes on in the log
        return len(windows) >= wanted

    try:
        wait_for(has_polled, 60.0)
        for _ in range(2):
            wait_for(partial(has_windows, len(windows) + 2), 60.0)
            for _ in range(5):  # the first of these may close what the last records have left
                gate.set_backlog(1)
                gate.has_polled()
                wait_for(has_polled, 2 * MOST_SECONDS)
    finally:
        runner.stop()
    assert len(set(windows)) == len(windows), "a window is closed once"
    assert raised_watermarks(tmp_path / "checkpoint")


def test_where_nobody_else_writes_one_partition_alone_gets_all_heartbeats(stack: Addresses, unique: str) -> None:
    topic = topic_of(stack, unique, 2)
    parts = [TopicPartition(topic, number) for number in range(2)]
    each_second = WindowingConfig(window_seconds=1)
    with (
        KafkaConsumer(bootstrap_servers=stack.kafka) as consumer,
        Heartbeats({"bootstrap_servers": stack.kafka}, [topic], each_second, quiet_seconds=0.0) as beats,
    ):
        wait_for(lambda: beats.beats >= 4)
        ends = consumer.end_offsets(parts)
        all_of_them, few = ends[parts[0]], ends[parts[1]]
        assert all_of_them >= 4, "else windows in which nobody writes would not exist"
        assert 1 <= few < all_of_them / 2, (
            "a heartbeat that a busy broker acknowledges late looks like somebody else's record"
        )
        append(stack, topic, 1)
        wait_for(lambda: consumer.end_offsets(parts)[parts[1]] >= few + 2)
    assert not beats.problem


def test_a_heartbeat_that_the_broker_has_put_before_its_time_is_followed_by_another(
    stack: Addresses, unique: str
) -> None:
    """The clock of this machine is two seconds ahead of the broker's."""
    topic = topic_of(stack, unique, 1)
    ahead = 2_000
    beats = Heartbeats({"bootstrap_servers": stack.kafka}, [topic], WindowingConfig(), lambda: wall_clock() + ahead)
    begun = wall_clock()
    with beats:
        wait_for(lambda: beats.beats)
    assert wall_clock() - begun >= ahead
    assert not beats.problem
