"""Who takes part in the extraction, and how each is started: a process that reads the topic to its end."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.settings import PROJECT, Settings
from app.embedded.java import spark_java_home
from benchmarks.environment import clean, environment_of
from benchmarks.peers import environments

HERE = Path(__file__).parent
PROCESSES = 2


@dataclass(frozen=True)
class Command:
    """A command, and the variables that it gets."""

    arguments: list[str]
    variables: dict[str, str]


@dataclass(frozen=True)
class Program:
    """`share` is how many of the events it reads, of 1: the slow ones are measured on a shorter topic."""

    name: str
    what: str
    share: float
    command: Callable[[Settings, str], Command]
    answers: bool = True
    least: float = 0.0  # seconds that it waits, doing nothing, before it ends


def of_kappa(job: str) -> Callable[[Settings, str], Command]:
    """This project's own job, in a process of its own, with a checkpoint for each output."""

    def command(settings: Settings, output: str) -> Command:
        variables = environment_of(
            settings.model_copy(update={"home": settings.home / output, "jar_folder": settings.jars})
        )
        # Spark's workers look for no module in the working directory.
        return Command(
            [sys.executable, "-m", "benchmarks.peers.run_kappa", job], variables | {"PYTHONPATH": str(PROJECT)}
        )

    return command


def of_flink(settings: Settings, output: str) -> Command:
    """Flink SQL in a cluster within its process, without checkpoints."""
    python, jar = environments.environment("flink"), environments.connector()
    arguments = [*asked(settings, output), str(jar), *windows(settings), str(PROCESSES)]
    java = {"JAVA_HOME": str(spark_java_home(settings.home))}
    return Command([str(python), str(HERE / "run_flink.py"), *arguments], clean() | java)


def of_bytewax(settings: Settings, output: str) -> Command:
    """Bytewax in two processes, without recovery."""
    python = environments.environment("bytewax")
    servers, topic, _ = asked(settings, output)
    window, delay = windows(settings)
    given = {"SERVERS": servers, "TOPIC": topic, "OUTPUT": output, "WINDOW": window, "DELAY": delay}
    start = [str(python), "-m", "bytewax.testing", f"-p{PROCESSES}", str(HERE / "run_bytewax.py")]
    return Command(start, clean() | given)


def of_quix(settings: Settings, output: str) -> Command:
    """Quix Streams in one process, with its change log and commits each 5 s, which are its defaults."""
    python = environments.environment("quix")
    folder = settings.home / "quix" / output
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [*asked(settings, output), *windows(settings), str(folder)]
    return Command([str(python), str(HERE / "run_quix.py"), *arguments], clean())


def asked(settings: Settings, output: str) -> list[str]:
    """Servers, input and output."""
    return [str(settings.kafka.bootstrap_servers), settings.topic("telemetry"), output]


def windows(settings: Settings) -> tuple[str, str]:
    """The length of a window, and how long it waits for what is late, s."""
    return str(settings.windowing.window_seconds), str(settings.windowing.lateness_seconds)


PROGRAMS = (
    Program("plain", "plain reading, Spark, our options", 1.0, of_kappa("plain"), answers=False),
    Program("kappa", "kappa `extract`, Spark 4.2, with its checkpoint", 1.0, of_kappa("extract")),
    Program("flink", "Flink SQL 2.2.1 (PyFlink), no checkpoint", 1.0, of_flink),
    Program("bytewax", "Bytewax 0.21.1, two processes, no recovery", 0.2, of_bytewax),
    Program("quix", "Quix Streams 3.28.1, one process, its change log", 0.05, of_quix, least=5.0),
)
