"""Finds damaged files in Spark's checkpoints before a job starts, and lets the job continue after the last batch that is whole.

A power cut or a failing disk leaves a file empty, half written or with other bytes. Results do not depend on how the log is cut into batches, and
repeats have the same identities, so a job may continue after any batch whose offsets, commit and state are whole: the files of later batches are
moved aside, and those batches are done again. Spark keeps ten batches.

    home/checkpoints/VERSION/damaged/JOB-1/...    what was moved aside, under its path in the checkpoint
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from app.core.atomic_files import sync_to_disk, write_durably
from app.core.report import Report, silent
from app.kafka.checkpoints import read_offset_log
from pipelines.errors import CheckpointLost, KappaError

CHECKSUM_HEADER = b"crc\0"
STATE_FILE = re.compile(r"(\d+)\.(changelog|delta|zip|snapshot)")
WHOLE_STATES = ("zip", "snapshot")
NO_BATCH = -1


@dataclass(frozen=True)
class DamagedFile:
    """A file of a checkpoint that cannot be read, and what is wrong with it."""

    file: Path
    problem: str


@dataclass(frozen=True)
class CheckpointDamage:
    """What is wrong with a job's checkpoint.

    `files` are those that cannot be read. `after` is the last batch after which the job can go on, NO_BATCH for the very
    beginning, None where there is none. `aside` are the files to move away for that.
    """

    checkpoint: Path
    files: tuple[DamagedFile, ...]
    after: int | None
    aside: tuple[Path, ...]

    @property
    def found(self) -> str:
        """The damage as text for people."""
        one = self.files[0]
        more = f" (and {len(self.files) - 1} more files)" if len(self.files) > 1 else ""
        return f"{one.file} {one.problem}{more}"


# --- finding


def find_damage(
    checkpoint: Path, *, thorough: bool = False, alive: Callable[[], None] = lambda: None
) -> CheckpointDamage | None:
    """Find the damage in a checkpoint; None where it is whole, or where the job has not begun. Changes nothing.

    A file that should be there and is not counts as damage, too. Of the tables that a snapshot of a state consists of, which may
    be large, the lengths are compared; with `thorough` the checksums as well. `alive` is called before each file.
    """
    # In this order: a job that runs writes the offsets of a batch before its commit.
    logs = {part: files_by_batch(checkpoint / part) for part in ("commits", "offsets")}
    bad: dict[Path, str] = {}
    for part, files in logs.items():
        for file in files.values():
            alive()
            note_problem(bad, file, log_problem(file, part))
    for file in [checkpoint / "metadata", *sorted((checkpoint / "sources").glob("*/0"))]:
        if file.exists():
            note_problem(bad, file, bytes_problem(file) or text_problem(file))
        elif logs["commits"]:
            bad[file] = "is gone"
    stores = {folder: state_files(folder) for folder in state_folders(checkpoint / "state")}
    for versions in stores.values():
        looked: set[Path] = set()
        while unseen := needed_files(versions, last_batch(logs["commits"]) + 1, bad) - looked:
            for file in sorted(unseen):
                alive()
                note_problem(bad, file, state_problem(file, thorough=thorough))
            looked |= unseen
    whole = last_whole_batch(logs, stores, bad)
    found = [DamagedFile(file, problem) for file, problem in sorted(bad.items())]
    if not found and whole != last_batch(logs["commits"]):
        found = [
            DamagedFile(
                checkpoint, f"lacks a file of batch {last_batch(logs['commits'])}, or of the state that it has left"
            )
        ]
    if not found:
        return None
    return CheckpointDamage(
        checkpoint, tuple(found), whole, () if whole is None else files_to_move(logs, stores, bad, whole)
    )


def note_problem(bad: dict[Path, str], file: Path, problem: str | None) -> None:
    """Add a file to `bad` if it has a problem."""
    if problem is not None:
        bad[file] = problem


def files_by_batch(folder: Path) -> dict[int, Path]:
    """The files of a log by their batch."""
    files = folder.iterdir() if folder.is_dir() else ()
    return {int(file.name): file for file in files if file.name.isdigit()}


def last_batch(files: Mapping[int, Path]) -> int:
    """The number of the last batch of a log."""
    return max(files, default=NO_BATCH)


def log_problem(file: Path, part: str) -> str | None:
    """What is wrong with a file of `offsets` or `commits`."""
    return bytes_problem(file) or entry_problem(file, part)


def entry_problem(file: Path, part: str) -> str | None:
    """What is wrong with the text of a file of `offsets` or `commits`."""
    try:
        if part == "offsets":
            sources = read_offset_log(file.parent.parent, int(file.name))[1]
            _ = [json.loads(line) for line in sources if line.strip() not in ("", "-")]
            return None if sources else "names no source"
        version, *lines = file.read_text().splitlines()
        _ = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        return f"cannot be read: {str(error)[:100]}"
    return None if version == "v1" and lines else "is not whole"


def text_problem(file: Path) -> str | None:
    """What is wrong with a file of `metadata` or `sources`: JSON, in `sources` after a line with the version."""
    try:
        json.loads(file.read_text().lstrip("\0").removeprefix("v1\n"))
    except (OSError, ValueError) as error:
        return f"cannot be read: {str(error)[:100]}"
    return None


def bytes_problem(file: Path) -> str | None:
    """What is wrong with a file by its length and its checksums; None where there are none, as Hadoop does."""
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return checksum_problem(content, checksum_file(file)) if content else "is empty"


def checksum_problem(content: bytes, checksums: Path) -> str | None:
    """In what a file's content differs from its checksums."""
    try:
        sums = checksums.read_bytes()
    except OSError:
        return None
    if len(sums) < 8 or not sums.startswith(CHECKSUM_HEADER):
        return None
    step = int.from_bytes(sums[4:8], "big")
    if step <= 0 or len(sums) != 8 + 4 * -(-len(content) // step):
        return f"has {len(content)} bytes, its checksums are of another length"
    parts = (content[start : start + step] for start in range(0, len(content), step))
    wrong = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts) != sums[8:]
    return "has other bytes than were written" if wrong else None


def state_problem(file: Path, *, thorough: bool) -> str | None:
    """What is wrong with a version of a state, or with one of the tables that a snapshot names."""
    problem = bytes_problem(file)
    if problem is not None or file.suffix != ".zip":
        return problem
    try:
        with zipfile.ZipFile(file) as archive:
            about = json.loads(archive.read("metadata").decode().partition("\n")[2])
        tables = [(file.parent / "SSTs" / one["dfsSstFileName"], int(one["sizeBytes"])) for one in about["sstFiles"]]
    except (OSError, ValueError, LookupError, zipfile.BadZipFile) as error:
        return f"cannot be read: {str(error)[:100]}"
    for table, length in tables:
        found = table.stat().st_size if table.exists() else None
        if found != length:
            return f"needs {table}, which {'is gone' if found is None else f'has {found} bytes, wanted {length}'}"
        wrong = bytes_problem(table) if thorough else None
        if wrong is not None:
            return f"needs {table}, which {wrong}"
    return None


def checksum_file(file: Path) -> Path:
    """Where Hadoop keeps the checksums of a file."""
    return file.with_name(f".{file.name}.crc")


# --- state


def state_folders(state: Path) -> Iterator[Path]:
    """The folders that hold the versions of a state: `OPERATOR/PARTITION`, and below that where a partition has several."""
    for operator in sorted(state.glob("[0-9]*")):
        for partition in sorted(operator.glob("[0-9]*")):
            inner = [one for one in sorted(partition.iterdir()) if one.is_dir() and any(map(is_state, one.iterdir()))]
            yield from inner or [partition]


def is_state(file: Path) -> bool:
    """Whether a file is a version of a state."""
    return STATE_FILE.fullmatch(file.name) is not None


def state_files(folder: Path) -> dict[tuple[int, bool], Path]:
    """The files of a state by version, and whether they are the whole state or what has changed since the version before."""
    found = {}
    for file in folder.iterdir():
        match = STATE_FILE.fullmatch(file.name)
        if match is not None:
            found[int(match[1]), match[2] in WHOLE_STATES] = file
    return found


def needed_files(versions: Mapping[tuple[int, bool], Path], version: int, bad: Mapping[Path, str]) -> set[Path]:
    """What is read for a version of a state: the last whole state before it that is good, and the changes since. And all later files."""
    good = (number for (number, is_whole), file in versions.items() if is_whole and file not in bad)
    whole = max((number for number in good if number <= version), default=0)
    return {file for (number, _), file in versions.items() if number >= whole}


def is_loadable(versions: Mapping[tuple[int, bool], Path], version: int, bad: Mapping[Path, str]) -> bool:
    """Whether a version of a state can be read without damaged files."""
    good = {key for key, file in versions.items() if file not in bad}
    whole = max((number for number, is_whole in good if is_whole and number <= version), default=0)
    return all((number, False) in good for number in range(whole + 1, version + 1))


def last_whole_batch(
    logs: Mapping[str, Mapping[int, Path]],
    stores: Mapping[Path, Mapping[tuple[int, bool], Path]],
    bad: Mapping[Path, str],
) -> int | None:
    """The last batch whose offsets, commit and resulting state are whole. NO_BATCH: the beginning of the job; None: there is none."""
    offsets, commits = logs["offsets"], logs["commits"]
    whole = [n for n in commits if n in offsets and commits[n] not in bad and offsets[n] not in bad]
    for batch in sorted(whole, reverse=True):
        if all(is_loadable(versions, batch + 1, bad) for versions in stores.values()):
            return batch
    from_the_beginning = min(offsets, default=0) == 0 and min(commits, default=0) == 0
    return NO_BATCH if from_the_beginning else None


def files_to_move(
    logs: Mapping[str, Mapping[int, Path]],
    stores: Mapping[Path, Mapping[tuple[int, bool], Path]],
    bad: Mapping[Path, str],
    after: int,
) -> tuple[Path, ...]:
    """The files to move aside so that the job continues after a batch: damaged ones, and those of later batches."""
    offsets, commits = logs["offsets"], logs["commits"]
    planned = after + 1 in offsets and offsets[after + 1] not in bad
    found = set(bad)
    found |= {file for batch, file in commits.items() if batch > after}
    found |= {file for batch, file in offsets.items() if batch > after + planned}
    # A batch that is planned anew ends elsewhere, and leaves another state.
    kept = after + 1 + planned
    found |= {file for versions in stores.values() for (number, _), file in versions.items() if number > kept}
    return tuple(sorted(found))


# --- mending


def mend(job: str, version: str, damage: CheckpointDamage, report: Report = silent) -> None:
    """Move aside damaged files and those of later batches, so that the job can continue. The job must not run.

    Raises CheckpointLost where it cannot continue after any batch.
    """
    if damage.after is None:
        raise CheckpointLost(describe_loss(job, version, damage))
    number, parent = 1, damage.checkpoint.parent / "damaged"
    while (aside := parent / f"{job}-{number}").exists():
        number += 1
    if damage.after == NO_BATCH and set(files_by_batch(damage.checkpoint / "offsets").values()) <= set(damage.aside):
        move_state(damage.checkpoint, aside)
    for file in with_checksum_files(damage.aside):
        kept = aside / file.relative_to(damage.checkpoint)
        kept.parent.mkdir(parents=True, exist_ok=True)
        file.replace(kept)
        sync_to_disk(file.parent)
    if damage.checkpoint / "metadata" in damage.aside:
        write_durably(damage.checkpoint / "metadata", json.dumps({"id": str(uuid4())}).encode())
    place = "its beginning" if damage.after == NO_BATCH else f"batch {damage.after}, the last one that is whole"
    report(f"{job} of version {version}: {damage.found}; going on after {place}; what was there is in {aside}")


def move_state(checkpoint: Path, aside: Path) -> None:
    """Move all of a state aside, with its empty folders: Spark plans no first batch beside anything of one."""
    state = checkpoint / "state"
    if state.exists():
        aside.mkdir(parents=True)
        state.replace(aside / "state")
        sync_to_disk(checkpoint)


def discard_planned_batch(job: str, version: str, checkpoint: Path, report: Report = silent) -> bool:
    """Move aside the files of the batch that is planned and not committed, so that the job plans another one from the same offsets.

    The job must not run, and its checkpoint has been mended. Returns False, and changes nothing, where no batch is planned or where
    the one before it is not whole.
    """
    logs = {part: files_by_batch(checkpoint / part) for part in ("offsets", "commits")}
    planned = last_batch(logs["offsets"])
    if planned == last_batch(logs["commits"]):
        return False
    stores = {folder: state_files(folder) for folder in state_folders(checkpoint / "state")}
    given_up = {logs["offsets"][planned]: "was begun in vain, and is planned anew"}
    after = last_whole_batch(logs, stores, given_up)
    if after != last_batch(logs["commits"]):
        return False
    files = tuple(DamagedFile(file, problem) for file, problem in given_up.items())
    mend(job, version, CheckpointDamage(checkpoint, files, after, files_to_move(logs, stores, given_up, after)), report)
    return True


def with_checksum_files(files: Iterable[Path]) -> Iterator[Path]:
    """Files, each after its checksums, so that what is left never has those of another file."""
    for file in files:
        if checksum_file(file).exists():
            yield checksum_file(file)
        if file.is_file():
            yield file


def mend_all(
    version: str, jobs: Mapping[str, Path], report: Report = silent, alive: Callable[[], None] = lambda: None
) -> None:
    """Mend the checkpoints of jobs, by their names, before they start; `alive` is called again and again meanwhile.

    Raises CheckpointLost for one that cannot be mended, before anything of any is changed.
    """
    found = {job: damage for job, path in jobs.items() if (damage := find_damage(path, alive=alive)) is not None}
    for job, damage in found.items():
        if damage.after is None:
            raise CheckpointLost(describe_loss(job, version, damage))
    for job, damage in found.items():
        alive()
        mend(job, version, damage, report)


@contextmanager
def mend_on_error(version: str, jobs: Mapping[str, Path], report: Report = silent) -> Iterator[None]:
    """If an error ends the block, check the jobs' checkpoints thoroughly and mend them. A start checks only the length of large tables.

    The jobs must have ended when the block does. Raises CheckpointLost in place of the error for a checkpoint that cannot be mended.
    """
    try:
        yield
    except KappaError:
        raise
    except Exception as error:
        for job, path in jobs.items():
            damage = find_damage(path, thorough=True)
            if damage is not None and damage.after is None:
                raise CheckpointLost(describe_loss(job, version, damage)) from error
            if damage is not None:
                mend(job, version, damage, report)
        raise


def describe_loss(job: str, version: str, damage: CheckpointDamage) -> str:
    """One sentence about a checkpoint from which a job cannot go on."""
    return (
        f"checkpoint of {job} of version {version}: {damage.found}, and no earlier batch is whole; `kappa recover` lets the "
        "version begin again after its newest savepoint"
    )
