"""Paths in settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator


def path_of_user(text: Any) -> Any:
    """A path with `~` as a shell reads it. Raises ValueError for an empty one, which would be the working directory."""
    if text == "":
        msg = "wanted a path, and this is empty: leave the setting out for its default"
        raise ValueError(msg)
    try:
        return Path(text).expanduser() if isinstance(text, str) else text
    except RuntimeError as error:
        msg = "wanted a path without ~, as the home folder of that user is not known"
        raise ValueError(msg) from error


UserPath = Annotated[Path, BeforeValidator(path_of_user)]
