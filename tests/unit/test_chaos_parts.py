"""The parts of `make chaos` that need no servers: the schedule, the proxy's faults, what counts as a difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, RemoteDisconnected
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from support.recording_server import server_that

from app.core.settings import Settings
from benchmarks.chaos import clock, disks, faults, promotions
from benchmarks.chaos.comparison import SideBySide, Written, held_against
from benchmarks.chaos.disks import DISKS
from benchmarks.chaos.experiment import Experiment
from benchmarks.chaos.faults import FaultTarget
from benchmarks.chaos.http_faults import CUT, ERRORS, MOST_BYTES, TOO_LARGE, FaultyProxy
from benchmarks.chaos.outcome import ChaosFailed, ChaosOutcome, FaultRecord
from benchmarks.chaos.page import BEGIN, END, PAGE, publish
from benchmarks.chaos.processes import LiveJobs
from benchmarks.chaos.refusals import MADE, RECOVER, TAKEN, refused_and_mended
from benchmarks.chaos.schedule import (
    EVERYTHING,
    FULL_DISKS,
    KILLS,
    LOSSES,
    MANY_KILLS,
    REFUSALS,
    PlannedFault,
    schedule,
)
from benchmarks.chaos.servers import KillableServer


def test_a_seed_gives_one_schedule() -> None:
    one, again, other = (list(islice(schedule(seed), 200)) for seed in (7, 7, 8))
    assert one == again != other
    assert [fault.number for fault in one] == list(range(1, 201))


def test_a_schedule_has_every_kind_and_waits_for_batches_half_of_the_time() -> None:
    planned = list(islice(schedule(7), 1000))
    assert {fault.kind for fault in planned} == set(EVERYTHING)
    assert 400 < sum(fault.batches > 0 for fault in planned) < 600
    assert {fault.kind for fault in islice(schedule(7, KILLS), 500)} == set(KILLS)
    assert {fault.kind for fault in islice(schedule(7, MANY_KILLS), 5000)} == set(MANY_KILLS) < set(KILLS)
    assert max(fault.wait for fault in islice(schedule(7, MANY_KILLS, longest_wait=2.0), 500)) <= 2.0


def test_a_batch_that_was_committed_during_a_fault_is_no_progress_after_it(tmp_path: Path) -> None:
    settings, outcome = Settings(home=tmp_path), ChaosOutcome(1, {})
    file, commits = tmp_path / "kappa.toml", settings.checkpoint("extract") / "commits"
    jobs = LiveJobs(file, tmp_path / "run.log")
    kafka, elasticsearch = (KillableServer(name, tmp_path / name, tmp_path) for name in ("kafka", "elasticsearch"))
    commits.mkdir(parents=True)
    experiment = Experiment(settings, file, jobs, outcome)
    experiment.stop()

    def committed(number: float) -> None:
        (commits / str(int(number))).write_text("v1")

    with server_that(200, b"{}") as (url, _), FaultyProxy(url) as proxy:
        target = FaultTarget(kafka, elasticsearch, proxy, jobs, settings, file, wait=committed)
        experiment.do(PlannedFault(1, "elasticsearch answers 503", 0, 0.0, lasts=7.0), target)
    (fault,) = outcome.faults
    experiment.look_after()
    assert (experiment.committed(), fault.batch, fault.progress_after_seconds) == (7, -1, None)
    committed(8)
    experiment.look_after()
    assert fault.progress_after_seconds is not None


def asked(url: str, body: bytes = b"x" * (MOST_BYTES + 1)) -> tuple[int, bytes]:
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port or 80, timeout=10)
    connection.request("POST", "/_bulk", body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_the_proxy_passes_on_refuses_and_cuts() -> None:
    with server_that(200, b'{"errors":false}') as (url, requests), FaultyProxy(url) as proxy:
        assert asked(proxy.url) == (200, b'{"errors":false}')
        for status, name in ERRORS.items():
            proxy.fault = status
            found, body = asked(proxy.url)
            assert (found, json.loads(body)["error"]["type"]) == (status, name)
        proxy.fault = TOO_LARGE
        assert asked(proxy.url, b"{}")[0] == 200
        proxy.fault = CUT
        with pytest.raises(RemoteDisconnected):
            asked(proxy.url)
        proxy.fault = None
        assert asked(proxy.url)[0] == 200
        assert len(requests) == 3
        assert proxy.refused == len(ERRORS) + 1


def test_every_status_of_the_schedule_has_an_answer() -> None:
    statuses = {int(kind.split()[-1]) for kind in EVERYTHING if kind.startswith("elasticsearch answers")}
    assert statuses == set(ERRORS)
    assert faults.READ_ONLY.startswith("index.blocks")


def test_repeats_count_once_and_contradictions_are_differences() -> None:
    fault_free, chaos = Written(), Written()
    for text in (b"a", b"b"):
        fault_free.add(text)
    for text in (b"a", b"a", b"b", b"other b"):
        chaos.add(text)
    found = held_against(fault_free, chaos)
    assert (found.fault_free, found.chaos, found.only_fault_free, found.only_chaos, found.repeats) == (2, 3, 0, 1, 1)
    assert found.differences == 1


def test_an_outcome_passes_only_with_something_compared_and_nothing_different() -> None:
    outcome = ChaosOutcome(1, {})
    assert not outcome.passed
    outcome.records["scores"] = SideBySide(10, 10, 0, 0)
    assert outcome.passed
    outcome.topics_and_documents["scores"] = {"topics": 10, "documents": 9}
    assert not outcome.passed
    outcome.topics_and_documents = {}
    outcome.failure = "the jobs refuse to go on"
    assert not outcome.passed


def test_only_kills_that_hit_something_are_counted() -> None:
    outcome = ChaosOutcome(1, {})
    for number, (kind, hit) in enumerate((("kill jvm", "jvm 1"), ("kill worker", ""), ("hang jvm", "for 3 s"))):
        outcome.faults.append(FaultRecord(number, kind, "", hit, 0, 0.0))
    assert outcome.kills == 1
    assert outcome.by_kind() == {"hang jvm": 1, "kill jvm": 1}


def test_figures_are_written_between_their_marks(tmp_path: Path) -> None:
    outcome = ChaosOutcome(7, {}, events=12_345, chaos_seconds=600.0)
    outcome.records["scores"] = SideBySide(10_000, 10_000, 0, 0)
    outcome.faults = [FaultRecord(number, "kill jvm", "", "jvm 1", 0, 0.0) for number in range(20)]
    report, page = tmp_path / "report.json", tmp_path / "page.md"
    report.write_text(json.dumps(outcome.record()))
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    publish([report], page)
    publish([report], page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| 7 | 10 | 20 | 20 | 120 | 12,345 | 10,000 | 0 |" in text
    assert BEGIN in PAGE.read_text() and END in PAGE.read_text()


def test_every_refusal_has_a_way_to_bring_it_about() -> None:
    assert REFUSALS.keys() == TAKEN.keys() == MADE.keys()
    assert {kind.removeprefix("input ") for kind in LOSSES} - REFUSALS.keys() == {"clock back"}
    assert {kind.removeprefix("disk full ") for kind in FULL_DISKS} == DISKS.keys()


class ScriptedJobs:
    """Jobs that end with given words, one after the other."""

    def __init__(self, *words: str) -> None:
        self.words, self.done = list(words), list[str]()

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        return condition()

    def stop(self) -> None:
        self.done.append("stop")

    def start(self, *arguments: str, names: tuple[str, ...] = ("all",)) -> None:
        self.done.append("start")

    def refused(self, seconds: float) -> str:
        return self.words.pop(0)

    def command(self, *arguments: str) -> dict[str, Any]:
        self.done.append(" ".join(arguments))
        return {"done": True}

    def follow(self, version: str) -> None:
        self.done.append(version)


def test_a_refusal_has_to_survive_a_restart_before_its_command_is_given() -> None:
    jobs = ScriptedJobs("gone: `kappa recover` does it", "still gone: `kappa recover` does it")
    found = refused_and_mended("log cut", jobs, RECOVER)
    assert jobs.done == ["start", "recover", "start"]
    assert (found.sentence, found.command) == ("still gone: `kappa recover` does it", "kappa recover")
    with pytest.raises(ChaosFailed, match="does not name"):
        refused_and_mended("log cut", ScriptedJobs("gone: `kappa recover` does it", "Spark's JVM has ended"), RECOVER)


def test_a_small_disk_is_filled_to_its_last_byte_and_given_back(tmp_path: Path) -> None:
    if not disks.may_mount(tmp_path):
        pytest.skip("this user may not mount file systems")
    with disks.mounted(tmp_path / "small", 2) as small:
        assert disks.fill(small) > 2**20
        with pytest.raises(OSError, match="No space left"):
            (small / "more").write_bytes(b"x" * 4096)
        disks.empty(small)
        (small / "more").write_bytes(b"x" * 4096)
    assert not (tmp_path / "small" / "more").exists()


def test_a_clock_is_stepped_for_the_processes_that_were_started_with_it(tmp_path: Path) -> None:
    if not clock.may_step():
        pytest.skip(clock.MISSING)
    stepped = clock.SteppedClock(tmp_path / "clock")
    stepped.step(-120)
    question = [sys.executable, "-c", "import time; print(time.time())"]
    with stepped.environment():
        seen = float(subprocess.run(question, capture_output=True, check=True, text=True).stdout)
    assert -121 < seen - time.time() < -100
    assert str(tmp_path) not in os.environ.get("LD_PRELOAD", "")


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_a_command_and_what_it_has_started_do_not_outlive_a_run_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: type[BaseException]
) -> None:
    below = "import sys; sys.stdin.read()"
    waits = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {below!r}], stdin=subprocess.PIPE)"
    monkeypatch.setattr(promotions, "COMMAND", (sys.executable, "-c", f"{waits}; input()"))
    seen: list[psutil.Process] = []

    def wait(seconds: float) -> None:
        seen[:] = [
            below for own in psutil.Process().children() for below in own.children() if "sys.stdin" in command_of(below)
        ]
        if seen:
            seen.extend(one.parent() or one for one in tuple(seen))
            raise ends

    with pytest.raises(ends):
        promotions.finish(tmp_path / "kappa.toml", wait, "replay", "promote", "candidate")
    assert len(seen) == 2
    until = time.monotonic() + 10
    while any(map(runs, seen)) and time.monotonic() < until:
        threading.Event().wait(0.05)
    assert not any(map(runs, seen))


def command_of(process: psutil.Process) -> str:
    """How it was started; nothing of one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; whoever is to take note of that may be slow."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
