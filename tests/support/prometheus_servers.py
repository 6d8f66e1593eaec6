"""A real Prometheus and a real Alertmanager on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from support.distribution_programs import program

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT

EXAMPLE = PROJECT / "deploy" / "prometheus" / "prometheus.yml"
RULES = PROJECT / "deploy" / "prometheus" / "kappa.rules.yml"
SECONDS = 60.0


@contextmanager
def serving(folder: Path, name: str, options: Sequence[str], url: str) -> Iterator[str]:
    """A server that says at `/-/ready` that it is; its address. The test is skipped where there is none."""
    own = program(name)
    command = [str(own.path), *(f"--{one}" for one in options)]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=own.root, stdout=log, stderr=log)
    try:
        until(lambda: ready(url) or process.poll() is not None, (folder / f"{name}.log").read_text)
        assert process.poll() is None, (folder / f"{name}.log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)


def prometheus(folder: Path, target: str, alertmanager: str) -> Any:
    """A Prometheus with the configuration of the example, but for the target, the Alertmanager, and how often it looks."""
    port, text = free_port(None), EXAMPLE.read_text()
    for old, new in {"127.0.0.1:9464": target, "127.0.0.1:9093": alertmanager.partition("//")[2]}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text.replace("interval: 15s", "interval: 1s"))
    shutil.copy(RULES, folder)
    files = (f"config.file={folder / 'prometheus.yml'}", f"storage.tsdb.path={folder / 'data'}")
    return serving(folder, "prometheus", (*files, f"web.listen-address={LOOPBACK}:{port}"), f"http://{LOOPBACK}:{port}")


def alertmanager(folder: Path) -> Any:
    """An Alertmanager, alone, that tells nobody."""
    port, file = free_port(None), folder / "alertmanager.yml"
    file.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    files = (f"config.file={file}", f"storage.path={folder / 'alerts'}")
    options = (*files, f"web.listen-address={LOOPBACK}:{port}", "cluster.listen-address=")
    return serving(folder, "prometheus-alertmanager", options, f"http://{LOOPBACK}:{port}")


def ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=1.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def alerts(url: str) -> list[Any]:
    """What is firing in an Alertmanager."""
    with urlopen(f"{url}/api/v2/alerts", timeout=5.0) as answer:
        found: list[Any] = json.load(answer)
    return found


def asked(url: str, path: str) -> Any:
    """What the API of a Prometheus answers; None as long as it does not."""
    try:
        with urlopen(f"{url}/api/v1/{path}", timeout=5) as answer:
            return json.loads(answer.read())["data"]
    except OSError:
        return None


def until(what: Callable[[], Any], why: Callable[[], str]) -> Any:
    """What a function finds, as soon as it finds something."""
    end = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < end, why()
        threading.Event().wait(0.1)
    return found
