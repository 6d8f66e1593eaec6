"""Which version serves, and which served before: terms, kept in `home/versions/serving.json`.

A term begins after a tick and lasts to the next one's: the version serves the windows that end within. Without the file
version `live` serves, from the beginning. `aliased` says whether Elasticsearch's aliases follow the terms already: a
promotion writes the term first, so that whoever comes next, after a crash as well, knows what is left to do.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.core.atomic_files import write_json_durably
from app.core.file_lock import file_lock
from app.core.settings import ControlSettings, Settings, load
from models.core.parameters import DetectorParameters
from models.incidents.correlator import CorrelationParameters
from models.rules.rule import rules_of
from pipelines.errors import InputError

FIRST = "live"
FORMAT = 1
LOCK_SECONDS = 30.0

# After which tick (epoch ms; None: from the beginning), and up to which (None: no end yet).
Span = tuple[int | None, int | None]


@dataclass(frozen=True)
class Term:
    """A version that serves the windows which end after `after`, epoch milliseconds; None: from the beginning."""

    version: str
    after: int | None = None


@dataclass(frozen=True)
class Serving:
    """Terms, the oldest first; the last one has no end. `aliased`: whether the aliases follow them."""

    terms: tuple[Term, ...] = (Term(FIRST),)
    aliased: bool = True

    @property
    def version(self) -> str:
        """The version that serves now."""
        return self.terms[-1].version

    @property
    def versions(self) -> list[str]:
        """Every version that has a term, sorted."""
        return sorted({term.version for term in self.terms})

    @property
    def previous(self) -> str | None:
        """The version that served before the one that does now."""
        others = [term.version for term in self.terms if term.version != self.version]
        return others[-1] if others else None

    def spans(self, version: str) -> list[Span]:
        """The terms of a version, each with its end; two that follow one another are one."""
        ends = [term.after for term in self.terms[1:]] + [None]
        return [(term.after, end) for term, end in zip(self.terms, ends, strict=True) if term.version == version]

    def then(self, version: str, after: int | None) -> Serving:
        """These terms and one more. Terms that would be empty are left out, and with None all of before.

        Raises InputError for a tick before the last term's.
        """
        if after is None:
            return Serving((Term(version),), aliased=False)
        last = self.terms[-1].after
        if last is not None and after < last:
            msg = f"a term cannot begin at {after}, before that of {self.version} at {last}; wanted a later tick"
            raise InputError(msg)
        kept = [term for term in self.terms if term.after != after]
        if not kept or kept[-1].version != version:
            kept.append(Term(version, after))
        return Serving(tuple(kept), aliased=False)


def folder(home: Path) -> Path:
    """Where versions' terms and locks are."""
    return home / "versions"


def file_of(home: Path) -> Path:
    """Where terms are kept."""
    return folder(home) / "serving.json"


def read(home: Path) -> Serving:
    """What is kept. Raises InputError for a file that is something else."""
    file = file_of(home)
    try:
        return of_record(json.loads(file.read_text()))
    except FileNotFoundError:
        return Serving()
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{file} is not a list of terms ({error}); bring it back from a copy, or remove it to let `live` serve alone"
        raise InputError(msg) from error


def of_record(kept: Any) -> Serving:
    """The inverse of `record`. Raises ValueError, KeyError or TypeError for what is none."""
    if kept["format"] != FORMAT:
        msg = f"format {kept['format']!r}, wanted {FORMAT}"
        raise ValueError(msg)
    terms = tuple(Term(str(t["version"]), None if t["after"] is None else int(t["after"])) for t in kept["terms"])
    begins = [term.after for term in terms]
    later = [after for after in begins[1:] if after is not None]
    if not terms or begins[0] is not None or len(later) != len(terms) - 1 or later != sorted(set(later)):
        msg = "terms must begin with one from the beginning, each of the others after the one before"
        raise ValueError(msg)
    return Serving(terms, bool(kept["aliased"]))


def record(serving: Serving) -> dict[str, Any]:
    """As JSON types."""
    terms = [{"version": term.version, "after": term.after} for term in serving.terms]
    return {"format": FORMAT, "terms": terms, "aliased": serving.aliased}


def write(home: Path, serving: Serving) -> None:
    """Keep terms, whole or not at all. The caller holds the lock."""
    write_json_durably(file_of(home), record(serving))


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Nobody else writes terms, or templates and aliases that follow them. Raises InputError if somebody does for long."""
    with file_lock(folder(home) / "serving.lock", LOCK_SECONDS) as held:
        if not held:
            msg = f"{folder(home) / 'serving.lock'} is held by another process for {LOCK_SECONDS:.0f} s; try again"
            raise InputError(msg)
        yield


def mark_aliased(home: Path) -> None:
    """Remember that the aliases follow the terms. The caller holds the lock."""
    kept = read(home)
    if not kept.aliased:
        write(home, replace(kept, aliased=True))


# --- whose settings


def pinned(settings: Settings, version: str) -> dict[str, Any] | None:
    """The configuration that a version began with; None for one that never did.

    Where jobs are about to begin after a replay, the file beside their checkpoints is made anew: until then that of the
    replay counts.
    """
    own = begun_with(settings.model_copy(update={"version": version}))
    if own is not None:
        return own
    replayed = read_object(settings.home / "replays" / version / "manifest.json")
    return None if replayed is None else replayed["configuration"]


def begun_with(settings: Settings) -> dict[str, Any] | None:
    """The configuration that is kept beside the checkpoints of the settings' version; None where there is none."""
    return read_object(settings.configuration_file)


def begun(settings: Settings) -> list[str]:
    """The versions that keep a configuration beside their checkpoints, sorted."""
    file = settings.configuration_file
    return sorted(kept.parent.name for kept in file.parent.parent.glob(f"*/{file.name}"))


def read_object(file: Path, remedy: str = "bring it back from a copy") -> dict[str, Any] | None:
    """A file's JSON object; None for one that is not there. Raises InputError, with a remedy, for one that is not JSON."""
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        msg = f"{file} is not JSON: {error}; {remedy}"
        raise InputError(msg) from error
    return found


def as_pinned(settings: Settings, version: str, report: Callable[[str], None] = lambda line: None) -> Settings:
    """Settings of a version, with the detection, correlation and shuffle partitions that it began with.

    Reports where these are not those of the settings. What else a version depends on is left as it is, to be held
    against what it began with when its jobs start.
    """
    kept = pinned(settings, version)
    own = settings.model_copy(update={"version": version})
    if kept is None:
        return own
    begun = own.model_copy(
        update={
            **models_of(kept),
            "spark": own.spark.model_copy(update={"shuffle_partitions": kept["spark"]["shuffle_partitions"]}),
        }
    )
    others = different(own, begun)
    if others:
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        report(f"version {version} goes on with what it began with: {others[0]}{more}")
    return begun


def models_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the models that a version began with, from what it kept."""
    rules = rules_of(kept.get("control", {}).get("rules", ()))
    return {
        "detection": DetectorParameters(**kept["detection"]),
        "control": ControlSettings(rules=rules),
        "correlation": CorrelationParameters(**kept["correlation"]),
    }


def different(own: Settings, begun: Settings) -> list[str]:
    """What differs in what a version takes from its own configuration, as sentences."""
    found = []
    for group, one, other in (
        ("detection", own.detector, begun.detector),
        ("correlation", own.correlation, begun.correlation),
    ):
        said, kept = dataclasses.asdict(one), dataclasses.asdict(other)
        found += [
            f"{group}.{key} = {kept[key]}, the settings say {said[key]}" for key in said if said[key] != kept[key]
        ]
    return found


def chosen(config: Path | None, version: str | None) -> tuple[Settings, bool]:
    """Settings of a version, and whether they mean whichever version serves: where nothing names one."""
    settings = load(config) if version is None else load(config, version=version)
    return settings, version is None and settings.version == FIRST


def of_version(config: Path | None, version: str | None) -> Settings:
    """Settings of a version; where nothing names one, of the version that serves now."""
    settings, follow = chosen(config, version)
    return current(settings) if follow else settings


def current(settings: Settings) -> Settings:
    """Settings of the version that serves, where they name none but `live`."""
    if settings.version != FIRST:
        return settings
    return settings.model_copy(update={"version": read(settings.home).version})


def to_run(settings: Settings, report: Callable[[str], None] = lambda line: None) -> Settings:
    """Settings under which the version that serves is run.

    Before the first promotion the settings decide, and are held against what `live` began with; afterwards each version
    goes on with its own.
    """
    if not file_of(settings.home).exists():
        return settings
    return as_pinned(settings, read(settings.home).version, report)


class Watch:
    """Looks whether another version serves, reading the file only when it is a new one."""

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
