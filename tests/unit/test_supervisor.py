"""The embedded stack's supervisor keeps its servers running: here a server is a process that does nothing."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.core.errors import StackError
from app.core.file_lock import file_lock
from app.core.settings import PROJECT
from app.embedded import stack, supervisor
from app.embedded.jvm import JvmCommand
from app.embedded.stack_state import (
    ProcessId,
    ServiceState,
    StackState,
    addresses,
    lock_file,
    read_state,
    write_state,
)
from app.embedded.supervisor import Server, Supervisor, Task
from app.supervision.policy import RestartLimits

QUICK = RestartLimits(first_seconds=0.02, most_seconds=0.05, good_seconds=0.0, most_in_vain=3)
IDLE = [sys.executable, "-S", "-c", "import signal; signal.pause()"]


class IdleServer:
    """In the place of a JVM."""

    def __init__(self, command: JvmCommand) -> None:
        self.process = subprocess.Popen(IDLE)

    def failure(self, what: str) -> StackError:
        return StackError(f"idle: {what}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Any], Any]], Supervisor]]:
    """A supervisor of one server, which `start` has to bring up each time; the test runs it."""
    monkeypatch.setattr(supervisor, "Jvm", IdleServer)
    monkeypatch.setattr(supervisor, "_LIMITS", QUICK)
    monkeypatch.setattr(supervisor, "_WATCH_SECONDS", 0.02)
    monkeypatch.setattr(supervisor, "_release_starter", lambda: None)
    monkeypatch.setattr(supervisor, "_send", lambda message: None)
    read_end, write_end = os.pipe()

    def made(start: Callable[[Any], Any], answers: Callable[[int, float], bool] = lambda *_: True) -> Supervisor:
        def starting(jvm: Any, *_: Any) -> Any:
            return start(jvm)

        command = JvmCommand("idle", (), (), tmp_path / "log")
        server = Server("Idle", "stack.kafka_port", "1", 0, command, starting, lambda handle: None, answers)
        monkeypatch.setattr(supervisor, "_servers", lambda task, home: {"kafka": server})
        found = Supervisor(Task(str(tmp_path), str(tmp_path), True, False, 0, 0, 1, 1), read_end)
        found.stop_writing = write_end  # type: ignore[attr-defined]
        return found

    yield made
    os.close(read_end)
    os.close(write_end)


def test_a_server_that_ends_is_started_again_on_its_port(run: Any, tmp_path: Path, capfd: Any) -> None:
    starts: list[int] = []

    def start(jvm: IdleServer) -> str:
        starts.append(jvm.process.pid)
        state = read_state(tmp_path)
        assert state is not None
        ports.append(state.services["kafka"].port)
        if len(starts) < 3:  # it ends as soon as it is up
            threading.Timer(0.1, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
        else:
            threading.Timer(0.3, os.write, (ours.stop_writing, b"x")).start()
        return "up"

    ports: list[int] = []
    ours = run(start)
    ours.run()
    assert len(set(starts)) == 3
    assert len(set(ports)) == 1
    written = capfd.readouterr().err
    assert written.count("idle: ended with code -9; starting it again in") == 2
    assert written.count("Idle is up again") == 2
    final = read_state(tmp_path)
    assert final is not None
    assert final.phase == "stopped"


def test_a_server_that_does_not_answer_many_times_in_a_row_is_started_again(
    run: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(supervisor, "_ASK_SECONDS", 0.01)
    starts: list[int] = []
    asked: list[int] = []  # which start of the server was asked

    def start(jvm: IdleServer) -> str:
        starts.append(jvm.process.pid)
        return "up"

    def answers(port: int, seconds: float) -> bool:
        asked.append(len(starts))
        if len(starts) == 2 and asked.count(2) > 2 * supervisor._MOST_UNANSWERED:
            os.write(ours.stop_writing, b"x")
        # The first one answers no more after a while; the second is slow at times.
        return asked.count(1) < 5 if len(starts) == 1 else asked.count(2) % 5 == 0

    ours = run(start, answers)
    ours.run()
    assert len(set(starts)) == 2
    assert asked.count(1) == 4 + supervisor._MOST_UNANSWERED
    written = capfd.readouterr().err
    assert "idle: has not answered 12 times in a row; starting it again in" in written
    assert "Idle is up again" in written


def test_a_full_disk_ends_no_server(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """The state is written when there is room again."""
    starts: list[int] = []
    written: list[StackState | None] = []  # of states in which the servers run; None for one that the disk did not take

    def on_full_disk(home: Path, state: StackState) -> None:
        if state.phase == "ready":
            written.append(state if len(written) not in (1, 2, 3) else None)
            if written[-1] is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            if len(written) > 1:
                os.write(ours.stop_writing, b"x")
        write_state(home, state)

    def start(jvm: IdleServer) -> str:
        starts.append(jvm.process.pid)
        if len(starts) == 1:
            threading.Timer(0.1, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
        return "up"

    monkeypatch.setattr(supervisor, "write_state", on_full_disk)
    ours = run(start)
    ours.run()
    last = written[-1]
    assert last is not None and last.services["kafka"].process is not None
    assert (written[1:-1], [last.services["kafka"].process.pid]) == ([None] * 3, starts[1:])
    assert capfd.readouterr().err.count("No space left on device") == 1


def test_a_server_that_cannot_be_launched_for_once_is_launched_again(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []
    starts: list[int] = []

    class AtTimes(IdleServer):
        def __init__(self, command: JvmCommand) -> None:
            launched.append(1)
            if len(launched) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().__init__(command)

    def start(jvm: IdleServer) -> str:
        starts.append(jvm.process.pid)
        if len(starts) == 1:
            threading.Timer(0.05, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
        else:
            os.write(ours.stop_writing, b"x")
        return "up"

    monkeypatch.setattr(supervisor, "Jvm", AtTimes)
    ours = run(start)
    ours.run()
    assert (len(launched), len(starts)) == (3, 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="wants the full disk that Linux has")
def test_a_full_disk_under_its_log_ends_no_supervisor(tmp_path: Path) -> None:
    code = (
        "import sys; from app.embedded import supervisor as s\n"
        "class Logs:\n"
        "    def __init__(self, *_): pass\n"
        "    def run(self): s._log('a line'); print('went on', flush=True)\n"
        "s.Supervisor = Logs; s.main(sys.argv[1:])"
    )
    task = Task(str(tmp_path), str(tmp_path), True, False, 0, 0, 1, 1).to_json()
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", code, task]
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, cwd=PROJECT, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, b"went on\n")


def test_a_server_that_never_comes_up_again_ends_the_stack_with_a_reason(run: Any, capfd: Any) -> None:
    starts: list[int] = []

    def start(jvm: IdleServer) -> str:
        starts.append(jvm.process.pid)
        if len(starts) == 1:
            threading.Timer(0.05, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
            return "up"
        raise StackError("idle: did not start")

    with pytest.raises(
        StackError, match="gave up: Idle has ended 3 times in a row soon after its start; idle: did not"
    ):
        run(start).run()
    assert len(starts) == QUICK.most_in_vain


def shown(home: Path, *options: str) -> str:
    """What `kappa status` prints of a home."""
    found = CliRunner().invoke(app, ["status", *options], env={"KAPPA_HOME": str(home), "COLUMNS": "80"})
    assert found.exit_code == 0, found.output
    return found.stdout


def test_status_says_why_a_stack_gave_up_until_it_is_started_again_or_taken_down(run: Any, tmp_path: Path) -> None:
    def start(jvm: IdleServer) -> str:
        raise StackError("idle: did not start: no space left (log: idle.log)")

    def started_once(jvm: IdleServer) -> str:
        first.append(jvm.process.pid)
        if len(first) > 1:
            return start(jvm)
        threading.Timer(0.05, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
        return "up"

    def going(jvm: IdleServer) -> str:
        reasons.append(stack.status(tmp_path).reason)
        os.write(ours.stop_writing, b"x")
        return "up"

    first: list[int] = []
    with pytest.raises(StackError):
        run(started_once).run()
    sentence = (
        "gave up: Idle has ended 3 times in a row soon after its start; idle: did not start: no space left (log: idle.log); "
        f"the supervisor's log is {tmp_path / 'logs' / 'supervisor.log'}"
    )
    assert f"stopped: {sentence}\n" in shown(tmp_path)
    assert json.loads(shown(tmp_path, "--json"))["reason"] == sentence

    reasons: list[str | None] = []
    ours = run(going)
    ours.run()
    assert [*reasons, stack.status(tmp_path).reason] == [None, None]

    with pytest.raises(StackError):
        run(start).run()
    assert "no space left" in (stack.status(tmp_path).reason or "")
    assert not stack.down(tmp_path)
    assert shown(tmp_path).splitlines()[0].endswith(": stopped")
    assert json.loads(shown(tmp_path, "--json"))["reason"] is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its /proc")
def test_a_clock_that_is_set_makes_no_other_process_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack would end with an owner that goes on, and `kappa down` would find none."""
    me = ProcessId.of(os.getpid())
    for file in Path("/proc").iterdir():
        if file.name != "stat":
            (tmp_path / file.name).symlink_to(file)
    later = re.sub(r"btime (\d+)", lambda found: f"btime {int(found[1]) + 3600}", Path("/proc/stat").read_text())
    (tmp_path / "stat").write_text(later)  # all that differs once the clock was set
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert me.alive()
    assert ProcessId.of(os.getpid()) == me
    assert not replace(me, started=me.started + 0.5).alive(), "one of another container, which has the same pids"
    assert not replace(me, boot="that of yesterday").alive(), "after a restart of the machine another one has its pid"


def test_status_says_that_a_supervisor_was_killed(tmp_path: Path) -> None:
    me = ProcessId.of(os.getpid())
    write_state(tmp_path, StackState("ready", replace(me, started=me.started - 60)))
    assert "its supervisor ended before it could stop anything" in (stack.status(tmp_path).reason or "")
    stack.down(tmp_path)
    assert stack.status(tmp_path).reason is None


def test_a_start_while_a_stack_is_taken_down_keeps_its_own_state(tmp_path: Path) -> None:
    state = StackState("stopped", reason="its disk was full")
    write_state(tmp_path, state)
    with file_lock(lock_file(tmp_path), 0.0):
        stack.down(tmp_path)
        assert read_state(tmp_path) == state


def test_a_stop_while_a_server_waits_for_its_next_start_is_followed(
    run: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(supervisor, "_LIMITS", replace(QUICK, first_seconds=1000.0, most_seconds=1000.0))

    def start(jvm: IdleServer) -> str:
        threading.Timer(0.05, os.kill, (jvm.process.pid, signal.SIGKILL)).start()
        threading.Timer(0.4, os.write, (ours.stop_writing, b"x")).start()
        return "up"

    ours = run(start)
    ours.run()
    assert "stopping: asked to" in capfd.readouterr().err


def test_a_copy_of_a_folder_whose_stack_runs_has_a_stack_that_is_stopped(tmp_path: Path) -> None:
    """`kappa run` there would write to the servers of the other folder, and `kappa down` would end them."""
    me, home = ProcessId.of(os.getpid()), tmp_path / "home"
    home.mkdir()
    running = StackState("ready", me, None, {"kafka": ServiceState(1, 2, "4.1.0", me)})
    write_state(home, running)
    copied = Path(shutil.copytree(home, tmp_path / "copied"))
    assert addresses(copied) is None
    assert stack.status(copied).reason is None
    assert read_state(copied) == running.stopped()
    assert not running.stopped().processes()
    assert read_state(home.rename(tmp_path / "renamed")) == running
