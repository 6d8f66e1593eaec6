"""Faults that end in a refusal: it is written down, a restart does not get past it, and one documented command brings the version back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.settings import INPUTS, Settings
from app.kafka import log_marks
from app.kafka.checkpoints import consumed_offsets
from app.kafka.connection import client_options
from app.kafka.heartbeats import Heartbeats
from app.kafka.partitions import Partition
from benchmarks.chaos import losses
from benchmarks.chaos.fleet import pause
from benchmarks.chaos.outcome import ChaosFailed, RefusalRecord
from benchmarks.chaos.servers import KillableServer
from benchmarks.reached import announced, ends_of

RECOVER = ("recover",)
PATIENCE_SECONDS = 600.0
SAVEPOINT = "before-cut"
TORN_BYTES = 37  # of the first record that is lost
BACK_SECONDS = 120
AFTER_STEP = "after-step"
LEAST_GROWTH = 1.2


class Jobs(Protocol):
    """What is asked of the experiment."""

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, while the jobs are looked after."""

    def stop(self) -> None:
        """Stop the jobs."""

    def start(self, *arguments: str, names: tuple[str, ...] = ("all",)) -> None:
        """Start the jobs."""

    def refused(self, seconds: float) -> str:
        """Wait until the jobs end by themselves for good; answers their last line. Raises ChaosFailed where they do not."""

    def command(self, *arguments: str) -> dict[str, Any]:
        """Run a command of kappa; its answer. Raises ChaosFailed where it fails."""

    def follow(self, version: str) -> None:
        """From now on the jobs are those of another version."""


@dataclass(frozen=True)
class LossTarget:
    """Whose log loses records. `settings` reach Kafka; `jobs` are the live ones."""

    settings: Settings
    kafka: KillableServer
    jobs: Jobs


def refused_and_brought_back(kind: str, target: LossTarget) -> RefusalRecord:
    """A fault that ends in a refusal, and what the documentation says against it. The jobs run afterwards."""
    return step_back_and_replay(kind, target) if kind == "clock back" else lose_and_recover(kind, target)


def lose_and_recover(kind: str, target: LossTarget) -> RefusalRecord:
    """Take records from the log, see the jobs refuse to go on, twice, and do what the refusal says. They run afterwards."""
    own = kind.removeprefix("input ")
    kinds = INPUTS if kind.startswith("input ") else MADE[own]
    _await(target.jobs, lambda: _begun(target.settings, whole=kinds == INPUTS), f"the jobs to begin, for {kind}")
    TAKEN[own](kinds, target)
    return refused_and_mended(kind, target.jobs, RECOVER)


def refused_and_mended(kind: str, jobs: Jobs, command: tuple[str, ...]) -> RefusalRecord:
    """The running jobs end with a refusal; so does the next start; after the command the third one goes on."""
    began = time.monotonic()
    sentence = refused_twice(kind, jobs, f"kappa {command[0]}")
    answer = jobs.command(*command)
    jobs.start()
    return RefusalRecord(kind, sentence, " ".join(("kappa", *command)), answer, round(time.monotonic() - began, 1))


def refused_twice(kind: str, jobs: Jobs, named: str) -> str:
    """What the jobs say when they end for good, and again when they are started. It names the command against it."""
    first = jobs.refused(PATIENCE_SECONDS)
    jobs.start()
    second = jobs.refused(PATIENCE_SECONDS)
    if named not in first or named not in second:
        msg = f"{kind}: a refusal does not name `{named}`: {first!r}, after a restart {second!r}"
        raise ChaosFailed(msg)
    return second


def step_back_and_replay(kind: str, target: LossTarget) -> RefusalRecord:
    """The broker's clock goes back and is set right when the jobs have refused: another version makes the results, and serves."""
    jobs, settings, clock = target.jobs, target.settings, target.kafka.clock
    if clock is None:
        msg = f"{kind}: the broker has the clock of the machine"
        raise ChaosFailed(msg)
    _await(jobs, lambda: _begun(settings, whole=True), f"the jobs to begin, for {kind}")
    clock.step(-BACK_SECONDS)
    began = time.monotonic()
    sentence = refused_twice(kind, jobs, "kappa replay")
    clock.step(0)
    jobs.stop()
    # A version that goes on after a replay reads the records of the skew once more: those must not go back.
    ahead = BACK_SECONDS + settings.windowing.skew_seconds + settings.windowing.watermark_delay_seconds
    inputs = [settings.topic(kind) for kind in INPUTS]
    with Heartbeats(client_options(settings), inputs, settings.windowing):  # while no job sends any
        pause(ahead)
        jobs.command("replay", "--version", AFTER_STEP)
        answer = jobs.command("replay", "promote", AFTER_STEP)
    jobs.follow(AFTER_STEP)
    jobs.start()
    command = f"kappa replay --version {AFTER_STEP}; kappa replay promote {AFTER_STEP}"
    return RefusalRecord(kind, sentence, command, answer, round(time.monotonic() - began, 1))


def _begun(settings: Settings, *, whole: bool) -> bool:
    """Whether the log has been marked and every job has a checkpoint; with `whole` also whether there is a state to save."""
    jobs = ("extract", "detect", "correlate", "index")
    begun = bool(log_marks.read_marks(settings)) and all(consumed_offsets(settings.checkpoint(job)) for job in jobs)
    return begun and (not whole or announced(settings) >= 0)


# --- how records are taken


def _make_again(kinds: tuple[str, ...], target: LossTarget) -> None:
    losses.make_again(target.settings, kinds)


def _cut(kinds: tuple[str, ...], target: LossTarget) -> None:
    """Of what agents have written all that came after a savepoint is lost, of what the jobs have made a share.

    The jobs know of all that is lost: what came after they last marked the log would not be missed.
    """
    jobs, settings = target.jobs, target.settings
    if kinds == INPUTS:
        jobs.command("savepoint", "create", SAVEPOINT)
        keep = {file: size + TORN_BYTES for file, size in losses.sizes(settings, kinds, target.kafka).items()}
        enough = LEAST_GROWTH * sum(keep.values())
        _await(jobs, lambda: sum(losses.sizes(settings, kinds, target.kafka).values()) > enough, f"{kinds} to grow")
    else:
        _await(jobs, lambda: any(ends_of(settings, kinds).values()), f"records in {kinds}")
        keep = losses.shares(settings, kinds, target.kafka)
    ends = ends_of(settings, kinds)
    _await(jobs, lambda: _marked(settings, ends), f"{kinds} to be marked")
    losses.cut(settings, kinds, target.kafka, keep)


def _marked(settings: Settings, ends: Mapping[Partition, int]) -> bool:
    """Whether the jobs have kept marks of the log at these ends or later."""
    marks = log_marks.read_marks(settings)
    return all(
        any(topic in one and one[topic].ends.get(partition, (0, 0))[0] >= end for one in marks)
        for (topic, partition), end in ends.items()
    )


def _await(jobs: Jobs, condition: Callable[[], bool], what: str) -> None:
    if not jobs.wait_until(condition, PATIENCE_SECONDS):
        msg = f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}"
        raise ChaosFailed(msg)


def _delete_unread(kinds: tuple[str, ...], target: LossTarget) -> None:
    """Let records come that the next job does not read, and delete them."""
    jobs, settings = target.jobs, target.settings
    jobs.stop()
    if kinds != INPUTS:
        jobs.start(names=("extract",))
    reader = "extract" if kinds == INPUTS else "detect"

    def unread() -> bool:
        read, ends = consumed_offsets(settings.checkpoint(reader)), ends_of(settings, kinds)
        return read is not None and all(end > read.offsets.get(place, 0) for place, end in ends.items())

    _await(jobs, unread, f"records of {kinds} that {reader} has not read")
    jobs.stop()
    losses.delete_all(settings, kinds)
    jobs.start()


TAKEN: Mapping[str, Callable[[tuple[str, ...], LossTarget], None]] = {
    "topic made again": _make_again,
    "log cut": _cut,
    "records deleted unread": _delete_unread,
}
MADE: Mapping[str, tuple[str, ...]] = {
    "topic made again": ("statistics",),
    "log cut": losses.MADE_BY_JOBS,
    "records deleted unread": ("statistics",),
}
