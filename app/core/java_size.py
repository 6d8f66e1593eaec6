"""Sizes as Java writes them: `2g`, `1500m`."""

from __future__ import annotations

import re

SIZE = re.compile(r"([1-9]\d*)([kmgt]?)b?", re.IGNORECASE)
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def java_size(size: str) -> str:
    """The size as it is. Raises ValueError for what Java would not read."""
    bytes_of(size)
    return size


def bytes_of(size: str) -> int:
    """A size in bytes. Raises ValueError for what Java would not read."""
    match = SIZE.fullmatch(size)
    if match is None:
        msg = "wanted a size such as 2g or 1500m"
        raise ValueError(msg)
    return int(match[1]) * UNITS[match[2].lower()]
