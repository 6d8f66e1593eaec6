"""Files of certificates and keys that the settings of a server name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.core.errors import SettingsError
from app.core.settings import Settings


def check_files(settings: Settings, servers: Iterable[str]) -> None:
    """Raise SettingsError for a file that the settings of a server name and that cannot be read: no client says which setting that is."""
    for group in servers:
        for name, file in getattr(settings, group):
            if isinstance(file, Path):
                try:
                    file.open("rb").close()
                except OSError as error:
                    msg = f"settings: {group}.{name} = {file.absolute()} cannot be read ({error.strerror}); wanted a PEM file that this user can read"
                    raise SettingsError(msg) from error
