"""The parent of `kappa run`, as a process with children that have no jobs: kills, hangs, giving up, stopping, orphans."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import typer

from app.cli.run import telling
from app.core.settings import PROJECT
from app.supervision.link import ChildError, ParentLink, Unsupervised
from app.supervision.parent import Parent, SupervisedCommand
from app.supervision.policy import RestartLimits
from pipelines.errors import CheckpointLost, InputError, OfAnotherRelease

QUICK = RestartLimits(first_seconds=0.02, most_seconds=0.05, most_in_vain=3)
SECONDS = 30.0
STOPPED = re.compile(r"\S+ \[info +\] stopping after the batch in hand +at_most_seconds=120\n")
SEARCHED = os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])


class Supervised:
    """A parent, and what its children leave."""

    def __init__(self, folder: Path, what: SupervisedCommand) -> None:
        self.folder = folder
        self.errors = folder / "stderr"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.supervision.parent", what.to_json()],
                stderr=errors,
                cwd=PROJECT,
                env=os.environ | {"PYTHONPATH": SEARCHED},
            )

    def start(self, number: int) -> dict[str, Any]:
        """What the child of a start says of itself; waits for it."""
        file = self.folder / f"{number}.json"
        until(file.exists, f"start {number}")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def end(self) -> int:
        return self.process.wait(SECONDS)

    @property
    def output(self) -> str:
        return re.sub(r"\x1b\[\d*m", "", self.errors.read_text())

    def pids(self) -> list[int]:
        return [pid for file in self.folder.glob("*.json") for pid in json.loads(file.read_text())["pids"]]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline, waiting = time.monotonic() + SECONDS, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        waiting.wait(0.01)


def gone(pids: list[int]) -> bool:
    def ended(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return all(map(ended, pids))


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a parent whose children do as they are asked, one word for each start."""
    started: list[Supervised] = []

    def begin(*plan: str, **more: Any) -> Supervised:
        command = (sys.executable, "-m", "support.supervised_child", str(tmp_path), *plan)
        quick = {"dump_seconds": 0.1, "hung_seconds": 0.5, "leave_seconds": 0.2, "limits": QUICK, "log": "spark.log"}
        started.append(Supervised(tmp_path, SupervisedCommand(command, **{**quick, **more})))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.wait()
        until(lambda one=one: gone(one.pids()), "children to end")  # type: ignore[misc]


def test_a_killed_child_is_started_again_and_knows_of_it(start: Start) -> None:
    parent = start("killed", "stays")
    second = parent.start(1)
    assert (second["restarts"], second["last_error"].partition(";")[0]) == (1, "killed by SIGKILL")
    assert second["killed"]
    assert "jobs ended" in parent.output
    assert "SIGKILL" in parent.output
    first = parent.start(0)
    assert gone(first["pids"]), "what the first child has started must end before the second begins"


def test_a_child_that_hangs_is_ended_and_started_again(start: Start) -> None:
    parent = start("stopped", "stays", stale_seconds=0.5)
    second = parent.start(1)
    assert second["last_error"].startswith("job has made no progress for")
    assert not second["killed"]
    assert "jobs hang: ending them" in parent.output
    assert gone(parent.start(0)["pids"])


def test_a_child_that_hangs_because_kafka_is_away_says_so_and_nothing_about_its_batch(start: Start) -> None:
    second = start("hindered", "stays", stale_seconds=0.5).start(1)
    assert second["last_error"].startswith("job has made no progress for")
    assert second["last_error"].endswith("; heartbeats are not written: Kafka does not answer")
    assert second["killed"], "no record is to be searched for"


def test_a_child_that_makes_no_first_progress_is_ended_too(start: Start) -> None:
    parent = start("silent", "stays", stale_seconds=0.2, start_seconds=3.0)  # Python may take a second to start
    assert parent.start(1)["last_error"].startswith("job has made no progress for")
    assert (parent.folder / "asked for stacks").exists()
    assert (parent.folder / "asked to stop").exists()


def test_limits_grow_while_a_child_hangs_so_that_what_is_slow_gets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", SEARCHED)
    command = (sys.executable, "-m", "support.supervised_child", str(tmp_path), "silent")
    what = SupervisedCommand(
        command, stale_seconds=0.1, start_seconds=0.1, dump_seconds=0, hung_seconds=0.1, limits=QUICK
    )
    parent = Parent(what, os.pipe()[0])
    assert parent.run() == 1
    assert parent.patience == 2.0**QUICK.most_in_vain


def test_it_gives_up_in_one_line_that_says_what_to_do(start: Start) -> None:
    parent = start("silent", stale_seconds=0.1, start_seconds=0.1)
    assert parent.end() == 1
    last = parent.output.splitlines()[-1]
    assert last.startswith("kappa: gave up after 3 starts in a row without progress of every job; the last one: ")
    assert "spark.log" in last
    assert gone(parent.pids())


def test_with_json_every_line_of_the_parent_is_an_object(start: Start) -> None:
    parent = start("silent", stale_seconds=0.1, start_seconds=0.1, log_format="json")
    assert parent.end() == 1
    lines = [json.loads(line) for line in parent.errors.read_text().splitlines()]
    assert [line["event"] for line in lines[:3]] == ["jobs hang: ending them", "jobs ended", "jobs start again"]
    assert lines[1]["why"]
    assert lines[-1]["level"] == "critical" and lines[-1]["event"].startswith("gave up after 3 starts in a row")


def test_a_child_that_makes_progress_before_it_fails_is_started_again_without_end(start: Start) -> None:
    parent = start(*["fails"] * (QUICK.most_in_vain + 2), "stays")
    assert parent.start(QUICK.most_in_vain + 2)["last_error"] == "the job failed"
    assert not parent.start(QUICK.most_in_vain + 2)["killed"]


def test_a_job_that_waits_for_its_server_does_not_let_the_others_be_given_up(start: Start) -> None:
    parent = start(*["waits"] * (QUICK.most_in_vain + 2), "stays", until_progress=("--accept-gap",))
    last = parent.start(QUICK.most_in_vain + 2)
    assert last["extra"][:1] == ["--accept-gap"], "it has not read on yet"


def test_a_job_that_waits_is_no_progress_where_no_other_has_any(start: Start) -> None:
    parent = start("waits alone")
    assert parent.end() == 1
    assert "gave up after 3 starts" in parent.output


def test_what_a_restart_cannot_mend_ends_it_at_once_with_the_childs_line(start: Start) -> None:
    parent = start("lasting")
    assert parent.end() == 1
    assert parent.output == "kappa: a setting is wrong\n"
    assert len(list(parent.folder.glob("*.json"))) == 1


def test_a_server_that_is_away_is_waited_for(start: Start) -> None:
    parent = start(*["away"] * 5, "stays")
    assert parent.start(5)["restarts"] == 5
    assert "waiting for a server" in parent.output
    assert "Kafka does not answer" in parent.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_child_cleanly_and_then_the_parent(start: Start, number: signal.Signals) -> None:
    parent = start("stays")
    found = parent.start(0)
    parent.process.send_signal(number)
    parent.process.send_signal(number)
    assert parent.end() == 0
    assert (parent.folder / "asked to stop").exists()
    assert STOPPED.fullmatch(parent.output)
    assert gone(found["pids"])


def test_a_child_that_is_stopped_without_its_parent_is_started_again(start: Start) -> None:
    """As by `kill` with the id of the wrong one of the two."""
    parent = start("stays", "stays")
    os.kill(parent.start(0)["pids"][0], signal.SIGTERM)
    second = parent.start(1)
    assert (second["restarts"], second["last_error"], second["killed"]) == (1, "stopped by a signal to it alone", True)
    assert "jobs ended" in parent.output
    parent.process.terminate()
    assert parent.end() == 0


def test_a_stop_of_a_child_that_has_begun_nothing_is_clean_too(start: Start) -> None:
    parent = start("imports")
    found = parent.start(0)
    parent.process.terminate()
    assert parent.end() == 0
    assert STOPPED.fullmatch(parent.output)
    assert gone(found["pids"])


def test_a_stop_while_it_waits_for_the_next_start_ends_it(start: Start) -> None:
    parent = start("fails", limits=replace(QUICK, first_seconds=1000.0, most_seconds=1000.0))
    until(lambda: "jobs ended" in parent.output, "the end of the first child")
    parent.process.terminate()
    assert parent.end() == 0


def test_a_child_that_does_not_stop_is_killed(start: Start) -> None:
    parent = start("stopped", stale_seconds=60.0, stop_seconds=0.3)
    found = parent.start(0)
    until(lambda: psutil.Process(found["pids"][0]).status() == psutil.STATUS_STOPPED, "the child to be stopped")
    parent.process.terminate()
    assert parent.end() == 1
    assert "jobs did not stop" in parent.output
    assert gone(found["pids"])


@pytest.mark.parametrize("state", ["stays", "stopped"])
def test_nothing_survives_a_killed_parent(start: Start, state: str) -> None:
    parent = start(state, stale_seconds=60.0)
    found = parent.start(0)
    parent.process.kill()
    parent.process.wait()
    until(lambda: gone(found["pids"]), "the orphans to end")


def test_arguments_about_where_to_begin_are_given_until_they_have_been_followed(start: Start) -> None:
    parent = start("killed", "positioned", "stays", until_positioned=("--replace",))
    assert [parent.start(number)["extra"] for number in range(3)] == [["--replace"], ["--replace"], []]


def test_a_parent_whose_stderr_nobody_reads_starts_its_child_again(tmp_path: Path) -> None:
    """As `kappa run all 2>&1 | tee log` where tee has ended, or in a terminal that was closed."""
    command = (sys.executable, "-m", "support.supervised_child", str(tmp_path), "fails", "stays")
    what = SupervisedCommand(command, limits=QUICK)
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = os.environ | {"PYTHONPATH": SEARCHED}
    arguments = [sys.executable, "-m", "app.supervision.parent", what.to_json()]
    process = subprocess.Popen(arguments, stderr=write_end, cwd=PROJECT, env=environment)
    os.close(write_end)
    until((tmp_path / "1.json").exists, "a second start")
    process.terminate()
    assert process.wait(SECONDS) == 0


def test_a_signal_before_the_parent_listens_stops_it(tmp_path: Path) -> None:
    """Between `kappa run` and the parent that it becomes, Ctrl-C would end either with a stack trace."""
    what = SupervisedCommand((sys.executable, "-m", "support.supervised_child", str(tmp_path), "stays"), limits=QUICK)
    code = (
        "import os, signal, sys; from app.supervision import parent; replaced = os.execv\n"
        "def signalled(*program): os.kill(os.getpid(), signal.SIGINT); replaced(*program)\n"
        "os.execv = signalled; parent.become_parent(parent.SupervisedCommand.of_json(sys.argv[1]))"
    )
    run = [sys.executable, "-c", code, what.to_json()]
    done = subprocess.run(
        run, capture_output=True, cwd=PROJECT, env=os.environ | {"PYTHONPATH": SEARCHED}, timeout=SECONDS, check=False
    )
    assert done.returncode == 0
    assert STOPPED.fullmatch(done.stderr.decode())


def test_the_parent_needs_little_memory(start: Start) -> None:
    parent = start("stays")
    parent.start(0)
    assert psutil.Process(parent.process.pid).memory_info().rss < 40 * 2**20


def test_sending_never_waits_for_a_parent_that_does_not_read(tmp_path: Path) -> None:

    ours, theirs = socket.socketpair()
    ours.sendall(b"{}\n")
    link = ParentLink(theirs.detach(), on_parent_gone=lambda: None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for _ in range(20_000):
        link.progress("job")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20
    ours.close()


@pytest.mark.parametrize(
    ("error", "progressed", "lasting"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "logs"), False, True),
        (PermissionError(errno.EACCES, "Permission denied", "logs"), True, False),  # it may pass, as on a network drive
        (CheckpointLost("no batch is whole"), True, True),
        (OfAnotherRelease("format 30; wanted 31"), True, True),
        (InputError("what the log holds"), True, False),
    ],
)
def test_what_no_start_can_mend_ends_the_run(error: Exception, progressed: bool, lasting: bool) -> None:
    """Ten starts with waits between them would end by the same."""
    found: list[ChildError] = []

    class Recorded(Unsupervised):
        def failed(self, error: ChildError) -> None:
            found.append(error)

    parent = Recorded()
    parent.progressed = progressed
    with pytest.raises((type(error), typer.Exit)), telling(cast("ParentLink", parent)):
        raise error
    assert [one.lasting for one in found] == [lasting]
