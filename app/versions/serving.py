"""Which version serves, and which served before: intervals of event time, kept in `home/versions/serving.json`.

An interval begins after a watermark and lasts to the beginning of the next one: its version serves the windows that end
within. Without the file version `live` serves, from the beginning. `aliased` says whether Elasticsearch's aliases have been
set for the intervals: a promotion writes the interval first, so that the next process, even after a crash, sets them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.core.atomic_files import write_json_durably
from app.core.file_lock import held_lock
from app.core.report import Report, silent
from app.core.settings import Settings, load
from app.versions.pinned_configuration import with_pinned_models
from pipelines.errors import InputError

FIRST = "live"
FORMAT = 1
LOCK_SECONDS = 30.0

# After which window end (epoch ms; None: from the beginning), and up to which (None: no end yet).
TimeRange = tuple[int | None, int | None]


@dataclass(frozen=True)
class ServingInterval:
    """A version that serves the windows which end after `after`, epoch milliseconds; None: from the beginning.

    `by`: who let it serve, and `at`: when (ISO 8601), where that is known.
    """

    version: str
    after: int | None = None
    by: str | None = field(default=None, compare=False)
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Serving:
    """Intervals, the oldest first; the last one has no end. `aliased`: whether the aliases have been set for them."""

    intervals: tuple[ServingInterval, ...] = (ServingInterval(FIRST),)
    aliased: bool = True

    @property
    def version(self) -> str:
        """The version that serves now."""
        return self.intervals[-1].version

    @property
    def versions(self) -> list[str]:
        """Every version that has an interval, sorted."""
        return sorted({one.version for one in self.intervals})

    @property
    def previous(self) -> str | None:
        """The version that served before the one that does now."""
        others = [one.version for one in self.intervals if one.version != self.version]
        return others[-1] if others else None

    def ranges(self, version: str) -> list[TimeRange]:
        """The intervals of a version, each with its end."""
        ends = [one.after for one in self.intervals[1:]] + [None]
        return [(one.after, end) for one, end in zip(self.intervals, ends, strict=True) if one.version == version]

    def then(self, version: str, after: int | None, by: str | None = None, at: str | None = None) -> Serving:
        """Add an interval.

        Parameters
        ----------
        version
            The version that is to serve.
        after
            The watermark (epoch milliseconds) after which it does; None: it alone, from the beginning.
        by, at
            Who lets it serve, and when.

        Returns
        -------
        Serving
            Without intervals that would be empty. The aliases are still to be set.

        Raises
        ------
        InputError
            The watermark is before the beginning of the last interval.
        """
        if after is None:
            return Serving((ServingInterval(version, None, by, at),), aliased=False)
        last = self.intervals[-1].after
        if last is not None and after < last:
            msg = f"an interval cannot begin at {after}, before that of {self.version} at {last}; wanted a later watermark"
            raise InputError(msg)
        kept = [one for one in self.intervals if one.after != after]
        if not kept or kept[-1].version != version:
            kept.append(ServingInterval(version, after, by, at))
        return Serving(tuple(kept), aliased=False)


def folder(home: Path) -> Path:
    """Where the intervals and the locks of versions are."""
    return home / "versions"


def file_of(home: Path) -> Path:
    """Where the intervals are kept."""
    return folder(home) / "serving.json"


def read(home: Path) -> Serving:
    """Which versions serve and served. Raises InputError for a file that is something else."""
    file = file_of(home)
    try:
        return of_record(json.loads(file.read_text()))
    except FileNotFoundError:
        return Serving()
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{file} is not a list of serving intervals ({error}); bring it back from a copy, or remove it to let `live` serve alone"
        raise InputError(msg) from error


def of_record(kept: Any) -> Serving:
    """The inverse of `record`. Raises ValueError, KeyError or TypeError for what is none."""
    if kept["format"] != FORMAT:
        msg = f"format {kept['format']!r}, wanted {FORMAT}"
        raise ValueError(msg)
    intervals = tuple(
        ServingInterval(
            str(one["version"]), None if one["after"] is None else int(one["after"]), one.get("by"), one.get("at")
        )
        for one in kept["terms"]
    )
    begins = [one.after for one in intervals]
    later = [after for after in begins[1:] if after is not None]
    if not intervals or begins[0] is not None or len(later) != len(intervals) - 1 or later != sorted(set(later)):
        msg = "the first interval must begin at the beginning, each of the others after the one before"
        raise ValueError(msg)
    return Serving(intervals, bool(kept["aliased"]))


def record(serving: Serving) -> dict[str, Any]:
    """As JSON types."""
    intervals = [
        {"version": one.version, "after": one.after}
        | {name: value for name, value in (("by", one.by), ("at", one.at)) if value}
        for one in serving.intervals
    ]
    return {"format": FORMAT, "terms": intervals, "aliased": serving.aliased}


def write(home: Path, serving: Serving) -> None:
    """Write the intervals, whole or not at all. The caller holds the lock."""
    write_json_durably(file_of(home), record(serving))


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the lock for writing intervals, and templates and aliases of them. Raises InputError if another process holds it for long."""
    lock = folder(home) / "serving.lock"
    with held_lock(lock, LOCK_SECONDS, f"{lock} is held by another process for {LOCK_SECONDS:.0f} s; try again"):
        yield


def mark_aliased(home: Path) -> None:
    """Remember that the aliases have been set for the intervals. The caller holds the lock."""
    kept = read(home)
    if not kept.aliased:
        write(home, replace(kept, aliased=True))


# --- whose settings


def chosen(config: Path | None, version: str | None) -> tuple[Settings, bool]:
    """Settings of a version, and whether to follow the version that serves, because nothing names one."""
    settings = load(config) if version is None else load(config, version=version)
    return settings, version is None and settings.version == FIRST


def of_version(config: Path | None, version: str | None) -> Settings:
    """Settings of a version, by default of the one that serves now."""
    settings, follow = chosen(config, version)
    return current(settings) if follow else settings


def current(settings: Settings) -> Settings:
    """Settings of the version that serves, where they name none but `live`."""
    if settings.version != FIRST:
        return settings
    return settings.model_copy(update={"version": read(settings.home).version})


def to_run(settings: Settings, report: Report = silent) -> Settings:
    """Settings under which the version that serves is run.

    Before the first promotion they are those of the user, compared with what `live` began with; afterwards each version
    goes on with the configuration that it began with.
    """
    if not file_of(settings.home).exists():
        return settings
    return with_pinned_models(settings, read(settings.home).version, report)


class ServingVersionWatch:
    """Watches which version serves; reads the file only when it has changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen: tuple[int, int] | None = None
        self._version = FIRST

    def version(self) -> str:
        """The version that serves now."""
        try:
            found = file_of(self._home).stat()
        except FileNotFoundError:
            return FIRST
        seen = found.st_ino, found.st_mtime_ns
        if seen != self._seen:
            self._version, self._seen = read(self._home).version, seen
        return self._version
