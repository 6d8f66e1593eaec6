"""A replay: a bounded run over the log under a version of its own, in slices, with a manifest (`app.versions.replay_manifest`).

A replay that was interrupted resumes after its last slice. A complete one is run again without writing, and its digests are compared with those
of the first run.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.core.atomic_files import sync_to_disk
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import log_marks, quarantine, topics
from app.kafka.connection import unavailable_error
from app.kafka.cut_log import complete_after
from app.kafka.input_offsets import input_topics
from app.kafka.topic_marks import LogMarks, TopicMark
from app.runtime import jobs
from app.versions import locks, replay_manifest, start_position
from app.versions.pinned_configuration import configuration_of, pin_configuration
from app.versions.replay_manifest import (
    ReplayManifest,
    SavepointReference,
    Slice,
    begin_folder,
    folder_of,
    state_folder,
)
from pipelines import failures
from pipelines.errors import DeterminismViolation, InputError, KappaError, OfAnotherRelease
from pipelines.state import savepoint_format
from replay import other_homes
from replay.savepoints.savepoint_writer import code_version, provenance_of
from replay.slice_run import SliceContext, run_slice
from replay.slices import RequestedRange, check_readable, cut_into_slices, resolve, resolve_unrecorded

SLICE_RECORDS = 20_000_000


@dataclass(frozen=True)
class ReplayProgress:
    """How far a run is: slices `done` of `slices`, `events` read of `all_events`, the last window of the current slice (epoch ms), and its stage."""

    done: int
    slices: int
    events: int
    all_events: int
    until: int
    doing: str


OnProgress = Callable[[ReplayProgress], None]


@dataclass(frozen=True)
class ReplayPlan:
    """What is to be run.

    `savepoint` is the folder of the one to begin from. `manifest` is that of a new run, `earlier` that of a run that was
    started under this version's name before. `unreadable` says which records of a complete run the log no longer has, so that it
    cannot be run again to compare; only its documents are left to write.
    """

    settings: Settings
    savepoint: Path | None
    manifest: ReplayManifest
    earlier: ReplayManifest | None
    unreadable: str | None = None

    @property
    def whole(self) -> Slice:
        """All that is read and made."""
        return self.manifest.whole


def plan(
    settings: Settings,
    requested: RequestedRange,
    savepoint: Path | None = None,
    slice_records: int = SLICE_RECORDS,
    lateness: Callable[[Slice], int] | None = None,
) -> ReplayPlan:
    """Resolve what to run. Changes nothing.

    Parameters
    ----------
    settings
        Those of the version under which the results are written.
    requested
        Where to begin and to end. Where a run was started before with the same request, its range is taken as it is, and the log needs to hold
        what is still to be read. Without an end, a run that was started before ends where it did then.
    savepoint
        The folder of a savepoint, after whose last window to begin.
    slice_records
        About how many records a slice reads.
    lateness
        From the range to the seconds by which records may be late; without it those of the settings.

    Returns
    -------
    ReplayPlan
        Offsets, slices and configuration.

    Raises
    ------
    InputError
        The version is one that jobs write, or has a replay of something else, or was made in another home; the range is outside the log,
        or the savepoint is of other topics, shards or windows.
    """
    if settings.version == "live":
        msg = "replay: version live is what the live jobs write; wanted another name, such as --version again"
        raise InputError(msg)
    earlier = replay_manifest.read(settings)
    if earlier is None or not earlier.complete:  # `kappa run --savepoint` may have begun the version meanwhile
        check_new(settings)
    asked = requested.record(include_late=lateness is not None)
    reference = check_savepoint(settings, savepoint, earlier)
    if earlier is not None and earlier.asked == asked:
        return repeat_plan(settings, savepoint, reference, earlier)
    if reference is not None:
        requested = dataclasses.replace(requested, from_ms=reference.watermark, from_offsets=None, has_state=True)
    settings, whole = resolve_request(settings, requested, earlier, lateness)
    until = requested.quarantine_until if earlier is None else earlier.quarantine
    covers = complete_after(settings, whole.begins) if whole.after is None and earlier is None else None
    manifest = ReplayManifest(
        version=settings.version,
        code_version=code_version(),
        state_formats=savepoint_format.FORMATS,
        configuration=configuration_of(settings),
        topics=input_topics(settings),
        savepoint=reference,
        whole=whole,
        slices=tuple(cut_into_slices(settings, whole, slice_records)) if earlier is None else earlier.slices,
        quarantine=quarantine.read(settings, until).end,
        asked_ms=requested.asked_ms,
        asked=asked,
        log=marks_up_to(settings, whole) if earlier is None else earlier.log,
        complete_after=covers if earlier is None else earlier.complete_after,
    )
    if earlier is not None:
        earlier.check_same_run(manifest)
        check_same_release(earlier)
        check_same_log(settings, earlier)
    return ReplayPlan(settings, savepoint, manifest, earlier)


def check_savepoint(
    settings: Settings, savepoint: Path | None, earlier: ReplayManifest | None
) -> SavepointReference | None:
    """The savepoint to begin from. Where it is the same state that an earlier run has kept, under whatever name, it is that one.

    Raises InputError for one of other topics, shards or windows.
    """
    if savepoint is None:
        return None
    found = start_position.check_savepoint(settings, savepoint)
    kept = None if earlier is None else earlier.savepoint
    return kept if kept is not None and kept.hash == found.hash else found


def resolve_request(
    settings: Settings,
    requested: RequestedRange,
    earlier: ReplayManifest | None,
    lateness: Callable[[Slice], int] | None,
) -> tuple[Settings, Slice]:
    """The settings of a run, with its lateness, and the range that it reads. Without an end it is that of an earlier run.

    `lateness` is as in `plan`. Raises InputError for a range that is outside the log.
    """
    if earlier is not None and requested.to_ms is None and requested.to_offsets is None:
        requested = dataclasses.replace(requested, to_offsets=earlier.whole.ends)
    if earlier is not None and earlier.asked is None and not earlier.complete:
        whole = resolve_unrecorded(settings, requested, earlier)
    else:
        whole = resolve(settings, requested)
    if lateness is None:
        return settings, whole
    settings = with_lateness(settings, lateness(whole))
    return settings, resolve(settings, requested)


def check_new(settings: Settings) -> None:
    """Raise InputError where a replay would write into topics that hold results of live jobs, or of another home."""
    if start_position.jobs_with_checkpoint(settings):
        msg = (
            f"replay: version {settings.version} was made by `kappa run`, and results of a replay would lie among its own; wanted a new "
            "name, such as --version again"
        )
        raise InputError(msg)
    filled = [] if start_position.is_known_here(settings) else other_homes.filled_topics(settings)
    if filled:
        msg = (
            f"replay: {', '.join(filled)} hold records of version {settings.version}, which {settings.home} has neither replayed nor run: "
            f"results of two would lie in them; wanted another --version, or {other_homes.OF_JOBS}; `kappa replay drop "
            f"{settings.version}` says how to remove them"
        )
        raise InputError(msg)


def repeat_plan(
    settings: Settings, savepoint: Path | None, reference: SavepointReference | None, earlier: ReplayManifest
) -> ReplayPlan:
    """The plan of a run that was started before with the same request. Its range is kept: retention may have deleted records since it was resolved.

    Raises InputError where configuration, savepoint or topics differ, and where the log does not hold all records that are still to be read.
    """
    if earlier.asked is not None and earlier.asked["include_late"]:
        settings = with_lateness(settings, earlier.configuration["windowing"]["lateness_seconds"])
    again = dataclasses.replace(
        earlier, configuration=configuration_of(settings), topics=input_topics(settings), savepoint=reference
    )
    earlier.check_same_run(again)
    unreadable = None
    try:
        check_same_release(earlier)
        check_same_log(settings, earlier)
        check_readable(settings, earlier.left)
    except InputError as error:
        if not earlier.complete or earlier.indexed:
            raise
        unreadable = str(error)
    return ReplayPlan(settings, savepoint, again, earlier, unreadable)


def marks_up_to(settings: Settings, whole: Slice) -> LogMarks:
    """The marks of the topics of a range: their ids, and where each partition ends in the range."""
    marks = log_marks.mark_now(settings)
    names = {topic for topic, _ in whole.ends} & marks.keys()
    return {
        topic: TopicMark(
            marks[topic].topic_id,
            {
                partition: (min(end, whole.ends[topic, partition]), epoch)
                for partition, (end, epoch) in marks[topic].ends.items()
                if (topic, partition) in whole.ends
            },
        )
        for topic in names
    }


def check_same_release(earlier: ReplayManifest) -> None:
    """Raise OfAnotherRelease where one whose states have other formats has begun a replay: this one comes to other results."""
    why = savepoint_format.other_format(earlier.state_formats)
    if why is not None:
        msg = (
            f"replay: version {earlier.version} was begun by another release ({why}), and this one would come to other results; go on with that "
            f"one, or use another --version, or `kappa replay drop {earlier.version}`"
        )
        raise OfAnotherRelease(msg)


def check_same_log(settings: Settings, earlier: ReplayManifest) -> None:
    """Raise InputError where a topic holds other records than when the replay began, however many."""
    changed = log_marks.changes_since(settings, [earlier.log] if earlier.log else [])
    if changed:
        msg = (
            f"replay: {changed[0].sentence}, since version {settings.version} began: it would read other records; wanted another "
            f"--version, or `kappa replay drop {settings.version}`"
        )
        raise InputError(msg)


def with_lateness(settings: Settings, seconds: int) -> Settings:
    """Settings that admit records up to so many seconds late. Raises InputError for more than a version can admit."""
    try:
        windowing = dataclasses.replace(settings.windowing, lateness_seconds=seconds)
    except ValueError as error:
        msg = f"replay: records up to {seconds} s late cannot be admitted: {error}; give such a number with --lateness"
        raise InputError(msg) from error
    return settings.model_copy(update={"windowing": windowing})


def replay(
    spark: SparkSession,
    what: ReplayPlan,
    partitions: int | None = None,
    on_progress: OnProgress = lambda progress: None,
    report: Report = silent,
) -> dict[str, Any]:
    """Run a plan, go on with it, or check it if it is complete.

    Parameters
    ----------
    spark
        A session.
    what
        As `plan` returns it.
    partitions
        Spark's partitions; None for as many as there are task slots. Results do not depend on them.
    on_progress
        Called before each stage of a slice.
    report
        Gets a line where an earlier run is gone on with, or checked, or cannot be checked.

    Returns
    -------
    dict
        The manifest as JSON types, with `same: true` after a check.

    Raises
    ------
    InputError
        Another process replays or compares the version, or, unless it is complete, runs its jobs; or retention has deleted
        records before they were read.
    DeterminismViolation
        The check came to other results than the first run.
    ServiceUnavailable
        Kafka does not answer.
    """
    settings, manifest = what.settings, what.manifest
    if what.earlier is not None:
        manifest = what.earlier
    if what.unreadable is not None:
        report(f"version {settings.version} is complete, and cannot be run again to compare: {what.unreadable}")
        return manifest.record()
    # A complete one is compared while its jobs run as well.
    with locks.only_here(settings, [locks.REPLAY] if manifest.complete else [locks.REPLAY, *jobs.NAMES]):
        if replay_manifest.read(settings) != what.earlier:
            msg = f"replay: another process has replayed version {settings.version} meanwhile; look with `kappa replay list`, and try again"
            raise InputError(msg)
        remove_old_state(settings, manifest)
        savepoint = keep_savepoint(settings, what.savepoint, new=what.earlier is None)
        if manifest.complete:
            report(f"version {settings.version} is complete: running it again without writing")
            context = make_context(spark, settings, manifest, partitions)
            with explain_spark_errors(settings):
                verify_complete_run(dataclasses.replace(context, write=False), manifest, savepoint, on_progress)
            return manifest.record() | {"same": True}
        if manifest.results:
            report(f"going on after slice {len(manifest.results)} of {len(manifest.slices)}")
        topics.create(settings)
        pin_configuration(settings)
        replay_manifest.write(settings, manifest)
        context = make_context(spark, settings, manifest, partitions)
        with explain_spark_errors(settings):
            return run_slices(context, manifest, savepoint, on_progress).record()


@contextmanager
def explain_spark_errors(settings: Settings) -> Iterator[None]:
    """Replace Spark's traces by a one-line error where records were deleted meanwhile, Kafka does not answer, or a task raised a KappaError."""
    try:
        yield
    except KappaError:
        raise
    except Exception as error:
        left = replay_manifest.read(settings)
        if failures.is_data_loss(error) and left is not None:
            check_readable(settings, left.left)
        if failures.is_broker_unavailable(error):
            raise unavailable_error(settings, TimeoutError(failures.first_line(error))) from error
        ours = failures.raised_kappa_error(error)
        if ours is not None:
            raise ours from error
        raise


def make_context(
    spark: SparkSession, settings: Settings, manifest: ReplayManifest, partitions: int | None
) -> SliceContext:
    """The context that all slices of a run share. `partitions` as for `replay`."""
    workers = partitions or spark.sparkContext.defaultParallelism
    unread = quarantine.read(settings, manifest.quarantine).found
    return SliceContext(spark, settings, provenance_of(settings, manifest.configuration), workers, quarantine=unread)


def run_slices(
    context: SliceContext, manifest: ReplayManifest, savepoint: Path | None, on_progress: OnProgress
) -> ReplayManifest:
    """Run the slices that are not done, and write the manifest after each; returns the complete manifest."""
    folder = folder_of(context.settings)
    for number in range(len(manifest.results), len(manifest.slices)):
        before = folder / state_folder(number - 1) if number else savepoint
        after = folder / state_folder(number)
        doing = progress_reporter(manifest.slices, number, on_progress)
        manifest = manifest.with_result(run_slice(context, manifest.slices[number], before, after, doing))
        replay_manifest.write(context.settings, manifest)
        remove_old_state(context.settings, manifest)
    progress_reporter(manifest.slices, len(manifest.slices), on_progress)("done")
    return manifest


def keep_savepoint(settings: Settings, savepoint: Path | None, *, new: bool) -> Path | None:
    """Link the savepoint that a run begins from into the run's folder, so that the run can resume without it; returns the folder there.

    A run that is not `new` keeps the savepoint that it has.
    """
    own = begin_folder(settings)
    if new:
        shutil.rmtree(own, ignore_errors=True)
    if savepoint is None:
        return None
    if not own.is_dir():
        draft = own.with_name(start_position.DRAFT)
        start_position.link_tree(savepoint, draft)
        draft.replace(own)
        sync_to_disk(own.parent)
    return own


def remove_old_state(settings: Settings, manifest: ReplayManifest) -> None:
    """Remove all state but that after the last slice that is done, and files of processes that were killed."""
    folder = folder_of(settings)
    kept = folder / state_folder(len(manifest.results) - 1)
    for left in (folder / "again", *(folder / "state").glob("*")):
        if left != kept:
            shutil.rmtree(left, ignore_errors=True)


def verify_complete_run(
    context: SliceContext, manifest: ReplayManifest, savepoint: Path | None, on_progress: OnProgress
) -> None:
    """Run a complete replay once more, writing nothing but scratch state. Raises DeterminismViolation where something differs."""
    scratch = folder_of(context.settings) / "again"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        for number, (part, first) in enumerate(zip(manifest.slices, manifest.results, strict=True)):
            before = scratch / f"{number - 1:04d}" if number else savepoint
            doing = progress_reporter(manifest.slices, number, on_progress)
            found = run_slice(context, part, before, scratch / f"{number:04d}", doing)
            for kind, digest in first.digests.items():
                if found.digests[kind] != digest:
                    msg = (
                        f"version {manifest.version}, slice {number}: {kind} came to {found.digests[kind]}, the "
                        f"first run to {digest}; wanted the same bytes: was the log changed, or the code?"
                    )
                    raise DeterminismViolation(msg)
            if number:
                shutil.rmtree(scratch / f"{number - 1:04d}", ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    progress_reporter(manifest.slices, len(manifest.slices), on_progress)("done")


def progress_reporter(parts: tuple[Slice, ...], done: int, on_progress: OnProgress) -> Report:
    """A function that reports a stage of the slice after `done` slices to `on_progress`."""
    sizes = [part.events for part in parts]
    until = parts[min(done, len(parts) - 1)].until
    return lambda doing: on_progress(ReplayProgress(done, len(parts), sum(sizes[:done]), sum(sizes), until, doing))
