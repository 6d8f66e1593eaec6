"""How often a job has begun the batch that it has planned and not committed: `home/checkpoints/VERSION/attempts/JOB.json`.

Spark repeats such a batch at each start, with the same offsets. A batch that has ended the process twice is searched for the
record that does it before it is begun a third time, and where nothing was found again after 8, 32, ... starts: whoever kills the
process for another reason is counted too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.settings import Settings
from app.kafka.checkpoints import PlannedBatch
from pipelines.errors import InputError

log = structlog.get_logger()

FIRST_SEARCH = 2
APART = 4  # each further search waits for so many times the starts


@dataclass(frozen=True)
class Attempts:
    """The batch, a hash of its offsets, and how often the job was started with it in hand, which does not count its first try."""

    batch: int
    offsets: str
    starts: int

    @property
    def due(self) -> bool:
        """Whether the batch is to be searched before it is begun again."""
        wanted = FIRST_SEARCH
        while wanted < self.starts:
            wanted *= APART
        return wanted == self.starts


def file_of(settings: Settings, job: str) -> Path:
    """Where the starts of a job's batch are counted."""
    return settings.checkpoint("attempts") / f"{job}.json"


def count_start(settings: Settings, job: str, planned: PlannedBatch) -> Attempts:
    """Count a start with a batch in hand; returns how many there were."""
    before = kept(file_of(settings, job))
    same = before is not None and (before.batch, before.offsets) == (planned.number, planned.hash)
    found = Attempts(planned.number, planned.hash, 1 + (before.starts if same and before is not None else 0))
    write_json_durably(file_of(settings, job), asdict(found))
    return found


def forget(settings: Settings, job: str) -> None:
    """Begin to count anew: what was found in the batch is not read any more."""
    file_of(settings, job).unlink(missing_ok=True)


def kept(file: Path) -> Attempts | None:
    """What a file says; None where there is none, or nothing that can be read: then counting begins anew."""
    try:
        found = read_json_object(file)
    except (InputError, OSError) as error:
        log.warning("the starts of a batch cannot be read and are counted anew", file=str(file), error=str(error))
        return None
    return None if found is None else of(found)


def of(record: object) -> Attempts | None:
    """Attempts from JSON types; None for anything else."""
    if not isinstance(record, dict):
        return None
    batch, offsets, starts = record.get("batch"), record.get("offsets"), record.get("starts")
    if isinstance(batch, int) and isinstance(offsets, str) and isinstance(starts, int):
        return Attempts(batch, offsets, starts)
    return None
