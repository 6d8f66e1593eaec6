"""Health of the jobs: `/healthz` of the processes that run them.

Addresses come with the environment: those of the settings, and a folder where processes that run `detect` say where they
listen.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dashboards.bounded_get import get_bounded
from dashboards.queries.search import PREFIX
from dashboards.words import local_text
from models.core.printable import printable
from models.records.records import JOBS

TIMEOUT_SECONDS = 2.0
MAX_BYTES = 1_000_000
MAX_PROCESSES = 32
ANSWERED = (200, 503)  # the second one says which job is not well
MOST_SHOWN = 200  # bytes of another answer
UTC = ZoneInfo("UTC")
ORDER = ("extract", "detect", "correlate", "index")
NUMBERS = ("lag", "batch_seconds", "rows", "state_bytes", "dropped_by_watermark", "seconds_since_progress")  # of a job
# What something else than jobs makes of the question, where it listens in their place.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError),
    http.client.HTTPException,
)


@dataclass(frozen=True)
class ProcessHealth:
    """The answer of a process: facts by the job's name. `version`: whose jobs they are, empty where it does not say.

    `quarantined` is how many records are in quarantine.
    `notes` are sentences about restarts and violations of determinism.
    """

    jobs: Mapping[str, Mapping[str, Any]]
    version: str = ""
    quarantined: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobReport:
    """The answers of the processes that run a version's jobs, together as those of one.

    `silent`: address and reason of those that did not answer; `others`: address and version of those that run another version's jobs.
    """

    jobs: Mapping[str, Mapping[str, Any]]
    silent: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    quarantined: int = 0
    notes: tuple[str, ...] = ()


def report_jobs(version: str, zone: ZoneInfo = UTC) -> JobReport:
    """Ask all known processes in parallel, each for at most TIMEOUT_SECONDS. Times of its notes are in this zone.

    One that does not say of which version its jobs are, as of an older release, is taken for one of this version.
    """
    known = addresses(os.environ, version)
    if not known:
        return JobReport({})
    with ThreadPoolExecutor(len(known)) as pool:
        answers = dict(zip(known, pool.map(partial(fetch, zone=zone), known), strict=True))
    found = {where: one for where, one in answers.items() if isinstance(one, ProcessHealth)}
    own = [one for one in found.values() if one.version in ("", version)]
    jobs = {name: facts for one in own for name, facts in one.jobs.items()}
    ordered = dict(sorted(jobs.items(), key=lambda item: (chain_position(item[0]), item[0])))
    silent = {where: why for where, why in answers.items() if isinstance(why, str)}
    others = {where: one.version for where, one in found.items() if one.version not in ("", version)}
    notes = tuple(dict.fromkeys(note for one in own for note in one.notes))
    # The topic is one for all: who read it last knows most.
    quarantined = max((one.quarantined for one in found.values()), default=0)
    return JobReport(ordered, silent, others, quarantined, notes)


def notes_of(answer: Mapping[str, Any], zone: ZoneInfo = UTC) -> Iterator[str]:
    """Sentences about restarts and violations of determinism that a process reports, and about what its jobs wait for."""
    restarts, violations = answer.get("restarts") or {}, answer.get("violations") or {}
    if restarts.get("restarts"):
        last = local_text(datetime.fromisoformat(restarts["last_at"]), zone)
        yield f"{', '.join(answer['jobs'])}: restarts {restarts['restarts']}, the last at {last}: {restarts['last_error']}"
    if violations.get("count"):
        yield f"Violations of determinism {violations['count']}, accepted {violations['accepted']}, the last: {violations['last']}"
    if heartbeats := answer.get("heartbeats"):
        since = local_text(datetime.fromisoformat(heartbeats["not_written_since"]), zone)
        yield f"No window closes: no heartbeats are written since {since}: {heartbeats['problem']}"
    for name, facts in answer["jobs"].items():
        if "waiting" in facts:
            yield f"{name} waits {facts['waiting']}"


def addresses(environment: Mapping[str, str], version: str) -> list[str]:
    """Where processes listen: by the settings, and by the files that those with jobs of the version write."""
    configured = [str(where).rstrip("/") for where in json.loads(environment.get(f"{PREFIX}JOBS") or "[]")]
    folder = environment.get(f"{PREFIX}RUN")
    own = [read_address(Path(folder) / f"{version}-{job}.json") for job in JOBS] if folder else []
    return list(dict.fromkeys([*configured, *(address for address in own if address)]))[:MAX_PROCESSES]


def read_address(file: Path) -> str | None:
    """The address in the file of a process; None where there is none."""
    try:
        return str(json.loads(file.read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no such process has run here


def fetch(address: str, zone: ZoneInfo = UTC) -> ProcessHealth | str:
    """The health of the process at an address, or why it did not answer, as text."""
    try:
        status, body = get_bounded(f"{address}/healthz", TIMEOUT_SECONDS, MAX_BYTES)
        if status not in ANSWERED:
            return f"HTTP {status}: {printable(body[:MOST_SHOWN].decode(errors='replace').strip())}"
        answer = json.loads(body)
        notes = tuple(notes_of(answer, zone))
        check_answer(answer)
        return ProcessHealth(answer["jobs"], answer.get("version", ""), int(answer.get("quarantined", 0)), notes)
    except UNREADABLE as error:
        return f"{type(error).__name__}: {error}"


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise KeyError or TypeError for what is not an answer of `/healthz`."""
    sound = isinstance(answer.get("version", ""), str)
    for facts in answer["jobs"].values():
        delay = facts.get("watermark_delay_seconds")
        numbers = [facts[name] for name in NUMBERS] + ([] if delay is None else [delay])
        sound &= isinstance(facts["healthy"], bool) and all(isinstance(one, int | float) for one in numbers)
    if not sound:
        msg = "not what jobs say of themselves"
        raise TypeError(msg)


def chain_position(job: str) -> int:
    """The position of a job in the chain, from 0."""
    return ORDER.index(job) if job in ORDER else len(ORDER)
