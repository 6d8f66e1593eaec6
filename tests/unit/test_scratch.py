"""Scratch folders of Spark: what a killed process has left goes, what another one uses stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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


def test_files_of_others_in_the_folder_are_not_touched(tmp_path: Path) -> None:
    early = tmp_path / "spark" / "early" / "offsets"
    early.mkdir(parents=True)
    (tmp_path / "spark" / f"{scratch.PREFIX}a").write_text("a file")
    scratch.folder_of_process(tmp_path)
    assert early.exists() and (tmp_path / "spark" / f"{scratch.PREFIX}a").exists()
