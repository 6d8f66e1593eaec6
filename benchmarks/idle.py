"""What the jobs cost while next to nothing comes: cores of the session, its workers and its driver, servers apart."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import psutil
from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.runtime.run import running
from benchmarks.deployment import say
from benchmarks.latency import generate

WARM_UP_SECONDS, SECONDS = 240.0, 180.0
FLEET_HOSTS, FLEET_SERIES, FLEET_RATE = 20, 720, 72  # a gauge each ten seconds


def measure(spark: SparkSession, settings: Settings) -> dict[str, float]:
    """Cores with nothing but heartbeats, and with a fleet of `FLEET_HOSTS`, each over `SECONDS` after a warm-up."""
    return {"idle_cores": cores(spark, settings, 0), "fleet_cores": cores(spark, settings, FLEET_RATE)}


def cores(spark: SparkSession, settings: Settings, rate: int) -> float:
    """Cores that all jobs take while so many events a second come."""
    name = f"idle-{rate}"
    own = settings.model_copy(
        update={
            "home": settings.home / name,
            "jar_folder": settings.jars,
            "windowing": type(settings.windowing)(),
            "topics": settings.topics.model_copy(update={"prefix": f"{name}-"}),
        }
    )
    topics.create(own)
    with (
        running(own, ("all",)),
        Heartbeats(client_options(own), [own.topic(kind) for kind in topics.INPUTS], own.windowing),
    ):
        load = generate(spark, own, rate, FLEET_SERIES, hosts=FLEET_HOSTS) if rate else None
        say(f"{rate} events/s, for {WARM_UP_SECONDS + SECONDS:.0f} s")
        try:
            threading.Event().wait(WARM_UP_SECONDS)
            before = processor_seconds()
            threading.Event().wait(SECONDS)
            after = processor_seconds()
        finally:
            if load is not None:
                load.end()
    return sum(spent - before.get(pid, 0.0) for pid, spent in after.items()) / SECONDS


def processor_seconds() -> Mapping[int, float]:
    """Processor time of this process and of all that it has started but the servers, by process."""
    own = psutil.Process()
    children = own.children(recursive=True)
    servers = {one.pid for child in children if _supervises(child) for one in (child, *child.children(recursive=True))}
    found: dict[int, float] = {}
    for one in (own, *children):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        if one.pid not in servers:
            found[one.pid] = times.user + times.system
    return found


def _supervises(process: psutil.Process) -> bool:
    """Whether it runs the servers."""
    try:
        return "app.embedded.supervisor" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
