"""Who runs this, as people know them."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """The name of the user, from the environment or the system; of one that has none, as in a container under any id, `uid-ID`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # which of them depends on the release of Python
        return f"uid-{os.getuid()}"
