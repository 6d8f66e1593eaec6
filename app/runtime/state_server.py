"""`kappa state`: asks the process that runs `detect`, else reads the state itself.

A process that runs jobs serves its health on loopback and says where in `home/run/VERSION-JOB.json`, for each of them. That of `detect` serves
`GET /state?series=...` as well, so that a question needs no Spark of its own, whose start takes seconds.
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from app.core.atomic_files import write_json_durably
from app.core.report import Report, silent
from app.core.settings import Settings
from app.embedded.stack_state import ProcessId
from app.kafka.checkpoints import has_started
from app.versions.pinned_configuration import as_begun
from models.core.wording import counted
from pipelines.errors import InputError

TIMEOUT_SECONDS = 30.0


def ask(settings: Settings, series: str, report: Report = silent) -> dict[str, Any]:
    """The model's state of a series: from the process that runs `detect`, else from its checkpoint.

    Raises InputError for a series or a version that is not known.
    """
    address = address_of(settings)
    if address is not None:
        try:
            return get(address, series)
        except OSError as error:
            report(f"{address} does not answer ({error.strerror or type(error).__name__})")
    if not has_started(settings.checkpoint("detect")):
        msg = f"version {settings.version} has never run; `kappa run detect`, or name another with --version"
        raise InputError(msg)
    # Not at the top: loading Spark takes longer than the answer of a process that runs `detect`.
    from app.runtime.spark import session  # loads Spark
    from app.runtime.state_query import committed, describe_state, host_in

    host_in(series)
    committed(settings, settings.checkpoint("detect"))  # what cannot be answered is refused before Spark starts
    report("no job runs that could answer: starting Spark to read its state, which takes some seconds")
    spark = session(settings, report=report)
    try:
        return describe_state(spark, as_begun(settings), series)
    except ValueError as error:  # a state of another release
        msg = f"the state of version {settings.version} cannot be read: {error}"
        raise InputError(msg) from error


def get(address: str, series: str) -> dict[str, Any]:
    """The answer of a process. Raises InputError for a question that it refuses, OSError if there is no answer."""
    try:
        with urllib.request.urlopen(
            f"{address}/state?series={quote(series, safe='')}", timeout=TIMEOUT_SECONDS
        ) as found:
            return answered(found.status, found.reason, found.read())
    except HTTPError as error:
        with error:
            refused = answered(error.code, error.reason, error.read())
        raise InputError(refused["error"]) from error
    except http.client.HTTPException as error:
        raise ConnectionError(type(error).__name__) from error


def answered(status: int, why: str, body: bytes) -> dict[str, Any]:
    """An answer, or what is refused, from its JSON. Raises ConnectionError for anything else, as for a name that is too long for an address."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or ("error" in found) != (status != HTTPStatus.OK):
        raise ConnectionError(0, f"{status} {why}")
    return found


def place(settings: Settings, job: str = "detect") -> Path:
    """The file that says where the process answers that runs a job of the version."""
    return settings.home / "run" / f"{settings.version}-{job}.json"


def address_of(settings: Settings, job: str = "detect") -> str | None:
    """Where a process answers that runs a job of the version; None if there is none."""
    try:
        found = json.loads(place(settings, job).read_text())
        alive = ProcessId(**found["process"]).alive()
        return str(found["address"]) if alive else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def announced(settings: Settings, address: str, jobs: Sequence[str] = ("detect",)) -> Iterator[None]:
    """Say where this process answers, which runs these jobs, while the block runs."""
    own = {"address": address, "process": asdict(ProcessId.of(os.getpid())), "version": settings.version}
    for job in jobs:
        write_json_durably(place(settings, job), own)
    try:
        yield
    finally:
        for job in jobs:
            if address_of(settings, job) == address:
                place(settings, job).unlink(missing_ok=True)


def rows(answer: Mapping[str, Any]) -> list[list[str]]:
    """An answer as the rows of a table."""
    unit = f" {answer['unit']}" if answer["unit"] else ""
    episode = answer["episode"]
    found = [
        ["as of", answer["as_of"]],
        ["shard", f"{answer['shard']} of version {answer['version']}"],
        ["typical", f"{number(answer['typical'])}{unit}"],
        ["spread", f"{number(answer['spread'])}{unit}"],
        ["interval", interval(answer["lower"], answer["upper"], unit)],
        ["windows learnt", f"{answer['windows']}, the last one {answer['seen']}"],
        ["warming up", f"{counted(answer['windows_to_go'], 'window')} to go" if answer["warming"] else "no"],
        ["learning", "held while its episode is open" if answer["frozen"] else "yes"],
    ]
    shown = f"{episode['kind']} ({episode['score']:.1f} nats): {episode['reason']}" if episode else "none"
    return [*found, ["open episode", shown]]


def interval(lower: float | None, upper: float | None, unit: str) -> str:
    """Two bounds for people."""
    return number(None) if lower is None and upper is None else f"{number(lower)} to {number(upper)}{unit}"


def number(value: float | None) -> str:
    """A number for people."""
    return "not known" if value is None else f"{value:.6g}"
