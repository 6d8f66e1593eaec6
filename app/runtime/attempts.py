"""How often a job has begun the batch that it has planned and not committed: `home/checkpoints/VERSION/attempts/JOB.json`.

Spark repeats such a batch at each start, with the same offsets. A batch that has ended the process twice is searched for the
record that does it before it is begun a third time, and where nothing was found again after 8, 32, ... starts. A process that was
ended by a signal from outside says nothing about what it read, unless memory was short, for which the system kills too: where the
last one ended so, the first search waits for one start more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.settings import Settings
from app.kafka.checkpoints import PlannedBatch
from pipelines.errors import InputError

log = structlog.get_logger()

FIRST_SEARCH = 2
AFTER_KILL = 3  # the same where the last start was ended by a signal from outside, or nobody knows how it ended
APART = 4  # each further search waits for so many times the starts


@dataclass(frozen=True)
class Attempts:
    """The batch, a hash of its offsets, how often the job was started with it in hand, which does not count its first try, and how
    often it was searched to the end.
    """

    batch: int
    offsets: str
    starts: int
    searches: int = 0

    def due(self, *, killed: bool = False) -> bool:
        """Whether the batch is to be searched before it is begun again. `killed`: how the last start ended says nothing about it."""
        first = AFTER_KILL if killed else FIRST_SEARCH
        return self.starts >= (first if self.searches == 0 else FIRST_SEARCH * APART**self.searches)


def file_of(settings: Settings, job: str) -> Path:
    """Where the starts of a job's batch are counted."""
    return settings.checkpoint("attempts") / f"{job}.json"


def count_start(settings: Settings, job: str, planned: PlannedBatch) -> Attempts:
    """Count a start with a batch in hand; returns how many there were."""
    before = read_attempts(file_of(settings, job))
    same = before is not None and (before.batch, before.offsets) == (planned.number, planned.hash)
    known = before if same and before is not None else Attempts(planned.number, planned.hash, 0)
    return write(settings, job, replace(known, starts=known.starts + 1))


def note_search(settings: Settings, job: str) -> None:
    """The batch was searched to the end: the next search waits for more starts. One that was stopped is made again."""
    known = read_attempts(file_of(settings, job))
    if known is not None:
        write(settings, job, replace(known, searches=known.searches + 1))


def write(settings: Settings, job: str, found: Attempts) -> Attempts:
    """Replace the file; answers what is in it now."""
    write_json_durably(file_of(settings, job), asdict(found))
    return found


def forget(settings: Settings, job: str) -> None:
    """Begin to count anew: it is known what ended the job with its batch, and it is not to be searched for."""
    file_of(settings, job).unlink(missing_ok=True)


def read_attempts(file: Path) -> Attempts | None:
    """The attempts in a file; None where there is none, or it cannot be read: then counting starts again."""
    try:
        found = read_json_object(file)
    except (InputError, OSError) as error:
        log.warning("the starts of a batch cannot be read and are counted anew", file=str(file), error=str(error))
        return None
    return None if found is None else parse_attempts(found)


def parse_attempts(record: object) -> Attempts | None:
    """Attempts from JSON types; None for anything else."""
    if not isinstance(record, dict):
        return None
    batch, offsets, starts = record.get("batch"), record.get("offsets"), record.get("starts")
    searches = record.get("searches", 0)
    if isinstance(batch, int) and isinstance(offsets, str) and isinstance(starts, int) and isinstance(searches, int):
        return Attempts(batch, offsets, starts, searches)
    return None
