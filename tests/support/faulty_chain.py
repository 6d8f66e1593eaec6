"""`kappa` with readers that have faults: `python -m support.faulty_chain run extract --config FILE`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from support import killers

from app.cli.main import app
from app.core.settings import PROJECT
from app.supervision.parent import SupervisedCommand

PYTHON = (sys.executable, "-m")


@contextmanager
def supervised(file: Path, job: str, start_seconds: float | None = None) -> Iterator[None]:
    """`kappa run JOB` with the faulty readers, under its parent. `start_seconds`: after how long a job without progress hangs."""
    command = (*PYTHON, "support.faulty_chain", "run", job, "--config", str(file), "--no-heartbeats")
    what = SupervisedCommand(command)
    if start_seconds is not None:
        what = replace(what, start_seconds=start_seconds, stale_seconds=start_seconds)
    with file.with_name("run.log").open("ab") as log:
        parent = subprocess.Popen(
            [*PYTHON, "app.supervision.parent", what.to_json()],
            stdout=log,
            stderr=log,
            cwd=PROJECT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])},
        )
    try:
        yield
        if parent.poll() is not None:
            msg = f"the parent has ended with {parent.returncode}: {file.with_name('run.log').read_text()[-1000:]}"
            raise AssertionError(msg)
    finally:
        parent.terminate()
        parent.wait(180)


if __name__ == "__main__":
    killers.install()
    app()
