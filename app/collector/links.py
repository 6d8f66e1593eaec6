"""Links on the way to a file: followed where whoever made one may say what is read there.

Who may write into a watched folder could otherwise have any file sent that the collector can read, by a link to it: the passwords of the
machine, or the log of another service under another name. So a link must be root's, the collector's own user's, or of whose file it
leads to, as Linux has it for links in folders that all may write to, and Apache with `SymLinksIfOwnerMatch`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

ROOT = 0
MOST_LINKS = 40  # as Linux


def led_to(path: str) -> str:
    """Where a path leads, without links. Raises OSError for what is not there, and for a link that is not followed."""
    at, links = Path(os.sep), 0
    left = list(reversed((Path.cwd() / path).parts))
    while left:
        part = left.pop()
        here = at.parent if part == os.pardir else at / part  # `/` begins anew
        status = here.lstat()
        if not stat.S_ISLNK(status.st_mode):
            at = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if status.st_uid not in (ROOT, os.geteuid(), here.stat().st_uid):
            raise PermissionError(errno.EPERM, "a link of another user than whose file it leads to")
        left += reversed(here.readlink().parts)
    return str(at)


def place_of(descriptor: int, path: str) -> str:
    """Where an open file lies, which nobody can alter meanwhile; where the system does not say, what the path leads to now."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return str(Path(path).resolve())
