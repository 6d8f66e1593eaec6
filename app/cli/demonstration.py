"""The demonstration: the whole pipeline on this machine, with simulated faults that are known beforehand.

A fleet of simulated machines writes its last hours into the log at full speed, with the timestamps of that time, then goes on
live; this machine's own telemetry and logs join in. Slow faults and changes of state lie in the history, abrupt faults in the
live minutes. Incidents are printed as they come, and compared with the simulated faults at the end.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import shlex
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from rich.console import Console
from rich.table import Table as View

from app.cli.demo_receiver import DemoReceiver
from app.cli.local_time import clock, local
from app.collector.collector import collect
from app.core.errors import StackError
from app.core.ports import LOOPBACK
from app.core.report import Report
from app.core.settings import ElasticsearchSettings, KafkaSettings, Settings
from app.embedded import stack
from app.kafka import topics
from app.kafka.connection import client_options
from app.notify.service import BesideJobs
from app.runtime import dashboard
from app.runtime.health import Health, HealthServer
from app.runtime.run import running
from app.search.connection import elasticsearch_connection
from app.simulator import Planned, Simulation, SimulatorSettings, simulate
from app.simulator.ground_truth import Table, judge
from app.simulator.publish import Target, live
from app.supervision.interrupts import start_uninterrupted
from models.core.printable import printable
from models.records.index_names import INDEX_KINDS, alias_of
from models.records.records import WatermarkMessage
from pipelines.consumer_lag import offsets
from pipelines.errors import InputError, KappaError
from pipelines.runner import Runner

HOSTS = 20
HISTORY_HOURS = 3.0
INTERVAL = 10
# Seconds after going live, and how long.
LIVE_FAULTS = (
    ("cpu_contention", 20, 90),
    ("error_burst", 30, 80),
    ("new_message", 40, 60),
    ("host_silent", 50, 70),
)
# Share of the history at which they begin, and seconds. The first half is clean.
PAST_EPISODES = (
    ("machines_added", 0.52, 0),
    ("memory_leak", 0.54, 1500),
    ("deployment", 0.58, 0),
    ("network_delay", 0.60, 300),
    ("disk_filling", 0.62, 1800),
    ("traffic_moved", 0.66, 0),
    ("packet_loss", 0.69, 300),
    ("slow_drift", 0.70, 2400),
    ("log_silence", 0.76, 300),
    ("wrong_clock", 0.78, 120),
    ("nightly_job", 0.80, 0),
    ("stuck_metric", 0.84, 600),
    ("noisy_neighbour", 0.88, 300),
)
CURVES = timedelta(minutes=20)  # how far back pages have curves
DRAIN_SECONDS = 45
# A machine that is busy with other things may need longer to finish; the table waits for it so long.
GRACE_SECONDS = 240
QUIET_SECONDS = 15  # nobody waits longer for a line


@dataclass
class PipelineResults:
    """Results of the pipeline, read back from its topics so far."""

    episode_events: list[dict[str, Any]] = field(default_factory=list)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    watermarks: dict[int, int] = field(default_factory=dict)
    late: int = 0
    dead_letters: int = 0
    sent_until: int = (
        0  # the end (epoch ms) of the last window that could be complete when the feeding stopped; 0 before that
    )

    def scored_until(self, shards: int) -> int:
        """The end (epoch ms) of the last window that every shard has scored; 0 before all have scored one."""
        return min(self.watermarks.values()) if len(self.watermarks) == shards else 0


def demo_settings(settings: Settings) -> Settings:
    """The user's settings with what the demonstration needs: a folder of its own, topics that take history, small batches."""
    home = settings.home / "demo"
    return settings.model_copy(
        update={
            "home": home,
            "jar_folder": settings.jars,
            # History and the live minutes share partitions; their producers' clocks may interleave by a moment.
            "windowing": dataclasses.replace(settings.windowing, shards=8, disorder_seconds=2),
            "topics": settings.topics.model_copy(
                update={
                    "prefix": "",
                    "timestamps": "create",
                    "telemetry_partitions": 2,
                    "logs_partitions": 2,
                    "partitions": 2,
                }
            ),
            # Its own servers, whatever others the user has.
            "kafka": KafkaSettings(),
            "elasticsearch": ElasticsearchSettings(),
            "spark": settings.spark.model_copy(update={"max_records_per_batch": 150_000}),
            # So that pages have curves of what happens while people watch; of all the history there would be nine times as many documents.
            "index": settings.index.model_copy(update={"scores": True, "scores_since": datetime.now(UTC) - CURVES}),
        }
    )


def run_demo(
    settings: Settings,
    minutes: float,
    seed: int,
    stopping: threading.Event,
    json_only: bool,
    console: Console,
    until_notified: bool = False,
) -> dict[str, Any]:
    """Start everything, run it for about `minutes`, and return the object of `--json`, empty where it is stopped. Leaves nothing running.

    `until_notified`: end as soon as an incident was found and somebody notified of it; StackError where that does not happen.
    """
    deadline = time.monotonic() + 60 * minutes
    own = demo_settings(settings)
    if stack.status(own.home).running:
        msg = f"demo: another demonstration is running in {own.home}; end it first, or set home to another folder"
        raise InputError(msg)
    report = Reporter(console)
    # Only what an earlier demonstration left, in the folder that is the demonstration's own.
    shutil.rmtree(own.home, ignore_errors=True)
    with ExitStack() as contexts:
        report("starting Kafka and Elasticsearch")
        servers = contexts.enter_context(stack.running_stack(stack.Stack(own.home, jars=own.jars), report))
        own = own.model_copy(
            update={
                "kafka": own.kafka.model_copy(update={"bootstrap_servers": servers.kafka}),
                "elasticsearch": own.elasticsearch.model_copy(update={"url": servers.elasticsearch}),
            }
        )
        if stopping.is_set():
            return {}
        topics.create(own)
        report(f"Kafka at {servers.kafka}, Elasticsearch at {servers.elasticsearch}")
        fleet = fleet_settings(seed, minutes)
        simulation = simulate(fleet)
        load = contexts.enter_context(LoadGenerator(own, fleet))
        report(
            f"feeding {HISTORY_HOURS:g} hours of {HOSTS} simulated machines, then live; {minutes:g} minutes in all, "
            "the first incidents after two to three on two cores"
        )
        receiver = contexts.enter_context(DemoReceiver(report))
        own = own.model_copy(update={"notify": receiver.settings})
        contexts.enter_context(BesideJobs(own))
        if stopping.is_set():
            return {}
        report("starting Spark and the jobs: half a minute; minutes where the cores are busy")
        with running(own, ("all",), stopping_early=stopping) as (runner, health):
            if stopping.is_set():
                return {}
            server = contexts.enter_context(HealthServer(health, LOOPBACK, 0))
            shown = own.model_copy(update={"dashboard": own.dashboard.model_copy(update={"jobs": (server.address,)})})
            pages = contexts.enter_context(dashboard.running(shown, report))
            report(f"dashboard at {pages}, in some seconds" if pages else "no dashboard: its port is taken")
            report(f"other commands, such as `kappa watch`, see the demo with {seen_with(own)}")
            enough = (lambda: bool(receiver.taken)) if until_notified else (lambda: False)
            results = watch(own, runner, load, stopping, deadline, report, enough)
            if stopping.is_set():
                report(f"stopping; incidents so far: {len({one['id'] for one in results.incidents})}")
                return {}
            if until_notified and not (results.incidents and receiver.taken):
                msg = (
                    f"demo: nobody was notified of an incident within {minutes:g} minutes; give it more with --minutes"
                )
                raise StackError(msg)
            delay = 1000 * own.windowing.watermark_delay_seconds
            table = judge(simulation.truth, simulation.fleet.hosts, results.episode_events, results.incidents, delay)
            documents = count_documents(own)
            result = as_json(table, results, simulation, load, runner, health, documents, len(receiver.taken))
            left = not_judged(results.scored_until(own.windowing.shards), results.sent_until)
            result["caught_up"] = left is None
    if until_notified:
        report(f"{result['incidents']} incidents so far, {result['notifications']} notifications delivered: ending")
    elif not json_only:
        show(console, table, result)
        if left:
            console.print(left, highlight=False)
    return result


def not_judged(scored_until: int, sent_until: int) -> str | None:
    """A sentence about what was sent and not judged when the time was over (epoch ms); None where nothing is left."""
    if scored_until >= sent_until:
        return None
    judged = f"what was sent up to {local(scored_until):%H:%M:%S}" if scored_until else "nothing"
    return (
        f"the jobs have not caught up: they have judged {judged} of what was sent up to {local(sent_until):%H:%M:%S}. Faults "
        "and changes after that count as missed; `kappa demo --minutes N` gives the jobs more time"
    )


def seen_with(own: Settings) -> str:
    """Variables of the environment with which other commands see what the demonstration does, as a shell takes them."""
    return f"KAPPA_HOME={shlex.quote(str(own.home))} KAPPA_JAR_FOLDER={shlex.quote(str(own.jars))}"


def fleet_settings(seed: int, minutes: float) -> SimulatorSettings:
    """A fleet whose history ends now."""
    now = int(time.time()) // INTERVAL * INTERVAL
    past = int(HISTORY_HOURS * 3600)
    schedule = [
        Planned(kind, round(share * past / INTERVAL) * INTERVAL, max(60, s)) for kind, share, s in PAST_EPISODES
    ]
    # Going live waits for the jobs to be warm, about a minute after now.
    begin = past + 75
    schedule += [Planned(kind, begin + after, seconds) for kind, after, seconds in LIVE_FAULTS]
    return SimulatorSettings(
        hosts=HOSTS,
        hours=(past + 60 * minutes + 60) / 3600,
        seed=seed,
        start=1000 * (now - past),
        interval_seconds=INTERVAL,
        schedule=tuple(schedule),
    )


class LoadGenerator:
    """Sends the simulation from a process of its own, and this machine's events from a thread.

    In one process, the simulation would hold the interpreter lock while the jobs are started.
    """

    def __init__(self, settings: Settings, simulation: SimulatorSettings) -> None:
        context = multiprocessing.get_context("spawn")
        target = Target(client_options(settings), {kind: settings.topic(kind) for kind in topics.INPUTS})
        self._target = target
        self._stop_process, self._stop_thread = context.Event(), threading.Event()
        self._sent = context.Value("q", 0)
        self._live = context.Event()
        self._process = context.Process(
            target=feed,
            name="simulation",
            args=(simulation, target, self._stop_process, self._live, self._sent),
            daemon=True,
        )
        self._collecting = threading.Thread(target=self._collect, name="collector", daemon=True)
        self._failure: KappaError | None = None

    def __enter__(self) -> LoadGenerator:
        start_uninterrupted(self._process)
        self._collecting.start()
        return self

    @property
    def events(self) -> int:
        """How many events of the simulation have been sent."""
        return int(self._sent.value)

    @property
    def is_live(self) -> bool:
        """Whether the history has been sent."""
        return self._live.is_set()

    def check(self) -> None:
        """Raise what ended the sending early: StackError, or an error of the collector."""
        if self._failure is not None:
            raise self._failure
        if self._process.exitcode not in (None, 0):
            msg = f"demo: the simulated fleet stopped sending (exit code {self._process.exitcode})"
            raise StackError(msg)

    def _collect(self) -> None:
        # Not before the history is in the log: records of now would make what comes after them late.
        while not self._live.wait(0.5):
            if self._stop_thread.is_set():
                return
        try:
            collect(
                self._target.options,
                self._target.topics,
                self._stop_thread,
                interval=INTERVAL,
                files=[str(path) for path in own_logs()],
                host=f"{socket.gethostname()}-this-machine",
            )
        except KappaError as error:
            self._failure = error

    def stop(self) -> None:
        """Stop sending."""
        self._stop_process.set()
        self._stop_thread.set()
        self._process.join(timeout=20)
        self._collecting.join(timeout=20)

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if self._process.is_alive():
            self._process.kill()


def feed(settings: SimulatorSettings, target: Target, stop: Any, is_live: Any, sent: Any) -> None:
    """Send a simulation: what is past at once, then at the pace of the clock. Runs in a process of its own."""
    simulation = simulate(settings, processes=1)
    past = settings.start + HISTORY_HOURS * 3_600_000

    def on_sent(events: int, until: int) -> None:
        sent.value = events
        if until >= past:
            is_live.set()

    live(
        simulation,
        target,
        stop,
        begin=settings.start,
        timestamps="event",
        heartbeats=True,
        on_sent=on_sent,
    )


def own_logs() -> list[Path]:
    """Log files of this machine that this user may read."""
    candidates = [Path("/var/log/syslog"), Path("/var/log/messages"), Path("/var/log/system.log")]
    return [path for path in candidates if path.is_file()]


class Reporter:
    """Lines with the seconds since the start; and one where there has been none for QUIET_SECONDS."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock, self._began, self._last = console, clock, clock(), clock()

    def __call__(self, line: str) -> None:
        """Print a line."""
        self._last = self._clock()
        text = printable(f"[{self._last - self._began:5.0f} s] {line}")
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def if_quiet(self, line: Callable[[], str]) -> None:
        """Print a line where there has been none for long."""
        if self._clock() - self._last >= QUIET_SECONDS:
            self(line())


def so_far(sent: int, scored_until: int) -> str:
    """How far the jobs are: events that were sent, and the end (epoch ms) of the last window that was judged, 0 before the first."""
    judged = f"up to {local(scored_until):%H:%M:%S}" if scored_until else "nothing yet"
    return f"{sent:,} events of the fleet are in the log; the jobs have judged {judged}"


class ResultReader:
    """Reads the topics of results from their beginning."""

    def __init__(self, settings: Settings) -> None:
        self._kinds = {settings.topic(kind): kind for kind in topics.INDEXED}
        self._consumer = KafkaConsumer(
            **client_options(settings), allow_auto_create_topics=False, auto_offset_reset="earliest"
        )
        parts = [TopicPartition(topic, p) for topic in self._kinds for p in range(settings.topics.partitions)]
        self._consumer.assign(parts)

    def poll(self, results: PipelineResults) -> list[dict[str, Any]]:
        """Add what has arrived to `results`; returns the incidents among it."""
        fresh: list[dict[str, Any]] = []
        for part, records in self._consumer.poll(timeout_ms=500, max_records=5000).items():
            kind = self._kinds[part.topic]
            if kind == "late":
                results.late += len(records)
            elif kind == "dead-letters":
                results.dead_letters += len(records)
            elif kind == "incidents":
                fresh += [json.loads(record.value) for record in records]
            else:
                add_episode_events(results, [json.loads(record.value) for record in records])
        results.incidents += fresh
        return fresh

    def is_all_read(self, runner: Runner) -> bool:
        """Whether correlate, index and this reader have read these topics to their ends."""
        ends = self._consumer.end_offsets(list(self._consumer.assignment()))
        done = {name: read_until(runner.queries[name].lastProgress) for name in ("correlate", "index")}
        for part, end in ends.items():
            where = (part.topic, str(part.partition))
            if self._consumer.position(part) < end or any(end > at[where] for at in done.values() if where in at):
                return False
        return bool(done["correlate"] and done["index"])

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def read_until(progress: Any) -> dict[tuple[str, str], int]:
    """Offsets up to which a job has read, by topic and partition, as its last progress says."""
    found: dict[tuple[str, str], int] = {}
    for source in json.loads(progress.json)["sources"] if progress else ():
        found |= offsets(source.get("endOffset"))
    return found


def add_episode_events(results: PipelineResults, found: list[dict[str, Any]]) -> None:
    for record in found:
        if record.get("record") == WatermarkMessage.KIND:
            shard = record["shard"]
            results.watermarks[shard] = max(results.watermarks.get(shard, 0), record["watermark"])
        else:
            results.episode_events.append(record)


def watch(
    settings: Settings,
    runner: Runner,
    load: LoadGenerator,
    stopping: threading.Event,
    deadline: float,
    report: Reporter,
    enough: Callable[[], bool],
) -> PipelineResults:
    """Print incidents as they come, until the time is over and the windows of what was sent have been scored, or until it is `enough`."""
    results, reader, shards = PipelineResults(), ResultReader(settings), settings.windowing.shards
    live_reported = caught_up_reported = False
    try:
        while not stopping.is_set() and time.monotonic() < deadline - DRAIN_SECONDS:
            for incident in reader.poll(results):
                report_incident(incident, report)
            check(runner, load)
            report.if_quiet(lambda: so_far(load.events, results.scored_until(shards)))
            if load.is_live and not live_reported:
                live_reported = True
                report(f"history is in the log ({load.events:,} events); the fleet is live, and so is this machine")
            if not caught_up_reported and results.scored_until(shards) > 1000 * (time.time() - 60):
                caught_up_reported = True
                report("the jobs have caught up with the clock")
            if results.incidents and enough():
                return results
        if stopping.is_set():
            return results
        # Before it stops, which takes seconds: what comes after the last record closes no window.
        last = int(time.time() * 1000) - 1000 * settings.windowing.watermark_delay_seconds - 1000 * INTERVAL
        load.stop()
        results.sent_until = last
        report("stopped feeding; finishing the windows that are open")
        while not stopping.is_set() and time.monotonic() < deadline + GRACE_SECONDS:
            for incident in reader.poll(results):
                report_incident(incident, report)
            check(runner, load)
            report.if_quiet(lambda: so_far(load.events, results.scored_until(shards)))
            if results.scored_until(shards) >= last and reader.is_all_read(runner):
                break
        reader.poll(results)
        return results
    finally:
        reader.close()


def check(runner: Runner, load: LoadGenerator) -> None:
    """Raise what has ended a job or the feeding."""
    runner.check_all()
    load.check()


def report_incident(incident: Mapping[str, Any], report: Report) -> None:
    """One line about an incident that opens, changes its kind or closes."""
    if incident["status"] == "update":
        return
    at = f"{local(incident['window_end']):%H:%M:%S}"
    since = clock(incident["start"], incident["window_end"])
    sign = "NEW" if incident["status"] == "open" else "end"
    report(
        f"{sign} {at} {incident['severity']:8} {incident['kind']:8} {incident['reason']}{others(incident)}; since {since}"
    )


def others(incident: Mapping[str, Any]) -> str:
    """The hosts of an incident that its reason, which is about one of them, does not name."""
    unnamed = [host for host in incident["hosts"] if host not in incident["reason"]]
    if not unnamed:
        return ""
    return f"; also {', '.join(unnamed[:3])}{' ...' if len(unnamed) > 3 else ''}"


def count_documents(settings: Settings) -> int:
    """Documents that can be searched now."""
    client = elasticsearch_connection(settings).connect()
    try:
        indices = ",".join(alias_of(kind, settings.version) + "-*" for kind in INDEX_KINDS)
        client.indices.refresh(index=indices, allow_no_indices=True)
        return int(client.count(index=indices, allow_no_indices=True)["count"])
    finally:
        client.close()


def as_json(
    table: Table,
    results: PipelineResults,
    simulation: Simulation,
    load: LoadGenerator,
    runner: Runner,
    health: Health,
    documents: int,
    notifications: int,
) -> dict[str, Any]:
    """The one object of `--json`."""
    return {
        "faults": table.faults,
        "found": table.found,
        "missed": [f"{r.kind} on {', '.join(r.hosts)}" for r in table.records if r.category == "fault" and not r.found],
        "changes": table.changes,
        "changes_announced": table.changes_announced,
        "false_alarms": table.false_alarms,
        "median_seconds_to_detect": table.median_seconds_to_detect,
        "events": load.events,
        "late": results.late,
        "dead_letters": results.dead_letters,
        "dropped_by_watermark": runner.dropped_by_watermark,
        "documents": documents,
        "notifications": notifications,
        "hosts": len(simulation.fleet.hosts),
        "incidents": len({i["id"] for i in results.incidents}),
        "false": [f"{', '.join(i['hosts'])}: {i['reason']}" for i in table.false],
        "healthy": health.summary()["healthy"],
    }


def show(console: Console, table: Table, result: Mapping[str, Any]) -> None:
    """The table for people."""
    view = View(title="what was injected, and what was found", title_justify="left")
    for column in ("what", "kind", "where", "found", "seconds to detect"):
        view.add_column(column)
    for record in table.records:
        if record.category == "data":
            continue
        good = record.announced if record.category == "change" else record.found
        word = ("announced as a change" if record.category == "change" else "found") if good else "MISSED"
        seconds = "" if record.seconds is None else f"{record.seconds:.0f}"
        style = "green" if good else "red"
        where = ", ".join(record.hosts[:3]) + (f" and {len(record.hosts) - 3} more" if len(record.hosts) > 3 else "")
        view.add_row(record.category, record.kind, where, f"[{style}]{word}[/]", seconds)
    console.print(view)
    median = result["median_seconds_to_detect"]
    console.print(
        f"faults found {result['found']} of {result['faults']}, changes announced {result['changes_announced']} of "
        f"{result['changes']}, false alarms {result['false_alarms']} on {result['hosts']} machines, "
        f"median time to detect {'-' if median is None else f'{median:.0f} s'} (event time, lateness included)",
        highlight=False,
    )
    console.print(
        f"{result['events']} events, {result['late']} late, {result['dead_letters']} dead letters, "
        f"{result['dropped_by_watermark']} dropped by the watermark, {result['documents']} documents in Elasticsearch, "
        f"{result['notifications']} notifications",
        highlight=False,
    )
    for line in result["false"]:
        console.print(printable(f"false alarm: {line}"), markup=False, highlight=False)
