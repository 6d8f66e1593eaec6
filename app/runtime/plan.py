"""What a deployment needs, before it is built: memory, cores and disk, from the numbers of its series and hosts.

Measured, on two cores of an x86-64 virtual machine with Python 3.11: the memory of a metric's model and its state as it is written, and whole
chains of two shapes (`python -m benchmarks.flood`), from which memory of processes and disk are fitted; tests hold all of them within
25 %. Cores of a load are measured by `python -m benchmarks.costs`, what live jobs take more by `python -m benchmarks.million`, those without a
load by `python -m benchmarks --only idle`; the broker's bytes are estimates, a document's are
measured by `benchmarks.costs`. Bytes of a series hold for names of about 40 characters.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from app.core.settings import Settings
from app.runtime.spark import ROCKSDB_MIB
from models.core.parameters import check_positive

MIB, GIB = 1 << 20, 1 << 30

# Memory of a Python worker: what it imports, and of each series its model and a row of each window in hand.
WORKER_BYTES = 170 * MIB
OTHER_WORKERS = 2  # of correlate and of index
DRIVER_BYTES = 230 * MIB  # `kappa run` and its parent
METRIC_BYTES, TEMPLATE_BYTES = 3_500, 950
BATCH_BYTES = (
    1_400  # of a row, while its window is read, scored and written: the worker's and its models' temporary arrays
)

# Memory of the JVM beside its heap: code, threads, buffers; RocksDB has a bound of its own.
NATIVE_BYTES = 585 * MIB
LEAST_HEAP = 1 * GIB
HEAP_BYTES = 6_000  # of a series: its rows of a window on their way through the jobs

# Disk: what is there without a series, a shard's files, the models' state as it is written, and how often it is there.
HOME_BYTES, SHARD_BYTES = 45_000_000, 400_000
METRIC_STATE, TEMPLATE_STATE, COPIES = 700, 300, 1.0
WINDOW_ROW = 450  # of the sums of an open window
EVENT, LINE, ROW, SCORE = 45, 60, 60, 55  # bytes of a record on the broker, compressed with lz4
LINE_BYTE = 0.4  # of each byte of a line's message beyond SHORT_LINE
DOCUMENT = 170  # bytes of a score on the disk of Elasticsearch
SHARD_DOCUMENTS = 200_000_000  # of a shard, at most, as Elastic advises; 2,147,483,519 are all that Lucene takes
DAY_SECONDS = 86_400

# Processor time of a core, seconds (`python -m benchmarks.costs`).
EVENT_SECONDS, AGENT_EVENT_SECONDS = 2e-6, 20e-6  # of an event in the canonical, flat form, and as agents write it
AGENT_LINE_SECONDS = 12e-6  # of a line, more, as agents write it
LINE_SECONDS, LINE_BYTE_SECONDS, SHORT_LINE = 20e-6, 0.09e-6, 120  # of a line with so many bytes, and of each byte more
ROW_EXTRACT_SECONDS, ROW_DETECT_SECONDS = 8e-6, 5e-6  # of a row of a window
ROW_LIVE_SECONDS = 15e-6  # of a row, more, where each batch has one window: `detect` writes its state after each batch
DOCUMENT_SECONDS = 80e-6  # of a score that `index` sends
EPISODE_SECONDS = 170e-6  # of an episode event, in the one task of `correlate`
SHARD_SECONDS = 2e-3
IDLE_CORES = 0.335  # a batch of each job for each window of 10 s, whatever is in it: 0.34 with 720 gauges
MOST_SHARD_STATE = 50_000_000  # bytes of a shard's models: a batch writes them as one value

# What does not grow with the machines.
INPUT_PARTITIONS = 16  # of a topic, each read by one task


@dataclass(frozen=True)
class Load:
    """What is sent: metric series and log templates in all, hosts, log lines a second, the bytes of their messages, and in which form.

    Raises
    ------
    ValueError
        For a number that is out of range.
    """

    series: int
    hosts: int
    templates: int = 0
    lines_per_second: float = 0.0
    line_bytes: int = SHORT_LINE
    canonical: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive(self, ("series", "hosts", "line_bytes"))
        if self.templates < 0 or self.lines_per_second < 0:
            msg = f"templates is {self.templates}, lines_per_second {self.lines_per_second}; wanted none below 0"
            raise ValueError(msg)


@dataclass(frozen=True)
class Plan:
    """What it takes, in bytes and cores. `memory` is the sum of `jvm`, `python` and `driver`; disk is after the retention of topics.

    `documents` are the bytes that Elasticsearch gets in a day where `index.scores` is on, else 0: what people are shown, some hundred
    novelties and incidents, is not counted.
    """

    state: int
    heap: int
    jvm: int
    python: int
    driver: int
    memory: int
    checkpoints: int
    broker: int
    documents: int
    cores: float
    warnings: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "cores": round(self.cores, 2), "warnings": list(self.warnings)}


def plan(load: Load, settings: Settings) -> Plan:
    """What one process with all jobs takes at a load, with one point of each metric series in each window."""
    windowing, topics = settings.windowing, settings.topics
    window = windowing.window_seconds
    counts = counts_of(load)
    rows = load.series + counts
    state = bytes_of_state(load)
    workers = settings.spark.shuffle_partitions + OTHER_WORKERS
    python = workers * WORKER_BYTES + load.series * METRIC_BYTES + counts * TEMPLATE_BYTES + rows * BATCH_BYTES
    heap = LEAST_HEAP + rows * HEAP_BYTES
    jvm = heap + NATIVE_BYTES + min(ROCKSDB_MIB * MIB, int(COPIES * state))
    open_windows = 2 + windowing.watermark_delay_seconds / window
    disk = HOME_BYTES + windowing.shards * SHARD_BYTES + COPIES * state + open_windows * rows * WINDOW_ROW
    events, inputs = load.series / window, 3600 * topics.input_retention_hours
    outputs = 3600 * topics.retention_hours / window * rows * (ROW + SCORE)
    broker = inputs * (events * EVENT + load.lines_per_second * bytes_of_line(load)) + outputs
    return Plan(
        state=state,
        heap=heap,
        jvm=jvm,
        python=python,
        driver=DRIVER_BYTES,
        memory=jvm + python + DRIVER_BYTES,
        checkpoints=int(disk),
        broker=int(topics.replication * broker),
        documents=(1 + settings.elasticsearch.replicas) * documents_of_a_day(load, settings) * DOCUMENT,
        cores=sum(cores_of(load, settings).values()),
        warnings=tuple(warnings(load, settings)),
    )


def documents_of_a_day(load: Load, settings: Settings) -> int:
    """Scores that are indexed in a day."""
    rows = load.series + counts_of(load)
    return int(rows * DAY_SECONDS / settings.windowing.window_seconds) if settings.index.scores else 0


def counts_of(load: Load) -> int:
    """Series of log lines: templates, and a level for each host."""
    return load.templates + (load.hosts if load.templates else 0)


def bytes_of_line(load: Load) -> float:
    """Of a line on the broker."""
    return LINE + LINE_BYTE * (load.line_bytes - SHORT_LINE)


def seconds_of_event(canonical: bool) -> float:
    """Processor time of a core for an event."""
    return EVENT_SECONDS if canonical else AGENT_EVENT_SECONDS


def seconds_of_line(line_bytes: int, canonical: bool) -> float:
    """The same for a log line with a message of so many bytes."""
    return LINE_SECONDS + LINE_BYTE_SECONDS * (line_bytes - SHORT_LINE) + (0 if canonical else AGENT_LINE_SECONDS)


def cores_of(load: Load, settings: Settings) -> dict[str, float]:
    """Cores by what they do: events, lines, rows of windows in `extract` and `detect`, documents, shards, and what is there without a load."""
    window = settings.windowing.window_seconds
    rows = (load.series + counts_of(load)) / window
    return {
        "events": load.series / window * seconds_of_event(load.canonical),
        "lines": load.lines_per_second * seconds_of_line(load.line_bytes, load.canonical),
        "rows of extract": rows * ROW_EXTRACT_SECONDS,
        "rows of detect": rows * ROW_DETECT_SECONDS,
        "rows of small batches": rows * ROW_LIVE_SECONDS,
        "documents": documents_of_a_day(load, settings) / DAY_SECONDS * DOCUMENT_SECONDS,
        "shards": settings.windowing.shards * SHARD_SECONDS / window,
        "idle": IDLE_CORES,
    }


@dataclass(frozen=True)
class Ceilings:
    """What a second can hold however many machines there are: records a topic's partitions, rows, and episode events a window."""

    events: float
    lines: float
    rows: float
    episodes: float


def ceilings(settings: Settings, line_bytes: int = SHORT_LINE, *, canonical: bool = False) -> Ceilings:
    """With a core for each task that there can be: a task a partition, one for each shard, one of `correlate`.

    Rows are series in each window, episodes the episode events of a window.
    """
    window = settings.windowing.window_seconds
    return Ceilings(
        events=INPUT_PARTITIONS / seconds_of_event(canonical),
        lines=INPUT_PARTITIONS / seconds_of_line(line_bytes, canonical),
        rows=settings.windowing.shards * window / ROW_DETECT_SECONDS,
        episodes=window / EPISODE_SECONDS,
    )


def warnings(load: Load, settings: Settings) -> list[str]:
    """What of the load is over a limit."""
    limits, found = settings.limits, []
    if load.hosts > limits.hosts:
        found.append(f"{load.hosts:,} hosts are more than limits.hosts, {limits.hosts:,}: the others are left out")
    ceiling, window = ceilings(settings, load.line_bytes, canonical=load.canonical), settings.windowing.window_seconds
    for what, each_second, bound in (
        ("events", load.series / window, ceiling.events),
        ("log lines", load.lines_per_second, ceiling.lines),
    ):
        if each_second > bound:
            found.append(
                f"{each_second:,.0f} {what} a second are more than {INPUT_PARTITIONS} partitions can be read at, {bound:,.0f}: the jobs fall behind"
            )
    rows = load.series + load.templates
    if rows > limits.all_series:
        found.append(
            f"{rows:,} series and templates are more than limits.all_series, {limits.all_series:,}: others may be left out"
        )
    for name, number, most in (
        ("metric series", load.series, limits.metrics_per_host),
        ("log templates", load.templates, limits.templates_per_host),
    ):
        each = math.ceil(number / load.hosts)
        if each > most:
            found.append(f"{each:,} {name} a host are more than a host may have, {most:,}: the others are left out")
    documents, score_shards = documents_of_a_day(load, settings), settings.elasticsearch.score_shards
    if documents > score_shards * SHARD_DOCUMENTS:
        found.append(
            f"{documents:,} scores a day are more than {SHARD_DOCUMENTS:,} for each shard of their index, as Elastic advises; at "
            f"2,147,483,519 a shard is full, and the index job waits: set elasticsearch.score_shards = {math.ceil(documents / SHARD_DOCUMENTS)}"
        )
    shards = settings.windowing.shards
    if bytes_of_state(load) > shards * MOST_SHARD_STATE:
        enough = 2 ** math.ceil(math.log2(bytes_of_state(load) / MOST_SHARD_STATE))
        found.append(
            f"each of {shards} shards has a state of {bytes_of_state(load) / shards / 1e6:,.0f} MB, which a batch writes as one value: "
            f"{MOST_SHARD_STATE / 1e6:,.0f} MB are enough; set windowing.shards = {enough} before the version begins"
        )
    return found


def bytes_of_state(load: Load) -> int:
    """Bytes of the models' state, as it is written."""
    return load.series * METRIC_STATE + counts_of(load) * TEMPLATE_STATE
