"""What the tests of secrets look at on command lines."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
from support.exposed import named_on_command_lines

SECRET = "c4nary-of-a-line"


def test_a_process_that_has_ended_says_nothing_and_one_that_runs_is_named() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "", SECRET])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", SECRET], stdin=subprocess.PIPE
    ) as running:
        processes = [psutil.Process(ended.pid), psutil.Process(running.pid)]
        found = named_on_command_lines(processes, SECRET)
    ended.wait()
    assert found == [sys.executable]
