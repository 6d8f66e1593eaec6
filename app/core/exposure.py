"""What goes over a network unencrypted, as the settings have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from app.core.ports import is_loopback
from app.core.settings import Settings


def warning(settings: Settings) -> str | None:
    """One line about connections to other machines that are not encrypted; None where there are none."""
    return warning_of(list(unencrypted(settings)))


def warning_of(found: Sequence[str]) -> str | None:
    """The same of connections that are named; None where there are none."""
    if not found:
        return None
    return (
        f"not encrypted: {'; '.join(found)}: others on the network can read and change what is sent, passwords included "
        "(docs/security.md)"
    )


def unencrypted(settings: Settings) -> Iterator[str]:
    """Each connection, by its setting."""
    kafka = settings.kafka
    servers = [host.strip() for host in (kafka.bootstrap_servers or "").split(",") if host.strip()]
    away = [host for host in servers if not is_loopback(urlsplit(f"//{host.rpartition('://')[2]}").hostname or "")]
    if away and kafka.security_protocol.endswith("PLAINTEXT"):
        yield f"kafka.bootstrap_servers {','.join(away)} by {kafka.security_protocol}"
    for name, address in addresses(settings, ""):
        if is_exposed(address):
            yield f"{name} {address}"
    for channel, own in settings.notify.channels.items():  # their addresses are secrets
        if is_exposed(own.url.get_secret_value()):
            yield f"notify.channels.{channel} by http"


def is_exposed(address: str) -> bool:
    """Whether what is asked there goes over a network as it is."""
    parts = urlsplit(address)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def addresses(group: BaseModel, name: str) -> Iterator[tuple[str, str]]:
    """All settings that hold addresses, by their dotted names."""
    for field in type(group).model_fields:
        value: Any = getattr(group, field)
        if isinstance(value, BaseModel):
            yield from addresses(value, f"{name}{field}.")
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, str) and one.startswith(("http://", "https://")):
                yield f"{name}{field}", one
