"""Files of kappa are for its user alone: they hold samples of log messages, and how servers are reached."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o077


def begin() -> None:
    """Let this process, and all that it starts, make files that only its user can read."""
    os.umask(PRIVATE)


def tighten(home: Path) -> None:
    """Make a folder that only its user may enter; one of an earlier release may be open. Another user's is left as it is."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(OSError):
        if home.stat().st_mode & PRIVATE:
            home.chmod(home.stat().st_mode & ~PRIVATE)
