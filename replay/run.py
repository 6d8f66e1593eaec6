"""`kappa replay`: a bounded run over the log under a version of its own, in slices, with a manifest.

    home/replays/VERSION/manifest.json    what is run: offsets, configuration, code; what each slice came to
    home/replays/VERSION/state/NNNN       the state after slice NNNN, a savepoint; the last one stays

A run that was interrupted goes on after its last slice. One that is complete is run again without writing, and held
against what it came to the first time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.core.atomic_files import write_json_durably
from app.core.settings import Settings
from app.kafka import topics
from app.runtime import run as live
from app.versions.serving import read_object
from pipelines.errors import DeterminismViolation, InputError
from pipelines.state import savepoint_format
from replay.savepoints.savepoint_writer import Provenance
from replay.slice_run import Work, run_slice
from replay.slices import Asked, Slice, resolve, slices

FORMAT = 1
MANIFEST = "manifest.json"
SLICE_RECORDS = 20_000_000


@dataclass(frozen=True)
class Step:
    """How far a run is: slices and events done, the window reached (ms), what it is at."""

    done: int
    slices: int
    events: int
    all_events: int
    reached: int | None
    doing: str


Watching = Callable[[Step], None]


@dataclass(frozen=True)
class Plan:
    """What is to be run. `begin` is the savepoint to begin from."""

    settings: Settings
    whole: Slice
    parts: list[Slice]
    begin: Path | None = None


def folder_of(settings: Settings) -> Path:
    """Where a version's replay is kept."""
    return settings.home / "replays" / settings.version


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """A run's manifest; None where there is none. Raises InputError for one that cannot be read."""
    file = folder / MANIFEST
    found = read_object(file, "remove the folder and replay under this version again")
    if found is None:
        return None
    if found.get("format") != FORMAT:
        msg = f"{file} has format {found.get('format')}, wanted {FORMAT}; read it with the release that wrote it"
        raise InputError(msg)
    return found


def keep(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest, whole or not at all."""
    write_json_durably(folder / MANIFEST, manifest)


def plan(settings: Settings, asked: Asked, begin: Path | None, slice_records: int = SLICE_RECORDS) -> Plan:
    """Resolve what to run. Raises InputError for a range outside the log and a savepoint of other topics."""
    if settings.version == "live":
        msg = "replay: version live is what the live jobs write; wanted another name, such as --version again"
        raise InputError(msg)
    if begin is not None:
        check_savepoint(settings, begin)
        watermark = int(savepoint_format.read_manifest(begin)["tick"])
        asked = Asked(from_ms=watermark, to_ms=asked.to_ms, to_offsets=asked.to_offsets)
    whole = resolve(settings, settings.windowing, asked)
    return Plan(settings, whole, slices(settings, settings.windowing, whole, slice_records), begin)


def check_savepoint(settings: Settings, folder: Path) -> None:
    """Raise InputError for a savepoint that these settings cannot go on from."""
    manifest = savepoint_format.read_manifest(folder)
    problems = savepoint_format.verify(folder)
    if problems:
        msg = f"savepoint {folder.name} is damaged: {problems[0]}; wanted one that `kappa savepoint verify` finds whole"
        raise InputError(msg)
    own = {kind: settings.topic(kind) for kind in topics.INPUTS}
    if manifest["topics"] != own:
        msg = f"savepoint {folder.name} is of topics {manifest['topics']}, the settings say {own}; wanted the same log"
        raise InputError(msg)
    if manifest["shards"] != settings.windowing.shards:
        msg = f"savepoint {folder.name} has {manifest['shards']} shards, the settings say {settings.windowing.shards}; set windowing.shards"
        raise InputError(msg)
    length = manifest["configuration"]["windowing"]["window_seconds"]
    if length != settings.windowing.window_seconds:
        own_length = settings.windowing.window_seconds
        msg = f"savepoint {folder.name} has windows of {length} s, the settings say {own_length} s; set windowing.window_seconds"
        raise InputError(msg)


def hashed(value: Any) -> str:
    """SHA-256 of canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def new_manifest(what: Plan) -> dict[str, Any]:
    """What is known of a run before it."""
    configuration = live.depended_on(what.settings)
    return {
        "format": FORMAT,
        "version": what.settings.version,
        "status": "running",
        "code_version": metadata.version("kappa-novelty"),
        "state_formats": savepoint_format.FORMATS,
        "configuration": configuration,
        "configuration_hash": hashed(configuration),
        "topics": {kind: what.settings.topic(kind) for kind in topics.INPUTS},
        "savepoint": about_savepoint(what.begin),
        "whole": what.whole.record(),
        "slices": [{**part.record(), "done": False} for part in what.parts],
    }


def about_savepoint(begin: Path | None) -> dict[str, Any] | None:
    """Which savepoint a run begins from."""
    if begin is None:
        return None
    manifest = savepoint_format.read_manifest(begin)
    return {"name": begin.name, "hash": manifest["hash"], "tick": manifest["tick"]}


SAME = ("version", "configuration_hash", "savepoint", "whole")


def check_same(kept: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise InputError where a version's run of before is of something else."""
    for name in SAME:
        if kept[name] != new[name]:
            msg = (
                f"version {kept['version']} has a replay of another {'range' if name == 'whole' else name.replace('_', ' ')} "
                f"({kept['status']}); wanted the same, or another --version, or `kappa replay drop {kept['version']}`"
            )
            raise InputError(msg)


def replay(
    spark: SparkSession,
    what: Plan,
    partitions: int | None = None,
    watching: Watching = lambda step: None,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run a plan, or go on with it, or check it if it is complete. Answers the manifest, with `same` after a check."""
    folder = folder_of(what.settings)
    kept, new = read_manifest(folder), new_manifest(what)
    if kept is not None:
        check_same(kept, new)
    manifest = kept if kept is not None else new
    if manifest["status"] == "complete":
        report(f"version {what.settings.version} is complete: running it again without writing")
        return check_again(spark, what, manifest, partitions, watching)
    done = sum(part["done"] for part in manifest["slices"])
    if done:
        report(f"going on after slice {done} of {len(manifest['slices'])}")
    topics.create(what.settings)
    live.pin_configuration(what.settings)
    keep(folder, manifest)
    work = working(spark, what, partitions, write=True)
    for number, part in enumerate(what_parts(manifest)):
        if manifest["slices"][number]["done"]:
            continue
        watching(step_of(manifest, "extracting"))
        began = time.monotonic()
        before, after = state_before(what, folder, number), folder / "state" / f"{number:04d}"
        shutil.rmtree(after, ignore_errors=True)
        found = run_slice(with_report(work, manifest, watching), part, before, after)
        seconds = round(time.monotonic() - began, 3)
        manifest["slices"][number] |= {**found, "seconds": seconds, "done": True}
        keep(folder, manifest)
        if number:
            shutil.rmtree(folder / "state" / f"{number - 1:04d}", ignore_errors=True)
    manifest |= {"status": "complete", **totals(manifest)}
    keep(folder, manifest)
    watching(step_of(manifest, "done"))
    return manifest


def working(spark: SparkSession, what: Plan, partitions: int | None, *, write: bool) -> Work:
    own = what.settings
    provenance = Provenance(
        version=own.version,
        configuration=live.depended_on(own),
        topics={kind: own.topic(kind) for kind in topics.INPUTS},
        shards=own.windowing.shards,
        code_version=metadata.version("kappa-novelty"),
    )
    return Work(spark, own, own.windowing, provenance, partitions or spark.sparkContext.defaultParallelism, write)


def with_report(work: Work, manifest: Mapping[str, Any], watching: Watching) -> Work:
    """The same work, which says what it is at."""
    return Work(
        work.spark,
        work.settings,
        work.windowing,
        work.provenance,
        work.partitions,
        work.write,
        lambda doing: watching(step_of(manifest, doing)),
    )


def what_parts(manifest: Mapping[str, Any]) -> list[Slice]:
    """The slices as the manifest has them: they are those of the first start."""
    return [Slice.of(part) for part in manifest["slices"]]


def state_before(what: Plan, folder: Path, number: int) -> Path | None:
    """The state that a slice begins with."""
    return folder / "state" / f"{number - 1:04d}" if number else what.begin


def step_of(manifest: Mapping[str, Any], doing: str) -> Step:
    """How far a run is, from its manifest."""
    parts = manifest["slices"]
    sizes = [Slice.of(part).events for part in parts]
    done = [i for i, part in enumerate(parts) if part["done"]]
    reached = parts[done[-1]]["until"] if done else manifest["whole"]["after"]
    return Step(len(done), len(parts), sum(sizes[i] for i in done), sum(sizes), reached, doing)


def totals(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of all slices together, and one digest for each kind of result."""
    counts: dict[str, int] = {}
    for part in manifest["slices"]:
        for name, n in part["counts"].items():
            counts[name] = counts.get(name, 0) + n
    counts["events"] = Slice.of(manifest["whole"]).events
    seconds = round(sum(part["seconds"] for part in manifest["slices"]), 3)
    kinds = ("scores", "novelties", "incidents")
    digests = {kind: hashed([part["digests"][kind]["digest"] for part in manifest["slices"]]) for kind in kinds}
    return {"counts": counts, "seconds": seconds, "digests": digests}


def check_again(
    spark: SparkSession, what: Plan, manifest: dict[str, Any], partitions: int | None, watching: Watching
) -> dict[str, Any]:
    """Run a complete manifest once more, writing nothing but scratch state. Raises DeterminismViolation where something differs."""
    folder = folder_of(what.settings)
    scratch = folder / "again"
    shutil.rmtree(scratch, ignore_errors=True)
    again: dict[str, Any] = {**manifest, "slices": [{**part, "done": False} for part in manifest["slices"]]}
    work = working(spark, what, partitions, write=False)
    try:
        for number, part in enumerate(what_parts(manifest)):
            watching(step_of(again, "extracting"))
            before = scratch / f"{number - 1:04d}" if number else what.begin
            found = run_slice(with_report(work, again, watching), part, before, scratch / f"{number:04d}")
            for kind, digest in manifest["slices"][number]["digests"].items():
                if found["digests"][kind] != digest:
                    msg = (
                        f"version {manifest['version']}, slice {number}: {kind} came to {found['digests'][kind]}, the "
                        f"first run to {digest}; wanted the same bytes: was the log changed, or the code?"
                    )
                    raise DeterminismViolation(msg)
            again["slices"][number]["done"] = True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    watching(step_of(again, "done"))
    return {**manifest, "same": True}


def end_of(settings: Settings) -> Path:
    """The savepoint at the end of a version's replay. Raises InputError for one that is not complete."""
    manifest = read_manifest(folder_of(settings))
    if manifest is None:
        known = sorted(p.parent.name for p in (settings.home / "replays").glob("*/manifest.json"))
        msg = f"no replay of version {settings.version!r}; there are {', '.join(known) or 'none'}"
        raise InputError(msg)
    check_finished(manifest)
    return folder_of(settings) / "state" / f"{len(manifest['slices']) - 1:04d}"


def check_finished(manifest: Mapping[str, Any]) -> None:
    """Raise InputError for a run that was broken off, or that runs now: what it has written is a part."""
    if manifest["status"] != "complete":
        msg = (
            f"the replay of version {manifest['version']} is unfinished; run the same `kappa replay` again, it goes on"
        )
        raise InputError(msg)
