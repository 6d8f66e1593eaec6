"""`python -m benchmarks.proof`: live against replay on millions of events, and with the live jobs killed again and again.

A simulated fleet with disorder, late records, a wrong clock and an idle partition is appended to a log of its own. `kappa
run all` processes it and is killed with SIGKILL at random moments; half-way a savepoint is taken of the running jobs. Then
`kappa replay` runs over the same log with 1, 2 and 8 partitions and from the savepoint, and `kappa replay diff` holds each
against what ran live: any difference violates the determinism rules, and gives exit code 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from app.core.settings import PROJECT, Settings, load
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.checkpoints import last_committed
from app.kafka.connection import admin_client, client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.producer import BoundedProducer
from app.simulator import SimulatorSettings, simulate
from app.simulator.publish import Target, to_kafka
from app.versions.replay_manifest import RESULT_KINDS
from benchmarks.deployment import close_windows, machine, say
from benchmarks.reached import announced, share_read

RESULTS = Path(__file__).parent / "results"
WINDOW_SECONDS = 60
TELEMETRY, LOGS, OUTPUTS = 4, 3, 4
EVENTS_OF_A_HOST = 21 * 360  # in an hour
LATE_SHARE = 0.003
READ_BY = {"correlate": ("novelties",), "index": ("novelties", "incidents", "late", "dead-letters")}
LEAST_LIFE, MOST_LIFE = 8.0, 50.0  # seconds; about half of them are the start and the first batch
STATE = "proof.json"
MOST_BATCHES, MOST_WAIT = 5, 120.0
COUNTS = ("left", "right", "only_left", "only_right", "different")


@dataclass(frozen=True)
class Chosen:
    """What to run: sizes and the seed of fleet and kills."""

    events: int
    kills: int
    seed: int

    @property
    def hosts(self) -> int:
        return max(6, round(math.sqrt(self.events / 350)))

    @property
    def batch(self) -> int:
        """Small enough for a kill to fall into any of them, and not so small that batches are all overhead."""
        return min(2_000_000, max(2_000, self.events // max(10, 2 * self.kills)))


# --- the deployment


def settings_file(home: Path, jars: Path, servers: Addresses, chosen: Chosen) -> Path:
    """Settings as a user would write them."""
    file = home / "kappa.toml"
    file.write_text(
        f"""
home = "{home}"
jar_folder = "{jars}"
[windowing]
window_seconds = {WINDOW_SECONDS}
shards = 8
[topics]
timestamps = "create"
telemetry_partitions = {TELEMETRY}
logs_partitions = {LOGS}
partitions = {OUTPUTS}
[kafka]
bootstrap_servers = "{servers.kafka}"
[elasticsearch]
url = "{servers.elasticsearch}"
[spark]
driver_memory = "3g"
max_records_per_batch = {chosen.batch}
trigger_seconds = 0.2
"""
    )
    return file


def fill(settings: Settings, chosen: Chosen) -> tuple[int, int, int]:
    """Write the log. Answers how many events there are, and from when to when their windows end (ms).

    The last partition of telemetry is made after the fleet has spoken, so that nothing but heartbeats is in it.
    """
    fewer = settings.topics.model_copy(update={"telemetry_partitions": TELEMETRY - 1})
    topics.create(settings.model_copy(update={"topics": fewer}))
    hours = chosen.events / EVENTS_OF_A_HOST / chosen.hosts
    simulation = simulate(SimulatorSettings(chosen.hosts, hours, chosen.seed, late_share=LATE_SHARE))
    names = {kind: settings.topic(kind) for kind in topics.INPUTS}
    sent = to_kafka(simulation, Target(client_options(settings), names), on_progress=tenths())
    client = admin_client(settings)
    client.create_partitions({names["telemetry"]: TELEMETRY})
    client.close()
    last = sent.until - 1000
    with BoundedProducer(client_options(settings)) as outbox:
        for at in range(simulation.settings.start, sent.until, 1000):
            queue_heartbeats(outbox, [(names["telemetry"], TELEMETRY - 1)], at)
    length = 1000 * WINDOW_SECONDS
    return sent.events, simulation.settings.start, last // length * length + length


def tenths() -> Callable[[int, int], None]:
    """Reports each tenth of about `total` events."""
    reported = 0

    def progress(done: int, total: int) -> None:
        nonlocal reported
        if 10 * done // max(total, 1) > reported:
            reported = 10 * done // max(total, 1)
            say(f"{done:,} of about {total:,} events written")

    return progress


# --- the live jobs


@contextmanager
def live_jobs(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kappa run all` in a process group of its own, which does not outlive the block."""
    command = [sys.executable, "-m", "app.cli", "run", "all", "--config", str(file), "--no-heartbeats"]
    with (file.parent / "run.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=PROJECT)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_again_and_again(file: Path, settings: Settings, chosen: Chosen, middle: Middle) -> list[float]:
    """Start the jobs and kill them at a random moment. Answers how many seconds each start has lived.

    Half of the moments are drawn without looking, so that some fall into the start itself; the others come after some
    batches, so that the jobs get on. Every second kill takes the JVM along at once; the others leave it up to a second to
    find out that it is alone.
    """
    chance = random.Random(chosen.seed)
    lived = []
    for number in range(chosen.kills):
        began = time.monotonic()
        with live_jobs(file) as process:
            if number % 4 < 2:
                pause(chance.uniform(LEAST_LIFE, MOST_LIFE))
            else:
                more = committed(settings) + chance.randint(1, MOST_BATCHES)
                wait_for(partial(has_committed, settings, more), process, MOST_WAIT, None)
                pause(chance.uniform(0.0, 4.0))
            if announced(settings) >= middle.at:
                with suppress(RuntimeError):  # there is another occasion, at the latest when they finish
                    middle.take(file)
            if process.poll() is not None:
                ended(file, process)
            process.kill()
            if number % 2:
                process.wait()
                pause(chance.uniform(0.0, 1.0))
        lived.append(round(time.monotonic() - began, 1))
        read = share_read(settings, "extract", topics.INPUTS)
        say(f"kill {number + 1} of {chosen.kills} after {lived[-1]} s; {read:.0%} of the log has been read")
    return lived


def finish(file: Path, settings: Settings, last: int, middle: Middle) -> None:
    """Wait until the jobs have finished all windows, episode events and documents; then stop them by SIGTERM."""
    with live_jobs(file) as process:
        wait_for(lambda: announced(settings) >= middle.at, process, 1800, "half of the windows")
        middle.take(file)
        wait_for(lambda: announced(settings) >= last, process, 1800, "the last window")
        for job in ("correlate", "index"):
            wait_for(partial(caught_up, settings, job), process, 600, f"{job} to read all")
        process.send_signal(signal.SIGTERM)
        if process.wait(timeout=120) != 0:
            ended(file, process)


class Middle:
    """A savepoint of the running jobs, taken once, when half of the windows are done (`at`, ms)."""

    def __init__(self, at: int, report: dict[str, Any]) -> None:
        self.at = at
        self._report = report

    def take(self, file: Path) -> None:
        """Take it, where it has not been taken."""
        if "savepoint" not in self._report:
            made = kappa(file, "savepoint", "create", "middle")
            self._report["savepoint"] = {name: made[name] for name in ("watermark", "correlated", "series", "hash")}
            keep(file, self._report)
            say(f"savepoint of the running jobs at {made['watermark']}: {made['series']:,} series")


def committed(settings: Settings) -> int:
    """The number of extract's last batch."""
    number = last_committed(settings.checkpoint("extract"))
    return -1 if number is None else number


def has_committed(settings: Settings, batch: int) -> bool:
    """Whether extract has committed a batch of this number."""
    return committed(settings) >= batch


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float, what: str | None) -> None:
    """Raise RuntimeError when it takes too long for `what`, if that is given, or when the jobs end by themselves."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            msg = f"the jobs ended by themselves with {process.returncode}; see run.log"
            raise RuntimeError(msg)
        if time.monotonic() > deadline:
            if what is None:
                return
            msg = f"waited {seconds:.0f} s in vain for {what}"
            raise RuntimeError(msg)
        pause(0.5)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def ended(file: Path, process: subprocess.Popen[bytes]) -> None:
    msg = f"the jobs ended with {process.returncode}: {(file.parent / 'run.log').read_text()[-500:]}"
    raise RuntimeError(msg)


def caught_up(settings: Settings, job: str) -> bool:
    """Whether a job has read all that is there for it now."""
    return share_read(settings, job, READ_BY[job]) >= 1.0


# --- the command line, as a user has it


def kappa(file: Path, *arguments: str) -> dict[str, Any]:
    """A command's JSON object. Raises RuntimeError with its output if it fails."""
    command = [sys.executable, "-m", "app.cli", *arguments, "--json", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    if done.returncode != 0:
        msg = f"kappa {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-1000:]}"
        raise RuntimeError(msg)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def replayed(file: Path, version: str, *arguments: str) -> dict[str, Any]:
    """A replay, and how it differs from what ran live."""
    say(f"replay {version}: {' '.join(arguments)}")
    began = time.monotonic()
    made = kappa(file, "replay", "--version", version, "--no-index", *arguments)
    seconds = time.monotonic() - began
    found = kappa(file, "replay", "diff", "live", version)
    counts = {"scores": found, "novelties": found["novelties"], "incidents": found["incidents"]}
    result = {
        "version": version,
        "arguments": arguments,
        "events": made["counts"]["events"],
        "seconds": made["seconds"],
        "wall_seconds": round(seconds, 1),
        "events_per_second": round(made["counts"]["events"] / made["seconds"]),
        "windows": found["windows"],
        "conflicts": found["conflicts"],
        **{kind: {name: counts[kind][name] for name in COUNTS} for kind in RESULT_KINDS},
    }
    say(json.dumps(result))
    return result


def differences(result: dict[str, Any]) -> int:
    """How many records of two versions differ; anything but 0 violates the determinism rules."""
    both = sum(result[kind][name] for kind in RESULT_KINDS for name in COUNTS[2:])
    return int(both + sum(result["conflicts"].values()))


def keep(file: Path, report: dict[str, Any]) -> None:
    """What is known so far, so that a run that is broken off can go on."""
    (file.parent / STATE).write_text(json.dumps(report, indent=2) + "\n")


def prove(file: Path, settings: Settings, chosen: Chosen, report: dict[str, Any]) -> dict[str, Any]:
    """All steps in order; continues where `report` says that an earlier run has stopped."""
    began = time.monotonic()
    if "windows" not in report:
        events, *windows = fill(settings, chosen)
        report |= {"events": events, "windows": windows, "fill_seconds": round(time.monotonic() - began, 1)}
        keep(file, report)
        say(f"{events:,} events of {chosen.hosts} hosts in {report['fill_seconds']} s; batches of {chosen.batch:,}")
    first, last = report["windows"]
    middle = Middle((first + last) // 2, report)
    began = time.monotonic()
    if "lived_seconds" not in report:
        report["lived_seconds"] = kill_again_and_again(file, settings, chosen, middle)
        report["read_when_last_killed"] = round(share_read(settings, "extract", topics.INPUTS), 3)
        keep(file, report)
    # A job that starts again knows no watermark of a partition before a record of it comes.
    close_windows(settings, last + 1000 * (settings.windowing.watermark_delay_seconds + 10 * WINDOW_SECONDS))
    finish(file, settings, last, middle)
    report["live_seconds"] = round(time.monotonic() - began, 1)
    say(f"live: {report['live_seconds']} s with {chosen.kills} kills")
    replays = [replayed(file, f"again-{n}", "--partitions", str(n)) for n in (1, 2, 8)]
    replays.append(replayed(file, "from-middle", "--savepoint", "middle"))
    return {**report, "replays": replays, "differences": sum(map(differences, replays))}


def table_of(report: dict[str, Any]) -> Table:
    """For people."""
    view = Table(title=f"live against replay: {report['events']:,} events", title_justify="left")
    for column in ("replay", "events", "seconds", "events/s", "", *COUNTS):
        view.add_column(column, justify="right")
    for result in report["replays"]:
        about = [result["version"], f"{result['events']:,}", f"{result['seconds']:.1f}"]
        about.append(f"{result['events_per_second']:,}")
        for number, kind in enumerate(RESULT_KINDS):
            own = about if number == 0 else [""] * len(about)
            view.add_row(*own, kind, *(f"{result[kind][name]:,}" for name in COUNTS))
    return view


def main() -> int:
    """Prove, print, write. Answers the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20260105)
    parser.add_argument("--resume", action="store_true", help="go on with the log and the jobs of a run broken off")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the table")
    options = parser.parse_args()
    chosen = Chosen(options.events, options.kills, options.seed)
    about, base = machine(), load()
    home = base.home / "bench-proof"
    known: dict[str, Any] = {}
    if options.resume:
        known = json.loads((home / STATE).read_text())
    else:
        shutil.rmtree(home, ignore_errors=True)
    with running_stack(Stack(home, jars=base.jars, kafka_heap_mib=1024), say) as servers:
        file = settings_file(home, base.jars, servers, chosen)
        report = prove(file, load(file), chosen, known)
    report = {"machine": about, "arguments": vars(options), **report}
    RESULTS.mkdir(exist_ok=True)
    out = RESULTS / f"proof-{datetime.now(tz=UTC).strftime('%Y%m%dT%H%M%SZ')}.json"
    out.write_text(json.dumps(report, indent=2) + "\n")
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 130)
        console.print(table_of(report))
        console.print(f"{report['differences']} differences; written to {out}")
    return 1 if report["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
