"""Addresses that people follow in a browser, and those that we post to."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from app.core.secrets import checked_address


def web_address(address: str) -> str:
    """The address as it is. Raises ValueError for one that is not http:// or https:// with a host; the message does not say the address."""
    try:
        split = urlsplit(address)
        has_host = bool(split.hostname) and split.port != 0
    except ValueError:  # of a port that is none
        has_host = False
    if not has_host or split.scheme not in ("http", "https"):
        msg = (
            "wanted an address that begins with http:// or https:// and names a host, and perhaps a port of 1 to 65535"
        )
        raise ValueError(msg)
    if not address.isprintable() or " " in address:
        msg = "an address has no spaces and no line ends"
        raise ValueError(msg)
    return address


def checked_link(address: str) -> str:
    """A web address without a user or a password, as it is. Raises ValueError."""
    return web_address(checked_address(address))


Link = Annotated[str, AfterValidator(checked_link)]  # people see it
