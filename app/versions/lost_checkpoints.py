"""Jobs that have written records and have no checkpoint any more.

In the home that they ran in they begin anew, which is long work: a warning at their start. In another home they are refused, as the jobs of the first
one may still run, and both would write into the same topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from app.core.settings import Settings
from app.core.timestamps import iso
from app.kafka.checkpoints import has_started
from app.kafka.connection import open_consumer
from app.kafka.cut_log import describe_uneven_beginning
from app.kafka.data_loss import savepoint_summaries
from app.kafka.input_offsets import input_partitions
from app.kafka.offset_ranges import OffsetRange, offset_ranges
from app.kafka.partitions import Partition
from app.kafka.topics import READ_WITH_STATE
from app.versions.start_position import StartPosition, is_known_here, start_position
from pipelines.errors import InputError

log = structlog.get_logger()

# Of each job with a state: one of the topics that it writes.
WRITES = {"extract": "statistics", "detect": "scores", "correlate": "incidents"}


def check_home(settings: Settings, jobs: Iterable[str], *, take_over: bool = False) -> None:
    """Refuse to start jobs in a home that knows nothing of the version, where topics hold what these jobs write.

    Parameters
    ----------
    settings
        Those of the version whose jobs are about to start.
    jobs
        Their names.
    take_over
        Start all the same.

    Raises
    ------
    InputError
        Another home has made results of the version.
    ServiceUnavailable
        Kafka does not answer.
    """
    written = {settings.topic(WRITES[job]) for job in jobs if job in WRITES}
    if take_over or not written or is_known_here(settings):
        return
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, [(topic, p) for topic in written for p in range(settings.topics.partitions)])
    filled = sorted({topic for (topic, _), one in held.items() if one.ends > 0})  # of deleted records, too
    if filled:
        msg = (
            f"{', '.join(filled)} hold results of version {settings.version}, and nothing of it has run in this home, "
            f"{settings.home.resolve()}: two homes would write into the same topics; wanted another topics.prefix, or the home of these results "
            "(`home` in kappa.toml, or KAPPA_HOME); if that home is lost and its jobs have stopped, `kappa recover` begins after a copied "
            "savepoint, and `kappa run JOB... --take-over` at the beginning of the log"
        )
        raise InputError(msg)


def warn_before_start(settings: Settings, jobs: Mapping[str, Path]) -> None:
    """Log one warning where jobs have written records since the version began, and have no checkpoint.

    Parameters
    ----------
    settings
        Those of the version whose jobs are about to start. Its topics exist.
    jobs
        Checkpoints by the names of jobs.

    Raises
    ------
    ServiceUnavailable
        Kafka does not answer.
    """
    new = [job for job, path in jobs.items() if job in WRITES and not has_started(path)]
    if not new:
        return
    kinds = {kind for job in new for kind in (*READ_WITH_STATE[job], WRITES[job])}
    count = settings.input_partitions
    wanted = [(settings.topic(kind), p) for kind in kinds for p in range(count.get(kind, settings.topics.partitions))]
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, wanted)
    begun = start_position(settings)
    lost = [job for job in new if has_written(settings.topic(WRITES[job]), held, begun)]
    if lost:
        topics = {settings.topic(kind) for job in lost for kind in READ_WITH_STATE[job]}
        read = {part: one for part, one in held.items() if part[0] in topics}
        log.warning(describe(lost, read, begun, savepoints=bool(savepoint_summaries(settings.home))))


def warn_of_uneven_beginning(settings: Settings, jobs: Mapping[str, Path]) -> None:
    """Log a warning where `extract` begins without a state on a log that retention has cut so unevenly that hosts are taken for new ones.

    Parameters and errors are those of `warn_before_start`.
    """
    begun = start_position(settings)
    if "extract" not in jobs or has_started(jobs["extract"]) or (begun is not None and begun.folder is not None):
        return
    with open_consumer(settings) as consumer:
        held = offset_ranges(consumer, input_partitions(settings))
    begins = {part: max(one.begins, first_offset(part, begun)) for part, one in held.items()}
    line = describe_uneven_beginning(settings, begins, {part: one.ends for part, one in held.items()})
    if line is not None:
        log.warning(line)


def has_written(topic: str, held: Mapping[Partition, OffsetRange], begun: StartPosition | None) -> bool:
    """Whether records were appended to a topic of the jobs since the version began, also ones that are deleted by now."""
    return any(one.ends > first_offset(part, begun) for part, one in held.items() if part[0] == topic)


def describe(
    jobs: list[str], read: Mapping[Partition, OffsetRange], begun: StartPosition | None, *, savepoints: bool
) -> str:
    """One sentence: which jobs begin anew, where, how much that is, what comes of it, and what there is instead.

    Parameters
    ----------
    jobs
        Their names.
    read
        What the partitions hold that they read.
    begun
        Where the version began; None for the beginning of the log.
    savepoints
        Whether there are any.
    """
    first = {part: max(one.begins, first_offset(part, begun)) for part, one in read.items()}
    count = sum(max(0, one.ends - first[part]) for part, one in read.items())
    folder = None if begun is None else begun.folder
    place = (
        "the beginning of the log" if begun is None or folder is None else f"the savepoint of {iso(begun.watermark)}"
    )
    text = (
        f"no checkpoint of {', '.join(jobs)}, although there are results: reading begins again at {place}, {count:,} records; "
        "results are written again under the same identities"
    )
    if any(first[part] > first_offset(part, begun) for part in read):
        text += "; older records have been deleted from the log, so what was learnt from them is forgotten, and results may differ"
    if savepoints:
        text += "; `kappa run all --savepoint NAME --replace` begins after a savepoint instead (`kappa savepoint list`)"
    return text


def first_offset(part: Partition, begun: StartPosition | None) -> int:
    """The offset at which a version began to read a partition."""
    topic, number = part
    return 0 if begun is None else begun.offsets.get(topic, {}).get(number, 0)
