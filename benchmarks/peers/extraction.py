"""The same extraction by each: events a second and core-seconds per million events, in turns; answers are compared first."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from pyspark.sql import SparkSession

from app.core.settings import PROJECT, Settings
from app.embedded.jvm import last_meaningful_line
from app.kafka.connection import client_options, open_admin
from benchmarks.deployment import PARTITIONS, close_windows, far_ahead, say, telemetry
from benchmarks.peers.environments import NotInstalledError
from benchmarks.peers.programs import Program
from benchmarks.process_usage import ProcessUsage
from benchmarks.throughput import apart

VALUES = ("mean", "m2", "min", "max", "last")
SMALL_EVENTS, SMALL_SERIES = 20_000, 500
MOST_SECONDS = 900.0

Answers = dict[tuple[str, int], dict[str, float]]


@dataclass(frozen=True)
class Taken:
    """Of a process from its start to its end: seconds, processor seconds of all that it started, memory at most, bytes."""

    seconds: float
    cores: float
    memory: int


class FailedError(Exception):
    """A program has ended with an error, and which."""


def run(program: Program, settings: Settings, output: str) -> Taken:
    """Read the topic to its end. Raises FailedError."""
    with open_admin(settings) as admin:
        admin.create_topics([NewTopic(output, PARTITIONS, 1)])
    command = program.command(settings, output)
    log = settings.home / f"{output}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as out:
        process = psutil.Popen(
            command.arguments, env=command.variables, stdout=out, stderr=subprocess.STDOUT, cwd=PROJECT
        )
        with ProcessUsage(process) as usage:
            try:
                code = process.wait(MOST_SECONDS)
            except psutil.TimeoutExpired:
                usage.end()
                code = None
    seconds = time.monotonic() - began - program.least
    if code != 0:
        what = f"ended after {seconds:.0f} s with {code}: {last_meaningful_line(log)}"
        raise FailedError(what)
    return Taken(seconds, usage.seconds, usage.memory)


def records(settings: Settings, topic: str) -> list[dict[str, Any]]:
    """All records of a topic."""
    consumer = KafkaConsumer(**client_options(settings), auto_offset_reset="earliest")
    parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(parts)
    ends = consumer.end_offsets(parts)
    found = []
    while any(consumer.position(part) < ends[part] for part in parts):
        for batch in consumer.poll(timeout_ms=500).values():
            found += [json.loads(record.value) for record in batch]
    consumer.close()
    return found


def answers(found: list[dict[str, Any]]) -> Answers:
    """Statistics by series and window. Raises FailedError where a window of a series comes twice."""
    rows = [row for row in found if "series" in row]
    by_window = {(row["series"], row["window_end"]): {name: row[name] for name in ("n", *VALUES)} for row in rows}
    if len(by_window) != len(rows):
        msg = f"{len(rows)} rows of {len(by_window)} windows"
        raise FailedError(msg)
    return by_window


def difference(ours: Answers, theirs: Answers) -> str:
    """The first difference of two answers, empty where there is none: same windows and counts, sums to rounding."""
    if ours.keys() != theirs.keys():
        odd = sorted(ours.keys() ^ theirs.keys())
        return f"{len(ours)} and {len(theirs)} windows; of one alone {odd[:3]}"
    for window, row in ours.items():
        other = theirs[window]
        if row["n"] != other["n"]:
            return f"{window}: n is {row['n']} and {other['n']}"
        # What is left of a sum of squares has their rounding: a few units in the last place of the sum itself.
        rounding = 1e-14 * row["n"] * max(abs(row["min"]), abs(row["max"]), 1.0) ** 2
        for name in VALUES:
            if not math.isclose(row[name], other[name], rel_tol=1e-12, abs_tol=rounding):
                return f"{window}: {name} is {row[name]} and {other[name]}"
    return ""


def compared(spark: SparkSession, settings: Settings, chosen: Sequence[Program]) -> dict[str, str | Taken]:
    """What each takes on a small topic, which is the cost of starting; for one whose answers differ or that fails, how."""
    own = written(spark, apart(settings, "small"), SMALL_EVENTS, SMALL_SERIES)
    found: dict[str, str | Taken] = {}
    ours: Answers = {}
    for program in chosen:
        try:
            taken = run(program, own, f"small-{program.name}")
            if program.answers and program.name == "kappa":
                ours = answers(records(own, own.topic("statistics")))
            elif program.answers:
                other = difference(ours, answers(records(own, f"small-{program.name}")))
                if other:
                    raise FailedError(other)
            found[program.name] = taken
            say(f"{program.name}: {taken.seconds:.1f} s, {taken.cores:.1f} core-seconds for {SMALL_EVENTS:,} events")
        except (NotInstalledError, FailedError) as error:
            found[program.name] = str(error)
            say(f"{program.name}: {error}")
    return found


def written(spark: SparkSession, settings: Settings, events: int, series: int) -> Settings:
    """The same settings, after their topic is written."""
    say(f"writing {events:,} events of {series:,} series")
    telemetry(spark, settings, events, series, in_order=True)
    close_windows(settings, far_ahead())
    return settings


def measure(
    spark: SparkSession, settings: Settings, events: int, series: int, runs: int, chosen: Sequence[Program]
) -> dict[str, dict[str, Any]]:
    """A row for each of the chosen: medians of `runs`, without what a start takes and with it."""
    started = compared(spark, settings, chosen)
    shares = sorted({program.share for program in chosen})
    logs = {
        share: written(spark, apart(settings, f"share-{n}"), int(events * share), series)
        for n, share in enumerate(shares)
    }
    taken: dict[str, list[Taken]] = {program.name: [] for program in chosen}
    for number in range(runs):
        for program in chosen:
            if isinstance(started[program.name], str):
                continue
            one = run(program, logs[program.share], f"run-{number}-{program.name}")
            taken[program.name].append(one)
            say(f"{program.name}: {one.seconds:.1f} s, {one.cores:.1f} core-seconds")
    return {c.name: row(c, int(events * c.share), started[c.name], taken[c.name]) for c in chosen}


def row(program: Program, events: int, start: str | Taken, taken: list[Taken]) -> dict[str, Any]:
    """The figures of one."""
    found: dict[str, Any] = {"what": program.what}
    if isinstance(start, str):
        return {**found, "error": start}
    longer = statistics.median(one.seconds for one in taken) - start.seconds
    more, millions = events - SMALL_EVENTS, (events - SMALL_EVENTS) / 1e6
    return {
        **found,
        "events": events,
        # With other work on the machine the longer run may have been the quicker one.
        "events_per_second": more / longer if longer > 0 else None,
        "core_seconds_per_million": statistics.median((one.cores - start.cores) / millions for one in taken),
        "start_seconds": start.seconds,
        "start_core_seconds": start.cores,
        "with_start_events_per_second": statistics.median(events / one.seconds for one in taken),
        "memory_mib": statistics.median(one.memory for one in taken) / 2**20,
    }
