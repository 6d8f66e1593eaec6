"""Logs as JSON: whatever a process writes to stderr is an object a line, whoever wrote it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.core.settings import PROJECT

# What may be written by any library, and by an error that nobody expected, in a thread and in the process.
EVERYTHING = """
import logging, threading, warnings
import structlog
from app.core import logs
logs.configure("json")
log = structlog.get_logger()
log.info("batch ended", rows=7, text="two\\nlines \\x1b[31m")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("job failed", sasl_password="hidden")
logging.getLogger("some.library").warning("slow answer of %s", "https://u:hidden@host")
logging.getLogger("some.library").info("nobody needs this")
warnings.warn("old call")
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
raise KeyError("end")
"""


def records(stderr: str) -> list[dict[str, Any]]:
    """The lines of stderr; each has to be one JSON object with what all of them have."""
    found = [json.loads(line) for line in stderr.splitlines()]
    assert all({"event", "level", "timestamp"} <= one.keys() for one in found)
    return found


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PROJECT)} | more
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_everything_that_reaches_stderr_is_one_object_a_line() -> None:
    done = run("-c", EVERYTHING)
    assert done.returncode == 1
    batch, failed, library, warned, thread, end = records(done.stderr)
    assert (batch["event"], batch["level"], batch["rows"]) == ("batch ended", "info", 7)
    assert batch["text"] == "two\nlines \x1b[31m"
    assert failed["exception"].endswith("ZeroDivisionError: division by zero")
    assert (library["event"], library["logger"], library["level"]) == (
        "slow answer of https://**********@host",
        "some.library",
        "warning",
    )
    assert "old call" in warned["event"] and warned["logger"] == "py.warnings"
    assert (thread["thread"], thread["level"]) == ("worker", "critical")
    assert end["exception"].endswith("KeyError: 'end'") and "Traceback" in end["exception"]
    assert "hidden" not in done.stderr and "\x1b" not in done.stderr


def test_the_error_of_a_command_and_its_progress_are_records(tmp_path: Path) -> None:
    """The embedded stack does not run in this home, and one address is that of another machine, without encryption."""
    done = run(
        *("-m", "app.cli", "label", "an-incident", "true"),
        KAPPA_HOME=str(tmp_path),
        KAPPA_LOG__FORMAT="json",
        KAPPA_KAFKA__BOOTSTRAP_SERVERS="kafka.example.net:9092",
    )
    assert done.returncode == 1
    progress, error = records(done.stderr)
    assert progress["level"] == "info" and progress["event"].startswith("warning: ")
    assert error["level"] == "error" and error["event"].startswith("elasticsearch.url is not set")


def test_text_is_the_default_and_takes_back_what_json_has_set(tmp_path: Path) -> None:
    done = run("-c", "from app.core import logs\nlogs.configure('json')\nlogs.configure()\nraise KeyError('end')")
    assert done.stderr.startswith("Traceback (most recent call last):")
    done = run("-m", "app.cli", "label", "an-incident", "true", KAPPA_HOME=str(tmp_path))
    assert done.stderr.startswith("kappa: ")
