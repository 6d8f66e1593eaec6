"""Starts the Streamlit pages as a process of their own, on loopback by default, and ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from app.core.ports import LOOPBACK, port_is_free
from app.core.settings import PROJECT, Settings
from pipelines.errors import KappaError

PAGE = PROJECT / "dashboards" / "navigation.py"
DEFAULT_PORT = 8501
PREFIX = "KAPPA_"


def serve(
    settings: Settings, port: int, stopping: threading.Event, report: Callable[[str], None], host: str = LOOPBACK
) -> None:
    """Serve the pages until `stopping` is set. Raises KappaError when the port is taken or the server ends by itself.

    `host`: the address to listen on. The pages ask nobody for a password: any address but loopback needs protection by other means.
    """
    if not port_is_free(port, host):
        msg = (
            f"dashboard: cannot listen on {host}:{port}: it is taken, or no address of this machine; see --port, --host"
        )
        raise KappaError(msg)
    server = start(settings, port, host)
    report(f"dashboard at http://{host}:{port}; Ctrl-C stops")
    try:
        while not stopping.wait(0.5):
            if server.poll() is not None:
                msg = f"dashboard: Streamlit ended with exit code {server.returncode}"
                raise KappaError(msg)
    finally:
        end(server)


@contextmanager
def running(settings: Settings, report: Callable[[str], None]) -> Iterator[str | None]:
    """The address of pages that are served inside the block; None where no port is free."""
    port = next((p for p in range(DEFAULT_PORT, DEFAULT_PORT + 20) if port_is_free(p)), None)
    if port is None:
        yield None
        return
    server = start(settings, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        end(server)


def environment(settings: Settings) -> dict[str, str]:
    """The environment of the pages: the addresses of servers and jobs, and the settings for the commands that they run.

    Pages read no settings. Secrets go with the environment of their process, which only its user can read.
    """
    own = settings.elasticsearch
    secrets = {"PASSWORD": own.password, "API_KEY": own.api_key}
    variables = {
        "URL": own.url or "",
        "VERSION": settings.version,
        "USERNAME": own.username or "",
        **{name: s.get_secret_value() if s else "" for name, s in secrets.items()},
        "CA_CERTS": str(own.ca_certs or ""),
        "KIBANA_URL": settings.dashboard.kibana_url or "",
        "JOBS": json.dumps(job_addresses(settings)),
        "RUN": str(settings.home / "run"),
        "COMMAND": json.dumps([sys.executable, "-m", "app.cli"]),
    }
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    return inherited | as_variables(settings) | {f"{PREFIX}DASHBOARD_{name}": text for name, text in variables.items()}


def job_addresses(settings: Settings) -> list[str]:
    """Addresses at which processes serve the health of jobs: those of `dashboard.jobs`, else that of `health.port`."""
    named = list(settings.dashboard.jobs)
    own = settings.health
    return named or ([f"http://{own.host}:{own.port}"] if own.port else [])


def as_variables(settings: Settings) -> dict[str, str]:
    """Effective settings as environment variables, secrets in clear: a variable for each group, as JSON.

    They include what was set by file or argument, so a command with these variables needs neither.
    """
    shown = settings.model_dump(mode="json", exclude={"version"})  # commands get the version as an option
    return {f"{PREFIX}{name.upper()}": text(value) for name, value in revealed(settings, shown).items()}


def revealed(settings: Settings, shown: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON types, with the secrets that `model_dump` masks."""
    for group in ("kafka", "elasticsearch"):
        inner = getattr(settings, group)
        for name in type(inner).model_fields:
            value = getattr(inner, name)
            if isinstance(value, SecretStr):
                shown[group][name] = value.get_secret_value()
    return {name: value for name, value in shown.items() if value is not None}


def text(value: Any) -> str:
    """The text of an environment variable: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def start(settings: Settings, port: int, host: str = LOOPBACK) -> subprocess.Popen[bytes]:
    """Start Streamlit. Its environment has all that the pages need."""
    options = {
        "server.port": str(port),
        "server.address": host,
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "viewer",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "streamlit", "run", str(PAGE), *flags]
    return subprocess.Popen(
        command,
        env=environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end(server: subprocess.Popen[bytes]) -> None:
    """End Streamlit: SIGTERM, then SIGKILL."""
    server.terminate()
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
