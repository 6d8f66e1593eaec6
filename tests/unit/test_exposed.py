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
    program = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, SECRET], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()  # `Popen` returns before the system has its command line
        processes = [psutil.Process(ended.pid), psutil.Process(running.pid)]
        found = named_on_command_lines(processes, SECRET)
        running.communicate(b"\n")
    ended.wait()
    assert found == [sys.executable]
