"""What a chain takes, beside its plan; and what it takes while one host sends millions of series.

    python -m benchmarks.flood --series 20000 --hosts 200                       memory and disk beside `kappa plan`
    python -m benchmarks.flood --series 2000 --hosts 20 --flood 10000000 --services 200000 --gib 3

Runs extract, detect and correlate as `kappa run` does, over a log that is written first, and adds up the memory of all their
processes every half second. A flood is compared with the same run without it: the scores of the other hosts must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import PROJECT, Settings, load
from app.embedded.stack import Stack, running_stack
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import heartbeat
from app.kafka.producer import BoundedProducer
from app.runtime.plan import GIB, Load, plan
from benchmarks.deployment import say

START, WINDOW_MS = 1_767_600_000_000, 10_000
SETTINGS = """
home = "{home}"
jar_folder = "{jars}"
[topics]
prefix = "{name}-"
timestamps = "create"
[windowing]
shards = 16
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


@dataclass
class Peak:
    """The most memory that the processes of a run had at once, bytes, in all and by kind; and the number of restarts."""

    total: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    javas: set[int] = field(default_factory=set)

    def look(self, process: psutil.Process) -> None:
        """Add up a process and all that it has started."""
        found: dict[str, int] = {}
        for one in [process, *process.children(recursive=True)]:
            try:
                kind = "jvm" if "java" in one.name() else "python" if "pyspark" in " ".join(one.cmdline()) else "driver"
                found[kind] = found.get(kind, 0) + one.memory_full_info().pss
                self.javas |= {one.pid} if kind == "jvm" else set()
            except psutil.Error:
                continue
        self.total = max(self.total, sum(found.values()))
        for kind, size in found.items():
            self.by_kind[kind] = max(self.by_kind.get(kind, 0), size)


def send(settings: Settings, arguments: argparse.Namespace, flood: int) -> int:
    """The log: a point of each series in each window, in order of time; in two windows the flood. Answers bytes of a record."""
    each, partitions = arguments.series // arguments.hosts, settings.topics.telemetry_partitions
    with BoundedProducer(client_options(settings), compression_type="lz4", linger_ms=50, batch_size=262_144) as outbox:
        topic = settings.topic("telemetry")
        for window in range(arguments.windows):
            begin = START + window * WINDOW_MS
            head = f'{{"@timestamp":"{stamp(begin + 2_000)}","host.name":"'
            for host in range(arguments.hosts):
                for metric in range(each):
                    value = (window * 7919 + host * 104_729 + metric * 1_299_709) % 1000 / 10
                    text = f'{head}host-{host:05d}","service.name":"app","metric.name":"metric.{metric:04d}.with.a.name","metric.value":{value}}}'
                    outbox.send(topic, text.encode(), key=b"", partition=host % partitions, timestamp_ms=begin + 2_000)
            if window in (arguments.windows - 6, arguments.windows - 5):
                for i in range(flood):
                    text = f'{head}greedy","service.name":"s{i % arguments.services}","metric.name":"x{i}","metric.value":1.5}}'
                    outbox.send(topic, text.encode(), key=b"", partition=i % partitions, timestamp_ms=begin + 2_000)
            beats(outbox, settings, begin + 5_000)
        beats(outbox, settings, START + (arguments.windows + 10) * WINDOW_MS)
    return len(text)


def beats(outbox: BoundedProducer, settings: Settings, moment: int) -> None:
    """A heartbeat to each input partition."""
    for kind, count in settings.input_partitions.items():
        for partition in range(count):
            outbox.send(
                settings.topic(kind), heartbeat(moment), key=b"heartbeat", partition=partition, timestamp_ms=moment
            )


def stamp(moment: int) -> str:
    """ISO 8601 of epoch milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment / 1000))


def values(settings: Settings, kind: str) -> list[bytes]:
    """All values of a topic."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(settings.topic(kind), p) for p in range(settings.topics.partitions)]
    consumer.assign(parts)
    ends, found = consumer.end_offsets(parts), []
    while any(consumer.position(part) < ends[part] for part in parts):
        found += [record.value for batch in consumer.poll(timeout_ms=500).values() for record in batch]
    consumer.close()
    return found


def finished(settings: Settings, last: int) -> bool:
    """Whether every shard has written its watermark message for the last window."""
    found = [json.loads(value) for value in values(settings, "novelties") if b'"watermark"' in value]
    shards = {one["shard"] for one in found if one.get("watermark") == last}
    return len(shards) >= settings.windowing.shards


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def run(settings: Settings, file: Path, arguments: argparse.Namespace, flood: int) -> dict[str, Any]:
    """One run over a log of its own."""
    topics.create(settings)
    record = send(settings, arguments, flood)
    say(f"{file.stem}: the log is written")
    command = [sys.executable, "-m", "app.cli", "run", "extract", "detect", "correlate"]
    began, peak = time.monotonic(), Peak()
    with (file.with_suffix(".log")).open("wb") as log:
        process = psutil.Popen(
            [*command, "--config", str(file), "--no-heartbeats"], stdout=log, stderr=subprocess.STDOUT, cwd=PROJECT
        )
        try:
            asked, last = time.monotonic(), START + arguments.windows * WINDOW_MS
            while True:
                peak.look(process)
                time.sleep(0.5)
                if process.poll() is not None:
                    msg = f"the jobs have ended: see {log.name}"
                    raise RuntimeError(msg)
                if time.monotonic() - asked > 10:
                    asked = time.monotonic()
                    if finished(settings, last):
                        break
        finally:
            process.terminate()
            process.wait(60)
    honest = sorted(value for value in values(settings, "scores") if b"/host-" in value)
    return {
        "seconds": round(time.monotonic() - began),
        "memory": peak.total,
        **peak.by_kind,
        "jvms": len(peak.javas),
        "checkpoints": size(settings.home / "checkpoints"),
        "scores": len(honest),
        "digest": hashlib.sha256(b"\n".join(honest)).hexdigest()[:16],
        "letters": len(values(settings, "dead-letters")),
        "record": record,
    }


def main() -> None:
    """Measure, and print what was measured beside the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("series", 2_000), ("hosts", 20), ("windows", 30), ("flood", 0), ("services", 200_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--gib", type=float, default=0.0, help="fails above so much memory")
    arguments = parser.parse_args()
    base = load()
    home = base.home / "flood"
    shutil.rmtree(home, ignore_errors=True)
    found: dict[str, Any] = {}
    with running_stack(Stack(home, jars=base.jars, elasticsearch_heap_mib=512, kafka_heap_mib=1024), say) as servers:
        for name, flood in (("alone", 0), ("flood", arguments.flood)) if arguments.flood else (("alone", 0),):
            file = home / f"{name}.toml"
            text = SETTINGS.format(
                home=home / name, jars=base.jars, name=name, kafka=servers.kafka, elasticsearch=servers.elasticsearch,
                memory=arguments.memory, batch=arguments.batch,
            )  # fmt: skip
            file.write_text(text)
            settings = load(file)
            found[name] = run(settings, file, arguments, flood)
            say(f"{name}: {json.dumps(found[name])}")
        data = {file.name: size(file) for file in home.rglob("alone-*") if file.is_dir()}
        found["topics"] = {name: data[name] for name in sorted(data)}
    planned = plan(Load(arguments.series, arguments.hosts), settings)
    print(json.dumps({"plan": planned.shown(), **found}, indent=1))
    if arguments.gib and max(found[name]["memory"] for name in ("alone", "flood")) > arguments.gib * GIB:
        sys.exit(1)


if __name__ == "__main__":
    main()
