"""Where the jobs of a version start: at the log's beginning, or after the last window of a savepoint.

    home/checkpoints/VERSION/begin.json    which savepoint, the offsets from which each topic is read, and the configuration
    home/checkpoints/VERSION/begin/        the savepoint itself, so that dropping the other one harms nothing
    home/checkpoints/VERSION/formats.json  of the states of the release that began the version
    home/checkpoints/VERSION/recovery.json only while a version is set back: no job starts before that has ended

From a savepoint, the inputs are read from the first record that may belong to a window after it, and the pipeline's own
topics from where they end now: what follows comes from the new jobs alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.atomic_files import link_or_copy, read_json_object, sync_to_disk, write_json_durably
from app.core.file_lock import held_lock
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import data_loss, log_marks, topics
from app.kafka.connection import open_consumer
from app.kafka.input_offsets import input_partitions, input_topics, offsets_after_window, offsets_at_time
from app.kafka.offset_ranges import offset_ranges
from app.kafka.partitions import Offsets, by_topic
from app.versions import replay_manifest, serving, violations
from app.versions.pinned_configuration import configuration_of, pin_configuration, pinned_or_replayed, read_pinned
from app.versions.replay_manifest import SavepointReference
from pipelines.errors import InputError
from pipelines.failures import of_another_release
from pipelines.state import savepoint_format
from pipelines.windowing import MILLIS

FORMATS_FILE = "formats.json"
LOG_MARKS = log_marks.FOLDER
# What is about the log as it was, beside the checkpoints of jobs.
NOTES = ("begin", "begin.json", LOG_MARKS, violations.FILE, data_loss.GAPS)
RECOVERY = "recovery.json"
DRAFT = "begin.draft"  # a savepoint that is about to become `begin`
NO_WINDOW = -1
ASIDE = ".replaced-"  # and a number: beside the folder of a version's checkpoints
LOCK_SECONDS = 120.0
JOBS_WITH_STATE = ("extract", "detect", "correlate")


@dataclass(frozen=True)
class StartPosition:
    """`folder` is the savepoint, `watermark` its least window (epoch ms), `offsets` where reading begins, by topic.

    Without a savepoint `folder` is None, and `watermark` is before every window.
    """

    folder: Path | None
    watermark: int
    offsets: Mapping[str, Mapping[int, int]]


def checkpoint_home(settings: Settings) -> Path:
    """Where a version's checkpoints are."""
    return settings.checkpoint("begin").parent


def start_position(settings: Settings) -> StartPosition | None:
    """Where the jobs of the settings' version start; None for the beginning of the log."""
    if interrupted(settings):
        msg = (
            f"`kappa recover` of version {settings.version}, or its start after a savepoint, was interrupted; run it again, or `kappa recover`, "
            "before its jobs"
        )
        raise InputError(msg)
    kept = read_json_object(checkpoint_home(settings) / "begin.json", "`kappa recover` writes another one")
    if kept is None:
        return None
    offsets = {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in kept["offsets"].items()}
    folder = None if kept["savepoint"] is None else settings.checkpoint("begin")
    return StartPosition(folder, kept["watermark"], offsets)


def check_release(settings: Settings) -> None:
    """Raise OfAnotherRelease where a release whose states have other formats has begun the version; note those of this one where none has.

    Without it, jobs of this release would write windows of `statistics` until `detect` reads its state. Versions that were begun before formats were
    noted are known by the savepoint that they began after, if they did.
    """
    noted, begin = settings.checkpoint(FORMATS_FILE), settings.checkpoint("begin") / savepoint_format.MANIFEST
    if not jobs_with_checkpoint(settings):
        write_json_durably(noted, savepoint_format.FORMATS)
        return
    kept = (
        read_json_object(noted, "remove it: it says which release began the version") or read_json_object(begin) or {}
    )
    why = savepoint_format.other_format(kept.get("formats") or kept)
    if why is not None:
        what = f"version {settings.version}"
        raise of_another_release(what, why)


def interrupted(settings: Settings) -> bool:
    """Whether a command was interrupted while it set the checkpoints of the version aside."""
    return (checkpoint_home(settings) / RECOVERY).exists()


def mark_recovery(settings: Settings) -> None:
    """Let no job of the version start before it has been set back."""
    write_json_durably(checkpoint_home(settings) / RECOVERY, {})


def start_from(settings: Settings, folder: Path, *, replace: bool = False) -> StartPosition:
    """Let the jobs of a version start after a savepoint.

    Parameters
    ----------
    settings
        Those of the version, with the configuration that it is to have from here on. Its jobs must not be running.
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
        checkpoints that are not to be replaced, or an unfinished replay.
    """
    there, replayed = jobs_with_checkpoint(settings), replay_manifest.read(settings)
    if replayed is not None and not there:
        replayed.check_complete()  # what it has written so far would lie among the results of the jobs
    savepoint = check_savepoint(settings, folder)
    if there and not replace:
        msg = (
            f"version {settings.version} has checkpoints of {', '.join(there)}: it would begin anew from savepoint "
            f"{folder.name}; say --replace to set them aside, or use another --version"
        )
        raise InputError(msg)
    topics.create(settings)
    offsets = by_topic(first_offsets_after(settings, savepoint.watermark) | own_ends(settings))
    begin = {**savepoint.record(), "savepoint": savepoint.name, "offsets": offsets}
    begin_anew(settings, folder, begin, configuration_of(settings))
    found = start_position(settings)
    if found is None:
        msg = f"{checkpoint_home(settings) / 'begin.json'} has vanished; is something else using this home?"
        raise InputError(msg)
    return found


def set_back(settings: Settings, folder: Path | None, configuration: Mapping[str, Any] | None = None) -> Path | None:
    """Let the jobs of a version begin again after a savepoint, or with none at the log's beginning, whatever they have now.

    Unlike `start_from` it takes a log that no longer reaches back, and keeps the configuration that the version began with.

    Parameters
    ----------
    settings
        Those of the version. Its jobs must not be running.
    folder
        The savepoint, checked by the caller; None for the beginning.
    configuration
        What the version began with, where that can no longer be read.

    Returns
    -------
    Path or None
        Where the checkpoints were moved; None where there was nothing.
    """
    topics.create(settings)
    savepoint = None if folder is None else check_savepoint(settings, folder)
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, input_partitions(settings))
        if savepoint is None:
            first = {key: one.begins for key, one in held.items()}
        else:
            first = offsets_at_time(consumer, held, savepoint.watermark - settings.windowing.skew_seconds * MILLIS)
    begin = {"watermark": NO_WINDOW} if savepoint is None else savepoint.record()
    begin |= {
        "savepoint": None if savepoint is None else savepoint.name,
        "offsets": by_topic(first | own_ends(settings)),
    }
    return begin_anew(settings, folder, begin, configuration)


def begin_anew(
    settings: Settings, folder: Path | None, begin: Mapping[str, Any], configuration: Mapping[str, Any] | None
) -> Path | None:
    """Move a version's checkpoints aside, and note where its jobs begin. Where that is interrupted, no job starts before it is done again.

    Parameters
    ----------
    settings
        Those of the version. Its jobs must not be running.
    folder
        The savepoint to begin from; None for none.
    begin
        The content of `begin.json`.
    configuration
        What the version has from here on; None for what it has.

    Returns
    -------
    Path or None
        Where the checkpoints were moved; None where there was nothing.
    """
    home, draft, file = checkpoint_home(settings), settings.checkpoint(DRAFT), settings.configuration_file
    if folder is None:
        shutil.rmtree(draft, ignore_errors=True)
    elif not same_folder(folder, draft):  # else it was linked before an interruption
        link_tree(folder, draft)  # before anything is moved: it may be the one that the version began from
    mark_recovery(settings)
    aside = set_aside(settings, (*jobs_with_checkpoint(settings), *NOTES))
    if folder is not None:
        draft.replace(settings.checkpoint("begin"))
    if configuration is not None:
        if aside is not None and file.exists():
            shutil.copyfile(file, aside / file.name)
        write_json_durably(file, configuration)  # in the place of the one before: there is no moment without
    write_json_durably(home / "begin.json", {**begin, "configuration": configuration or read_pinned(settings)})
    (home / RECOVERY).unlink()
    sync_to_disk(home)
    return aside


def own_ends(settings: Settings) -> Offsets:
    """Where the topics end that the version's jobs write."""
    own = [(settings.topic(kind), p) for kind in topics.OUTPUTS for p in range(settings.topics.partitions)]
    with open_consumer(settings) as consumer:
        return {key: held.ends for key, held in offset_ranges(consumer, own).items()}


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

    Raises InputError for a replay that is not complete, and where the settings are not those that it began with.
    """
    if settings.version == "live":
        return
    with one_at_a_time(settings):
        if start_position(settings) is not None or jobs_with_checkpoint(settings):
            return
        manifest = replay_manifest.read(settings)
        if manifest is not None:
            manifest.check_complete()
            pin_configuration(settings)
            start_from(settings, replay_manifest.folder_of(settings) / manifest.last_state)
            report("going on where the version's replay ended")


@contextmanager
def one_at_a_time(settings: Settings) -> Iterator[None]:
    """Let one process at a time look where a version begins, and note it: jobs of a version may be started in several at once."""
    file = serving.folder(settings.home) / settings.version / "begin.lock"
    refusal = f"another process notes where version {settings.version} begins, for {LOCK_SECONDS:.0f} s now; try again"
    with held_lock(file, LOCK_SECONDS, refusal):
        yield


def jobs_with_checkpoint(settings: Settings) -> list[str]:
    """Jobs of a version that have checkpoints, without `index`: it goes on with the same topics."""
    folder = checkpoint_home(settings)
    return sorted(p.name for p in folder.glob("*") if p.is_dir() and p.name.split("-")[0] in JOBS_WITH_STATE)


def is_known_here(settings: Settings) -> bool:
    """Whether the settings' version was replayed, run or set back in this home."""
    return (
        bool(jobs_with_checkpoint(settings))
        or pinned_or_replayed(settings) is not None
        or start_position(settings) is not None
    )


def set_aside(settings: Settings, names: Sequence[str]) -> Path | None:
    """Move what there is of a version's checkpoints beside, under the next free number; answers where, None for nothing."""
    folder = checkpoint_home(settings)
    kept = [name for name in names if (folder / name).exists()]
    if not kept:
        return None
    number = 1
    while (aside := folder.with_name(f"{folder.name}{ASIDE}{number}")).exists():
        number += 1
    aside.mkdir(parents=True)
    for name in kept:
        (folder / name).replace(aside / name)
    for changed in (folder, aside, folder.parent):
        sync_to_disk(changed)
    return aside


def folders_aside(settings: Settings) -> list[Path]:
    """Where `set_aside` has moved checkpoints of a version."""
    folder = checkpoint_home(settings)
    return sorted(
        p for p in folder.parent.glob(f"{folder.name}{ASIDE}*") if p.name.removeprefix(folder.name + ASIDE).isdigit()
    )


def same_folder(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder that is there."""
    return one.exists() and other.exists() and one.samefile(other)


def link_tree(folder: Path, into: Path) -> None:
    """Copy a folder of files that never change: as links where the file system has them. What was at `into` is removed first.

    Raises ValueError where both are the same folder.
    """
    if same_folder(folder, into):
        msg = f"{folder} cannot be linked to itself"
        raise ValueError(msg)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for file in folder.iterdir():
        link_or_copy(file, into / file.name)
        sync_to_disk(into / file.name)
    sync_to_disk(into)
