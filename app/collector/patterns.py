"""The paths that a glob pattern matches: each folder is looked into once, however many links lead to it.

Two links in a watched folder that lead to the folder itself would otherwise make more paths than fit into memory.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from pathlib import Path

from app.collector.links import led_to

MOST_PATHS = 100_000  # that match a pattern, and folders on the way to them
ANY_FOLDERS = "**"


def matching(pattern: str, refuse: Callable[[str, str], None]) -> list[str]:
    """What matches a pattern, sorted, as `glob` with `recursive=True` has it, and no folder twice.

    A folder is named by its own path where the pattern matches that, else by a link that `app.collector.links` follows. `refuse` is called
    with a link that is not followed, and with a pattern that matches too much, and why.
    """
    search = _Search(refuse)
    *folders, last = Path(pattern).parts or (os.curdir,)
    at: Iterable[str] = [""]
    for part in folders:
        at = search.folders(at, below=True) if part == ANY_FOLDERS else search.folders(search.named(part, at))
    if last == ANY_FOLDERS:
        at, last = search.folders(at, below=True), "*"
    found = sorted(search.named(last, at))
    if search.is_cut:
        refuse(pattern, f"it matches more than {MOST_PATHS} files and folders")
    return found


class _Search:
    """The search for one pattern; `is_cut` where it matches too much."""

    def __init__(self, refuse: Callable[[str, str], None]) -> None:
        self._refuse = refuse
        self.is_cut = False

    def named(self, part: str, folders: Iterable[str]) -> Iterator[str]:
        """What matches a part of the pattern in these folders."""
        yield from self._bounded(
            os.path.join(folder, name)  # noqa: PTH118 - a pattern may match many
            for folder in folders
            for name in glob(part, root_dir=folder or None)  # noqa: PTH207
        )

    def folders(self, paths: Iterable[str], *, below: bool = False) -> Iterator[str]:
        """The folders among paths, with `below` also those in them, each once."""
        yield from self._bounded(self._distinct(paths, below))

    def _bounded(self, paths: Iterable[str]) -> Iterator[str]:
        for number, path in enumerate(paths):
            if number == MOST_PATHS:
                self.is_cut = True
                return
            yield path

    def _distinct(self, paths: Iterable[str], below: bool) -> Iterator[str]:
        seen: set[tuple[int, int]] = set()
        real, links = deque[str](), deque[str]()
        for path in paths:
            (links if os.path.islink(path) else real).append(path)  # noqa: PTH114
        while real or links:
            is_link = not real
            path = links.popleft() if is_link else real.popleft()
            try:
                status = os.stat(path or os.curdir)  # noqa: PTH116
            except OSError:  # not there any more, or a link to nothing
                continue
            identity = status.st_dev, status.st_ino
            if identity in seen or not stat.S_ISDIR(status.st_mode) or (is_link and not self._is_followed(path)):
                continue
            seen.add(identity)
            yield path
            if below:
                for name, leads_on in _folders_in(path):
                    (links if leads_on else real).append(os.path.join(path, name))  # noqa: PTH118

    def _is_followed(self, link: str) -> bool:
        try:
            led_to(link)
        except OSError as error:
            self._refuse(link, error.strerror or str(error))
            return False
        return True


def _folders_in(folder: str) -> list[tuple[str, bool]]:
    """The names of what may be a folder in another one, in order, and which of them are links. Hidden ones are left out, as `**` has it."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            shown = [each for each in entries if not each.name.startswith(".")]
            return sorted((each.name, each.is_symlink()) for each in shown if each.is_symlink() or each.is_dir())
    except OSError:
        return []
