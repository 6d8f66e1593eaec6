"""What is secret, by its name and by its form: settings, options of Spark and Kafka, keys of log lines, addresses with a password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "**********"
# Also the pattern that Spark redacts by, so it is one that Java reads too. A file's path or an address is no secret.
SECRET_NAMES = (
    r"(?i)pass(word|wd|phrase)|secret|token(?![._]?(url|endpoint))|credential|jaas|sasl\S{0,80}config|cookie|authorization"
    r"|(api|access|account|private|shared|encryption)[._-]?key|keystore[._-]key$|[._-]key$"
)
NAMED = re.compile(SECRET_NAMES)
IN_ADDRESS = re.compile(r"(?<=//)[^\s/@]{1,512}@")


class SecretInAddress(ValueError):
    """An address that holds a user or a password; the message does not say it."""


def is_secret(name: str) -> bool:
    """Whether something of this name is a secret."""
    return NAMED.search(name) is not None


def masked(value: Any, name: str = "") -> Any:
    """The same value without secrets: those under a secret name, and passwords in addresses."""
    if isinstance(value, Mapping):
        return {key: masked(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner, name) for inner in value]
    if value and is_secret(name) and isinstance(value, str | bytes):
        return MASK
    return without_password(value) if isinstance(value, str) else value


def without_password(text: str) -> str:
    """A text in which addresses show no user and password."""
    return IN_ADDRESS.sub(f"{MASK}@", text) if "//" in text else text


def checked_address(address: str) -> str:
    """An address, or several after commas, as they are. Raises SecretInAddress where one holds a user or a password."""
    if any(
        "@" in one.rpartition("//")[2].partition("?")[0] or is_secret(one.partition("?")[2])
        for one in address.split(",")
    ):
        msg = "an address may hold no user and no password, which logs and pages would show: use the settings for them"
        raise SecretInAddress(msg)
    return address
