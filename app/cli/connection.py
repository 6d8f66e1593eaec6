"""Which servers a command talks to: those that the settings name, else those of the embedded stack."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from app.cli.output import report
from app.core import logs
from app.core.exposure import warning
from app.core.server_files import check_files
from app.core.settings import Settings
from app.embedded import stack_state
from pipelines.errors import InputError

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings as TOML. Default: kappa.toml, if there.")]

ASKED_SECONDS = 2.0


def connected(
    settings: Settings, needed: tuple[str, ...] = ("kafka", "elasticsearch"), *, again: bool = False
) -> Settings:
    """Complete the addresses of servers that the settings leave out with those of the embedded stack; logs get their form.

    Parameters
    ----------
    settings
        The settings of the deployment.
    needed
        Servers that the command needs, `kafka`, `elasticsearch`, or both.
    again
        What is exposed or does not answer is not reported: the command was started again, or finds it by itself.

    Returns
    -------
    Settings
        The same settings, with both addresses where the embedded stack had to be asked.

    Raises
    ------
    InputError
        A needed address is not set and no embedded stack runs in `settings.home`.
    SettingsError
        A file that they name for a server that the command needs cannot be read.
    """
    logs.configure(settings.log.format)
    check_files(settings, needed)
    exposed = warning(settings)
    if exposed and not again:
        report(f"warning: {exposed}")
    kafka, elasticsearch = settings.kafka, settings.elasticsearch
    addresses = {"kafka.bootstrap_servers": kafka.bootstrap_servers, "elasticsearch.url": elasticsearch.url}
    unset = [name for name, value in addresses.items() if not value and name.startswith(needed)]
    if not unset:
        if "kafka" in needed and not again:
            _report_silence(kafka.bootstrap_servers or "")
        return settings
    embedded = stack_state.addresses(settings.home)
    if embedded is None:
        msg = f"{unset[0]} is not set and no embedded stack is running; run `kappa up`, or set {' and '.join(unset)}"
        raise InputError(msg)
    return settings.model_copy(
        update={
            "kafka": kafka.model_copy(update={"bootstrap_servers": kafka.bootstrap_servers or embedded.kafka}),
            "elasticsearch": elasticsearch.model_copy(update={"url": elasticsearch.url or embedded.elasticsearch}),
        }
    )


def _report_silence(addresses: str) -> None:
    """Report that no broker takes a connection, which a client finds out after half a minute alone."""
    reason = ""
    for address in addresses.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ASKED_SECONDS).close()
        except (OSError, OverflowError) as error:
            reason = f"{address.strip()}: {getattr(error, 'strerror', None) or error}"
        else:
            return
    report(f"Kafka does not answer yet ({reason}); trying for half a minute")
