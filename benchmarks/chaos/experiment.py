"""A run: servers, jobs and a fleet, faults after a schedule, then a run without faults of the same log, and the comparison."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from app.core.settings import PROJECT, Settings, load
from app.core.timestamps import iso, wall_clock
from app.kafka import topics
from app.kafka.checkpoints import last_committed
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.versions.replay_manifest import RESULT_KINDS
from benchmarks.chaos import comparison
from benchmarks.chaos.clock import SteppedClock
from benchmarks.chaos.disks import small_disks
from benchmarks.chaos.faults import FaultTarget, inject
from benchmarks.chaos.fleet import LiveFleet, pause
from benchmarks.chaos.http_faults import FaultyProxy
from benchmarks.chaos.outcome import ChaosFailed, ChaosOutcome, FaultRecord
from benchmarks.chaos.processes import LiveJobs, ended_with
from benchmarks.chaos.refusals import LossTarget, refused_and_brought_back
from benchmarks.chaos.schedule import PlannedFault
from benchmarks.chaos.servers import KillableServer
from benchmarks.deployment import machine, say
from benchmarks.reached import announced, ends_of, share_read
from pipelines.errors import KappaError

FAULT_FREE = "fault-free"
WITHOUT_HEARTBEATS = "--no-heartbeats"
WINDOW_SECONDS, LATENESS_SECONDS = 5, 5
POLL_SECONDS = 0.25
MOST_PATIENCE = 180.0  # seconds that an aimed fault waits for its batch
MOST_ENDS = 20  # jobs that end so often by themselves without a committed batch are not going to recover
BACK_OFF_SECONDS = 1.0
STOP_SECONDS = 90.0
READ_BY = {
    "extract": topics.INPUTS,
    "detect": ("statistics",),
    "correlate": ("novelties",),
    "index": ("novelties", "incidents", "late", "dead-letters", "scores"),
}
COUNTS = ("only_left", "only_right", "different")


@dataclass(frozen=True)
class ChaosPlan:
    """Sizes of a run. It ends after so many seconds or faults, whichever comes first.

    `disks`: checkpoints and the servers' data are on small file systems of their own. `clock`: the broker's clock can be stepped.
    `own_heartbeats`: heartbeats do not come from the jobs, so that these need no start without them to come to an end.
    """

    seed: int
    seconds: float
    faults: int | None = None
    hosts: int = 6
    drain_seconds: float = 900.0
    disks: bool = False
    clock: bool = False
    own_heartbeats: bool = False


FaultFreeRun = Callable[[Settings], object]


def settings_file(
    file: Path, home: Path, jars: Path, kafka: str, elasticsearch: str, version: str = "live", prefix: str = ""
) -> Path:
    """Settings as a user would write them, with short windows so that there are many."""
    file.write_text(
        f"""
home = "{home}"
jar_folder = "{jars}"
version = "{version}"
[windowing]
window_seconds = {WINDOW_SECONDS}
lateness_seconds = {LATENESS_SECONDS}
shards = 4
[topics]
prefix = "{prefix}"
telemetry_partitions = 2
logs_partitions = 1
partitions = 2
[kafka]
bootstrap_servers = "{kafka}"
[elasticsearch]
url = "{elasticsearch}"
[index]
scores = true
[detection]
warm_up_minutes = 2
[spark]
driver_memory = "1g"
trigger_seconds = 0.5
master = "local[2]"
max_records_per_batch = 20000
"""
    )
    return file


class Experiment:
    """The jobs under faults. `look_after` starts them again where they have ended, which is all the help they get."""

    def __init__(self, settings: Settings, file: Path, jobs: LiveJobs, outcome: ChaosOutcome) -> None:
        self.settings, self._file, self._jobs, self._outcome = settings, file, jobs, outcome
        self._pending: list[tuple[FaultRecord, float]] = []
        self._ends = 0
        self._reached = -1
        self._arguments: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ("all",)
        self._stopped = False

    def start(self, *arguments: str, names: tuple[str, ...] = ("all",)) -> None:
        """Start the jobs; they are started with the same arguments from then on."""
        self._arguments, self._names, self._stopped = arguments, names, False
        self._jobs.start(*arguments, names=names)

    def stop(self) -> None:
        """Stop the jobs; nobody starts them again until `start`."""
        self._stopped = True
        try:
            self._jobs.stop(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # it was starting: that is not interrupted
            self._jobs.end()

    def refused(self, seconds: float) -> str:
        """Wait until the jobs end by themselves for good; answers their last line. Raises ChaosFailed where they do not."""
        deadline = time.monotonic() + seconds
        while self._jobs.running:
            if time.monotonic() > deadline:
                msg = f"the jobs still ran {seconds:.0f} s after what should have ended them: {self._jobs.last_words()}"
                raise ChaosFailed(msg)
            pause(POLL_SECONDS)
        if not self._jobs.exit_code:
            msg = f"the jobs ended with {self._jobs.exit_code}, wanted a refusal: {self._jobs.last_words()}"
            raise ChaosFailed(msg)
        return self._jobs.last_words(1)

    def command(self, *arguments: str) -> dict[str, Any]:
        """A command's JSON object. Raises ChaosFailed with its output if it fails."""
        return kappa(self._file, *arguments)

    def follow(self, version: str) -> None:
        """From now on the jobs are those of another version."""
        self.settings = self.settings.model_copy(update={"version": version})

    def lost(self, kind: str, kafka: KillableServer) -> str:
        """A fault that ends in a refusal; answers what brought the jobs back."""
        found = refused_and_brought_back(kind, LossTarget(self.settings, kafka, self))
        self._outcome.refusals.append(found)
        self._reached = -1
        return f"refused twice; {found.command} after {found.seconds:.0f} s"

    def committed(self) -> int:
        """The number of extract's last batch."""
        number = last_committed(self.settings.checkpoint("extract"))
        return -1 if number is None else number

    def look_after(self) -> None:
        """Look after the jobs. Raises ChaosFailed where they refuse to go on, or end again and again."""
        reached = self.committed()
        if reached > self._reached:
            self._reached, self._ends = reached, 0
            at = time.monotonic()
            for fault, since in self._pending:
                fault.progress_after_seconds = round(at - since, 1)
            self._pending = []
        if self._jobs.running or self._stopped:
            return
        code, words = self._jobs.exit_code, self._jobs.last_words()
        refusal = self.settings.checkpoint("violation.json")
        if refusal.exists():
            msg = f"the jobs refuse to go on: {refusal.read_text()}"
            raise ChaosFailed(msg)
        if code is not None and code >= 0:
            self._outcome.ended_by_themselves.append(f"{code}: {words[-300:]}")
            self._ends += 1
            say(f"  the jobs ended by themselves with {code}: {words[-300:]}")
            if self._ends > MOST_ENDS:
                msg = f"the jobs ended {self._ends} times without a batch: {words}"
                raise ChaosFailed(msg)
            pause(BACK_OFF_SECONDS)
        self._jobs.start(*self._arguments, names=self._names)

    def wait(self, seconds: float) -> None:
        """Wait, and look after the jobs meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.look_after()
            pause(min(POLL_SECONDS, left))

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; whether it came true in time. While a server is away it has not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.look_after()
            try:
                if condition():
                    return True
            except KappaError:
                pass
            pause(POLL_SECONDS)
        return False

    def do(self, fault: PlannedFault, target: FaultTarget) -> None:
        """Wait for the moment of a fault, and do it."""
        if fault.batches:
            wanted = self.committed() + fault.batches
            self.wait_until(lambda: self.committed() >= wanted, MOST_PATIENCE)
        self.wait(fault.wait)
        at, batch, began = wall_clock(), self.committed(), time.monotonic()
        hit = inject(fault, target)
        record = FaultRecord(fault.number, fault.kind, iso(at), hit, batch, round(time.monotonic() - began, 1))
        self._outcome.faults.append(record)
        self.look_after()  # a batch that was committed meanwhile is none of afterwards
        self._pending.append((record, time.monotonic()))
        say(f"{iso(at)} {fault.number:4} {fault.kind}: {hit or 'nothing to hit'} (after batch {batch})")

    def drain(self, seconds: float) -> None:
        """Let the jobs finish all that is in the log, and stop them. Raises ChaosFailed where they do not get there."""
        until = wall_clock()
        say("the faults are over: the jobs finish what is in the log")
        if WITHOUT_HEARTBEATS not in self._arguments:
            self.stop()
            self.start(WITHOUT_HEARTBEATS)
        with self.heartbeats():
            self._reach(lambda: announced(self.settings) >= until, seconds, "all windows")
        self._reach(self._all_read, seconds, "all jobs to read all")
        if self._jobs.stop() != 0:
            msg = f"the jobs did not stop cleanly: {self._jobs.exit_code}: {self._jobs.last_words()}"
            raise ChaosFailed(msg)

    def heartbeats(self) -> Heartbeats:
        """Heartbeats that do not come from the jobs."""
        inputs = [self.settings.topic(kind) for kind in topics.INPUTS]
        return Heartbeats(client_options(self.settings), inputs, self.settings.windowing)

    def _reach(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        if not self.wait_until(condition, seconds):
            msg = f"waited {seconds:.0f} s in vain for {what}: {self._jobs.last_words()}"
            raise ChaosFailed(msg)

    def _all_read(self) -> bool:
        """Whether every job has read all there is, and nothing has come of it for a while."""
        kinds = (*topics.INPUTS, *topics.OUTPUTS)
        before = ends_of(self.settings, kinds)
        for _ in range(8):
            if any(share_read(self.settings, job, read) < 1.0 for job, read in READ_BY.items()):
                return False
            pause(0.5)
        return ends_of(self.settings, kinds) == before


def kappa(file: Path, *arguments: str) -> dict[str, Any]:
    """A command's JSON object. Raises ChaosFailed with its output if it fails."""
    command = [sys.executable, "-m", "app.cli", *arguments, "--json", "--config", str(file)]
    piped = subprocess.PIPE
    with ended_with(subprocess.Popen(command, stdout=piped, stderr=piped, text=True, cwd=PROJECT)) as process:
        out, err = process.communicate()
    if process.returncode != 0:
        msg = f"kappa {' '.join(arguments)}: exit {process.returncode}: {err.strip()[-1000:]}"
        raise ChaosFailed(msg)
    answer: dict[str, Any] = json.loads(out)
    return answer


@contextmanager
def servers(
    home: Path, jars: Path, clock: SteppedClock | None = None
) -> Iterator[tuple[KillableServer, KillableServer]]:
    """A broker, perhaps with a clock of its own, and an Elasticsearch node below a folder, started side by side."""
    kafka = KillableServer("kafka", home / "kafka", jars, clock=clock)
    elasticsearch = KillableServer("elasticsearch", home / "elasticsearch", jars)
    try:
        with ThreadPoolExecutor(2 if clock is None else 1) as threads:  # its environment is that of this process
            list(threads.map(KillableServer.start, (kafka, elasticsearch)))
        yield kafka, elasticsearch
    finally:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(KillableServer.end, (kafka, elasticsearch)))


def run(
    plan: ChaosPlan, faults: Iterable[PlannedFault], home: Path, jars: Path, fault_free_run: FaultFreeRun | None = None
) -> ChaosOutcome:
    """All of it. The folder must be new; it is left as it is.

    `fault_free_run` replays the log under the version of the settings that it gets; without it the command line does, and `kappa
    replay diff` compares.
    """
    outcome = ChaosOutcome(plan.seed, machine())
    began = time.monotonic()
    disks: AbstractContextManager[dict[str, Path]] = small_disks(home) if plan.disks else nullcontext({})
    with (
        disks as filled,
        servers(home, jars, SteppedClock(home / "clock") if plan.clock else None) as (kafka, elasticsearch),
        FaultyProxy(elasticsearch.address) as proxy,
    ):
        file = settings_file(home / "kappa.toml", home, jars, kafka.address, proxy.url)
        fault_free_file = settings_file(
            home / "fault-free.toml", home, jars, kafka.address, elasticsearch.address, FAULT_FREE
        )
        settings, fault_free = load(file), load(fault_free_file)
        topics.create(settings)
        hours = plan.seconds / 3600 + 1.0
        with LiveJobs(file, home / "run.log") as jobs:
            experiment = Experiment(settings, file, jobs, outcome)
            try:
                beats: AbstractContextManager[object] = (
                    experiment.heartbeats() if plan.own_heartbeats else nullcontext()
                )
                with LiveFleet(settings, plan.seed, plan.hosts, WINDOW_SECONDS, hours) as fleet, beats:
                    direct = fault_free.model_copy(update={"version": settings.version})
                    lost = partial(experiment.lost, kafka=kafka)
                    target = FaultTarget(kafka, elasticsearch, proxy, jobs, direct, file, experiment.wait, lost, filled)
                    experiment.start(*([WITHOUT_HEARTBEATS] if plan.own_heartbeats else []))
                    for fault in islice(faults, plan.faults):
                        experiment.do(fault, target)
                        if time.monotonic() - began > plan.seconds:
                            break
                    outcome.chaos_seconds = round(time.monotonic() - began, 1)
                    fleet.stop()
                    outcome.events = fleet.events
                began = time.monotonic()
                experiment.drain(plan.drain_seconds)
                outcome.drain_seconds = round(time.monotonic() - began, 1)
                began = time.monotonic()
                if fault_free_run is None:
                    by_command(outcome, fault_free_file, experiment.settings.version)
                else:
                    fault_free_run(fault_free)
                compare(outcome, experiment.settings, fault_free)
                outcome.fault_free_seconds = round(time.monotonic() - began, 1)
            except (ChaosFailed, KappaError, subprocess.TimeoutExpired) as error:
                outcome.failure = str(error)
            outcome.starts = jobs.starts
    return outcome


def by_command(outcome: ChaosOutcome, fault_free_file: Path, version: str) -> None:
    """The run without faults and the first comparison as a user has them."""
    say("run without faults: kappa replay")
    kappa(fault_free_file, "replay", "--version", FAULT_FREE)
    found = kappa(fault_free_file, "replay", "diff", version, FAULT_FREE)
    counts = {"scores": found, "novelties": found["novelties"], "incidents": found["incidents"]}
    unequal = sum(counts[kind][name] for kind in RESULT_KINDS for name in COUNTS) + sum(found["conflicts"].values())
    outcome.replay_diff = {"differences": unequal, "windows": found["windows"], "conflicts": found["conflicts"]}
    say(f"kappa replay diff: {unequal} differences in {found['windows']['compared']} windows")


def compare(outcome: ChaosOutcome, settings: Settings, fault_free: Settings) -> None:
    """Every record and document of both, whichever windows they belong to."""
    outcome.records = comparison.compare_records(fault_free, settings)
    direct = fault_free.model_copy(update={"version": settings.version})
    outcome.documents = comparison.compare_documents(fault_free, direct)
    outcome.topics_and_documents = comparison.compare_with_topics(direct)
