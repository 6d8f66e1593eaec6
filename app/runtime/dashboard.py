"""Starts the Streamlit pages as a process of their own, on loopback by default, and ends it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from app.core.errors import SettingsError
from app.core.ports import LOOPBACK, asked_at, is_loopback, location, port_is_free
from app.core.proxies import HERE
from app.core.settings import PROJECT, Settings
from app.core.user_name import user_name
from app.runtime.score_server import serving_scores
from app.supervision.parent import PYTHON
from app.supervision.processes import python_path
from app.versions import serving
from pipelines.errors import KappaError

PAGE = PROJECT / "dashboards" / "navigation.py"
DEFAULT_PORT = 8501
PREFIX = "KAPPA_"
# Streamlit's own colours of words are too faint on their background: these have a contrast of 4.5 or more (WCAG 2, AA).
THEME = {
    "theme.light.primaryColor": "#0b4f8a",
    "theme.light.textColor": "#0e1117",
    "theme.light.codeTextColor": "#00140c",
    "theme.light.yellowTextColor": "#6b4e00",
    "theme.dark.primaryColor": "#8cc8ff",
    "theme.dark.textColor": "#ffffff",
    "theme.dark.codeTextColor": "#d9fbe8",
}
NO_SCORES: Mapping[str, str] = MappingProxyType({})


def serve(
    settings: Settings, port: int, stopping: threading.Event, report: Callable[[str], None], host: str = LOOPBACK
) -> None:
    """Serve the pages until `stopping` is set. Raises KappaError when the port is taken or the server ends by itself.

    `host`: the address to listen on. With `dashboard.sign_in = "code"` nobody can sign in but on loopback.
    """
    if not port_is_free(port, host):
        msg = f"dashboard: cannot listen on {location(host, port)}: it is taken, or no address of this machine; see --port, --host"
        raise KappaError(msg)
    report(f"dashboard at http://{location(host, port)}; Ctrl-C stops")
    with served(settings, port, report, host) as (server, _):
        while not stopping.wait(0.5):
            if server.poll() is not None:
                msg = f"dashboard: Streamlit ended with exit code {server.returncode}; see {log_file(settings)}"
                raise KappaError(msg)


@contextmanager
def served(
    settings: Settings, port: int, report: Callable[[str], None], host: str = LOOPBACK
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Streamlit and the code to sign in with, while the block runs. Raises SettingsError where nobody could sign in as the settings say."""
    code = new_code(settings, host)
    with ExitStack() as within:
        folder = within.enter_context(TemporaryDirectory(prefix="kappa-"))  # only its user can read it
        secrets = write_secrets(settings, Path(folder))
        scores = within.enter_context(serving_scores(settings))
        server = start(settings, port, host, code, secrets, scores)
        try:
            if code:
                report(f"to sign in on the dashboard: the code {code}")
            elif settings.dashboard.sign_in == "code":
                report(f"{host} is not loopback: the dashboard can only be read; dashboard.sign_in has ways to sign in")
            yield server, code
        finally:
            end(server)


@contextmanager
def running(settings: Settings, report: Callable[[str], None]) -> Iterator[str | None]:
    """The address of pages that are served inside the block; None where no port is free."""
    port = next((p for p in range(DEFAULT_PORT, DEFAULT_PORT + 20) if port_is_free(p)), None)
    if port is None:
        yield None
        return
    with served(settings, port, report):
        yield f"http://127.0.0.1:{port}"


def new_code(settings: Settings, host: str) -> str:
    """The code to sign in with; empty where there is none: on an address that others reach it would go in clear."""
    return secrets.token_urlsafe(12) if settings.dashboard.sign_in == "code" and is_loopback(host) else ""


def write_secrets(settings: Settings, folder: Path) -> Path | None:
    """Streamlit's file for OpenID Connect; None for another way to sign in. Raises SettingsError for what is missing."""
    own = settings.dashboard
    if own.sign_in == "proxy" and own.proxy_secret is None:
        msg = 'dashboard.proxy_secret is not set; wanted with dashboard.sign_in = "proxy", else anybody could send the headers'
        raise SettingsError(msg)
    if own.sign_in != "oidc":
        return None
    needed = {
        "oidc_metadata_url": own.oidc_metadata_url,
        "oidc_client_id": own.oidc_client_id,
        "oidc_client_secret": own.oidc_client_secret and own.oidc_client_secret.get_secret_value(),
        "oidc_redirect_url": own.oidc_redirect_url,
    }
    missing = [f"dashboard.{name}" for name, value in needed.items() if not value]
    if missing:
        msg = f'{", ".join(missing)} not set; wanted with dashboard.sign_in = "oidc"'
        raise SettingsError(msg)
    file = folder / "secrets.toml"
    lines = {
        "server_metadata_url": needed["oidc_metadata_url"],
        "client_id": needed["oidc_client_id"],
        "client_secret": needed["oidc_client_secret"],
        "redirect_uri": needed["oidc_redirect_url"],
        "cookie_secret": secrets.token_urlsafe(32),
    }
    file.touch(mode=0o600)
    # JSON's strings are TOML's as well.
    file.write_text("[auth]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()))
    return file


def access(settings: Settings, code: str) -> dict[str, Any]:
    """How to sign in and who has which role, as `dashboards.identity.Access` reads it. Without a code there is no way to sign in by one."""
    own = settings.dashboard
    return {
        "way": "" if own.sign_in == "code" and not code else own.sign_in,
        "code": code,
        "user": user_name(),
        "user_header": own.proxy_user_header,
        "groups_header": own.proxy_groups_header,
        "secret": own.proxy_secret.get_secret_value() if own.proxy_secret else "",
        "viewers": own.viewers,
        "responders": own.responders,
        "operators": own.operators,
    }


def log_file(settings: Settings) -> Path:
    """Where Streamlit writes what it has to say."""
    return settings.home / "logs" / "dashboard.log"


def environment(settings: Settings, code: str = "", scores: Mapping[str, str] = NO_SCORES) -> dict[str, str]:
    """The environment of the pages: addresses of servers and jobs, the code to sign in with, and settings for the commands that they run.

    `scores`: what `serving_scores` answers.

    Pages read no settings. Secrets go with the environment of their process, which only its user can read.
    """
    own = settings.elasticsearch
    hidden = {"PASSWORD": own.password, "API_KEY": own.api_key}
    variables = {
        "URL": own.url or "",
        "VERSION": serving.current(settings).version,  # where `serving_scores` does not answer
        "USERNAME": own.username or "",
        **{name: s.get_secret_value() if s else "" for name, s in hidden.items()},
        "CA_CERTS": str(own.ca_certs or ""),
        "CLIENT_CERT": str(own.client_cert or ""),
        "CLIENT_KEY": str(own.client_key or ""),
        "KIBANA_URL": settings.dashboard.kibana_url or "",
        "RUNBOOKS": json.dumps([asdict(one) for one in settings.dashboard.all_runbooks]),
        "JOBS": json.dumps(job_addresses(settings)),
        "RUN": str(settings.home / "run"),
        "ACCESS": json.dumps(access(settings, code)),
        "COMMAND": json.dumps([*PYTHON, "app.cli"]),
        **scores,
    }
    own_path = {"PYTHONPATH": python_path()}
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    return (
        inherited
        | own_path
        | as_variables(settings)
        | {f"{PREFIX}LOG": json.dumps({"format": "text"})}  # pages show people what commands write
        | {f"{PREFIX}DASHBOARD_{name}": text for name, text in variables.items()}
    )


def job_addresses(settings: Settings) -> list[str]:
    """Addresses at which processes serve the health of jobs: those of `dashboard.jobs`, else that of `health.port`."""
    named = list(settings.dashboard.jobs)
    own = settings.health
    return named or ([asked_at(own.host, own.port)] if own.port else [])


def as_variables(settings: Settings) -> dict[str, str]:
    """Effective settings as environment variables, secrets in clear: a variable for each group, as JSON.

    They include what was set by file or argument, so a command with these variables needs neither.
    """
    shown = settings.model_dump(
        mode="json", exclude={"version", "notify"}
    )  # the version comes as an option; no page notifies
    return {f"{PREFIX}{name.upper()}": text(value) for name, value in revealed(settings, shown).items()}


def revealed(settings: Settings, shown: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON types, with the secrets that `model_dump` masks."""
    for group in type(settings).model_fields:
        inner = getattr(settings, group)
        for name in type(inner).model_fields if isinstance(inner, BaseModel) else ():
            value = getattr(inner, name)
            if isinstance(value, SecretStr):
                shown[group][name] = value.get_secret_value()
    return {name: value for name, value in shown.items() if value is not None}


def text(value: Any) -> str:
    """The text of an environment variable: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def start(
    settings: Settings, port: int, host: str, code: str, secrets_file: Path | None, scores: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start Streamlit. Its environment has all that the pages need."""
    options = {
        "server.port": str(port),
        "server.address": host,
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "viewer",
        # No page asks for a file: whoever has a session, signed in or not, could fill the memory with them.
        "server.maxUploadSize": "0",
        # What goes wrong within is for the log, not for whoever looks.
        "client.showErrorDetails": "none",
        **THEME,
        **({"secrets.files": str(secrets_file)} if secrets_file else {}),
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    flags += [f"--server.allowedHosts={name}" for name in known_names(settings, host)]
    command = [*PYTHON, "streamlit", "run", str(PAGE), *flags]
    log = log_file(settings)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            env=environment(settings, code, scores),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def known_names(settings: Settings, host: str) -> list[str]:
    """The names by which the pages are opened; none for all: of another address than loopback nobody here knows how it is reached.

    By another name a page of the web may come, whose name leads here (DNS rebinding).
    """
    own, named = settings.dashboard, [*settings.dashboard.names]
    if not named and not is_loopback(host):
        return []
    links = [urlsplit(link).hostname for link in (settings.notify.link, own.oidc_redirect_url) if link]
    return [*HERE, host.strip("[]"), *(name for name in links if name), *named]


def end(server: subprocess.Popen[bytes]) -> None:
    """End Streamlit: SIGTERM, then SIGKILL."""
    server.terminate()
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
