"""The manifest of a replay: the range that it reads, its configuration, and the results of each slice.

    home/replays/VERSION/manifest.json    the manifest
    home/replays/VERSION/begin            the savepoint that it began from, so that dropping the other one harms nothing
    home/replays/VERSION/state/NNNN       the savepoint after slice NNNN; the last one stays

`replay.run` writes it. Whoever starts the jobs of a version, compares or promotes it reads it once, as a frozen value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.settings import Settings
from app.kafka.partitions import Offsets, by_topic
from app.kafka.topic_marks import LogMarks, marks_of, record_of
from pipelines.errors import InputError

FORMAT = 1
FILE = "manifest.json"
RESULT_KINDS = ("scores", "novelties", "incidents")
# Of the record: what makes two runs the same, and what a person calls it.
IDENTITY = {
    "version": "version",
    "configuration_hash": "configuration hash",
    "savepoint": "savepoint",
    "topics": "log",
    "whole": "range",
}


@dataclass(frozen=True)
class Slice:
    """Windows that end after `after` and by `until` (epoch ms), and the records that they can be made of.

    `begins` and `ends` are offsets by topic and partition; `after` is None for all windows from the beginning.
    """

    after: int | None
    until: int
    begins: Offsets
    ends: Offsets

    @property
    def events(self) -> int:
        """How many records are read."""
        return sum(self.ends.values()) - sum(self.begins.values())

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        begins, ends = by_topic(self.begins), by_topic(self.ends)
        ranges = {t: {p: [begin, ends[t][p]] for p, begin in parts.items()} for t, parts in begins.items()}
        return {"after": self.after, "until": self.until, "offsets": ranges}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Slice:
        """The inverse of `record`."""
        ranges = {(t, int(p)): pair for t, parts in record["offsets"].items() for p, pair in parts.items()}
        begins, ends = ({key: int(pair[i]) for key, pair in ranges.items()} for i in (0, 1))
        return cls(record["after"], int(record["until"]), begins, ends)


@dataclass(frozen=True)
class SliceResult:
    """What a slice came to: numbers of records, a digest for each kind of result, and how long it took."""

    counts: Mapping[str, int]
    digests: Mapping[str, Mapping[str, Any]]
    seconds: float


@dataclass(frozen=True)
class SavepointReference:
    """The savepoint that a run begins from: its name, its hash, and the end of its last window (epoch ms)."""

    name: str
    hash: str
    watermark: int

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"name": self.name, "hash": self.hash, "watermark": self.watermark}


@dataclass(frozen=True)
class ReplayManifest:
    """A replay: its range and configuration, and the results of the slices that are done.

    `topics` are the names of the inputs by kind; `quarantine` is the offset up to which the topic of that name was read. `slices`
    are those of the first start; `results` belong to the first of them, in order. `asked_ms` is when it was first asked for (epoch ms): from
    then back count times such as `14d`, when it is asked for again. `indexed`: Elasticsearch has all documents of the results. `asked` is the
    range that was asked for (`replay.slices.RequestedRange.record`), and `log` what the topics were then, up to the range's end. `complete_after`
    is the end of the last window that may lack records, because the range begins with a later offset than the first of all; None where none
    does. In a manifest of a release that did not keep them these are None and empty.
    """

    version: str
    code_version: str
    state_formats: Mapping[str, int]
    configuration: Mapping[str, Any]
    topics: Mapping[str, str]
    savepoint: SavepointReference | None
    whole: Slice
    slices: tuple[Slice, ...]
    results: tuple[SliceResult, ...] = ()
    quarantine: int = 0
    asked_ms: int | None = None
    indexed: bool = False
    asked: Mapping[str, Any] | None = None
    log: LogMarks = field(default_factory=dict)
    complete_after: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every slice is done."""
        return len(self.results) == len(self.slices)

    @property
    def left(self) -> Slice:
        """What a run reads that goes on with this one: from its first unfinished slice on; all of a complete one, to compare."""
        if self.complete:
            return self.whole
        first = self.slices[len(self.results)]
        return replace(self.whole, after=first.after, begins=first.begins)

    @property
    def configuration_hash(self) -> str:
        """SHA-256 of the configuration as canonical JSON."""
        return canonical_hash(self.configuration)

    @property
    def last_state(self) -> str:
        """The folder of the savepoint after the last slice, within the replay's own."""
        return state_folder(len(self.slices) - 1)

    def with_result(self, result: SliceResult) -> ReplayManifest:
        """The manifest after the next slice."""
        return replace(self, results=(*self.results, result))

    def record(self) -> dict[str, Any]:
        """As JSON types; with totals once it is complete."""
        slices = [
            {**part.record(), **({**vars(result), "done": True} if result is not None else {"done": False})}
            for part, result in zip(self.slices, self.padded_results(), strict=True)
        ]
        found = {
            "format": FORMAT,
            "version": self.version,
            "status": "complete" if self.complete else "running",
            "code_version": self.code_version,
            "state_formats": self.state_formats,
            "configuration": self.configuration,
            "configuration_hash": self.configuration_hash,
            "topics": self.topics,
            "savepoint": None if self.savepoint is None else self.savepoint.record(),
            "quarantine": self.quarantine,
            "asked_ms": self.asked_ms,
            "asked": self.asked,
            "log": record_of(self.log),
            "indexed": self.indexed,
            "complete_after": self.complete_after,
            "whole": self.whole.record(),
            "slices": slices,
        }
        return found | (self.totals() if self.complete else {})

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ReplayManifest:
        """The inverse of `record`. Raises KeyError, TypeError, AttributeError or ValueError for what is no manifest."""
        if record["format"] != FORMAT:
            msg = f"format {record['format']!r}, wanted {FORMAT}"
            raise ValueError(msg)
        begin, done = record["savepoint"], [part for part in record["slices"] if part["done"]]
        return cls(
            record["version"],
            record["code_version"],
            record["state_formats"],
            record["configuration"],
            record["topics"],
            None if begin is None else SavepointReference(begin["name"], begin["hash"], begin["watermark"]),
            Slice.of(record["whole"]),
            tuple(Slice.of(part) for part in record["slices"]),
            tuple(SliceResult(part["counts"], part["digests"], part["seconds"]) for part in done),
            int(record.get("quarantine", 0)),
            record.get("asked_ms"),
            bool(record.get("indexed", record["status"] == "complete")),  # one of an earlier release does not say
            record.get("asked"),
            marks_of(record.get("log") or {}),
            record.get("complete_after"),
        )

    def padded_results(self) -> list[SliceResult | None]:
        """A result for each slice, None for those that are not done."""
        return [*self.results, *[None] * (len(self.slices) - len(self.results))]

    def totals(self) -> dict[str, Any]:
        """Counts of all slices together, the time that they took, and one digest for each kind of result."""
        counts: dict[str, int] = {}
        for result in self.results:
            for name, n in result.counts.items():
                counts[name] = counts.get(name, 0) + n
        counts["events"] = self.whole.events
        digests = {
            kind: canonical_hash([result.digests[kind]["digest"] for result in self.results]) for kind in RESULT_KINDS
        }
        return {
            "counts": counts,
            "seconds": round(sum(result.seconds for result in self.results), 3),
            "digests": digests,
        }

    def check_same_run(self, other: ReplayManifest) -> None:
        """Raise InputError where another run under this version's name would be of something else."""
        kept, new = self.record(), other.record()
        for name, called in IDENTITY.items():
            if kept[name] != new[name]:
                msg = (
                    f"version {self.version} has a replay of another {called} ({kept['status']}); wanted the same, "
                    f"or another --version, or `kappa replay drop {self.version}`"
                )
                raise InputError(msg)

    def check_complete(self) -> None:
        """Raise InputError for a run that was interrupted, or that runs now: its results are a part."""
        if not self.complete:
            msg = f"the replay of version {self.version} is unfinished; run the same `kappa replay` again, it goes on"
            raise InputError(msg)


def canonical_hash(value: Any) -> str:
    """SHA-256 of canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def folder_of(settings: Settings) -> Path:
    """Where the replay of the settings' version is kept."""
    return settings.home / "replays" / settings.version


def begin_folder(settings: Settings) -> Path:
    """The savepoint that the replay of the settings' version began from, if it began from one."""
    return folder_of(settings) / "begin"


def state_folder(number: int) -> str:
    """The folder of the savepoint after a slice, within the replay's own."""
    return f"state/{number:04d}"


def read(settings: Settings) -> ReplayManifest | None:
    """The manifest of the replay of the settings' version; None where there is none. Raises InputError for another format."""
    return read_file(folder_of(settings) / FILE)


def read_file(file: Path) -> ReplayManifest | None:
    """As `read`, of a file."""
    remedy = "remove the folder and replay under this version again"
    found = read_json_object(file, remedy)
    if found is None:
        return None
    if found.get("format") != FORMAT:
        msg = f"{file} has format {found.get('format')}, wanted {FORMAT}; read it with the release that wrote it"
        raise InputError(msg)
    try:
        return ReplayManifest.of(found)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"{file} is not the manifest of a replay ({type(error).__name__}: {error}); {remedy}"
        raise InputError(msg) from error


def write(settings: Settings, manifest: ReplayManifest) -> None:
    """Write the manifest of the settings' version, whole or not at all."""
    write_json_durably(folder_of(settings) / FILE, manifest.record())


def keep_indexed(settings: Settings) -> ReplayManifest:
    """Keep that Elasticsearch has all documents of the complete replay of the settings' version; returns its manifest."""
    found = read(settings)
    if found is None:
        msg = f"the manifest of version {settings.version} is gone; replay under another version"
        raise InputError(msg)
    found = replace(found, indexed=True)
    write(settings, found)
    return found


def listing(home: Path) -> list[ReplayManifest]:
    """The manifests of all replays of a home, in order of versions."""
    found = [read_file(home / "replays" / version / FILE) for version in replayed_versions(home)]
    return [manifest for manifest in found if manifest is not None]


def replayed_versions(home: Path) -> list[str]:
    """The versions that have a replay, sorted."""
    return sorted(file.parent.name for file in (home / "replays").glob(f"*/{FILE}"))


def last_savepoint(settings: Settings) -> Path:
    """The savepoint at the end of the replay of the settings' version. Raises InputError for one that is not complete."""
    manifest = read(settings)
    if manifest is None:
        known = ", ".join(replayed_versions(settings.home)) or "none"
        msg = f"no replay of version {settings.version!r}; there are {known}"
        raise InputError(msg)
    manifest.check_complete()
    return folder_of(settings) / manifest.last_state
