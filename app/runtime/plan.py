"""What a deployment needs, before it is built: memory, cores and disk, from the numbers of its series and hosts.

Measured, on two cores of an x86-64 virtual machine with Python 3.11: the memory of a metric's model and its state as it is written, and whole
chains of two shapes (`python -m benchmarks.flood`), from which memory of processes, disk and idle cores are fitted; tests hold all of them within
25 %. The broker's bytes and the cores of a load of events are estimates. Bytes of a series hold for names of about 40 characters.
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
METRIC_STATE, TEMPLATE_STATE, COPIES = 1_400, 300, 1.0
WINDOW_ROW = 450  # of the sums of an open window
EVENT, LINE, ROW, SCORE = 45, 60, 60, 55  # bytes of a record on the broker, compressed with lz4

# Processor time of a core, seconds.
EVENT_SECONDS, LINE_SECONDS, ROW_SECONDS, SHARD_SECONDS, IDLE_CORES = 4e-6, 20e-6, 25e-6, 2e-3, 0.45


@dataclass(frozen=True)
class Load:
    """What is sent: metric series and log templates in all, hosts, log lines a second.

    Raises
    ------
    ValueError
        For a number that is out of range.
    """

    series: int
    hosts: int
    templates: int = 0
    lines_per_second: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive(self, ("series", "hosts"))
        if self.templates < 0 or self.lines_per_second < 0:
            msg = f"templates is {self.templates}, lines_per_second {self.lines_per_second}; wanted none below 0"
            raise ValueError(msg)


@dataclass(frozen=True)
class Plan:
    """What it takes, in bytes and cores. `memory` is the sum of `jvm`, `python` and `driver`; disk is after the retention of topics."""

    state: int
    heap: int
    jvm: int
    python: int
    driver: int
    memory: int
    checkpoints: int
    broker: int
    cores: float
    warnings: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "cores": round(self.cores, 2), "warnings": list(self.warnings)}


def plan(load: Load, settings: Settings) -> Plan:
    """What one process with all jobs takes at a load, with one point of each metric series in each window."""
    windowing, topics = settings.windowing, settings.topics
    window = windowing.window_seconds
    counts = load.templates + (load.hosts if load.templates else 0)  # templates, and a level for each host
    rows = load.series + counts
    state = load.series * METRIC_STATE + counts * TEMPLATE_STATE
    workers = settings.spark.shuffle_partitions + OTHER_WORKERS
    python = workers * WORKER_BYTES + load.series * METRIC_BYTES + counts * TEMPLATE_BYTES + rows * BATCH_BYTES
    heap = LEAST_HEAP + rows * HEAP_BYTES
    jvm = heap + NATIVE_BYTES + min(ROCKSDB_MIB * MIB, int(COPIES * state))
    open_windows = 2 + windowing.watermark_delay_seconds / window
    disk = HOME_BYTES + windowing.shards * SHARD_BYTES + COPIES * state + open_windows * rows * WINDOW_ROW
    events, inputs = load.series / window, 3600 * topics.input_retention_hours
    outputs = 3600 * topics.retention_hours / window * rows * (ROW + SCORE)
    broker = inputs * (events * EVENT + load.lines_per_second * LINE) + outputs
    cores = IDLE_CORES + events * EVENT_SECONDS + load.lines_per_second * LINE_SECONDS
    cores += (rows * ROW_SECONDS + windowing.shards * SHARD_SECONDS) / window
    return Plan(
        state=state,
        heap=heap,
        jvm=jvm,
        python=python,
        driver=DRIVER_BYTES,
        memory=jvm + python + DRIVER_BYTES,
        checkpoints=int(disk),
        broker=int(topics.replication * broker),
        cores=cores,
        warnings=tuple(warnings(load, settings)),
    )


def warnings(load: Load, settings: Settings) -> list[str]:
    """What of the load is over a limit."""
    limits, found = settings.limits, []
    if load.hosts > limits.hosts:
        found.append(f"{load.hosts:,} hosts are more than limits.hosts, {limits.hosts:,}: the others are left out")
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
    return found
