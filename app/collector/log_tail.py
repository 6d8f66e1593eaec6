"""Follows log files through rotation, truncation and half-written lines, and reads a line's time, service and level."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, BinaryIO

from app.core.timestamps import LAST_MS, iso_millis
from pipelines.inputs.syslog import RFC5424

LONGEST_LINE = 64 * 1024
CHUNK = 256 * 1024
LEVEL_WITHIN = 200  # characters at the beginning of a line in which its level is looked for
SYSLOG_LEVELS = ("fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug")
_LEVELS = {
    "TRACE": "trace", "DEBUG": "debug", "INFO": "info", "NOTICE": "info", "WARN": "warn", "WARNING": "warn",
    "ERR": "error", "ERROR": "error", "CRIT": "fatal", "CRITICAL": "fatal", "FATAL": "fatal", "PANIC": "fatal",
    "ALERT": "fatal", "EMERG": "fatal",
}  # fmt: skip
_WORDS = "|".join(sorted(_LEVELS, key=len, reverse=True))
# Capitals anywhere; small letters only as [error], level=error or error: because prose has those words as well.
_LEVEL = re.compile(
    rf"\b(?P<a>{_WORDS})\b|\[(?P<b>(?i:{_WORDS}))\]|\blevel[=:]\s*\"?(?P<c>(?i:{_WORDS}))\b|\b(?P<d>(?i:{_WORDS})):"
)
_ISO_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_RFC5424 = re.compile(RFC5424)  # groups: priority, time, host, app-name, message
_RFC3164 = re.compile(
    r"(?:<(?P<pri>\d{1,3})>)?(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ "
    r"(?P<app>[^\s:\[]+)(?:\[\d+\])?: ?(?P<rest>.*)",
    re.S,
)
_ISO_SYSLOG = re.compile(rf"(?P<time>{_ISO_TIME}) \S+ (?P<app>[\w./-]+)(?:\[\d+\]): ?(?P<rest>.*)", re.S)
_ISO_LINE = re.compile(rf"\[?(?P<time>{_ISO_TIME})\]?\s+(?P<rest>.*)", re.S)


@dataclass
class _File:
    """An open file; known by its inode, so that a rename does not matter."""

    path: str
    handle: BinaryIO
    partial: bytes = b""
    overlong: bool = False


@dataclass
class LogTail:
    """Follows all files that the glob patterns match; every `read` finds new, renamed and truncated ones.

    What exists at the first `read` is followed from its end unless `from_start`; what comes later from its beginning. A
    file is known by its inode: after a rotation by renaming the rest of the old file is read first, and a file that
    became shorter is read from its beginning. Lines beyond 64 KiB are cut, invalid UTF-8 is replaced, empty lines are
    left out. `unreadable` has the files that could not be opened, and why.
    """

    patterns: Sequence[str]
    from_start: bool = False
    unreadable: dict[str, str] = field(default_factory=dict)
    _open: dict[tuple[int, int], _File] = field(default_factory=dict, repr=False)
    _begun: bool = field(default=False, repr=False)

    def read(self, most: int = 5_000) -> list[tuple[str, str]]:
        """Up to about `most` new complete lines as (path, text), in order for each file; the rest waits in the file."""
        present = self._matching()
        out: list[tuple[str, str]] = []
        for key, file in list(self._open.items()):
            if len(out) >= most:
                return out
            exhausted = self._drain(file, out, most)
            if exhausted and key not in present:  # rotated away, and read to its end
                _finish(file, out)
                file.handle.close()
                del self._open[key]
        return out

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.handle.close()
        self._open.clear()

    def _matching(self) -> set[tuple[int, int]]:
        """Open new files; returns the identities of all files that match the patterns now."""
        present = set()
        for pattern in self.patterns:
            for path in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - patterns may be absolute
                key = self._opened(path)
                if key is not None:
                    present.add(key)
        self._begun = True
        return present

    def _opened(self, path: str) -> tuple[int, int] | None:
        try:
            status = Path(path).stat()
            key = (status.st_dev, status.st_ino)
            if key in self._open:
                self._open[key].path = path
                return key
            if not Path(path).is_file():
                return None
            handle = Path(path).open("rb")  # noqa: SIM115 - stays open: the handle is what survives a rename
        except OSError as error:
            self.unreadable[path] = error.strerror or str(error)
            return None
        self.unreadable.pop(path, None)
        if not self._begun and not self.from_start:
            handle.seek(0, 2)
        self._open[key] = _File(path, handle)
        return key

    def _drain(self, file: _File, out: list[tuple[str, str]], most: int) -> bool:
        """Read complete lines; True when the file's end is reached."""
        if os.fstat(file.handle.fileno()).st_size < file.handle.tell():  # truncated in place
            file.handle.seek(0)
            file.partial, file.overlong = b"", False
        while len(out) < most:
            chunk = file.handle.read(CHUNK)
            if not chunk:
                return True
            _split(file, chunk, out)
        return False


def _split(file: _File, chunk: bytes, out: list[tuple[str, str]]) -> None:
    *lines, rest = (file.partial + chunk).split(b"\n")
    for line in lines:
        if file.overlong:  # the end of a line whose beginning was returned already
            file.overlong = False
            continue
        _give(file.path, line, out)
    if len(rest) > LONGEST_LINE and not file.overlong:
        _give(file.path, rest, out)
        file.overlong = True
    file.partial = b"" if file.overlong else rest


def _finish(file: _File, out: list[tuple[str, str]]) -> None:
    if file.partial and not file.overlong:
        _give(file.path, file.partial, out)


def _give(path: str, line: bytes, out: list[tuple[str, str]]) -> None:
    text = line[:LONGEST_LINE].decode("utf-8", "replace").rstrip("\r").replace("\x00", "")
    if text.strip():
        out.append((path, text))


def log_event(line: str, path: str, host: str, now: int, zone: tzinfo | None = None) -> dict[str, Any]:
    """The canonical event of a line that was read at `now` (epoch ms).

    Time, service and level are taken from RFC 5424 and RFC 3164 headers or an ISO 8601 time at the beginning, else the
    time is `now`, the service the file's name, the level what a word in the line says, else info. Times without a zone
    are in `zone`, the machine's own where it is None.
    """
    parts = _header(line)
    message = parts.get("rest") or line
    at = _moment(parts["time"], now, zone) if parts else None
    app = parts.get("app")
    return {
        "@timestamp": iso_millis(now if at is None else at),
        "host.name": host,
        "service.name": app if app and app != "-" else Path(path).name.split(".")[0] or "log",
        "log.level": SYSLOG_LEVELS[int(parts["pri"]) % 8] if parts.get("pri") else level_of(message),
        "message": message,
    }


def _header(line: str) -> dict[str, str]:
    """The parts of a line with a header, without those that are missing: `pri`, `time`, `app`, and `rest`, the message after it."""
    syslog = _RFC5424.match(line)
    if syslog:
        priority, time, _, app, message = syslog.groups()
        return {"pri": priority, "time": time, "app": app, "rest": (message or "").removeprefix("\ufeff")}
    header = _RFC3164.match(line) or _ISO_SYSLOG.match(line) or _ISO_LINE.match(line)
    return {name: text for name, text in header.groupdict().items() if text is not None} if header else {}


def level_of(message: str) -> str:
    """The level that the beginning of a message names, else info."""
    found = _LEVEL.search(message[:LEVEL_WITHIN])
    if found is None:
        return "info"
    return _LEVELS[next(word for word in found.groups() if word).upper()]


def _moment(text: str, now: int, zone: tzinfo | None) -> int | None:
    """Epoch milliseconds, or None where the text is no time that an event has."""
    if text == "-":
        return None
    try:
        at = _with_year(text, zone) if text[:1].isdigit() else _without_year(text, now, zone)
    except (ValueError, OverflowError):  # a calendar ends with the year 9999, wherever one is then
        return None
    return at if 0 <= at < LAST_MS else None


def _with_year(text: str, zone: tzinfo | None) -> int:
    found = datetime.fromisoformat(text.replace(",", "."))
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone) if zone else found.astimezone()
    return round(found.timestamp() * 1000)


def _without_year(text: str, now: int, zone: tzinfo | None) -> int:
    """RFC 3164 leaves the year out: the last one in which that moment is not more than a day ahead."""
    local = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone)
    found = datetime.strptime(f"{local.year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=local.tzinfo)
    if found > local + timedelta(days=1):
        found = found.replace(year=local.year - 1)
    return round(found.timestamp() * 1000)
