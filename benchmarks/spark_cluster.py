"""A Spark master with workers on loopback, and processes that are ended with all that they have started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT
from app.embedded.java import spark_java_home

BIN = Path(pyspark.__file__).parent / "bin"
MASTER_SECONDS = 90


def environment(folder: Path) -> dict[str, str]:
    """Of master, workers and drivers: the Java that Spark runs on here, and loopback as their address."""
    own = {"JAVA_HOME": str(spark_java_home(folder)), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_PUBLIC_DNS": LOOPBACK}
    return {name: text for name, text in os.environ.items() if not name.startswith(("KAPPA_", "PYSPARK_"))} | own


@contextmanager
def process(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended after the block, with all that it has started."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment, cwd=PROJECT, start_new_session=True
        )
    try:
        yield started
    finally:
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def wait_for(condition: Callable[[], bool], watched: subprocess.Popen[bytes], seconds: float, log: Path) -> None:
    """Until the condition holds, as long as the process lives. Raises RuntimeError with the end of its log."""
    deadline = time.monotonic() + seconds
    while not condition():
        ended = watched.poll() is not None
        if ended or time.monotonic() > deadline:
            msg = f"{'ended by itself' if ended else 'waited in vain'}: {log.read_text()[-2000:]}"
            raise RuntimeError(msg)
        time.sleep(0.5)


def alive(page: str) -> int:
    """How many workers a master knows, by its own page."""
    try:
        with urlopen(f"{page}/json/", timeout=2) as answer:
            workers = json.load(answer)["workers"]
    except (URLError, OSError, ValueError):
        return 0
    return sum(worker["state"] == "ALIVE" for worker in workers)


@dataclass(frozen=True)
class RunningCluster:
    """Its address, and the processes of its master and workers."""

    address: str
    processes: tuple[int, ...]


@contextmanager
def running_cluster(
    folder: Path, secret: str, workers: int, cores: int, memory: str = "2g"
) -> Iterator[RunningCluster]:
    """A master with so many workers of so many cores each, which know each other by a secret; logs in `cluster.log` of the folder."""
    own, port, page = environment(folder), free_port(0), free_port(0)
    address, log = f"spark://{LOOPBACK}:{port}", folder / "cluster.log"
    start = [str(BIN / "spark-class"), "org.apache.spark.deploy"]
    options = folder / "daemons.conf"
    options.write_text(
        f"spark.authenticate true\nspark.network.crypto.enabled true\nspark.authenticate.secret {secret}\n"
    )
    known = ["--properties-file", str(options)]
    where = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(page), *known]
    with ExitStack() as running:
        master = running.enter_context(process([start[0], f"{start[1]}.master.Master", *where], log, own))
        pids = [master.pid]
        for number in range(workers):
            place = ["--webui-port", "0", "--work-dir", str(folder / f"worker-{number}")]
            size = ["--cores", str(cores), "--memory", memory]
            command = [start[0], f"{start[1]}.worker.Worker", "--host", LOOPBACK, *size, *place, *known, address]
            pids.append(running.enter_context(process(command, log, own)).pid)
        wait_for(lambda: alive(f"http://{LOOPBACK}:{page}") == workers, master, MASTER_SECONDS, log)
        yield RunningCluster(address, tuple(pids))
