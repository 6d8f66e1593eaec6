"""Where the jobs of a version start: at the log's beginning, or after the last window of a savepoint.

    home/checkpoints/VERSION/begin.json    which savepoint, and the offsets from which each topic is read
    home/checkpoints/VERSION/begin/        the savepoint itself, so that dropping the other one harms nothing

From a savepoint, the inputs are read from the first record that may belong to a window after it, and the pipeline's own
topics from where they end now: what follows comes from the new jobs alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.core.atomic_files import link_or_copy, read_json_object, sync_to_disk, write_json_durably
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import open_consumer
from app.kafka.input_offsets import input_partitions, input_topics, offsets_after_window
from app.kafka.offset_ranges import offset_ranges
from app.kafka.partitions import Offsets
from app.versions import replay_manifest, violations
from app.versions.replay_manifest import SavepointReference
from pipelines.errors import InputError
from pipelines.state import savepoint_format

JOBS_WITH_STATE = ("extract", "detect", "correlate")


@dataclass(frozen=True)
class StartPosition:
    """`folder` is the savepoint, `watermark` its least window (epoch ms), `offsets` where reading begins, by topic."""

    folder: Path
    watermark: int
    offsets: Mapping[str, Mapping[int, int]]


def checkpoint_home(settings: Settings) -> Path:
    """Where a version's checkpoints are."""
    return settings.checkpoint("begin").parent


def start_position(settings: Settings) -> StartPosition | None:
    """Where the jobs of the settings' version start; None for the beginning of the log."""
    kept = read_json_object(checkpoint_home(settings) / "begin.json")
    if kept is None:
        return None
    offsets = {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in kept["offsets"].items()}
    return StartPosition(settings.checkpoint("begin"), kept["watermark"], offsets)


def start_from(settings: Settings, folder: Path, *, replace: bool = False) -> StartPosition:
    """Let the jobs of a version start after a savepoint.

    Parameters
    ----------
    settings
        Those of the version. Its jobs must not be running.
    folder
        The savepoint.
    replace
        Set checkpoints that the version has already aside; without, they are a reason to refuse.

    Returns
    -------
    StartPosition
        As it is kept for the jobs.

    Raises
    ------
    InputError
        The savepoint is of another log or of other shards, or from before what the log still holds; or the version has
        checkpoints that are not to be replaced.
    """
    savepoint = check_savepoint(settings, folder)
    there = jobs_with_checkpoint(settings)
    if there and not replace:
        msg = (
            f"version {settings.version} has checkpoints of {', '.join(there)}: it would begin anew from savepoint "
            f"{folder.name}; say --replace to set them aside, or use another --version"
        )
        raise InputError(msg)
    topics.create(settings)
    first = first_offsets_after(settings, savepoint.watermark)
    with open_consumer(settings) as consumer:
        own = [(settings.topic(kind), p) for kind in topics.OUTPUTS for p in range(settings.topics.partitions)]
        ends = {key: held.ends for key, held in offset_ranges(consumer, own).items()}
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted((first | ends).items()):
        offsets.setdefault(topic, {})[str(partition)] = offset
    set_aside(settings, there)
    link_tree(folder, settings.checkpoint("begin"))
    write_json_durably(
        checkpoint_home(settings) / "begin.json",
        {"savepoint": savepoint.name, "hash": savepoint.hash, "watermark": savepoint.watermark, "offsets": offsets},
    )
    found = start_position(settings)
    if found is None:
        msg = f"{checkpoint_home(settings) / 'begin.json'} has vanished; is something else using this home?"
        raise InputError(msg)
    return found


def check_savepoint(settings: Settings, folder: Path) -> SavepointReference:
    """Check that a version with these settings can start from a savepoint.

    Parameters
    ----------
    settings
        Those of the version: the names of its inputs, its shards, and the length of its windows.
    folder
        The savepoint. Its files are compared with their hashes.

    Returns
    -------
    SavepointReference
        Its name, hash and last window.

    Raises
    ------
    InputError
        It is damaged, or of other topics, another number of shards, or windows of another length.
    """
    manifest = savepoint_format.read_manifest(folder)
    problems = savepoint_format.verify(folder)
    if problems:
        msg = f"savepoint {folder.name} is damaged: {problems[0]}; wanted one that `kappa savepoint verify` finds whole"
        raise InputError(msg)
    own = input_topics(settings)
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
    return SavepointReference(folder.name, manifest["hash"], int(manifest["watermark"]))


def first_offsets_after(settings: Settings, watermark: int) -> Offsets:
    """The first offset of each input partition that may belong to a window after a watermark (epoch ms).

    Raises InputError where the log no longer reaches back so far.
    """
    with open_consumer(settings) as consumer:
        ranges = offset_ranges(consumer, input_partitions(settings))
        return offsets_after_window(settings, consumer, watermark, ranges)


def start_after_replay(settings: Settings, report: Report = silent) -> None:
    """Let a version that was replayed and never ran start where its replay ended. Any other is left as it is.

    Raises InputError for a replay that is not complete.
    """
    if settings.version == "live" or jobs_with_checkpoint(settings) or start_position(settings) is not None:
        return
    manifest = replay_manifest.read(settings)
    if manifest is not None:
        manifest.check_complete()
        start_from(settings, replay_manifest.folder_of(settings) / manifest.last_state)
        report("going on where the version's replay ended")


def jobs_with_checkpoint(settings: Settings) -> list[str]:
    """Jobs of a version that have checkpoints, without `index`: it goes on with the same topics."""
    folder = checkpoint_home(settings)
    return sorted(p.name for p in folder.glob("*") if p.is_dir() and p.name.split("-")[0] in JOBS_WITH_STATE)


def set_aside(settings: Settings, names: list[str]) -> None:
    """Move a version's checkpoints beside, under the next free number."""
    folder = checkpoint_home(settings)
    own = (*names, "begin", "begin.json", settings.configuration_file.name, violations.FILE)
    kept = [name for name in own if (folder / name).exists()]
    if kept:
        number = 1
        while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
            number += 1
        aside.mkdir(parents=True)
        for name in kept:
            (folder / name).replace(aside / name)
        for changed in (folder, aside, folder.parent):
            sync_to_disk(changed)


def link_tree(folder: Path, into: Path) -> None:
    """Copy a folder of files that never change: as links where the file system has them."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for file in folder.iterdir():
        link_or_copy(file, into / file.name)
        sync_to_disk(into / file.name)
    sync_to_disk(into)
