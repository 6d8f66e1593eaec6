"""Recovers a version after a loss: the log is no longer the one it has read, or a checkpoint cannot be read.

All results follow from the input topics. So a version can begin again after any savepoint whose state holds no record that the log has lost, if
the input topics still hold the records after it; it then publishes its results again, under the same identities. The newest such savepoint is
taken; without one, the beginning of the log; and where records are missing for every start, the newest state, with the loss recorded in
`dead-letters`.

Nothing is deleted: checkpoints are moved to `home/checkpoints/VERSION.replaced-N`, damaged files to `VERSION/damaged`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from app.core.atomic_files import write_json_durably
from app.core.report import Report, silent
from app.core.settings import CONFIGURATION, INPUTS, Settings
from app.core.timestamps import iso, iso_or, wall_clock
from app.kafka import checkpoint_damage, data_loss, log_marks, topics
from app.kafka.checkpoint_damage import CheckpointDamage
from app.kafka.checkpoints import consumed_offsets
from app.kafka.connection import open_consumer
from app.kafka.input_offsets import input_partitions
from app.kafka.log_marks import LogChange
from app.kafka.offset_ranges import OffsetRange, find_gaps, find_gaps_since, find_recreated, offset_ranges
from app.kafka.partitions import Partition
from app.kafka.topic_marks import LogMarks, marks_of
from app.versions import locks, replay_manifest, serving, start_position
from app.versions.pinned_configuration import configuration_of, read_pinned
from app.versions.serving import Serving, ServingInterval
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from pipelines.windowing import MILLIS
from replay.savepoints import savepoint_folder
from replay.savepoints.savepoint_folder import NoStateYet

SAME = (
    "windowing",
    "detection",
    "control",
    "correlation",
)  # of the configuration: what the state and results depend on

# Takes a savepoint of the version's checkpoints under a name; returns its folder.
TakeSavepoint = Callable[[Settings, str], Path]


@dataclass(frozen=True)
class Loss:
    """Records that are gone, for `dead-letters`: of which topic and partition, since when (epoch ms), and a sentence."""

    topic: str
    partition: int
    since_ms: int
    sentence: str


@dataclass(frozen=True)
class Start:
    """Where a version can begin again: after a savepoint, or, without a `folder`, at the beginning of the log.

    `watermark` is the end of its last window (epoch ms), `taken_ms` when it was taken, `log` where the topics ended then.
    """

    name: str
    folder: Path | None
    watermark: int
    taken_ms: int
    log: LogMarks = field(default_factory=dict)


@dataclass(frozen=True)
class LogState:
    """The log now: the offsets that input partitions hold (`held`), its `changes` since the version read it, and those `since` given marks."""

    held: Mapping[Partition, OffsetRange]
    changes: tuple[LogChange, ...]
    since: Callable[[LogMarks], Sequence[LogChange]]


@dataclass(frozen=True)
class RecoveryPlan:
    """What is wrong with a version, and what is to be done about it.

    `problems`       sentences; empty: nothing is wrong.
    `mend`           checkpoints that can be mended, by job.
    `start`          where the version begins again; None: its checkpoints stay.
    `take`           whether a savepoint is taken of the checkpoints first, to begin after.
    `reset_index`    whether `index` reads its topics anew from their beginning.
    `losses`         what cannot be brought back.
    `unreadable`     files of settings that are moved aside.
    `configuration`  what the version began with, where the file of it is among them; None where nothing else says so.
    `other_rules`    whether the topic `rules` is another one than the version knew the rules of beforehand.
    """

    problems: tuple[str, ...] = ()
    mend: Mapping[str, CheckpointDamage] = field(default_factory=dict)
    start: Start | None = None
    take: bool = False
    reset_index: bool = False
    losses: tuple[Loss, ...] = ()
    unreadable: tuple[Path, ...] = ()
    configuration: Mapping[str, Any] | None = None
    other_rules: bool = False

    @property
    def steps(self) -> list[str]:
        """The actions of the plan, a sentence each."""
        found = [f"move {file} aside{self._instead(file)}" for file in self.unreadable]
        found += [
            f"mend the checkpoint of {job}: {len(damage.aside)} files are moved aside"
            for job, damage in self.mend.items()
        ]
        if self.other_rules:
            found.append(
                "let all records of the topic of rules count: the version knew those of another topic beforehand"
            )
        if self.take:
            found.append("take a savepoint of the state as it is")
        if self.take or self.start is not None:
            after = "that savepoint" if self.start is None else describe_start(self.start)
            found.append(
                f"move the checkpoints aside, and begin again after {after}; results since are published again"
            )
        if self.reset_index:
            found.append(
                "move the checkpoint of index aside: it writes all that its topics hold once more, under the same ids"
            )
        return found

    def _instead(self, file: Path) -> str:
        if file.name != CONFIGURATION:
            return ""
        if self.configuration is None:
            return ", as nothing else says what the version began with: its next start takes the settings"
        return ", and write it again as the version began with it"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        start = self.start
        return {
            "problems": list(self.problems),
            "steps": self.steps,
            "lost": [loss.sentence for loss in self.losses],
            "start": None if start is None else {"name": start.name, "watermark": start.watermark},
        }


def describe_start(start: Start) -> str:
    """A start as text for people."""
    return (
        "nothing, at the beginning of the log"
        if start.folder is None
        else f"savepoint {start.name} (at {iso(start.watermark)})"
    )


# --- what is wrong


def plan(settings: Settings, savepoints: Path | None = None) -> RecoveryPlan:
    """Find out what is wrong with a version, and what would bring it back. Changes nothing.

    Parameters
    ----------
    settings
        Those of the version.
    savepoints
        A folder with further savepoints, such as a copy of another machine's.

    Returns
    -------
    RecoveryPlan
        Without problems if nothing is wrong.

    Raises
    ------
    ServiceUnavailable
        Kafka does not answer.
    """
    unreadable = unreadable_files(settings)
    torn = settings.configuration_file in unreadable
    configuration = configuration_elsewhere(settings, savepoints) if torn else None
    jobs = existing_checkpoints(settings)
    damages = {
        job: found for job, path in jobs.items() if (found := checkpoint_damage.find_damage(path, thorough=True))
    }
    lost = [job for job, damage in damages.items() if damage.after is None]
    readable = {job: path for job, path in jobs.items() if job not in damages}
    log, gaps = read_log_state(settings, readable), find_offset_gaps(readable, settings)
    interrupted = start_position.interrupted(settings)
    problems = [f"{file} cannot be read" for file in unreadable]
    problems += [f"checkpoint of {job}: {damage.found}" for job, damage in damages.items()]
    problems += [change.sentence for change in log.changes]
    problems += [f"{job}: {gap.reason}" for job, found in gaps.items() for gap in found]
    first, rules = rules_from(settings), (settings.topic(topics.RULES), 0)
    held = log.held.get(rules)
    other_rules = first > (0 if held is None else held.ends)
    if other_rules:
        problems.append(data_loss.describe_other_rules(settings, first, 0 if held is None else held.ends))
    other_rules |= any(first and change.topic == rules[0] and change.end < first for change in log.changes)
    problems += ["an earlier `kappa recover`, or a start after a savepoint, was interrupted"] if interrupted else []
    reset = "index" in jobs and ("index" in lost or "index" in gaps or has_changed_for_index(settings, log))
    mend = {job: damage for job, damage in damages.items() if job not in lost}
    stateful = [job for job in (*lost, *gaps) if job != "index"]
    begin = start_position.checkpoint_home(settings) / "begin.json"
    no_checkpoint = not (start_position.jobs_with_checkpoint(settings) or is_json(begin))
    starts = find_starts(settings, savepoints)
    if not (stateful or begin in unreadable or log.changes or interrupted or (no_checkpoint and starts)):
        return RecoveryPlan(
            tuple(problems),
            mend,
            reset_index=reset,
            unreadable=unreadable,
            configuration=configuration,
            other_rules=other_rules,
        )
    if no_checkpoint and not problems:
        problems.append(f"version {settings.version} has no checkpoints, but savepoints")
    whole = not (lost or no_checkpoint or begin in unreadable or interrupted)
    start, losses = choose_start(settings, log, starts, whole=whole)
    losses = (*losses, *lost_after_reading(settings, log.changes))
    # What is going to be moved aside as a whole is not mended first, unless a savepoint is taken of it.
    mend = mend if start is None else {}
    return RecoveryPlan(
        tuple(problems), mend, start, start is None, reset, losses, unreadable, configuration, other_rules
    )


def rules_from(settings: Settings) -> int:
    """The offset in the topic of rules from which records count, as the version began with it."""
    return int(read_object(settings.configuration_file).get("control", {}).get("rules_from", 0))


def has_changed_for_index(settings: Settings, log: LogState) -> bool:
    """Whether a topic that `index` reads has changed, so that its offsets no longer fit."""
    kinds = (*topics.INDEXED, "scores", "labels", topics.DELIVERIES, topics.EARLY)
    names = {settings.topic(kind) for kind in kinds}
    return any(change.topic in names for change in log.changes)


def existing_checkpoints(settings: Settings) -> dict[str, Path]:
    """The checkpoints that a version has, by job."""
    names = [*start_position.jobs_with_checkpoint(settings), "index"]
    return {name: path for name in names if (path := settings.checkpoint(name)).is_dir()}


def unreadable_files(settings: Settings) -> tuple[Path, ...]:
    """JSON files of the version that are torn."""
    home = start_position.checkpoint_home(settings)
    files = [*sorted(home.glob("*.json")), *sorted(home.glob("log/*.json")), *sorted(home.glob("gaps/*.json"))]
    return tuple(file for file in (*files, serving.file_of(settings.home)) if file.exists() and not is_json(file))


def is_json(file: Path) -> bool:
    """Whether a file holds a JSON object."""
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except (OSError, ValueError):
        return False


def read_log_state(settings: Settings, jobs: Mapping[str, Path]) -> LogState:
    """Read the state of the log, and how it differs from what the version has read and written."""
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, input_partitions(settings))
        read = {job: found for job, path in jobs.items() if (found := consumed_offsets(path)) is not None}
        ranges = offset_ranges(consumer, {part for one in read.values() for part in one.offsets})
    marks = [
        marks_of(kept) for file in sorted(log_marks.folder_of(settings).glob("*.json")) if (kept := read_object(file))
    ]
    changes = list(log_marks.changes_since(settings, marks))
    known = {(change.topic, change.partition) for change in changes} | {
        (change.topic, None) for change in changes if change.recreated
    }
    for consumed in read.values():
        for one in find_recreated(consumed, ranges):
            if not known & {(one.topic, one.partition), (one.topic, None)}:
                changes.append(LogChange(one.topic, one.partition, one.read, one.ends))
                known.add((one.topic, one.partition))
    return LogState(held, tuple(changes), lambda one: log_marks.changes_since(settings, [one]))


def read_object(file: Path) -> dict[str, Any]:
    """A file's JSON object; empty where it cannot be read."""
    return json.loads(file.read_bytes()) if is_json(file) else {}


def find_offset_gaps(jobs: Mapping[str, Path], settings: Settings) -> dict[str, list[Any]]:
    """The gaps of offsets that retention has deleted before a job read them, by job."""
    read = {job: found for job, path in jobs.items() if (found := consumed_offsets(path)) is not None}
    with open_consumer(settings) as consumer:
        ranges = offset_ranges(consumer, {part for one in read.values() for part in one.offsets})
    return {job: gaps for job, one in read.items() if (gaps := find_gaps(one, ranges))}


# --- from where it can go on


def find_starts(settings: Settings, elsewhere: Path | None = None) -> list[Start]:
    """Savepoints after which the version can begin again, the newest first: its own, and the one that it began from."""
    folders = [*savepoint_folders(settings, elsewhere), settings.checkpoint("begin")]
    if start_position.interrupted(settings):
        folders.append(settings.checkpoint(start_position.DRAFT))
    replayed = replay_manifest.read(settings)
    if replayed is not None and replayed.complete:
        folders.append(replay_manifest.folder_of(settings) / replayed.last_state)
    wanted = wanted_configuration(settings, elsewhere)
    found = [start for folder in folders if (start := as_start(settings, folder, wanted)) is not None]
    return sorted(found, key=lambda start: start.watermark, reverse=True)


def savepoint_folders(settings: Settings, elsewhere: Path | None) -> list[Path]:
    """The folders of the home's savepoints, and those of a copy."""
    home = savepoint_folder.savepoints_folder(settings.home)
    found = [home / name for name in savepoint_folder.list_names(settings.home)]
    return found if elsewhere is None else [*found, *(path for path in sorted(elsewhere.iterdir()) if path.is_dir())]


def wanted_configuration(settings: Settings, elsewhere: Path | None = None) -> dict[str, Any]:
    """The configuration that results depend on: the one that the version began with, else that of the settings."""
    kept = read_object(settings.configuration_file)
    if not kept and settings.configuration_file.exists():
        kept = configuration_elsewhere(settings, elsewhere) or {}
    kept = kept or configuration_of(settings)
    return compared_parts(kept)


def compared_parts(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration, what the state and results depend on; from where rules of the log count is about a topic that may be gone."""
    control = {key: value for key, value in configuration.get("control", {}).items() if key != "rules_from"}
    return {part: configuration.get(part) for part in SAME} | {"control": control}


def configuration_elsewhere(settings: Settings, elsewhere: Path | None) -> dict[str, Any] | None:
    """The configuration that the version began with, from other files than its torn one; None where no other has it.

    The start after a savepoint keeps it, else it is that of the savepoint itself, if that is of the same version, of the version's replay, or
    of its newest savepoint that is whole.
    """
    begin = read_object(start_position.checkpoint_home(settings) / "begin.json")
    replayed = read_object(replay_manifest.folder_of(settings) / replay_manifest.FILE)
    for source in (begin, manifest_of_version(settings, settings.checkpoint("begin")), replayed):
        if source.get("configuration"):
            return dict(source["configuration"])
    manifests = ((folder, manifest_of_version(settings, folder)) for folder in savepoint_folders(settings, elsewhere))
    whole = [manifest for folder, manifest in manifests if manifest and not savepoint_format.verify(folder)]
    newest = max(whole, key=lambda manifest: datetime.fromisoformat(manifest["created_at"]), default=None)
    return None if newest is None else dict(newest["configuration"])


def manifest_of_version(settings: Settings, folder: Path) -> dict[str, Any]:
    """The manifest of a savepoint of the version; empty where it cannot be read, or is of another version."""
    try:
        found = savepoint_format.read_manifest(folder)
    except InputError:
        return {}
    return found if found.get("version") == settings.version else {}


def as_start(settings: Settings, folder: Path, wanted: Mapping[str, Any]) -> Start | None:
    """The start after a savepoint; None if it is damaged, or of another version or configuration."""
    try:
        manifest = savepoint_format.read_manifest(folder)
        start_position.check_savepoint(settings, folder)
        same = compared_parts(manifest["configuration"]) == dict(wanted)
        own = manifest["version"] == settings.version or folder.parent == start_position.checkpoint_home(settings)
        if not (same and own):
            return None
        taken = int(datetime.fromisoformat(manifest["created_at"]).timestamp() * 1000)
        log = marks_of(manifest.get("log") or {})
        return Start(str(manifest["name"]), folder, int(manifest["watermark"]), taken, log)
    except (InputError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None


def choose_start(
    settings: Settings, log: LogState, starts: Sequence[Start], *, whole: bool
) -> tuple[Start | None, tuple[Loss, ...]]:
    """Choose the start that loses least; returns it and its losses. None: best is a savepoint of the checkpoints as they are, if they are `whole`."""
    beginning = Start("the beginning", None, start_position.NO_WINDOW, 0)
    losses = [(start, lost_inputs(settings, log, start)) for start in (*starts, beginning)]
    for outputs in (True, False):  # first a start from which all lost results are made again
        for start, lost in losses[: len(starts) if not outputs else None]:
            if not lost and not (outputs and lost_outputs(settings, log, start)):
                return start, ()
    for start, lost in losses:
        if not lost:
            return start, ()
    cut = any(not change.recreated and change.topic in inputs_of(settings) for change in log.changes)
    if whole and not cut:
        now = Start("now", None, wall_clock(), wall_clock())
        return None, lost_now(settings, log, now)
    return losses[0]


def inputs_of(settings: Settings) -> set[str]:
    """Names of the input topics."""
    return {settings.topic(kind) for kind in INPUTS}


def lost_inputs(settings: Settings, log: LogState, start: Start) -> tuple[Loss, ...]:
    """Records of the input topics that a start needs or holds, and that the log no longer has."""
    found: dict[Partition, Loss] = {}
    inputs = inputs_of(settings)
    if start.folder is not None:
        for change in changes_from(log, start):
            if change.topic in inputs:
                since = start.watermark - settings.windowing.skew_seconds * MILLIS
                key = (change.topic, change.partition or 0)
                found[key] = Loss(
                    change.topic,
                    change.partition or 0,
                    since,
                    f"{change.sentence}; records since {iso(since)} are missing",
                )
    wanted = 0 if start.folder is None else start.watermark - settings.windowing.skew_seconds * MILLIS
    for gap in find_gaps_since(wanted, log.held):
        begun = gap.until_ms if gap.since_ms is None or start.folder is None else gap.since_ms
        sentence = f"{gap.offsets} of {gap.topic}/{gap.partition} were deleted by retention; it begins at {iso_or(gap.until_ms, 'its end')}"
        found.setdefault((gap.topic, gap.partition), Loss(gap.topic, gap.partition, begun or 0, sentence))
    if start.folder is None:
        for change in log.changes:
            if change.recreated and change.topic in inputs:
                found[change.topic, 0] = Loss(change.topic, 0, 0, change.sentence)
    return tuple(found.values())


def lost_outputs(settings: Settings, log: LogState, start: Start) -> bool:
    """Whether the log has lost results of windows up to a start, which are not made again from there."""
    return start.folder is not None and any(
        change.topic not in inputs_of(settings) and not change.recreated for change in changes_from(log, start)
    )


def changes_from(log: LogState, start: Start) -> list[LogChange]:
    """The changes of the log since a savepoint was taken; all known changes for a savepoint that does not record where the topics ended."""
    if start.log:
        return list(log.since(start.log))
    return list(log.changes)


def lost_now(settings: Settings, log: LogState, now: Start) -> tuple[Loss, ...]:
    """The losses if the version goes on from its present state: records that it has not read, and those of open windows."""
    found = []
    for change in log.changes:
        if change.topic in inputs_of(settings):
            text = f"{change.sentence}; records that had not been read are missing, and those of windows that were open"
            found.append(Loss(change.topic, change.partition or 0, now.taken_ms, text))
    changed = {change.topic for change in log.changes}
    for (topic, partition), held in sorted(log.held.items()):
        if held.begins > 0 and topic not in changed:
            text = f"offsets before {held.begins} of {topic}/{partition} were deleted by retention"
            found.append(Loss(topic, partition, held.first_ms or now.taken_ms, text))
    return tuple(found)


def lost_after_reading(settings: Settings, changes: Sequence[LogChange]) -> tuple[Loss, ...]:
    """Losses of input records that the version had read: results of their windows can no longer be reproduced."""
    return tuple(
        Loss(
            change.topic,
            change.partition or 0,
            wall_clock(),
            f"{change.sentence}: results that were published from these records differ from what is published now",
        )
        for change in changes
        if change.topic in inputs_of(settings) and not change.recreated
    )


# --- doing it


def recover(
    settings: Settings, what: RecoveryPlan, take: TakeSavepoint, report: Report = silent, savepoint: str = "recovery"
) -> dict[str, Any]:
    """Carry out a plan.

    Parameters
    ----------
    settings
        Those of the version.
    what
        As `plan` returned it just now.
    take
        Takes a savepoint of the version's checkpoints.
    report
        Gets a line for each step.
    savepoint
        The name of a savepoint that is taken first, if one is.

    Returns
    -------
    dict
        The plan as JSON types, with `aside`: where checkpoints were moved.

    Raises
    ------
    InputError
        Another process runs a job of the version, or no savepoint can be taken.
    ServiceUnavailable
        Kafka does not answer.
    """
    names = {*existing_checkpoints(settings), "extract", "detect", "correlate", "index"}
    aside = None
    with locks.only_here(settings, sorted(names)):
        if what.start is not None:
            # Without a torn begin.json a command that is given again would find nothing wrong.
            start_position.mark_recovery(settings)
        for file in what.unreadable:
            move_aside(settings, file, what.configuration, report)
        for job, damage in what.mend.items():
            checkpoint_damage.mend(job, settings.version, damage, report)
        if what.other_rules:
            kept = read_object(settings.configuration_file)
            control = {key: value for key, value in kept["control"].items() if key != "rules_from"}
            write_json_durably(settings.configuration_file, {**kept, "control": control})
        start = what.start
        folder = start.folder if start is not None else None
        if what.take:
            folder = take_savepoint(settings, take, savepoint, report)
        if what.take or start is not None:
            topics.create(settings)
            for loss in what.losses:  # before anything is moved: a recovery that is interrupted here records them again
                data_loss.record_loss(settings, loss.topic, loss.partition, loss.since_ms, loss.sentence)
            aside = start_position.set_back(settings, folder, configuration_to_restore(settings, folder))
        if what.reset_index:
            index_aside = start_position.set_aside(settings, ["index"])
            aside = aside or index_aside
    if aside is not None:
        report(f"what was there is in {aside}")
    return {**what.record(), "done": True, "aside": None if aside is None else str(aside)}


def move_aside(settings: Settings, file: Path, configuration: Mapping[str, Any] | None, report: Report) -> None:
    """Move a torn file to its name with `.damaged`.

    Serving intervals are then those of the version alone, the configuration is the one that it began with, where that is known: there is no
    moment without either, or `live` would serve, or the settings would count.
    """
    moved = file.with_name(f"{file.name}.damaged")
    if file == serving.file_of(settings.home):
        shutil.copyfile(file, moved)
        serving.write(settings.home, Serving((ServingInterval(settings.version),), aliased=False))
    elif file == settings.configuration_file and configuration is not None:
        shutil.copyfile(file, moved)
        write_json_durably(file, configuration)
    else:
        file.replace(moved)
    report(f"moved {file} to {moved}")


def take_savepoint(settings: Settings, take: TakeSavepoint, name: str, report: Report) -> Path | None:
    """Take a savepoint of the present state; returns its folder. None, to begin at the beginning of the log, if there is no state yet."""
    try:
        folder = take(settings, name)
    except NoStateYet as error:
        report(f"there is no state to go on from, so it begins at the beginning of the log ({error})")
        return None
    report(f"took savepoint {name}")
    return folder


def configuration_to_restore(settings: Settings, folder: Path | None) -> dict[str, Any] | None:
    """The configuration that the version began with, from its savepoint, if the file of it is gone; None if it is not needed or not known."""
    if read_pinned(settings) is not None or folder is None:
        return None
    manifest = savepoint_format.read_manifest(folder)
    return dict(manifest["configuration"]) if manifest["version"] == settings.version else None
