"""A stderr that never ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.core.settings import PROJECT

WRITES = """
import sys
from app.core import lasting_stderr
lasting_stderr.begin()
for number in range(100):
    sys.stderr.write("x" * 5_000 + "\\n")
    sys.stderr.flush()
print("still here")
"""


def written_to(stderr: int) -> subprocess.CompletedProcess[bytes]:
    """A process that writes 500 kB to a stderr."""
    command = [sys.executable, "-c", WRITES]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, cwd=PROJECT, timeout=60, check=False)


def test_a_pipe_that_nobody_reads_and_that_does_not_block_ends_nothing() -> None:
    """As where another process that shares it has made it so."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    found = written_to(write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        taken = pipe.read()
    assert (found.returncode, found.stdout) == (0, b"still here\n")
    assert taken.startswith(b"x" * 5_000 + b"\n") and set(taken) <= set(b"x\n")


def test_a_pipe_whose_reader_has_ended_ends_nothing() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    found = written_to(write_end)
    os.close(write_end)
    assert (found.returncode, found.stdout) == (0, b"still here\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="wants the full disk that Linux has")
def test_a_full_disk_ends_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        found = written_to(full.fileno())
    assert (found.returncode, found.stdout) == (0, b"still here\n")
