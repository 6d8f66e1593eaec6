"""A promotion or a rollback that is killed on its way, and brought to its end by the same command."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.settings import PROJECT, Settings
from app.versions import replay_manifest, serving
from benchmarks.chaos.outcome import ChaosFailed
from benchmarks.chaos.processes import ended_with, kill_tree
from benchmarks.chaos.schedule import PlannedFault

CANDIDATE = "candidate"
COMMAND = (sys.executable, "-m", "app.cli")
MOST_SECONDS = 900.0
POLL_SECONDS = 0.1
START_SECONDS = 10.0
TRIES = 3

Wait = Callable[[float], None]


def promote_and_roll_back(fault: PlannedFault, file: Path, settings: Settings, wait: Wait) -> str:
    """Promote another version and roll back, with one of the two killed on its way. Answers when it was killed."""
    candidate = settings.model_copy(update={"version": CANDIDATE})
    replayed = replay_manifest.read(candidate)
    if replayed is None or not replayed.complete:
        finish(file, wait, "replay", "--version", CANDIDATE)
    hit = ""
    for what, arguments, version in (
        ("promotion", ("promote", CANDIDATE), CANDIDATE),
        ("rollback", ("rollback", "--to", settings.version), settings.version),
    ):
        if fault.kind.endswith(what):
            hit = killed(fault, file, settings, wait, arguments, version)
        finish(file, wait, "replay", *arguments)
        if serves(settings) != version:
            msg = f"kappa replay {' '.join(arguments)} has ended, and {serves(settings)} serves"
            raise ChaosFailed(msg)
    return hit


def killed(
    fault: PlannedFault, file: Path, settings: Settings, wait: Wait, arguments: tuple[str, ...], version: str
) -> str:
    """Begin a command and kill it: every second time when the serving interval is written, else some seconds after its start."""
    began = time.monotonic()
    latest = MOST_SECONDS if fault.number % 2 == 0 else START_SECONDS + fault.lasts
    with begun(file, "replay", *arguments) as process:
        while process.poll() is None and time.monotonic() - began < latest and serves(settings) != version:
            wait(POLL_SECONDS)
        written = serves(settings) == version
        done = kill_tree(process)
    at = "after the serving interval was written" if written else "before the serving interval was written"
    return f"after {time.monotonic() - began:.0f} s, {at}" if done is None else f"it had ended with {done}"


def finish(file: Path, wait: Wait, *arguments: str) -> None:
    """Run a command to its end, several times if it has to be. Raises ChaosFailed where it does not succeed."""
    codes = []
    for _ in range(TRIES):
        began = time.monotonic()
        with begun(file, *arguments) as process:
            while process.poll() is None and time.monotonic() - began < MOST_SECONDS:
                wait(POLL_SECONDS)
            codes.append(kill_tree(process))
        if codes[-1] == 0:
            return
    msg = f"kappa {' '.join(arguments)}: exit codes {codes}"
    raise ChaosFailed(msg)


@contextmanager
def begun(file: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of kappa, which does not outlive the block."""
    whole = [*COMMAND, *arguments, "--config", str(file)]
    with file.with_name("commands.log").open("ab") as log:
        log.write(f"--- kappa {' '.join(arguments)}\n".encode())
        log.flush()
        process = subprocess.Popen(whole, stdout=log, stderr=log, cwd=PROJECT)
    with ended_with(process):
        yield process


def serves(settings: Settings) -> str:
    """The version that serves."""
    return serving.read(settings.home).version
