"""What the jobs cost while next to nothing comes: cores of the session, its workers and its driver, servers apart."""

from __future__ import annotations

import threading
import time

from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.runtime.run import running
from benchmarks.deployment import say
from benchmarks.latency import generate
from benchmarks.process_usage import spark_seconds
from benchmarks.throughput import apart
from pipelines.windowing import WindowingConfig

WARM_UP_SECONDS, SECONDS = 240.0, 180.0
FLEET_HOSTS, FLEET_SERIES, FLEET_RATE = 20, 720, 72  # a gauge each ten seconds


def measure(spark: SparkSession, settings: Settings) -> dict[str, float]:
    """Cores with nothing but heartbeats, and with a fleet of `FLEET_HOSTS`, each over `SECONDS` after a warm-up."""
    return {"idle_cores": cores(spark, settings, 0), "fleet_cores": cores(spark, settings, FLEET_RATE)}


def cores(spark: SparkSession, settings: Settings, rate: int) -> float:
    """Cores that all jobs take while so many events a second come."""
    by_broker = settings.topics.model_copy(update={"timestamps": "append"})
    own = apart(settings.model_copy(update={"windowing": WindowingConfig(), "topics": by_broker}), f"idle-{rate}")
    with (
        running(own, ("all",)),
        Heartbeats(client_options(own), [own.topic(kind) for kind in topics.INPUTS], own.windowing),
    ):
        load = generate(spark, own, rate, FLEET_SERIES, hosts=FLEET_HOSTS) if rate else None
        say(f"{rate} events/s, for {WARM_UP_SECONDS + SECONDS:.0f} s")
        try:
            threading.Event().wait(WARM_UP_SECONDS)
            before = spark_seconds(spark) + time.process_time()
            threading.Event().wait(SECONDS)
            return (spark_seconds(spark) + time.process_time() - before) / SECONDS
        finally:
            if load is not None:
                load.end()
