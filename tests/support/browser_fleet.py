"""A fleet whose incidents the pipeline itself has found, and the pages that show them.

The simulator's events go into a real Kafka, all four jobs run over them to the end, once with other settings as version
`stricter` and once as `live`, which then catches up with the clock, and `index` writes what they found to a real
Elasticsearch: nothing on the pages is made up.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from elasticsearch import Elasticsearch
from pyspark.sql import SparkSession

from app.core.ports import port_is_free
from app.core.report import silent
from app.core.settings import PROJECT, DashboardSettings, IndexSettings, KafkaSettings, Settings
from app.embedded.stack import Stack, running_stack
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.runtime import dashboard, jobs
from app.runtime.health import Health, HealthServer
from app.runtime.run import prepare
from app.simulator import Planned, Simulation, SimulatorSettings, simulate
from app.simulator.publish import Target, to_kafka
from pipelines.runner import Runner

JARS = PROJECT / ".kappa" / "jars"
SECONDS = 60
RUNBOOK = "https://wiki.example.net/runbooks/{kind}?service={service}"
HOURS = 2.2
INTERVAL = 10
MORE_HOURS = 2.0  # that have not come yet when the jobs begin
# Minutes before that at which they begin, and how long they last. The last two have open incidents when pages are looked at. The
# burst is the first on its host, so that its incident is open from two minutes after its beginning until eleven later: jobs
# that take between nothing and MOST_MINUTES find it so. A second burst is no news to the model, and one that lasts is a change.
EPISODES = (
    ("deployment", 85, 0, ""),
    ("network_delay", 75, 8, "vm-002"),
    ("disk_filling", 60, 20, "vm-001"),
    ("new_message", 35, 3, "vm-003"),
    ("error_burst", 28, 4, "vm-005"),
    ("host_silent", 20, 5, ""),
    ("host_silent", 5, 45, "vm-004"),
    ("error_burst", 2, 4, "vm-001"),
)
LEAD = 30_000  # ms: what comes while jobs catch up
MOST_MINUTES = 8  # of what comes while jobs run: of a slow machine the rest is not fed


@dataclass
class BrowserFleet:
    """Two versions of what was found on a simulated fleet, and where the pages are that show them, with the code to sign in.

    The log holds what of the `simulation` arrives until `fed`, epoch ms.
    """

    settings: Settings
    address: str
    code: str
    simulation: Simulation
    fed: int
    health: Health

    def goes_on(self, until: int) -> None:
        """What arrives until then, into the log."""
        feed(self.settings, self.simulation, self.fed, until)
        self.fed = until


@contextmanager
def running_fleet(spark: SparkSession, home: Path) -> Iterator[BrowserFleet]:
    """Everything, while it is looked at."""
    health = Health(stale_seconds=3600.0)
    with running_stack(Stack(home, jars=JARS)) as servers, HealthServer(health, "127.0.0.1", 0) as server:
        own = Settings(
            home=home,
            jar_folder=JARS,
            index=IndexSettings(scores=True),
            kafka=KafkaSettings(bootstrap_servers=servers.kafka),
            dashboard=DashboardSettings(jobs=(server.address,), runbook_url=RUNBOOK),
        )
        own = own.model_copy(
            update={
                "windowing": dataclasses.replace(own.windowing, shards=4),
                "topics": own.topics.model_copy(update={"timestamps": "create", "partitions": 2}),
                "elasticsearch": own.elasticsearch.model_copy(update={"url": servers.elasticsearch}),
            }
        )
        topics.create(own)
        began = now()
        simulation = simulated(began)
        feed(own, simulation, None, began)
        detection = dataclasses.replace(own.detection, alarm_chance=0.0002, new_template_nats=16.0)
        other = {"version": "stricter", "detection": detection, "index": IndexSettings(scores=False)}
        for settings in (own.model_copy(update=other), own):
            run_to_end(spark, settings, health)
        fed = min(now() + LEAD, began + 60_000 * MOST_MINUTES)
        feed(own, simulation, began, fed)
        run_to_end(spark, own, health)
        with served(own) as (address, code):
            yield BrowserFleet(own, address, code, simulation, fed, health)


def now() -> int:
    """The clock, whole intervals, epoch milliseconds."""
    return 1000 * (int(time.time()) // INTERVAL * INTERVAL)


def simulated(at: int) -> Simulation:
    """A small fleet, HOURS before that time and some after it."""
    seconds = int(HOURS * 3600)
    schedule = [Planned(kind, seconds - 60 * ago, max(60, 60 * m), host) for kind, ago, m, host in EPISODES]
    return simulate(
        SimulatorSettings(
            hosts=6,
            hours=HOURS + MORE_HOURS,
            seed=3,
            start=at - 1000 * seconds,
            interval_seconds=INTERVAL,
            late_share=0.002,
            schedule=tuple(schedule),
        )
    )


def feed(settings: Settings, simulation: Simulation, begin: int | None, until: int) -> None:
    """What arrives in that time, into the log."""
    names = {kind: settings.topic(kind) for kind in topics.INPUTS}
    to_kafka(simulation, Target(client_options(settings), names), begin=begin, until=until, processes=1)


def run_to_end(spark: SparkSession, settings: Settings, health: Health) -> None:
    """All jobs of a version over what the log holds, and all that they found searchable."""
    topics.create(settings)
    prepare(settings, jobs.NAMES)
    runner = Runner(spark, kafka_connection(settings), on_progress=health.on_progress)
    try:
        for job in (
            jobs.extract_job(settings),
            jobs.detect_job(settings),
            jobs.correlate_job(settings),
            jobs.index_job(settings, threading.Event().wait),
        ):
            runner.run_to_end(job)
    finally:
        runner.stop()
    with Elasticsearch(settings.elasticsearch.url or "", request_timeout=120) as client:
        client.indices.refresh(index=f"*-{settings.version}-*")


@contextmanager
def served(settings: Settings) -> Iterator[tuple[str, str]]:
    """The pages, while they are looked at: their address, and the code to sign in."""
    port = next(p for p in range(dashboard.DEFAULT_PORT, dashboard.DEFAULT_PORT + 50) if port_is_free(p))
    with dashboard.served(settings, port, silent) as (_, code):
        address = f"http://127.0.0.1:{port}"
        wait_for_server(address)
        yield address, code


def wait_for_server(address: str) -> None:
    """Until the pages are served."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urlopen(f"{address}/_stcore/health", timeout=1) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline, "the pages are not served"
