"""What a chain takes, beside its plan; and what it takes while one host sends millions of series.

    python -m benchmarks.flood --series 20000 --hosts 50 --live                 memory, cores and disk beside `kappa plan`
    python -m benchmarks.flood --flood 10000000 --gib 3                         a backlog with ten million series of one host
    python -m benchmarks.flood --flood 1000000 --of hosts refused+templates     the same with a million hosts, then two others at once
    python -m benchmarks.flood --flood 600000 --flood-windows 12 --live         the latency of the other hosts' scores meanwhile

Runs `kappa run all` over a log that is written first, or with `--live` at the pace of the clock, and adds up the memory of all its
processes twice a second. A flood is compared with the same run without it: the scores of the other hosts must be equal.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import PROJECT, Settings, load
from app.embedded.stack import Stack, running_stack
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime.plan import GIB, MIB, Load, plan
from benchmarks.deployment import machine, say
from benchmarks.floods import FLOODS, FloodSender, flood_sender
from benchmarks.process_usage import ProcessUsage
from benchmarks.reached import announced

START = 1_767_600_000_000
WARM_SECONDS = 360  # until then the JVM compiles much
HONEST_SECOND = 2  # of a window: when the points of other hosts come
WINDOWS_MORE = 10  # windows with heartbeats alone, so that the last one closes
SETTINGS = """
home = "{home}"
jar_folder = "{jars}"
[topics]
prefix = "{name}-"
timestamps = "create"
[windowing]
shards = {shards}
window_seconds = {window}
[kafka]
bootstrap_servers = "{kafka}"
[elasticsearch]
url = "{elasticsearch}"
[spark]
driver_memory = "{memory}"
max_records_per_batch = {batch}
[detection]
warm_up_minutes = 2
"""


@dataclass(frozen=True)
class Sender:
    """Writes the log: a point of each series in each window, in order of time; in some windows the flood as well."""

    settings: Settings
    arguments: argparse.Namespace
    flood: int  # records of the flood
    began: float = 0.0  # with `live`: when the first window begins, epoch seconds

    @property
    def window_ms(self) -> int:
        """Of a window."""
        return 1000 * self.settings.windowing.window_seconds

    @property
    def warm(self) -> int:
        """The first window that begins when the JVM has compiled."""
        return math.ceil(1000 * WARM_SECONDS / self.window_ms)

    @property
    def flooded(self) -> range:
        """The windows with the flood."""
        first = self.arguments.windows - 4 - self.arguments.flood_windows
        return range(first, first + self.arguments.flood_windows)

    def send(self, flooding: FloodSender | None) -> None:
        """All of it, second by second, with `began` when the clock is there."""
        with BoundedProducer(
            client_options(self.settings), compression_type="lz4", linger_ms=50, batch_size=262_144
        ) as outbox:
            flood = 0
            for second in range((self.arguments.windows + WINDOWS_MORE) * self.window_ms // 1000):
                window, of_window = divmod(second, self.window_ms // 1000)
                moment = START + 1000 * second
                if self.began:
                    threading.Event().wait(max(0.0, self.began + second - time.time()))
                self._beats(outbox, moment)
                if window >= self.arguments.windows:
                    continue
                if of_window == HONEST_SECOND:
                    self._honest(outbox, window, moment)
                elif flooding and window in self.flooded and of_window > HONEST_SECOND:
                    share = self.flood // (len(self.flooded) * (self.window_ms // 1000 - HONEST_SECOND - 1))
                    outbox.flush()  # append times of a partition do not go back
                    flooding.send(range(flood, flood + share), moment, stamp(moment))
                    flood += share

    def _honest(self, outbox: BoundedProducer, window: int, moment: int) -> None:
        topic, partitions = self.settings.topic("telemetry"), self.settings.topics.telemetry_partitions
        for host in range(self.arguments.hosts):
            for metric in range(self.arguments.series // self.arguments.hosts):
                value = (window * 7919 + host * 104_729 + metric * 1_299_709) % 1000 / 10
                text = record(moment, f"host-{host:05d}", "app", f"metric.{metric:04d}.with.a.name", value)
                outbox.send(topic, text, key=b"", partition=host % partitions, timestamp_ms=moment)

    def _beats(self, outbox: BoundedProducer, moment: int) -> None:
        """A heartbeat to each input partition."""
        queue_heartbeats(outbox, input_partitions(self.settings), moment)


def record(moment: int, host: str, service: str, metric: str, value: float) -> bytes:
    """A point in the canonical form."""
    head = f'{{"@timestamp":"{stamp(moment)}","host.name":"{host}","service.name":"{service}"'
    return f'{head},"metric.name":"{metric}","metric.value":{value}}}'.encode()


@lru_cache(maxsize=1)
def stamp(moment: int) -> str:
    """ISO 8601 of epoch milliseconds, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment / 1000))


def values(settings: Settings, kind: str) -> Iterator[tuple[int, bytes]]:
    """All records of a topic: append time, epoch ms, and value."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends = consumer.end_offsets(parts)
    while any(consumer.position(part) < ends[part] for part in parts):
        for batch in consumer.poll(timeout_ms=500).values():
            yield from ((one.timestamp, one.value) for one in batch)
    consumer.close()


def latencies(found: list[tuple[int, bytes]], sender: Sender, windows: range) -> dict[str, float]:
    """How long after the end of a window its scores were in the log: median and 99th percentile of all scores, s."""
    each = [
        at / 1000 - sender.began - (end - START) / 1000
        for at, value in found
        if (end := json.loads(value)["window_end"]) and (end - START) // sender.window_ms - 1 in windows
    ]
    return {f"p{q}": round(float(np.percentile(each, q)), 2) for q in (50, 99)} if each else {}


def size(folder: Path, pattern: str = "*") -> int:
    """Bytes that the files in a folder take on the disk; one that is gone when it is looked at takes none."""
    found = 0
    for place, _, names in os.walk(folder):  # leaves out a folder that is gone
        for name in fnmatch.filter(names, pattern):
            with suppress(FileNotFoundError):
                found += 512 * Path(place, name).lstat().st_blocks
    return found


def run(
    settings: Settings, file: Path, arguments: argparse.Namespace, flood: int, flooding: FloodSender | None
) -> dict[str, Any]:
    """One run over a log of its own."""
    topics.create(settings)
    sender = Sender(settings, arguments, flood)
    if not arguments.live:
        sender.send(flooding)
        say(f"{file.stem}: the log is written")
    command = [sys.executable, "-m", "app.cli", "run", "all", "--config", str(file), "--no-heartbeats"]
    last = START + arguments.windows * sender.window_ms
    with file.with_suffix(".log").open("wb") as log:
        process = psutil.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=PROJECT)
        try:
            with ProcessUsage(process) as usage:
                began = time.monotonic()
                if arguments.live:
                    sender = Sender(settings, arguments, flood, time.time() + 5)
                    threading.Thread(target=sender.send, args=(flooding,), daemon=True).start()
                disk = 0
                while announced(settings) < last:
                    time.sleep(5)
                    disk = max(disk, size(settings.home))
                    if process.poll() is not None:
                        msg = f"the jobs have ended: see {log.name}"
                        raise RuntimeError(msg)
                    if usage.warm is None and time.monotonic() - began > 5 + WARM_SECONDS:
                        usage.set_warm()
                seconds, cores = round(time.monotonic() - began), usage.cores
        finally:
            process.terminate()
            process.wait(120)
    scores = list(values(settings, "scores"))
    honest = [one for one in scores if b"/host-" in one[1]]
    found = {
        "seconds": seconds,
        **usage.shown(),
        "restarts": file.with_suffix(".log").read_text(errors="replace").count("jobs ended"),
        "disk": disk,
        "scores": len(scores),
        "scores of others": len(honest),
        "digest": hashlib.sha256(b"\n".join(sorted(value for _, value in honest))).hexdigest()[:16],
        "letters": sum(1 for _ in values(settings, "dead-letters")),
    }
    if arguments.live and cores is not None:
        found["cores"] = round(cores, 2)
        before = range(sender.warm, sender.flooded.start - 2)
        found["latency before"] = latencies(honest, sender, before)
        found["latency from then on"] = latencies(honest, sender, range(sender.flooded.start, arguments.windows))
    return found


def main() -> None:
    """Measure, and print what was measured beside the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        *(("series", 2_000), ("hosts", 20), ("window", 10), ("windows", 30)),
        *(("shards", 16), ("flood", 0)),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--of",
        nargs="+",
        default=["series"],
        help=f"what a flood is of, a run for each, A+B at once: {', '.join(FLOODS)}",
    )
    parser.add_argument("--flood-windows", type=int, default=2, help="windows over which the flood is spread")
    parser.add_argument("--live", action="store_true", help="send at the pace of the clock")
    parser.add_argument("--memory", help="heap of the JVM; what the plan says without it")
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--gib", type=float, default=0.0, help="fails above so much memory")
    arguments = parser.parse_args()
    base = load()
    window = replace(base.windowing, window_seconds=arguments.window, shards=arguments.shards)
    planned = plan(
        Load(arguments.series, arguments.hosts, canonical=True), base.model_copy(update={"windowing": window})
    )
    os.environ.pop("KAPPA_HOME", None)  # each run has a home of its own
    home = base.home / "flood"
    shutil.rmtree(home, ignore_errors=True)
    runs: dict[str, dict[str, Any]] = {}
    with running_stack(Stack(home, jars=base.jars, elasticsearch_heap_mib=512, kafka_heap_mib=1024), say) as servers:
        for name in ("alone", *arguments.of) if arguments.flood else ("alone",):
            flood = 0 if name == "alone" else arguments.flood
            file = home / f"{name}.toml"
            text = SETTINGS.format(
                home=home / name, jars=base.jars, name=name.replace("+", "-"), kafka=servers.kafka, elasticsearch=servers.elasticsearch,
                memory=arguments.memory or f"{planned.heap // MIB}m", batch=arguments.batch, window=arguments.window,
                shards=arguments.shards,
            )  # fmt: skip
            file.write_text(text)
            settings = load(file)
            with flood_sender(settings, name.split("+")) if flood else nullcontext() as flooding:
                runs[name] = run(settings, file, arguments, flood, flooding)
            say(f"{name}: {json.dumps(runs[name])}")
        data = {kind: sum(size(one, "*.log") for one in home.rglob(f"alone-*{kind}-[0-9]*") if one.is_dir())
                for kind in ("telemetry", "statistics", "scores")}  # fmt: skip
    rows = arguments.series * arguments.windows
    record = {kind: round(taken / rows, 1) for kind, taken in data.items()}
    print(json.dumps({"machine": machine(), "plan": planned.shown(), **runs, "bytes a record": record}, indent=1))
    sys.exit(failed(list(runs.values()), arguments.gib))


def failed(runs: list[dict[str, Any]], gib: float) -> int:
    """1 where a run took more memory than it may, or was restarted, or where a flood changed others' scores."""
    over = gib and max(one["memory"] for one in runs) > gib * GIB
    return int(bool(over) or any(one["restarts"] for one in runs) or len({one["digest"] for one in runs}) > 1)


if __name__ == "__main__":
    main()
