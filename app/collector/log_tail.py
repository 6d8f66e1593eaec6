"""Follows log files through rotation, truncation and half-written lines, and reads a line's time, service and level."""

from __future__ import annotations

import os
import re
import resource
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import structlog

from app.collector.links import led_to, place_of
from app.collector.patterns import matching
from app.core.timestamps import LAST_MS, iso_millis
from models.records.log_levels import level_named, level_of
from pipelines.inputs.shippers import SERVICE_PATTERNS
from pipelines.inputs.syslog import RFC5424

log = structlog.get_logger()

LONGEST_LINE = 64 * 1024
CHUNK = 256 * 1024
MOST_BYTES = 16 << 20  # in one turn: an endless line makes none
MOST_FILES = 10_000  # that are followed, and at most half of those that this process may have open
MOST_NAMED = 100  # files that cannot be followed
MOST_REMEMBERED = 50_000  # files that are not open
CHECKED_BYTES = 256  # before the place at which a file was left
SECONDS = 19  # characters of a time up to its seconds
# How files begin that gzip, xz, zstd, lz4 and bzip2 make, as rotation does: their bytes are no lines.
COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"BZh91AY&SY")
MARK_BYTES = max(map(len, COMPRESSED))
LEFT_SECONDS = 60  # a renamed file is read on until nothing has come for so long
# With its zone, never without one that it has: a host's name may follow.
_ZONE = r"(?:Z|[+-]\d\d:?\d\d| ?(?:UTC|GMT)| Z| [+-](?:0\d|1[0-4]):?(?:00|30|45))(?![\w:+-])"
_ISO_TIME = rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:{_ZONE})?+"
_RFC5424 = re.compile(RFC5424)  # groups: priority, time, host, app-name, message
_RFC3164 = re.compile(
    r"(?:<(?P<pri>\d{1,3})>)?(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ "
    r"(?P<app>[^\s:\[]+)(?:\[\d+\])?: ?(?P<rest>.*)",
    re.S,
)
_ISO_SYSLOG = re.compile(rf"(?P<time>{_ISO_TIME}) \S+ (?P<app>[\w./-]+)(?:\[\d+\]): ?(?P<rest>.*)", re.S)
_ISO_LINE = re.compile(rf"\[?(?P<time>{_ISO_TIME})\]?\s+(?P<rest>.*)", re.S)
_OF_CONTAINER, _BEFORE, _BEHIND, _RUN = (re.compile(each.replace(r"\z", r"\Z")) for each in SERVICE_PATTERNS[1:])


@dataclass(frozen=True)
class _Place:
    """How far a file was read; the bytes before tell whether it is another one under its inode by now, or written again."""

    offset: int
    before: bytes = b""

    def begin(self, descriptor: int) -> int:
        """Where to go on in a file that was opened: at its beginning where it is shorter, or another one. Raises OSError."""
        same = bytes_before(descriptor, self.offset, len(self.before)) == self.before
        return self.offset if same and os.fstat(descriptor).st_size >= self.offset else 0


BEGINNING = _Place(0)


@dataclass
class _File:
    """An open file; known by its inode, so that a rename does not matter."""

    path: str
    handle: BinaryIO
    place: _Place = BEGINNING  # up to which it was read
    written: int | None = None  # when it was written last, ns, as it was read
    partial: bytes = b""
    overlong: bool = False
    failed: bool = False  # when it was last read
    compressed: bool = False
    quiet_since: float | None = None  # of a file that matches no pattern any more

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Whether nothing was written since it was read to its end."""
        return (status.st_size, status.st_mtime_ns) == (self.place.offset, self.written) and not self.failed

    def is_rewritten(self) -> bool:
        """Whether it was truncated and written again: what was read of it is gone. Raises OSError."""
        return bool(self.place.offset) and not self.place.begin(self.handle.fileno())

    def note(self) -> None:
        """Remember up to where it was read. Raises OSError."""
        descriptor, offset = self.handle.fileno(), self.handle.tell()
        self.written = os.fstat(descriptor).st_mtime_ns
        self.place = _Place(offset, bytes_before(descriptor, offset))


@dataclass
class LogTail:
    """Follows all files that the glob patterns match; every `read` finds new, renamed and truncated ones.

    What exists at the first `read` is followed from its end unless `from_start`, even where it can be opened later only; what
    comes later from its beginning. A file is known by its inode: after a rotation by renaming the rest of the old file is read
    first, and what its writers append until they open the new one, up to a minute after the last line. One that was out of reach
    for longer is read on from where it was left. A file that was truncated is read from its beginning, also where as much was
    written again: it has other bytes before the place up to which it was read. The same bytes again are not noticed, as while a
    line is appended a file has its new time before its new size.

    Lines beyond 64 KiB are cut, invalid UTF-8 is replaced, empty lines are left out. Whoever may write one file holds up no other
    one, nor ends the collector: `unreadable` has the files that cannot be opened or read, and why. Links are followed as
    `app.collector.links` says.
    """

    patterns: Sequence[str]
    from_start: bool = False
    most_files: int | None = None  # those of `most_followed`
    clock: Callable[[], float] = monotonic  # seconds
    unreadable: dict[str, str] = field(default_factory=dict)
    _open: dict[tuple[int, int], _File] = field(default_factory=dict, repr=False)
    _left: dict[tuple[int, int], _Place] = field(default_factory=dict, repr=False)
    _begun: bool = field(default=False, repr=False)

    def read(self, most: int = 5_000) -> list[tuple[str, str]]:
        """Up to about `most` new complete lines as (path, text), in order for each file; the rest waits in the file.

        Of a file that has more than is read now the next turn is the last.
        """
        present = self._matching()
        out: list[tuple[str, str]] = []
        left = MOST_BYTES
        for key, file in list(self._open.items()):
            if len(out) >= most or left <= 0:
                return out
            exhausted, read = self._drain(file, out, most, left)
            left -= read
            if not exhausted:
                self._open[key] = self._open.pop(key)
            elif key in present:
                file.quiet_since = None
            elif self._is_left(file, read):
                _finish(file, out)
                self._leave(key, file)
                self._worked(file)
        return out

    def look(self) -> None:
        """Open new files, without reading them: they may be rotated away before the next `read`."""
        self._matching()

    def _is_left(self, file: _File, read: int) -> bool:
        """Whether there is no more to come of a file that was rotated away: it is deleted or unreadable, or nothing has come for a while.

        `read` is how many bytes have come now. Who writes it goes on until he opens the new one.
        """
        now = self.clock()
        if read or file.quiet_since is None:
            file.quiet_since = now
        gone = file.failed or os.fstat(file.handle.fileno()).st_nlink == 0
        return gone or now - file.quiet_since >= LEFT_SECONDS

    def _leave(self, key: tuple[int, int], file: _File) -> None:
        """Close a file, and remember how far it was read where it is not deleted."""
        with file.handle:
            descriptor, offset = file.handle.fileno(), file.handle.tell()
            try:
                is_deleted, before = os.fstat(descriptor).st_nlink == 0, bytes_before(descriptor, offset)
            except OSError:  # it is out of reach
                is_deleted, before = False, b""
        del self._open[key]
        if not is_deleted:
            self._remember(key, _Place(offset, before))

    def _remember(self, key: tuple[int, int], place: _Place) -> None:
        self._left.pop(key, None)
        self._left[key] = place
        if len(self._left) > MOST_REMEMBERED:
            del self._left[next(iter(self._left))]

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.handle.close()
        self._open.clear()

    def _matching(self) -> set[tuple[int, int]]:
        """Open new files; returns the identities of all files that match the patterns now."""
        present, refused = set(), set()

        def refuse(path: str, why: str) -> None:
            refused.add(path)
            self._leave_out(path, why)

        paths = dict.fromkeys(path for pattern in self.patterns for path in matching(pattern, refuse))
        for path in paths:
            key = self._opened(path)
            if key is not None:
                present.add(key)
        for path in self.unreadable.keys() - paths.keys() - refused - {file.path for file in self._open.values()}:
            del self.unreadable[path]
        self._begun = True
        return present

    def _opened(self, path: str) -> tuple[int, int] | None:
        try:
            status = Path(path).stat()
            key = (status.st_dev, status.st_ino)
            if key in self._open:
                if path != self._open[key].path:
                    led_to(path)
                    self._open[key].path = path
                return key
            if not stat.S_ISREG(status.st_mode):
                return None
            if not self._begun and not self.from_start:
                self._remember(key, _Place(status.st_size))
            if len(self._open) >= (most := self.most_files or most_followed()):
                self._leave_out(path, f"{most} files are followed already")
                return None
            place = self._left.get(key, BEGINNING)
            handle = opened(path, place)
        except OSError as error:
            self._leave_out(path, error.strerror or str(error))
            return None
        self.unreadable.pop(path, None)
        self._left.pop(key, None)
        self._open[key] = _File(path, handle, place)
        return key

    def _leave_out(self, path: str, why: str) -> None:
        """Say once why a file is not followed."""
        if path in self.unreadable or len(self.unreadable) < MOST_NAMED:
            if self.unreadable.get(path) != why:
                log.warning("a log file is not followed", path=path, why=why)
            self.unreadable[path] = why

    def _worked(self, file: _File) -> None:
        """Note that a file is not unreadable, where it was; another one may have its path by now."""
        if file.failed:
            self.unreadable.pop(file.path, None)
            file.failed = False

    def _drain(self, file: _File, out: list[tuple[str, str]], most: int, left: int) -> tuple[bool, int]:
        """Read complete lines, of `left` bytes or a little more; answers whether there is no more to read now, and how many bytes were read."""
        read = 0
        try:
            status = os.fstat(file.handle.fileno())
            if file.compressed or file.is_unchanged(status):
                return True, 0
            if file.is_rewritten():
                file.handle.seek(0)
                file.partial, file.overlong = b"", False
            if not file.handle.tell() and os.pread(file.handle.fileno(), MARK_BYTES, 0).startswith(COMPRESSED):
                file.compressed = True
                self._leave_out(file.path, "it is compressed")
                return True, 0
            chunk = b"-"
            while chunk and len(out) < most and read < left:
                chunk = file.handle.read(CHUNK)
                read += len(chunk)
                _split(file, chunk, out)
            file.note()
        except OSError as error:
            self._leave_out(file.path, error.strerror or str(error))
            file.failed = True
            return True, read
        if not chunk:
            self._worked(file)
        return not chunk, read


def most_followed() -> int:
    """How many files may be followed."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most // 2)


def opened(path: str, place: _Place = BEGINNING) -> BinaryIO:
    """A file at a place, opened without waiting: what was one when it was looked at may be a pipe by now, or another one. Raises OSError."""
    target = led_to(path)
    handle = os.fdopen(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    try:
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise OSError(0, "no regular file any more")
        if place_of(handle.fileno(), target) != target:
            raise OSError(0, "it became another file while it was opened")
        handle.seek(place.begin(handle.fileno()))
    except OSError:
        handle.close()
        raise
    return handle


def bytes_before(descriptor: int, offset: int, most: int = CHECKED_BYTES) -> bytes:
    """The bytes of a file before an offset, so many at most. Raises OSError."""
    first = max(0, offset - most)
    return os.pread(descriptor, offset - first, first)


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
    time is `now`, the service that of the file, the level what a word in the line says, else info. Times without a zone,
    or with the abbreviation of one other than UTC and GMT (IST is one of three), are in `zone`, the machine's own where it
    is None. The message is the text behind a header of syslog, else the whole line: its mask needs the time to see what
    else a logger wrote before the text.
    """
    parts = _header(line)
    text = parts.get("rest") or line
    at = _moment(parts["time"], now, zone) if parts else None
    app = parts.get("app")
    return {
        "@timestamp": iso_millis(now if at is None else at),
        "host.name": host,
        "service.name": app if app and app != "-" else service_of_file(path),
        "log.level": level_named(str(int(parts["pri"]) % 8)) if parts.get("pri") else level_of(text),
        "message": text if app else line,
    }


@lru_cache(1024)
def service_of_file(path: str) -> str:
    """The container whose log it is, else the file's name up to a dot, without its date and what else tells runs apart."""
    container = _OF_CONTAINER.search(path)
    if container:
        return str(container[1] or container[2])
    name = Path(path).name.lstrip(".").partition(".")[0]
    return _RUN.sub("", _BEHIND.sub(r"\1", _BEFORE.sub("", name))) or "log"


def _header(line: str) -> dict[str, str]:
    """The parts of a line with a header, without those that are missing: `pri`, `time`, `app`, and `rest`, the message after it."""
    syslog = _RFC5424.match(line)
    if syslog:
        priority, time, _, app, message = syslog.groups()
        return {"pri": priority, "time": time, "app": app, "rest": (message or "").removeprefix("\ufeff")}
    header = _RFC3164.match(line) or _ISO_SYSLOG.match(line) or _ISO_LINE.match(line)
    return {name: text for name, text in header.groupdict().items() if text is not None} if header else {}


def _moment(text: str, now: int, zone: tzinfo | None) -> int | None:
    """Epoch milliseconds, or None where the text is no time that an event has."""
    if text == "-":
        return None
    try:
        at = _with_year(text, now, zone) if text[:1].isdigit() else _without_year(text, now, zone)
    except (ValueError, OverflowError):  # a calendar ends with the year 9999, wherever one is then
        return None
    return at if 0 <= at < LAST_MS else None


def _with_year(text: str, now: int, zone: tzinfo | None) -> int:
    zoned = text[:SECONDS] + text[SECONDS:].replace(",", ".").replace(" ", "").replace("UTC", "Z").replace("GMT", "Z")
    found = datetime.fromisoformat(zoned)
    return _nearest(found, now, zone) if found.tzinfo is None else round(found.timestamp() * 1000)


def _without_year(text: str, now: int, zone: tzinfo | None) -> int:
    """RFC 3164 leaves the year out: the last one in which that moment is not more than a day ahead."""
    local = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).replace(tzinfo=None)
    found = datetime.strptime(f"{local.year} {text}", "%Y %b %d %H:%M:%S")  # noqa: DTZ007 - what the clock says
    if found > local + timedelta(days=1):
        found = found.replace(year=local.year - 1)
    return _nearest(found, now, zone)


def _nearest(wall: datetime, now: int, zone: tzinfo | None) -> int:
    """The moment at which the clock of a zone says so; of two, where clocks are set back, the one nearer to `now`, as lines are read soon."""
    both = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return min((round(1000 * at) for at in both), key=lambda at: abs(at - now))
