"""Where the jobs of a version begin: at the log's beginning, or after the last window of a savepoint.

    home/checkpoints/VERSION/begin.json    which savepoint, and the offsets from which each topic is read
    home/checkpoints/VERSION/begin/        the savepoint itself, so that dropping the other one harms nothing

Beginning from a savepoint, the inputs are read from the first record that may belong to a window after it, and the
pipeline's own topics from where they end now: what follows comes from the new jobs alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.core.atomic_files import write_json_durably
from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import open_consumer
from app.kafka.offset_ranges import offset_ranges
from app.versions.serving import read_object
from pipelines.errors import InputError

BEGUN = ("extract", "detect", "correlate")


@dataclass(frozen=True)
class Beginning:
    """`folder` is the savepoint, `tick` its least window (epoch ms), `offsets` where reading begins, by topic."""

    folder: Path
    watermark: int
    offsets: Mapping[str, Mapping[int, int]]


def home_of(settings: Settings) -> Path:
    """Where a version's checkpoints are."""
    return settings.checkpoint("begin").parent


def beginning(settings: Settings) -> Beginning | None:
    """Where the jobs of the settings' version begin; None for the beginning of the log."""
    kept = read_object(home_of(settings) / "begin.json")
    if kept is None:
        return None
    offsets = {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in kept["offsets"].items()}
    return Beginning(settings.checkpoint("begin"), kept["tick"], offsets)


def begin_from(settings: Settings, folder: Path, *, replace: bool = False) -> Beginning:
    """Let the jobs of a version begin after a savepoint. They must not be running.

    Raises InputError for a savepoint of another log or of other shards, for one from before what the log still holds,
    and for a version that has checkpoints, unless they are to be replaced; those are kept beside.
    """
    from pipelines.state.savepoint_format import read_manifest
    from replay.run import check_savepoint

    check_savepoint(settings, folder)
    manifest = read_manifest(folder)
    there = kept_jobs(settings)
    if there and not replace:
        msg = (
            f"version {settings.version} has checkpoints of {', '.join(there)}: it would begin anew from savepoint "
            f"{folder.name}; say --replace to set them aside, or use another --version"
        )
        raise InputError(msg)
    topics.create(settings)
    first = first_of(settings, int(manifest["tick"]))
    with open_consumer(settings) as consumer:
        own = [(settings.topic(kind), p) for kind in topics.OUTPUTS for p in range(settings.topics.partitions)]
        ends = {key: extent.ends for key, extent in offset_ranges(consumer, own).items()}
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted((first | ends).items()):
        offsets.setdefault(topic, {})[str(partition)] = offset
    set_aside(settings, there)
    link_tree(folder, settings.checkpoint("begin"))
    kept = {"savepoint": folder.name, "hash": manifest["hash"], "tick": manifest["tick"], "offsets": offsets}
    write_json_durably(home_of(settings) / "begin.json", kept)
    found = beginning(settings)
    if found is None:
        msg = f"{home_of(settings) / 'begin.json'} has vanished; is something else using this home?"
        raise InputError(msg)
    return found


def first_of(settings: Settings, watermark: int) -> dict[tuple[str, int], int]:
    """The first offset of each input partition that may belong to a window after a tick.

    Raises InputError where the log no longer reaches back so far.
    """
    from replay.slices import Asked, first_offsets, partitions_of

    with open_consumer(settings) as consumer:
        extents = offset_ranges(consumer, partitions_of(settings))
        return first_offsets(settings, settings.windowing, consumer, Asked(from_ms=watermark), extents)


def go_on_after_replay(settings: Settings, report: Callable[[str], None] = lambda line: None) -> None:
    """Let a version that was replayed and never ran begin where its replay ended. Any other is left as it is.

    Raises InputError for a replay that is not complete.
    """
    from replay import run as replays

    if settings.version == "live" or kept_jobs(settings) or beginning(settings) is not None:
        return
    if replays.read_manifest(replays.folder_of(settings)) is not None:
        begin_from(settings, replays.end_of(settings))
        report("going on where the version's replay ended")


def kept_jobs(settings: Settings) -> list[str]:
    """Jobs of a version that have checkpoints, `index` left out: it goes on with the same topics."""
    folder = home_of(settings)
    return sorted(p.name for p in folder.glob("*") if p.is_dir() and p.name.split("-")[0] in BEGUN)


def set_aside(settings: Settings, names: list[str]) -> None:
    """Move a version's checkpoints beside, under the next free number."""
    folder = home_of(settings)
    own = (*names, "begin", "begin.json", settings.configuration_file.name)
    kept = [name for name in own if (folder / name).exists()]
    if kept:
        number = 1
        while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
            number += 1
        aside.mkdir(parents=True)
        for name in kept:
            (folder / name).replace(aside / name)


def link_tree(folder: Path, into: Path) -> None:
    """Copy a folder of files that never change: as links where the file system has them."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for file in folder.iterdir():
        try:
            os.link(file, into / file.name)
        except OSError:
            shutil.copyfile(file, into / file.name)
