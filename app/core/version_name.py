"""Names of versions."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

VERSION_PATTERN = r"[a-z0-9][a-z0-9_-]{0,40}"


def version_name(name: str) -> str:
    """The name as it is. Raises ValueError for one that topics and indices cannot have."""
    if not re.fullmatch(VERSION_PATTERN, name):
        msg = "wanted a name of a to z, 0 to 9, _ and -, at most 41 of them, with a letter or digit first"
        raise ValueError(msg)
    return name


VersionName = Annotated[str, AfterValidator(version_name)]
