"""A lock between processes: one holder at a time, and none that outlives its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.core.file_lock import file_lock, held_lock
from app.core.settings import PROJECT
from pipelines.errors import InputError

HOLD = """
import sys, time
from pathlib import Path
from app.core.file_lock import file_lock
with file_lock(Path(sys.argv[1]), 0) as held:
    print(held, flush=True)
    time.sleep(600)
"""


def test_only_one_holder_at_a_time_in_one_process_too(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with file_lock(path, 0) as first, file_lock(path, 0) as second:
        assert (first, second) == (True, False)
    with file_lock(path, 0) as again:
        assert again


def test_lock_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "True\n"
            with file_lock(path, 0.2) as held:
                assert not held
        finally:
            holder.kill()
        holder.wait()
        with file_lock(path, 5) as held:
            assert held


def test_a_lock_that_another_holds_is_refused_in_the_words_that_were_given(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    refused = pytest.raises(InputError, match=r"^wanted one at a time$")
    with held_lock(path, 0, "first"), refused, held_lock(path, 0, "wanted one at a time"):
        pass
    with held_lock(path, 0, "free again"):
        pass
