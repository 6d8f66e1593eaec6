"""`make bench-million`: many gauges live, a point of each in every window of 10 s, and whether results come before the next window closes.

    python -m benchmarks.million --series 100000 --minutes 5

For each number of series a deployment of its own: `kappa run all` in a process of its own, an embedded broker, and a loader in a third. With
other work on the machine the latency says little. What holds then is the processor time of a window: at 20 core-seconds a window two cores
are busy, all of the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psutil
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from app.core.settings import PROJECT, Settings
from app.embedded.stack import status
from app.kafka.connection import client_options
from app.kafka.topics import create
from app.runtime.plan import GIB, MIB, Load, Plan, plan
from benchmarks.__main__ import RESULTS
from benchmarks.deployment import deployment, machine, say
from benchmarks.environment import environment_of
from benchmarks.flood import size
from benchmarks.latency import generate
from benchmarks.process_usage import ProcessUsage
from models.records.records import WatermarkMessage

SERIES_OF_HOST = 100
LOOK_SECONDS = 2.0
COLUMNS = {
    "series": "series",
    "windows": "windows judged",
    "in_time": "share of all, before the next closed",
    "latency_median": "closed to judged, median s",
    "latency_p99": "p99 s",
    "core_seconds": "core-s a window",
    "planned_core_seconds": "the plan",
    "jvm_seconds": "of the JVM",
    "python_seconds": "of the workers",
    "broker_seconds": "the broker's",
    "memory_gib": "GiB",
    "planned_memory_gib": "the plan",
    "state_mib": "state below home, MiB",
}


@dataclass(frozen=True)
class Look:
    """At a moment (epoch s): processor seconds by kind of process, those of the broker apart."""

    at: float
    seconds: dict[str, float]
    broker: float


def chosen(settings: Settings, series: int) -> Settings:
    """The deployment: as it comes, but for the numbers of partitions and the size of a batch, which holds a window."""
    name = f"live-{series}"
    own = settings.model_copy(
        update={
            "home": settings.home / name,
            "jar_folder": settings.jars,
            "topics": settings.topics.model_copy(update={"prefix": f"{name}-", "timestamps": "append"}),
            "windowing": dataclasses.replace(settings.windowing, lateness_seconds=15, skew_seconds=60),
            "limits": dataclasses.replace(settings.limits, all_series=2 * series),
        }
    )
    heap = f"{planned(own, series).heap // MIB}m"
    spark = own.spark.model_copy(update={"driver_memory": heap, "max_records_per_batch": max(200_000, 4 * series)})
    return own.model_copy(update={"spark": spark})


def planned(settings: Settings, series: int) -> Plan:
    """What `kappa plan` says."""
    return plan(Load(series, series // SERIES_OF_HOST, canonical=True), settings)


@contextmanager
def jobs(settings: Settings) -> Iterator[psutil.Popen]:
    """`kappa run all`."""
    settings.home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "app.cli", "run", "all"]
    with (settings.home / "run.log").open("wb") as log:
        process = psutil.Popen(command, env=environment_of(settings), stdout=log, stderr=subprocess.STDOUT, cwd=PROJECT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)


def live(spark: SparkSession, settings: Settings, home: Any, series: int, seconds: float) -> dict[str, Any]:
    """Figures of `seconds` of one number of series."""
    own = chosen(settings, series)
    create(own)
    broker = status(home).kafka
    watched = psutil.Process(broker.pid if broker else None)
    looks: list[Look] = []
    say(f"{series:,} series for {seconds:.0f} s")
    window = own.windowing.window_seconds
    with jobs(own) as process, ProcessUsage(process) as usage:
        load = generate(spark, own, series // window, series, hosts=series // SERIES_OF_HOST)
        began = time.time()
        try:
            while time.time() < began + seconds and process.is_running():
                time.sleep(LOOK_SECONDS)
                times = watched.cpu_times()
                looks.append(Look(time.time(), usage.seconds_by_kind, times.user + times.system))
        finally:
            load.end()
        state = size(own.home)
    return summary(own, series, began, looks, judged(own)) | {
        "memory_gib": usage.memory / GIB,
        "planned_memory_gib": planned(own, series).memory / GIB,
        "state_mib": state / MIB,
    }


def judged(settings: Settings) -> dict[int, float]:
    """When the last shard has announced each window, epoch s, by the window's end, ms."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic("novelties"), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), dict[int, dict[int, float]]()
    while any(consumer.position(part) < ends[part] for part in parts):
        for batch in consumer.poll(timeout_ms=500).values():
            for record in batch:
                message = WatermarkMessage.from_json(record.value)
                if message is not None:
                    found.setdefault(message.watermark, {})[message.shard] = record.timestamp / 1000
    consumer.close()
    whole = {window: shards for window, shards in found.items() if len(shards) == settings.windowing.shards}
    return {window: max(shards.values()) for window, shards in sorted(whole.items())}


def summary(
    settings: Settings, series: int, began: float, looks: list[Look], announced: dict[int, float]
) -> dict[str, Any]:
    """Windows that were judged, how late, and the processor time of each in the second half of the run.

    `announced`: when all shards had done with each window (epoch s), by its end (ms). A window is due where the run was still
    under way when the next one closed; those that had begun before the load are left out.
    """
    length, delay = settings.windowing.window_seconds, settings.windowing.watermark_delay_seconds
    ended = looks[-1].at
    due = [1000 * length * n for n in range(int(began // length) + 2, int((ended - delay - length) // length) + 1)]
    done = {window: at for window, at in announced.items() if due and due[0] <= window}
    late = [done[window] - window / 1000 - delay for window in due if window in done]
    found: dict[str, Any] = {"series": series, "windows": len(done), "due": len(due)}
    if not late:
        return found
    found |= {
        "in_time": sum(one < length for one in late) / len(due),
        "latency_median": float(np.median(late)),
        "latency_p99": float(np.quantile(late, 0.99)),
        "planned_core_seconds": planned(settings, series).cores * length,
    }
    times = sorted(done.values())
    first, last = (min(looks, key=lambda look: abs(look.at - at)) for at in (times[len(times) // 2], times[-1]))
    windows = sum(first.at < at <= last.at for at in times)
    if windows:
        kinds = {kind: (last.seconds[kind] - first.seconds.get(kind, 0.0)) / windows for kind in last.seconds}
        found |= {f"{kind}_seconds": seconds for kind, seconds in kinds.items()}
        found |= {
            "core_seconds": sum(kinds.values()),
            "broker_seconds": (last.broker - first.broker) / windows,
        }
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="make bench-million", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    about = machine()
    rows = []
    with deployment() as (settings, spark):
        for series in arguments.series:
            rows.append(live(spark, settings, settings.home, series, 60 * arguments.minutes))
            say(json.dumps(rows[-1]))
    title = f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB, load before {about['load_before']:.1f}"
    view = Table(title=title, title_justify="left")
    view.add_column("")
    for row in rows:
        view.add_column(f"{row['series']:,}")
    for name, what in COLUMNS.items():
        view.add_row(what, *(f"{row[name]:,.2f}".rstrip("0").rstrip(".") if name in row else "" for row in rows))
    Console(width=170).print(view)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"million-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}.json"
    file.write_text(json.dumps({"machine": about, "arguments": vars(arguments), "rows": rows}, indent=2) + "\n")
    Console().print(f"written to {file}")


if __name__ == "__main__":
    main()
