"""Events a second of a bounded replay, and their ratio to plain reading and to the live chain, in one run."""

from __future__ import annotations

import itertools
import statistics
import threading
import time

from pyspark.sql import SparkSession

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import kafka_connection
from app.runtime import jobs
from benchmarks.deployment import close_windows, far_ahead, say, telemetry
from benchmarks.reached import announced, share_read
from benchmarks.throughput import RUNS, apart, plain
from pipelines.runner import Runner
from replay import run
from replay.slices import RequestedRange

MOST_SECONDS = 1_200.0
LOOK_SECONDS = 2.0  # looking costs the chain time as well


def named(settings: Settings, version: str) -> Settings:
    """The same log under another version: topics and checkpoints of its own."""
    own = settings.model_copy(update={"version": version, "jar_folder": settings.jars})
    topics.create(own)
    return own


def replayed(spark: SparkSession, settings: Settings) -> float:
    """Seconds of a replay of the whole log, planning included."""
    times = [time.monotonic()]
    phases = ["planning"]

    def on_progress(at: run.ReplayProgress) -> None:
        times.append(time.monotonic())
        phases.append(at.doing)

    run.replay(spark, run.plan(settings, RequestedRange(), None), on_progress=on_progress)
    spent = zip(phases, itertools.pairwise(times), strict=False)
    say("replay: " + ", ".join(f"{phase} {end - begin:.1f} s" for phase, (begin, end) in spent))
    return times[-1] - times[0]


def chained(spark: SparkSession, settings: Settings, last: int) -> float:
    """Seconds until extract, detect and correlate, running side by side, have all completed a window (ms)."""
    runner = Runner(spark, kafka_connection(settings), settings.spark.trigger_seconds)
    began = time.monotonic()
    try:
        for job in (jobs.extract_job(settings), jobs.detect_job(settings), jobs.correlate_job(settings)):
            runner.start(job)
        while not completed(settings, last):
            runner.check_all()
            if time.monotonic() - began > MOST_SECONDS:
                msg = f"the live chain took more than {MOST_SECONDS:.0f} s for what a replay does in one go"
                raise RuntimeError(msg)
            threading.Event().wait(LOOK_SECONDS)
        return time.monotonic() - began
    finally:
        runner.stop()


def completed(settings: Settings, last: int) -> bool:
    """Whether all jobs have completed a window (ms); the dearest look comes last, it reads the end of a topic."""
    read = {"extract": topics.INPUTS, "detect": ("statistics",), "correlate": ("novelties",)}
    return all(share_read(settings, *one) >= 1.0 for one in read.items()) and announced(settings) >= last


def measure(spark: SparkSession, settings: Settings, events: int, series: int) -> dict[str, float]:
    """Plain reading, a replay and the live chain over the same topic, in turns; medians."""
    own = apart(settings, "replays")
    say(f"writing {events:,} events of {series:,} series")
    telemetry(spark, own, events, series)
    close_windows(own, far_ahead())
    plain(spark, own, events, 100)
    read, bounded, chain = [], [], []
    for number in range(RUNS):
        read.append(plain(spark, own, events, number))
        again = named(own, f"again-{number}")
        bounded.append(events / replayed(spark, again))
        chain.append(events / chained(spark, named(own, f"live-{number}"), announced(again)))
        say(
            f"plain reading {read[-1][0]:,.0f}/s, with our options {read[-1][1]:,.0f}/s, "
            f"replay {bounded[-1]:,.0f}/s, live chain {chain[-1]:,.0f}/s"
        )
    return {
        "replay_events_per_second": statistics.median(bounded),
        "chain_events_per_second": statistics.median(chain),
        "replay_to_plain": statistics.median(b / p for b, (p, _) in zip(bounded, read, strict=True)),
        "replay_to_plain_ours": statistics.median(b / p for b, (_, p) in zip(bounded, read, strict=True)),
        "replay_to_chain": statistics.median(b / c for b, c in zip(bounded, chain, strict=True)),
    }
