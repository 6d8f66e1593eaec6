"""Violations of determinism are remembered: what happened is written down before the process ends, and refuses every later start.

home/checkpoints/VERSION/violation.json    the violations of a version, the oldest first

A violation that an operator accepts becomes a record of `dead-letters`, and stays in the file with the time of that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.report import Report, silent
from app.core.settings import Settings
from app.core.timestamps import iso
from app.kafka import topics
from app.kafka.checkpoints import consumed_offsets, last_committed
from app.kafka.data_loss import append_dead_letter
from models.records.records import RefusedRecord
from pipelines.errors import DeterminismViolation

FILE = "violation.json"
MOST = 100  # kept of a version


@dataclass(frozen=True)
class Violation:
    """One violation.

    `job`       which job it ended.
    `what`      the error, one line.
    `at`        when, epoch milliseconds of the clock.
    `batch`     the number of the batch that was not committed.
    `accepted`  when an operator accepted it, epoch milliseconds; None: nobody has.
    """

    job: str
    what: str
    at: int
    batch: int
    accepted: int | None = None


def file_of(settings: Settings) -> Path:
    """Where the violations of the settings' version are kept."""
    return settings.checkpoint(FILE)


def read(settings: Settings) -> list[Violation]:
    """The violations of a version, the oldest first. Raises InputError for a file that is not JSON."""
    found = read_json_object(file_of(settings)) or {}
    return [Violation(**one) for one in found.get("violations", [])]


def not_accepted(settings: Settings) -> list[Violation]:
    """Those that nobody has accepted."""
    return [one for one in read(settings) if one.accepted is None]


def remember(settings: Settings, job: str, checkpoint: Path, found: DeterminismViolation) -> None:
    """Write a violation down, durably. One of the same batch of the same job is written once."""
    done = last_committed(checkpoint)
    new = Violation(job, str(found), now_ms(), 0 if done is None else done + 1)
    before = read(settings)
    if not any((one.job, one.batch, one.accepted) == (new.job, new.batch, None) for one in before):
        write(settings, [*before, new])


def write(settings: Settings, violations: list[Violation]) -> None:
    """Replace the file; of many violations the last are kept."""
    kept = [dataclasses.asdict(one) for one in violations[-MOST:]]
    write_json_durably(file_of(settings), {"violations": kept})


def now_ms() -> int:
    """The clock."""
    return int(datetime.now(UTC).timestamp() * 1000)


def describe(settings: Settings, found: list[Violation]) -> str:
    """One line: what happened, when, and what to do."""
    first, more = found[0], f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"version {settings.version} stopped at {iso(first.at)}, in batch {first.batch} of {first.job}: {first.what}{more}; what it "
        "has written is not what a replay gives: `kappa replay --version NAME`, then `kappa replay promote NAME`; or let it go "
        "on all the same with `kappa run --accept-violation`"
    )


def check(settings: Settings) -> None:
    """Raise DeterminismViolation for a version that has a violation which nobody has accepted."""
    found = not_accepted(settings)
    if found:
        raise DeterminismViolation(describe(settings, found))


def check_before_start(
    settings: Settings, jobs: Mapping[str, Path], *, accept: bool = False, report: Report = silent
) -> dict[str, frozenset[int]]:
    """Refuse to start a version that has a violation, or accept it.

    Parameters
    ----------
    settings
        Those of the version whose jobs are about to start.
    jobs
        Checkpoints by the names of jobs.
    accept
        Record violations in `dead-letters` instead of refusing to start.
    report
        Gets a line for each that is recorded.

    Returns
    -------
    dict of frozenset of int
        For each job the batches that may be committed although the watermark dropped rows of theirs.

    Raises
    ------
    DeterminismViolation
        There is one, and it is not accepted.
    ServiceUnavailable
        Kafka does not answer.
    """
    if not accept:
        check(settings)
    found = read(settings)
    for number, one in enumerate(found):
        if one.accepted is None:
            topics.create(settings)  # the record needs its topic
            append_dead_letter(settings, letter(settings, one, jobs.get(one.job)).headers(), 0)
            found[number] = dataclasses.replace(one, accepted=now_ms())
            write(settings, found)
            report(f"{one.job}: accepted: {one.what}; written to {settings.topic('dead-letters')}")
    return {job: frozenset(one.batch for one in found if one.job == job) for job in jobs}


def letter(settings: Settings, found: Violation, checkpoint: Path | None) -> RefusedRecord:
    """The record of an accepted violation. Its position is about where the batch begins."""
    read_to = None if checkpoint is None else consumed_offsets(checkpoint)
    (topic, partition), offset = (settings.topic("telemetry"), 0), None
    if read_to is not None and read_to.offsets:
        (topic, partition), offset = min(read_to.offsets.items())
    return RefusedRecord.about(
        b"",
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=found.at,
        reason=f"violation: accepted by an operator: {found.what}",
        stage=found.job.partition("-")[0],
    )


def summary(settings: Settings) -> dict[str, Any]:
    """For `/healthz`: how many, and the last one."""
    found = read(settings)
    last = found[-1] if found else None
    return {
        "count": len(found),
        "accepted": sum(one.accepted is not None for one in found),
        "last": None if last is None else f"{iso(last.at)} {last.job}: {last.what}",
    }
