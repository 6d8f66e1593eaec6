"""What `benchmarks.flood` says of a run's memory and processor time."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.process_usage import ProcessUsage

MIB = 1 << 20
TAKES = "import sys, subprocess; taken = bytearray(64 << 20); {}; print('ready', flush=True); sys.stdin.read()"
STARTS = "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=sys.stdin, stdout=subprocess.PIPE); child.stdout.readline()"


def test_memory_and_processor_time_are_those_of_a_process_and_all_that_it_has_started() -> None:
    command = [sys.executable, "-c", TAKES.format(STARTS), TAKES.format("sum(range(3_000_000))")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        usage = ProcessUsage(psutil.Process(process.pid))
        usage.look()
        usage.set_warm()
        process.communicate("")
        usage.look()
    assert 128 * MIB < usage.memory < 256 * MIB
    assert usage.shown() == {"memory": usage.memory, "driver": usage.memory}
    assert 0 < usage.seconds < 60
    assert usage.cores == 0.0
