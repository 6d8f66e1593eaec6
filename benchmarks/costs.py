"""What an event, a log line and a window of a series cost: `python -m benchmarks.costs`. The figures of docs/scale.md and of `kappa plan`.

Each is the processor time of Spark's JVM and its workers over a log, less that over a short one, in a session that has compiled what it needs.
Other work on the machine changes these figures little. `--held`: the figure of an event again, in processes of their own, with one core, with
two, and on a cluster.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pydantic import SecretStr
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.runtime import jobs
from app.search.connection import elasticsearch_connection
from app.search.mappings import drop_version, ensure_templates
from benchmarks import forms
from benchmarks.__main__ import RESULTS
from benchmarks.deployment import (
    close_windows,
    deployment,
    far_ahead,
    log_lines,
    machine,
    say,
    telemetry,
)
from benchmarks.flood import size
from benchmarks.peers.extraction import run
from benchmarks.peers.programs import Program, of_kappa
from benchmarks.process_usage import seconds_of_tree, spark_seconds
from benchmarks.spark_cluster import RunningCluster, running_cluster
from benchmarks.throughput import DAY_SECONDS, apart, batches, none_refused, numbered, write_windows
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.index_names import alias_of
from models.records.records import EpisodeEvent, Watched
from pipelines.runner import Job

# what, its topic, the form, and how many a record has (`benchmarks/forms.py`)
OF_AGENTS = {
    "event_metricbeat": ("a number", "telemetry", "Metricbeat", 11),
    "event_opentelemetry": ("a data point", "telemetry", "OpenTelemetry", 10),
    "event_prometheus": ("a sample", "telemetry", "Prometheus", 1),
    "line_filebeat": ("a line of 120 bytes", "logs", "Filebeat", 1),
    "line_opentelemetry": ("a line of 120 bytes", "logs", "OpenTelemetry", 10),
    "line_syslog": ("a line of 120 bytes", "logs", "syslog", 1),
}
SERIES = 1_000
FEW = 100_000  # events of a short log
WHAT = {
    "event": "an event of a series with many, `extract`",
    "row_extract": "a series more in a window, `extract`",
    "row_detect": "the same, `detect`",
    "line": "a log line of 120 bytes, `extract`",
    "long_line": "a log line of 500 bytes, `extract`",
    **{name: f"{what} of {form}, `extract`" for name, (what, _, form, _) in OF_AGENTS.items()},
    "episode": "an episode event, `correlate`",
    "document": "a score, `index`",
    "event_bytes": "bytes on the broker: an event, as agents send it",
    "line_bytes": "a line of 120 bytes",
    "long_line_bytes": "a line of 500 bytes",
    "row_bytes": "a row of statistics",
    "score_bytes": "a score",
    "document_bytes": "bytes on the disk of Elasticsearch: a score, one copy",
}
MEASURED = [name for name in WHAT if not name.endswith("_bytes")]
DOCUMENT_SERIES, DOCUMENT_WINDOWS, DOCUMENT_SECONDS = 2_000, 60, 60  # judged windows, each of so many seconds
CLUSTER_SECRET = "of-a-measurement"
OF_CLUSTER = {"spark.driver.host": LOOPBACK, "spark.cores.max": "2", "spark.executor.cores": "1"}
SHORT, LONG = 120, 500  # bytes of a message
EPISODES, WINDOWS, LASTING = 50, 60, 6  # of a window, hosts of their own; windows in all; windows that an episode lasts


@dataclass(frozen=True)
class WrittenLog:
    """What is in a log, how many bytes of a message a line has, and how many records of which of `OF_AGENTS`."""

    events: int = FEW
    series: int = SERIES
    lines: int = 0
    length: int = SHORT
    records: int = 0
    of: str = ""


@dataclass(frozen=True)
class Used:
    """Processor seconds, and bytes on the broker by kind of topic."""

    seconds: float
    size: dict[str, int]


def extracted(spark: SparkSession, settings: Settings, name: str, log: WrittenLog) -> Used:
    """`extract` over a log of its own."""
    own = apart(settings, name)
    telemetry(spark, own, log.events, log.series)
    if log.lines:
        log_lines(spark, own, log.lines, log.length)
    if log.records:
        _, kind, form, _ = OF_AGENTS[log.of]
        forms.fill(spark, own, kind, form, log.records, log.length if kind == "logs" else 0)
    close_windows(own, far_ahead())
    return used(spark, own, name, jobs.extract_job(own))


def detected(spark: SparkSession, settings: Settings, name: str, series: int, windows: int) -> Used:
    """`detect` over windows of so many gauges, a batch each."""
    own = apart(settings, name)
    write_windows(spark, own, series, windows)
    job = dataclasses.replace(jobs.detect_job(own), max_records_per_batch=series + own.windowing.shards)
    taken = used(spark, own, name, job)
    none_refused(own)
    return taken


def indexed(spark: SparkSession, settings: Settings, series: int) -> tuple[float, float]:
    """Core-seconds per million scores that `index` sends, and bytes of each in Elasticsearch as it leaves them, of series that are warmed up."""
    warm_up = int(60 * settings.detection.warm_up_minutes / DOCUMENT_SECONDS)
    windowing = dataclasses.replace(settings.windowing, window_seconds=DOCUMENT_SECONDS)
    own = apart(settings.model_copy(update={"windowing": windowing, "version": "documents"}), "documents")
    began = time.time() - DAY_SECONDS  # as `write_windows` has it
    write_windows(spark, own, series, warm_up + DOCUMENT_WINDOWS)
    batches(spark, own, jobs.detect_job(own))
    since = datetime.fromtimestamp(began + (warm_up + 1) * DOCUMENT_SECONDS, UTC)
    own = own.model_copy(update={"index": own.index.model_copy(update={"scores": True, "scores_since": since})})
    alias, seconds = alias_of("scores", own.version), 0.0
    with elasticsearch_connection(own).connect() as client:
        for number in range(2):  # the first time the session compiles what it needs
            drop_version(client, own.version)
            ensure_templates(client, own.version, live=False)
            before = spark_seconds(spark)
            batches(spark, own, jobs.index_job(numbered(own, number), threading.Event().wait))
            seconds = spark_seconds(spark) - before
        none_refused(own)
        client.indices.flush(index=alias)
        found = client.indices.stats(index=alias, metric=["store", "docs"])["_all"]["primaries"]
        drop_version(client, own.version)
    documents, stored = found["docs"]["count"], found["store"]["size_in_bytes"]
    say(f"documents: {documents:,}, {seconds:.1f} core-seconds, {stored:,} bytes")
    return 1e6 * seconds / documents, stored / documents


def used(spark: SparkSession, settings: Settings, name: str, job: Job) -> Used:
    """What a job takes over all that is in its inputs."""
    before = spark_seconds(spark)
    batches(spark, settings, job)
    seconds = spark_seconds(spark) - before
    sizes = {kind: size_of(settings, kind) for kind in ("telemetry", "logs", "statistics", "scores")}
    say(f"{name}: {seconds:.1f} core-seconds, {sizes} bytes")
    return Used(seconds, sizes)


def size_of(settings: Settings, kind: str) -> int:
    """Bytes of a topic on the disk of the embedded broker."""
    kafka = settings.home.parent / "kafka"
    return sum(size(folder, "*.log") for folder in kafka.glob(f"{settings.topic(kind)}-[0-9]*"))


def held(spark: SparkSession, settings: Settings, events: int) -> dict[str, float]:
    """Core-seconds per million events with one core, with two, and with a master and two workers of one core: the model knows one figure."""
    logs = {}
    for name, number in (("few", events // 10), ("many", events)):
        logs[name] = apart(settings, f"held-{name}")
        telemetry(spark, logs[name], number, SERIES)
        close_windows(logs[name], far_ahead())
    found = {}
    with TemporaryDirectory() as folder, running_cluster(Path(folder), CLUSTER_SECRET, 2, 1) as cluster:
        secret = {"secret": SecretStr(CLUSTER_SECRET), "extra": OF_CLUSTER}
        for what, master, spark_settings in (
            ("one core", "local[1]", {}),
            ("two cores", "local[2]", {}),
            ("a master and two workers", cluster.address, secret),
        ):
            taken = []
            for name, own in logs.items():
                chosen = own.model_copy(
                    update={"spark": own.spark.model_copy(update={"master": master, **spark_settings})}
                )
                output = f"held-{name}-{what.replace(' ', '-')}"
                before = cluster_seconds(cluster)
                one = run(Program(what, what, 1.0, of_kappa("extract")), chosen, output)
                taken.append(one.cores + cluster_seconds(cluster) - before)
            found[what] = 1e6 * (taken[1] - taken[0]) / (events - events // 10)
            say(f"{what}: {found[what]:.2f} core-seconds per million events")
    return found


def cluster_seconds(cluster: RunningCluster) -> float:
    """Processor seconds of master, workers and all executors that have ended or run."""
    return sum(seconds_of_tree(psutil.Process(pid)) for pid in cluster.processes)


def correlated() -> float:
    """Core-seconds per million episode events: EPISODES open in each window on hosts of their own, and close later; JSON included."""
    correlator, texts = Correlator(CorrelationParameters()), []
    for window in range(WINDOWS):
        at = 10_000 * (window + 1)
        opened = [(window, number, "open") for number in range(EPISODES)]
        closed = [(window - LASTING, number, "close") for number in range(EPISODES)]
        texts.append([episode(*one, at) for one in (*opened, *(closed if window >= LASTING else []))])
    watched = Watched(series=1_000_000, hosts=10_000, window_seconds=10, services={"app": 10_000})
    began = time.process_time()
    for window, events in enumerate(texts):
        found = [EpisodeEvent.from_record(json.loads(text)) for text in events]
        correlator.step(10_000 * (window + 1), found, watched)
    return 1e6 * (time.process_time() - began) / sum(map(len, texts))


def episode(window: int, number: int, status: str, at: int) -> str:
    """The record of an episode that began in a window."""
    host, start = f"host-{window}-{number}", 10_000 * window
    parts = {"record": "episode", "id": host, "version": "live", "series": f"gauge/{host}/app/m", "kind": "anomaly"}
    times = {"status": status, "start": start, "window_end": at, "score": 30.0, "evidence": 30.0, "host": host}
    return json.dumps({**parts, **times, "reason": "m is 7, expected 1 to 2"})


def measure(spark: SparkSession, settings: Settings, scale: float, only: list[str]) -> dict[str, float]:
    """Core-seconds per million of each of `only`, and bytes on the broker. `scale` of 1 makes differences of some core-seconds and more."""
    found: dict[str, float] = {}

    def number(most: float) -> int:
        return int(scale * most)

    def more(name: str, little: WrittenLog, much: WrittenLog) -> tuple[Used, Used]:
        return extracted(spark, settings, f"{name}-little", little), extracted(spark, settings, f"{name}-much", much)

    extracted(spark, settings, "warm", WrittenLog(number(3_000_000), 5_000, number(200_000)))
    if "event" in only:
        little, much = more("event", WrittenLog(), WrittenLog(number(6_000_000)))
        found["event"] = 1e6 * (much.seconds - little.seconds) / (number(6_000_000) - FEW)
        found["event_bytes"] = much.size["telemetry"] / number(6_000_000)
    if "row_extract" in only:
        series = number(100_000)
        little, much = more("row", WrittenLog(6 * series), WrittenLog(6 * series, series))
        found["row_extract"] = 1e6 * (much.seconds - little.seconds) / (6 * (series - SERIES))
        found["row_bytes"] = much.size["statistics"] / (6 * series)
    for name, length in (("line", SHORT), ("long_line", LONG)):
        if name in only:
            little, much = more(name, WrittenLog(), WrittenLog(lines=number(200_000), length=length))
            found[name] = 1e6 * (much.seconds - little.seconds) / number(200_000)
            found[f"{name}_bytes"] = much.size["logs"] / number(200_000)
    for name in OF_AGENTS.keys() & set(only):
        each = OF_AGENTS[name][3]
        few, many = number(20_000 / each), number(220_000 / each)
        little, much = more(name, WrittenLog(records=few, of=name), WrittenLog(records=many, of=name))
        found[name] = 1e6 * (much.seconds - little.seconds) / (each * (many - few))
    if "row_detect" in only:
        series = number(50_000)
        detected(spark, settings, "windows-warm", series, 2)
        begun, grown = (detected(spark, settings, f"windows-{n}", series, n) for n in (2, 6))
        found["row_detect"] = 1e6 * (grown.seconds - begun.seconds) / (4 * series)
        found["score_bytes"] = grown.size["scores"] / (6 * series)
    if "document" in only:
        found["document"], found["document_bytes"] = indexed(spark, settings, number(DOCUMENT_SERIES))
    if "episode" in only:
        found["episode"] = correlated()
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--held", action="store_true", help="the figure of an event with one core, two, and a cluster")
    parser.add_argument("--only", nargs="+", choices=MEASURED, default=MEASURED)
    arguments = parser.parse_args()
    about: dict[str, Any] = machine()
    with deployment() as (settings, spark):
        if arguments.held:
            found = held(spark, settings, int(arguments.scale * 4_000_000))
        else:
            found = measure(spark, settings, arguments.scale, arguments.only)
    title = f"{about['cpu']}, {about['cores']} cores, load before {about['load_before']:.1f}"
    view = Table("core-seconds per million", "", title=title, title_justify="left")
    for name, seconds in found.items():
        view.add_row(WHAT.get(name, name), f"{seconds:.2f}")
    Console().print(view)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"costs-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}.json"
    file.write_text(json.dumps({"machine": about, "arguments": vars(arguments), "figures": found}, indent=2) + "\n")
    Console().print(f"written to {file}")


if __name__ == "__main__":
    main()
