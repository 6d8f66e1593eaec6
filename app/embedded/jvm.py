"""A Java process that this process drives through py4j, and that never outlives it.

The process ends when its standard input closes, which the kernel does for us however we end; on Linux the kernel also
kills it outright when the thread that launched it is gone, which helps where Java no longer listens to anything.
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from app.core.errors import StackError
from app.embedded.java import server_java


def _pyspark_jars() -> Path:
    """The jars that come with Spark: in its wheel, or, as spark-submit imports pyspark from an archive, in `SPARK_HOME`."""
    own, home = Path(pyspark.__file__).parent / "jars", os.environ.get("SPARK_HOME")
    return Path(home) / "jars" if home and not own.is_dir() else own


PYSPARK_JARS = _pyspark_jars()
_SET_PARENT_DEATH_SIGNAL = 1
_NAMES_AN_ERROR = re.compile(r"Exception|[a-z]Error|\bERROR\b|\bFATAL\b")
_END_GRACE_SECONDS = 5.0
_LEAST_FREE_BYTES = 1 << 20  # less, and a line cannot be written


@dataclass(frozen=True)
class JvmCommand:
    """The command of a JVM: `jars` is the class path in order, `options` go to Java, all output goes to the file `log`.

    `killed_with_launcher`: also have Linux kill it when the thread that launched it ends. Only for a process that has
    no other threads when it launches.
    """

    name: str
    jars: Sequence[Path]
    options: Sequence[str]
    log: Path
    killed_with_launcher: bool = False


class Jvm:
    """One running Java."""

    def __init__(self, command: JvmCommand) -> None:
        self.command = command
        class_path = os.pathsep.join(str(jar) for jar in [pyspark_jar("py4j-*.jar"), *command.jars])
        arguments = [str(server_java()), *command.options, "-cp", class_path, "py4j.GatewayServer"]
        with command.log.open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [*arguments, "--die-on-broken-pipe", "--enable-auth", "0"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Java takes file names to be in the locale's encoding: in plain C no folder with an umlaut is found.
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                preexec_fn=_parent_death_signal() if command.killed_with_launcher else None,  # noqa: PLW1509
            )
        self._gateway: JavaGateway | None = None

    def connect(self) -> Any:
        """py4j's view of its classes; waits until Java answers. StackError if it ended instead."""
        stdout = self.process.stdout
        if stdout is None:  # for the type checker: Popen was given a pipe
            msg = f"{self.command.name} has no output"
            raise StackError(msg)
        port, token = stdout.readline(), stdout.readline()
        if not port.strip().isdigit() or not token.strip():
            # Java prints on stdout, not on stderr, why it cannot start.
            with self.command.log.open("ab") as log:
                log.write(port + token + stdout.read())
            what = "Java did not start"
            raise self.failure(what)
        Thread(target=self._copy_output, name=f"{self.command.name}-output", daemon=True).start()
        parameters = GatewayParameters(port=int(port), auth_token=token.strip().decode(), auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        return self._gateway.jvm

    def array(self, kind: Any, items: Sequence[Any]) -> Any:
        """A Java array of a class. StackError before `connect`."""
        if self._gateway is None:
            msg = f"{self.command.name} is not connected"
            raise StackError(msg)
        found = self._gateway.new_array(kind, len(items))
        for i, item in enumerate(items):
            found[i] = item
        return found

    def failure(self, what: str) -> StackError:
        """An error that carries the last meaningful line that this run logged."""
        return StackError(f"{self.command.name}: {what}: {logged_reason(self.command.log, self._log_start)}")

    def end(self) -> None:
        """Close its input, wait a little, then kill: returns when the process is gone."""
        _close(self.process.stdin)
        try:
            self.process.wait(_END_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Only now: a thread that still reads holds the pipe's lock until its end.
        _close(self.process.stdout)
        if self._gateway is not None:
            self._gateway.close()

    def _copy_output(self) -> None:
        """Copy Java's output to the log until it ends: a full pipe would block it."""
        with self.command.log.open("ab", buffering=0) as log, contextlib.suppress(OSError, ValueError):
            for line in self.process.stdout or ():
                log.write(line)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError, ValueError):
            pipe.close()


def pyspark_jar(pattern: str) -> Path:
    """The one jar of the installed PySpark that matches; StackError where there is none."""
    found = sorted(PYSPARK_JARS.glob(pattern))
    if not found:
        msg = f"{PYSPARK_JARS} has no {pattern}: install pyspark again"
        raise StackError(msg)
    return found[-1]


def last_meaningful_line(log: Path, start: int = 0) -> str:
    """The last line that names an error, else the last that is not a stack frame; empty where there is none.

    Looks from byte `start` on, or at all of a log that is shorter, as it was begun again since.
    """
    try:
        content = log.read_bytes()
    except OSError:
        return ""
    lines = content[start if start <= len(content) else 0 :][-65536:].decode(errors="replace").splitlines()
    messages = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("at ", "... "))]
    named = [line for line in messages if _NAMES_AN_ERROR.search(line)]
    return (named or messages or [""])[-1][:300]


def logged_reason(log: Path, start: int = 0) -> str:
    """That line, or why there is none; and where the log is."""
    line = last_meaningful_line(log, start)
    if not line:
        line = "nothing was logged"
        if shutil.disk_usage(log.parent).free < _LEAST_FREE_BYTES:
            line += ", as no space is left on its disk"
    return f"{line} (log: {log})"


def _parent_death_signal() -> Callable[[], None] | None:
    """A function for the child to call before it becomes Java. The library is loaded here: after a fork nothing may be loaded."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask_the_kernel() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)

    return ask_the_kernel
