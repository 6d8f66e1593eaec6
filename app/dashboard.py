"""Starts the Streamlit pages as a process of their own, on loopback unless told otherwise, and ends it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.errors import KappaError
from app.ports import LOOPBACK
from app.settings import PROJECT, Settings

PAGE = PROJECT / "dashboards" / "overview.py"
DEFAULT_PORT = 8501


def serve(
    settings: Settings, port: int, stopping: threading.Event, report: Callable[[str], None], host: str = LOOPBACK
) -> None:
    """Serve the pages until told to stop. Raises KappaError when the port is taken or the server ends by itself.

    `host`: the address to listen on. The pages ask nobody for a password: another one than loopback needs a guard.
    """
    if not is_free(port, host):
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
    """Pages beside something else; None where no port could be had."""
    port = next((p for p in range(DEFAULT_PORT, DEFAULT_PORT + 20) if is_free(p)), None)
    if port is None:
        yield None
        return
    server = start(settings, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        end(server)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server can listen on this port of an address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def start(settings: Settings, port: int, host: str = LOOPBACK) -> subprocess.Popen[bytes]:
    """Start Streamlit; where Elasticsearch is and which version to show go with the environment."""
    own = settings.elasticsearch
    secrets = {"PASSWORD": own.password, "API_KEY": own.api_key}
    environment = os.environ | {
        "KAPPA_DASHBOARD_URL": own.url or "",
        "KAPPA_DASHBOARD_VERSION": settings.version,
        "KAPPA_DASHBOARD_USERNAME": own.username or "",
        **{f"KAPPA_DASHBOARD_{name}": s.get_secret_value() if s else "" for name, s in secrets.items()},
        "KAPPA_DASHBOARD_CA_CERTS": str(own.ca_certs or ""),
    }
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
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def end(server: subprocess.Popen[bytes]) -> None:
    """End Streamlit, at the last by force."""
    server.terminate()
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
