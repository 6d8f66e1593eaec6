"""What commands write where it cannot be written as it is: a full disk, an encoding that lacks letters, a pipe that nobody reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.core.settings import PROJECT

CHANGE = ("change", "ü → x", "--dry-run")


def kappa(*arguments: str, out: Path | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    own = {name: text for name, text in os.environ.items() if not name.startswith(("KAPPA_", "PYTHON"))} | environment
    with open(out or os.devnull, "wb") as target:  # noqa: PTH123 - a device
        return subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments],
            stdout=subprocess.PIPE if out is None else target,
            stderr=subprocess.PIPE,
            env=own,
            cwd=PROJECT,
            check=False,
        )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "show", "--json")])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...]) -> None:
    done = kappa(*arguments, out=Path("/dev/full"))
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert done.stderr.startswith(b"kappa: cannot write: No space left on device; make room")


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"\\xfc \\u2192 x"), ("latin-1", b"\xfc \\u2192 x")])
def test_letters_that_the_encoding_does_not_have_are_escaped(encoding: str, shown: bytes) -> None:
    done = kappa(*CHANGE, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr.decode()
    assert shown in done.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_streams_does_what_it_does(closed: str, tmp_path: Path) -> None:
    """As daemons are started. What it opens must not get the number of stdout: programs that it starts would print into it."""
    code = (
        "import os, app.cli.main as m; m.app = lambda: None; m.main(); "
        f"file = open({str(tmp_path / 'numbers')!r}, 'w'); file.write(str(file.fileno() > 2)); "
        "[os.fstat(number) for number in range(3)]"
    )
    run = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code]
    done = subprocess.run(run, stderr=subprocess.PIPE, cwd=PROJECT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "numbers").read_text() == "True"
