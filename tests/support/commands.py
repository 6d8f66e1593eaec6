"""The command `kappa` as a process of its own, and what it answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import pytest
from support.live_jobs import wait_for

from app.core.settings import PROJECT


def kappa(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command line."""
    command = [sys.executable, "-m", "app.cli", *arguments]
    own = {key: value for key, value in os.environ.items() if not key.startswith("KAPPA_")} | environment
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own, cwd=PROJECT, start_new_session=True)


def answer(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str, str]:
    """Exit status, stdout, stderr. A process that takes longer is killed, and its output is shown."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"{process.args!r} took longer than {seconds} s; its output:\n{out}\n{err}")
    return process.returncode, out, err


def assert_one_line(process: subprocess.Popen[str], *words: str) -> None:
    """Exit 1, nothing on stdout, one line on stderr that holds these words."""
    status, out, err = answer(process)
    assert status == 1, err
    assert out == ""
    assert re.fullmatch(r"kappa: [^\n]+\n", err), err
    for word in words:
        assert word in err


class Running:
    """A process of jobs, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def address(self) -> str:
        """Where it serves health; waits for it."""
        self.wait(lambda: "/healthz" in self.output, 120, "the jobs to run")
        found = re.search(r"health at (http://\S+)/metrics", self.output)
        assert found is not None, self.output
        return found[1]

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something, as long as the process lives."""

        def there() -> bool:
            assert self.process.poll() is None, self.output
            return condition()

        wait_for(there, seconds, what)

    def stop(self) -> None:
        """SIGTERM: the process must exit with 0 within a minute, without a trace; of a JVM that was killed before, py4j may have logged one."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, self.output
        self._reader.join()
        assert "Traceback" not in self.output.rpartition("jobs start again")[2]
        assert "job stopped" in self.output


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as found:
            return found.status, found.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def healthz(address: str) -> tuple[int, dict[str, Any]]:
    status, body = get(address + "/healthz")
    return status, json.loads(body)
