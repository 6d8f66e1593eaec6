"""Every service of the compose file is started by its own command and variables, on the embedded stack, and gets healthy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from kafka.admin import KafkaAdminClient
from support.compose_file import COMMANDS, environment_of

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT
from app.embedded.stack_state import Addresses
from app.kafka.topics import INPUTS, OUTPUTS
from app.runtime.jobs import NAMES

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.timeout(900)]

JARS = PROJECT / ".kappa" / "jars"
HEALTHY_SECONDS = 300.0


def variables(service: str, stack: Addresses, home: Path, prefix: str, port: int) -> dict[str, str]:
    """The variables of a service, with the embedded stack's addresses for those of the containers, and folders of the test."""
    servers = {"kafka:9092": stack.kafka or "", "http://elasticsearch:9200": stack.elasticsearch or ""}
    given = {name: servers.get(text, text) for name, text in environment_of(service).items()}
    image = {"KAPPA_HOME": str(home), "KAPPA_JAR_FOLDER": str(JARS)}
    # On one machine each job needs a port of its own, and topics of the test's own.
    own = {"KAPPA_HEALTH__PORT": str(port), "KAPPA_TOPICS__PREFIX": prefix}
    outside = {name: text for name, text in os.environ.items() if not name.startswith("KAPPA_")}
    return outside | given | image | own


@contextmanager
def service(name: str, environment: Mapping[str, str], log: Path, extra: tuple[str, ...] = ()) -> Iterator[Any]:
    """A service as the image's entry point starts it; ended as compose ends it."""
    command = [sys.executable, "-m", "app.cli", *COMMANDS[name], *extra]
    with log.open("ab") as out:
        started = subprocess.Popen(command, stdout=out, stderr=out, env=dict(environment), cwd=PROJECT)
    try:
        yield started
    finally:
        started.terminate()
        try:
            code = started.wait(90)  # stop_grace_period
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
            raise
    assert code == 0, f"{name} ended with {code}: {log.read_text()[-2000:]}"


def answers(url: str) -> tuple[int, bytes]:
    """Status and body; 0 where nobody listens yet."""
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


def wait_healthy(url: str, process: Any, log: Path) -> bytes:
    """Until the address answers 200, as the health check asks."""
    deadline = time.monotonic() + HEALTHY_SECONDS
    while True:
        status, body = answers(url)
        if status == 200:
            return body
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"{url} answers {status}, process {process.poll()}: {log.read_text()[-2000:]}")
        time.sleep(0.5)


def test_services_start_as_the_file_says_and_get_healthy(stack: Addresses, tmp_path: Path, unique: str) -> None:
    home, prefix = tmp_path / "home", f"{unique}-"
    ports = {name: free_port(0) for name in (*NAMES, "topics", "dashboard")}
    own = {name: variables(name, stack, home, prefix, port) for name, port in ports.items()}
    logs = {name: tmp_path / f"{name}.log" for name in ports}

    one_shot = [sys.executable, "-m", "app.cli", *COMMANDS["topics"]]
    subprocess.run(one_shot, env=own["topics"], cwd=PROJECT, check=True, timeout=60, capture_output=True)
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka)
    assert {f"{prefix}{kind}" for kind in (*INPUTS, *OUTPUTS)} <= set(admin.list_topics())
    admin.close()

    with ExitStack() as running:
        jobs = {name: running.enter_context(service(name, own[name], logs[name])) for name in NAMES}
        for name, process in jobs.items():
            body = wait_healthy(f"http://{LOOPBACK}:{ports[name]}/healthz", process, logs[name])
            assert [(job, facts["healthy"]) for job, facts in json.loads(body)["jobs"].items()] == [(name, True)]
        # Compose gives the port with the command: the one of the image may be taken on this machine.
        port = ("--host", LOOPBACK, "--port", str(ports["dashboard"]))
        pages = running.enter_context(service("dashboard", own["dashboard"], logs["dashboard"], port))
        wait_healthy(f"http://{LOOPBACK}:{ports['dashboard']}/_stcore/health", pages, logs["dashboard"])
        assert all(process.poll() is None for process in (*jobs.values(), pages))
