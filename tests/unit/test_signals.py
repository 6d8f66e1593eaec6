"""Signals to a command: it ends with its usual code and no stack trace, and takes back what is half-done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.cli.signals import ended_by_signals, stopped_by_signals
from app.core.settings import PROJECT

SECONDS = 30.0
LINES = 500_000


def begun(
    arguments: list[str], ready: str, folder: Path, *, ignored: tuple[signal.Signals, ...] = ()
) -> subprocess.Popen[bytes]:
    """A command that runs and has made a file of this pattern."""

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    command = [sys.executable, "-m", "app.cli", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=PROJECT, preexec_fn=ignore)  # noqa: PLW1509
    deadline = time.monotonic() + SECONDS
    while not list(folder.glob(ready)):
        assert time.monotonic() < deadline
        assert process.poll() is None
        threading.Event().wait(0.01)
    return process


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log"
    file.write_text("".join(f"request {number} took {number % 97} ms\n" for number in range(LINES)))
    return file


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_written_file(log: Path, number: signal.Signals) -> None:
    out = log.with_name("out")
    out.mkdir()
    process = begun(["templates", str(log), "--out", str(out / "templates.csv")], "*.part", out)
    process.send_signal(number)
    assert process.communicate(timeout=SECONDS)[1] == b""
    assert process.returncode == 128 + number
    assert not list(out.iterdir())


def test_a_closed_terminal_does_not_end_a_command_of_nohup(log: Path) -> None:
    out = log.with_name("out")
    out.mkdir()
    arguments = ["templates", str(log), "--out", str(out / "templates.csv")]
    process = begun(arguments, "*.part", out, ignored=(signal.SIGHUP,))
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(SECONDS) == 128 + signal.SIGTERM


def test_ctrl_c_while_the_commands_load_prints_nothing() -> None:
    """Half a second, in which it would print the stack of whatever import it meets."""
    code = (
        "import os, signal, sys, types; from app.cli import __main__ as program\n"
        "class Meets:\n"
        "    def find_spec(self, name, *_): name == 'app.cli.main' and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Meets()); program.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=PROJECT, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_runs_until_it_is_stopped(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stopped_by_signals() as stopping:
        os.kill(os.getpid(), number)
        assert stopping.wait(SECONDS)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_without_a_keyboard_interrupt_of_which_py4j_prints_the_stack(
    number: signal.Signals,
) -> None:
    with pytest.raises(SystemExit) as ended, ended_by_signals():
        os.kill(os.getpid(), number)
    assert ended.value.code == 128 + number


SWALLOWED = """
import os, signal, sys, threading
from app.cli.signals import ended_by_signals
class Finalized:
    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)
with ended_by_signals():
    try:
        Finalized()  # what the signal raises in here is dropped
        threading.Event().wait(30)
    finally:
        try:
            raise OSError
        except OSError:
            threading.Event().wait(1.2)  # the clean-up is left alone
        print("cleaned up", flush=True)
"""


def test_a_signal_that_comes_while_an_object_is_finalized_ends_the_command_all_the_same_and_lets_it_clean_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED], capture_output=True, cwd=PROJECT, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"cleaned up\n")


HELD = """
import os, signal
from app.cli.signals import stopped_by_signals
with stopped_by_signals() as stopping:
    with stopping._cond:  # as when `wait` begins and ends
        os.kill(os.getpid(), signal.SIGTERM)
    print(stopping.wait(20))
"""


def test_a_signal_that_comes_while_its_event_is_locked_by_its_own_thread_does_not_hang() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, cwd=PROJECT, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, b"True\n")


def test_what_is_stopped_says_so_once_however_often_it_is_asked() -> None:
    in_main, heard = [], threading.Event()

    def say() -> None:
        in_main.append(threading.current_thread() is threading.main_thread())
        heard.set()

    with stopped_by_signals(say) as stopping:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(SECONDS) and heard.wait(SECONDS)
        for thread in [one for one in threading.enumerate() if one.name == "stopping"]:
            thread.join(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)  # nobody reads any more
    assert in_main == [False]


@pytest.mark.spark
@pytest.mark.beside
def test_a_signal_to_the_whole_process_group_ends_a_command_with_spark_quietly(tmp_path: Path) -> None:
    """It ends Spark's JVM as well, in the middle of a call, and before the session is stopped."""
    code = (
        "import sys; from pathlib import Path\n"
        "from app.cli.signals import ended_by_signals; from app.core.settings import Settings; from app.runtime.spark import own_session\n"
        "settings = Settings(home=Path(sys.argv[1]), jar_folder=Path(sys.argv[2]))\n"
        "with ended_by_signals(), own_session(settings, 'signals') as spark:\n"
        "    print('ready', flush=True)\n"
        "    while True: spark.range(10**9).selectExpr('sum(hash(id) * hash(id + 1))').collect()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(PROJECT / ".kappa" / "jars")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=SECONDS)[1] == b""
    assert process.returncode == 128 + signal.SIGTERM
