"""The command `kappa`: composes the commands of this package, and turns expected errors into one line.

Commands parse, call and print; whatever they do can be done from Python. A command imports what it calls when it runs: with
Spark and Kafka's and Elasticsearch's clients loaded first, `kappa --help` would take twice as long. Each such import says what
it loads.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from app.cli.change import change, topology
from app.cli.collect import collect
from app.cli.config import config_app
from app.cli.dashboard import dashboard
from app.cli.demo import demo
from app.cli.doctor import doctor
from app.cli.export import export
from app.cli.indices import indices_app
from app.cli.kibana import kibana_app
from app.cli.label import label
from app.cli.notify import notify_app
from app.cli.output import fail
from app.cli.plan import plan
from app.cli.quarantine import quarantine_app
from app.cli.recover import recover
from app.cli.refused import refused
from app.cli.replay import replay_app
from app.cli.rules import rules_app
from app.cli.rules_calendar import calendar
from app.cli.run import run
from app.cli.savepoint import savepoint_app
from app.cli.score import score
from app.cli.signals import ended_by_signals
from app.cli.simulate import simulate
from app.cli.stack import down, status, up
from app.cli.state import state
from app.cli.templates import templates
from app.cli.topics import topics_app
from app.cli.watch import watch
from app.core import lasting_stderr, logs, private_files, proxies
from app.core.distribution import DISTRIBUTION
from app.supervision import processes
from pipelines.errors import KappaError

# Errors of the file system that name a folder which cannot be written, for whatever reason.
NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}
FULL = {errno.ENOSPC, errno.EDQUOT}  # of what is written to a file that is open they name none

app = typer.Typer(
    name="kappa",
    help="Finds what is novel in the telemetry and logs of a fleet: anomalies and changes of state.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The groups of `kappa --help`, in the order in which somebody comes to need them.
TRY, WORK, READ, TEACH, REPEAT, OPERATE = (
    "Without a deployment",
    "Servers and jobs",
    "Results",
    "Feedback and context",
    "Replay and recovery",
    "Operation",
)
for group, commands in {
    TRY: (demo, score, templates, simulate),
    WORK: (up, down, status, run, collect),
    READ: (dashboard, watch, state, export),
    TEACH: (label, change, topology),
    REPEAT: (recover,),
    OPERATE: (doctor, plan, refused),
}.items():
    for command in commands:
        app.command(rich_help_panel=group)(command)
rules_app.command("calendar")(calendar)
for name, group, commands_of in (
    ("topics", WORK, topics_app),
    ("kibana", READ, kibana_app),
    ("rules", TEACH, rules_app),
    ("replay", REPEAT, replay_app),
    ("savepoint", REPEAT, savepoint_app),
    ("notify", OPERATE, notify_app),
    ("quarantine", OPERATE, quarantine_app),
    ("indices", OPERATE, indices_app),
    ("config", OPERATE, config_app),
):
    app.add_typer(commands_of, name=name, rich_help_panel=group)


def main() -> None:
    """Run the command line. Errors under KappaError, folders that cannot be written and full disks: one line on stderr, exit code 1."""
    open_missing_streams()
    lasting_stderr.begin()
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding does not have is written as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            with ended_by_signals():
                app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # while arguments are read; later typer ends the process so
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # nobody reads on, as in `kappa ... | head -1`
        drop_output()
        sys.exit(1)
    except KappaError as error:
        fail(str(error))
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            drop_output()
            fail(f"cannot write: {os.strerror(error.errno)}; make room where home is, or where this writes to")
        if error.errno not in NOT_WRITABLE or error.filename is None:
            raise
        fail(
            f"cannot use {error.filename}: {error.strerror}; make room there or change its permissions, or set home to "
            "another folder"
        )


def open_missing_streams() -> None:
    """Let stdin, stdout and stderr lead nowhere where the process was started without them.

    Otherwise the next files and sockets get their numbers, and what child processes print.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:  # so Python says that it is closed
            nothing = os.open(os.devnull, os.O_RDWR)  # mostly this very number, which is free
            os.dup2(nothing, number)
            if nothing > number:
                os.close(nothing)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


def drop_output() -> None:
    """Let what could not be written go nowhere: at the end Python would try again, print a stack trace and exit with 120."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


def print_version(wanted: bool) -> None:
    """Print the version of the program, and exit."""
    if wanted:
        typer.echo(f"kappa {metadata.version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds what is novel in the telemetry and logs of a fleet."""
    private_files.begin()
    processes.leave_out_working_directory()
    proxies.spare_loopback()
    logs.configure()
