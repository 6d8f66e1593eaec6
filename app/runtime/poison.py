"""Records that end a job whenever it reads them: found before the job starts, and put in quarantine, so that it goes on.

A batch that was begun twice and never committed is read once more, by a process of its own (`rehearsal`). Where that fails, the
records that cannot be read are found by halving. A record goes in quarantine only where it fails by itself once more, and where the
same reading without it does not: a broker that is away, or too little memory for anything, puts nothing there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import structlog

from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import checkpoint_damage, quarantine
from app.kafka.checkpoints import PlannedBatch, planned_batch
from app.kafka.connection import open_consumer
from app.kafka.record_range import fetch_record_with
from app.runtime import attempts
from app.runtime.halving import OffsetSpan, Place, Spans, find_unreadable, size
from app.runtime.jobs import JobSelection
from app.runtime.rehearsal import Rehearsal, RehearsalError, Rehearsed
from models.core.wording import counted
from models.records.records import QuarantinedRecord
from pipelines.errors import InputError
from pipelines.quarantine import Quarantine

log = structlog.get_logger()

FEW_RECORDS = 1_000  # a batch of so many is not cut
PARTS = 16  # of one that no record of it fails by itself
PATIENCE = 3  # times as long as before, the second time
MOST_SECONDS = 3600.0  # of a search; what was found by then counts
DISTRIBUTION = "kappa-novelty"


@dataclass(frozen=True)
class BeforeStart:
    """What jobs have to know before they start: records that they do not read, and for some, by name, how few a batch may have."""

    known: quarantine.QuarantineLog
    most_records: Mapping[str, int]


@dataclass(frozen=True)
class SearchContext:
    """A search through a batch: where it reports to, and when it is to stop."""

    report: Report
    stopping: Callable[[], bool]
    most_seconds: float = MOST_SECONDS


def quarantine_before_start(
    settings: Settings,
    selection: JobSelection,
    report: Report = silent,
    stopping: threading.Event | None = None,
    alive: Callable[[], None] = lambda: None,
    *,
    killed: bool = False,
) -> BeforeStart:
    """What jobs do not read, after a search through the batches that they have begun twice in vain.

    Parameters
    ----------
    settings
        Those of the version whose jobs are about to start. Their topics exist.
    selection
        The jobs.
    report
        Gets a line for each step of a search, and for each record that is found.
    stopping
        Ends a search early.
    alive
        Called several times a second while it lasts.
    killed
        The last start was ended by a signal from outside, as far as is known: a search waits for one start more.

    Returns
    -------
    BeforeStart
        What the topic `quarantine` says now, and smaller batches for a job of which no record fails by itself.

    Raises
    ------
    ServiceUnavailable
        Kafka does not answer.
    """
    known = quarantine.read(settings)
    asked_to_stop = stopping or threading.Event()

    def interrupted() -> bool:
        alive()
        return asked_to_stop.is_set()

    search, smaller = SearchContext(report, interrupted), dict[str, int]()
    for name, checkpoint in selection.checkpoints(settings).items():
        batch = due(settings, name, checkpoint, killed=killed)
        if batch is None:
            continue
        job = name.partition("-")[0]
        found = searched(Rehearsed(settings, selection, job), batch, known.found, search)
        if not asked_to_stop.is_set():
            attempts.note_search(settings, name)
        if found is None:
            smaller |= in_parts(settings.version, name, checkpoint, batch, report)
        elif found:
            put_in_quarantine(settings, found, report)
            attempts.forget(settings, name)
            known = quarantine.read(settings)
    return BeforeStart(known, smaller)


def in_parts(version: str, name: str, checkpoint: Path, batch: PlannedBatch, report: Report) -> dict[str, int]:
    """Plan a batch anew that is too much at once: how many records one may have until the next start; empty where that cannot be.

    Results do not depend on how the log is cut into batches. A batch that fails because of its size would fail for ever.
    """
    records = sum(end - batch.begins[place] for place, end in batch.ends.items())
    most = max(FEW_RECORDS, records // PARTS)
    if records <= FEW_RECORDS or not checkpoint_damage.discard_planned_batch(name, version, checkpoint, report):
        return {}
    report(f"{name}: it goes on with at most {most:,} records a batch until it is started again")
    log.warning("a batch is planned anew in parts", job=name, batch=batch.number, records=records, most=most)
    return {name: most}


def due(settings: Settings, name: str, checkpoint: Path, *, killed: bool) -> PlannedBatch | None:
    """Count a start of a job; the batch that it has in hand, where that is to be searched first."""
    try:
        batch = planned_batch(checkpoint)
    except InputError as error:
        log.warning("the batch in hand cannot be read", job=name, error=str(error))
        return None
    return batch if batch is not None and attempts.count_start(settings, name, batch).due(killed=killed) else None


def searched(
    what: Rehearsed, batch: PlannedBatch, known: Quarantine, search: SearchContext
) -> list[QuarantinedRecord] | None:
    """The records of a batch that end the job, as they go into quarantine.

    None where all could be read, so that the reason lies elsewhere; an empty list where that is not known.
    """
    spans = tuple(
        OffsetSpan(topic, partition, batch.begins[topic, partition], end)
        for (topic, partition), end in sorted(batch.ends.items())
        if end > batch.begins[topic, partition]
    )
    if not spans:
        return []
    place = f"{what.job}: batch {batch.number} was begun twice and not ended"
    search.report(f"{place}; reading its {size(spans):,} records by themselves")
    log.warning("a batch was begun twice and not ended", job=what.job, batch=batch.number, records=size(spans))
    found: list[tuple[Place, str]] = []
    try:
        with Rehearsal(what, search.stopping) as rehearsal:
            for one in find_killers(rehearsal, spans, known, search):
                found.append(one)
    except RehearsalError as error:
        search.report(f"{error}; put in quarantine: {counted(len(found), 'record')}")
        log.warning("the search has ended early", job=what.job, batch=batch.number, reason=str(error))
        return quarantine_entries(what, found)
    if not found:
        search.report(
            f"{place}, and no record of it fails by itself: nothing is put in quarantine. What ends the job lies in its state or "
            "around it: memory (spark.driver_memory, a smaller spark.max_records_per_batch), or its log, has the reason"
        )
        log.warning("no record of the batch fails by itself", job=what.job, batch=batch.number)
        return None
    return quarantine_entries(what, found)


def find_killers(
    rehearsal: Rehearsal, spans: Spans, known: Quarantine, search: SearchContext
) -> Iterator[tuple[Place, str]]:
    """Places of records that end the job by themselves, and how; those that are known are not read.

    First what looks into single records, which is quick; where that can read all of them, all that the job does.
    """
    deadline = time.monotonic() + search.most_seconds
    found: list[Place] = []
    for whole in (False, True) if rehearsal.has_readers else (True,):
        reading = BatchReading(rehearsal, known, search, whole)
        for place, reason in find_unreadable(spans, reading.probe, reading.on_search):
            confirmed = reading.confirm(place, found)
            if confirmed is None:
                search.report(f"{place_text(place)} could be read the second time: not put in quarantine")
                log.warning("a record failed once and could be read later", place=place_text(place), reason=reason)
                return
            found.append(place)
            yield place, confirmed
            if time.monotonic() > deadline:
                search.report(
                    f"the search has taken {search.most_seconds:.0f} s: it goes on when the batch fails again"
                )
                return
        if found:
            return


@dataclass(frozen=True)
class BatchReading:
    """How records are read in a search."""

    rehearsal: Rehearsal
    known: Quarantine
    search: SearchContext
    whole: bool

    def probe(self, part: Spans, without: Sequence[Place], patience: int = 1) -> str | None:
        """Why records cannot be read, without those in quarantine and others; None where they can."""
        blank = (quarantine.placeholder(*place, self.rehearsal.job) for place in without)
        unread = Quarantine((*self.known.records, *blank))
        return self.rehearsal.read(part, unread, whole=self.whole, patience=patience)

    def confirm(self, place: Place, without: Sequence[Place]) -> str | None:
        """Why a record fails once more by itself; None where it does not, or where reading fails without it too."""
        alone = (OffsetSpan(*place, place[2] + 1),)
        if self.probe(alone, [*without, place], PATIENCE) is not None:
            return None
        return self.probe(alone, without, PATIENCE)

    def on_search(self, part: Spans) -> None:
        """Say what is looked at."""
        first = part[0]
        more = f" and {len(part) - 1} more partitions" if len(part) > 1 else ""
        self.search.report(f"searching partition {first.partition} of {first.topic}{more}: {size(part):,} records left")


def quarantine_entries(what: Rehearsed, found: Sequence[tuple[Place, str]]) -> list[QuarantinedRecord]:
    """Records of the topic about what was found."""
    if not found:
        return []
    software, settings = metadata.version(DISTRIBUTION), what.settings
    with open_consumer(settings) as consumer:
        return [
            quarantine.quarantine_entry(
                record, job=what.job, reason=reason, version=settings.version, software=software
            )
            for place, reason in found
            if (record := fetch_record_with(settings, consumer, *place)) is not None
        ]


def put_in_quarantine(settings: Settings, found: Sequence[QuarantinedRecord], report: Report) -> None:
    """Put records in quarantine, and say so."""
    # First the letters: interrupted here, the search finds the same again, and a letter that comes twice is one document.
    quarantine.append_dead_letters(settings, [one for one in found if one.job != "extract"])
    quarantine.append(settings, found)
    for one in found:
        report(
            f"{one.name} is in quarantine: {one.job} cannot read it ({one.reason}); see `kappa quarantine show {one.name}`"
        )
        log.error(
            "record quarantined",
            job=one.job,
            topic=one.topic,
            partition=one.partition,
            offset=one.offset,
            bytes=one.length,
            sha256=one.sha256,
            reason=one.reason,
        )


def place_text(place: Place) -> str:
    """A place as text."""
    topic, partition, offset = place
    return f"{topic}/{partition}/{offset}"
