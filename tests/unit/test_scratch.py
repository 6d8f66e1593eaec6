"""Scratch folders of Spark: what a killed process has left goes, what another one uses stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.runtime import scratch

HOLD = """
import sys
from pathlib import Path
from app.runtime import scratch
print(scratch.folder_of_process(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def holder(home: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process with a folder, in which it has written a file."""
    found = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert found.stdout is not None
    folder = Path(found.stdout.readline().strip())
    (folder / "blockmgr-1").mkdir()
    (folder / "blockmgr-1" / "shuffle").write_text("rows")
    return found, folder


def ended(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    process.communicate()


def test_what_a_killed_process_has_left_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    killed, left = holder(tmp_path)
    at_work, used = holder(tmp_path)
    assert left != used and left.parent == used.parent == tmp_path / "spark"
    ended(killed, signal.SIGKILL)
    assert left.exists()
    own = scratch.folder_of_process(tmp_path)
    assert not left.exists() and (used / "blockmgr-1" / "shuffle").exists()
    assert scratch.folder_of_process(tmp_path) == own and own.is_dir() and own.stat().st_mode & 0o077 == 0
    ended(at_work, signal.SIGTERM)
    third, its_own = holder(tmp_path)
    assert not used.exists() and own.exists() and its_own.exists()  # ours has no file of Spark, but we live
    ended(third, signal.SIGKILL)


def test_a_folder_whose_lock_cannot_be_opened_stays_and_stops_no_start(tmp_path: Path) -> None:
    """As that of another user, whom `sudo kappa state` was."""
    (tmp_path / "spark" / f"{scratch.PREFIX}a" / scratch.LOCK).mkdir(parents=True)
    killed, left = holder(tmp_path)
    ended(killed, signal.SIGKILL)
    assert scratch.folder_of_process(tmp_path).is_dir()
    assert (tmp_path / "spark" / f"{scratch.PREFIX}a").is_dir() and not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_the_folder_of_another_user_stops_no_start(tmp_path: Path) -> None:
    theirs = tmp_path / f"{scratch.PREFIX}a"
    theirs.mkdir(mode=0o700)
    (theirs / scratch.LOCK).touch(mode=0o600)
    for folder in (*tmp_path.parents[:2], tmp_path):
        folder.chmod(0o755)
    child = os.fork()
    if not child:
        os.setuid(65_534)
        try:
            scratch.remove_unused(tmp_path)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert theirs.is_dir()


def test_files_of_others_in_the_folder_are_not_touched(tmp_path: Path) -> None:
    early = tmp_path / "spark" / "early" / "offsets"
    early.mkdir(parents=True)
    (tmp_path / "spark" / f"{scratch.PREFIX}a").write_text("a file")
    scratch.folder_of_process(tmp_path)
    assert early.exists() and (tmp_path / "spark" / f"{scratch.PREFIX}a").exists()
