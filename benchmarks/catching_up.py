"""How many times real time a day of a fleet is processed: by the live jobs that catch up, and by a replay, with the default shards.

The log is that of a fleet that reports by the minute, in windows of 10 s: nearly all of the work is for windows, and little for records.
"""

from __future__ import annotations

import statistics

from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import client_options
from app.simulator import SimulatorSettings, simulate
from app.simulator.publish import Target, to_kafka
from benchmarks.deployment import close_windows, say
from benchmarks.reached import announced
from benchmarks.replays import chained, named, replayed
from benchmarks.throughput import apart
from pipelines.windowing import WindowingConfig

HOSTS, INTERVAL_SECONDS, LINES_PER_SECOND = 46, 60, 0.085  # of a virtual machine
RUNS = 3
AFTER_MS = 600_000


def measure(spark: SparkSession, settings: Settings, hours: float) -> dict[str, float]:
    """Seconds of the log in a second, replay and live chain in turns; medians. The first run is from a cold start."""
    own = apart(settings.model_copy(update={"windowing": WindowingConfig()}), "catching-up")
    simulation = simulate(
        SimulatorSettings(
            HOSTS, hours, interval_seconds=INTERVAL_SECONDS, logs_per_second=LINES_PER_SECOND, late_share=0.0
        )
    )
    names = {kind: own.topic(kind) for kind in topics.INPUTS}
    sent = to_kafka(simulation, Target(client_options(own), names))
    close_windows(own, sent.until + AFTER_MS)
    say(f"{hours:g} hours of {HOSTS} hosts: {sent.events:,} records")
    replays, chains = [], []
    for number in range(RUNS):
        again = named(own, f"replay-{number}")
        replays.append(3600 * hours / replayed(spark, again))
        chains.append(3600 * hours / chained(spark, named(own, f"live-{number}"), announced(again)))
        say(f"times real time: replay {replays[-1]:,.0f}, live chain {chains[-1]:,.0f}")
    return {"replay_times": statistics.median(replays), "catching_up_times": statistics.median(chains)}
