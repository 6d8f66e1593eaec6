"""Names of versions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

VERSION_PATTERN = r"[a-z0-9][a-z0-9_-]{0,40}"
VersionName = Annotated[str, Field(pattern=f"^{VERSION_PATTERN}$")]
