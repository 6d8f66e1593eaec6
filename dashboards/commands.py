"""Runs `kappa` for what these pages may not do themselves: ask a model, list savepoints, promote a version.

The settings of the deployment, and how the command is called, come with the environment.

    CommandError    the command failed, or took too long: its own sentence
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from dashboards.identity import OPERATOR, RESPONDER, VIEWER, Identity, role_text
from dashboards.queries.search import PREFIX

MAX_CHARACTERS = 20_000
NO_OPTIONS = "--"
# The role that each command of `kappa` needs. Others are not run.
RIGHTS = {"savepoint": VIEWER, "label": RESPONDER, "rules": RESPONDER, "state": RESPONDER, "replay": OPERATOR}


class CommandError(Exception):
    """The command was not allowed, failed, or took too long: one sentence for a person."""


def check(arguments: Sequence[str], who: Identity) -> None:
    """Raise CommandError if somebody has not the role that a command needs."""
    role = RIGHTS[arguments[0]]
    if not who.may(role):
        raise CommandError(role_text(role))


def called() -> list[str]:
    """The command line of `kappa` on this machine. Raises CommandError if these pages were started without it."""
    configured = os.environ.get(f"{PREFIX}COMMAND")
    if not configured:
        msg = "This dashboard was not started by `kappa dashboard`, so it cannot run its commands: start it with that."
        raise CommandError(msg)
    return [str(part) for part in json.loads(configured)]


def answer(arguments: Sequence[str], seconds: float, who: Identity) -> dict[str, Any]:
    """The one object that a command prints with `--json`. Behind `--` in `arguments` is what comes from anybody: none of it is an option.

    Raises CommandError if `who` may not run it, if it fails or is not ready in time.
    """
    check(arguments, who)
    options = arguments.index(NO_OPTIONS) if NO_OPTIONS in arguments else len(arguments)
    try:
        done = subprocess.run(
            [*called(), *arguments[:options], "--json", *arguments[options:]],
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"`kappa {' '.join(arguments)}` was not ready within {seconds:.0f} s."
        raise CommandError(msg) from error
    except (OSError, ValueError) as error:  # of what no argument can be: too long, or with NUL in it
        msg = f"`kappa {arguments[0]}` cannot be run with that ({error})."
        raise CommandError(msg) from error
    if done.returncode:
        raise CommandError(
            last_line(done.stderr.decode(errors="replace"))
            or f"`kappa {' '.join(arguments)}` ended with code {done.returncode}."
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def last_line(output: str) -> str:
    """The last line of a command's output: its error."""
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].removeprefix("kappa: ") if lines else ""


@dataclass
class RunningCommand:
    """A command in the background, independent of pages. Both of its output streams go into one temporary file."""

    name: str
    process: subprocess.Popen[bytes]
    file: Any = field(repr=False)

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.poll()

    @property
    def output(self) -> str:
        """The end of its output so far."""
        text = Path(self.file.name).read_text(errors="replace")
        return text[-MAX_CHARACTERS:]


@dataclass
class CommandRunner:
    """Runs at most one command at a time, for all sessions."""

    command: RunningCommand | None = None

    @property
    def is_busy(self) -> bool:
        """Whether one runs."""
        return self.command is not None and self.command.code is None

    def begin(self, arguments: Sequence[str], who: Identity) -> RunningCommand:
        """Start a command. Raises CommandError if `who` may not, or while another one runs."""
        check(arguments, who)
        if self.command is not None and self.is_busy:
            msg = f"`{self.command.name}` is running: wait for its end."
            raise CommandError(msg)
        file = tempfile.NamedTemporaryFile(prefix="kappa-", suffix=".log")  # noqa: SIM115 - it outlives this call
        command = [*called(), *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        self.command = RunningCommand(f"kappa {' '.join(arguments)}", process, file)
        return self.command


@st.cache_resource(show_spinner=False)
def command_runner() -> CommandRunner:
    """The command runner that all sessions share."""
    return CommandRunner()
