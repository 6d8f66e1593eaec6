"""What the processes of jobs on this machine serve as `/healthz`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

import structlog

from app.core.ports import asked_at
from app.core.settings import Settings
from app.runtime.state_server import address_of
from dashboards.bounded_get import get_bounded
from models.records.records import JOBS

log = structlog.get_logger()

HTTP_SECONDS = 1.0
MOST_BYTES = 1_000_000


def addresses(settings: Settings) -> list[str]:
    """Where the jobs of this machine serve their health: at `health.port`, and where their processes announce it."""
    own = settings.health
    named = None if not own.port else asked_at(own.host, own.port)
    found = (named, *(address_of(settings, job) for job in JOBS))
    return list(dict.fromkeys(address for address in found if address is not None))


def own_jobs(settings: Settings) -> dict[str, Mapping[str, Any]]:
    """The version's jobs of this machine that serve their health."""
    return {name: facts for one in own_answers(settings) for name, facts in one["jobs"].items()}


def why_unhealthy(job: Mapping[str, Any]) -> str:
    """Why a job is not healthy, of its facts as `/healthz` has them."""
    return "the watermark dropped rows" if job.get("dropped_by_watermark") else "it makes no progress"


def own_answers(settings: Settings) -> list[Mapping[str, Any]]:
    """What the processes of this machine say that run jobs of the version; one that does not name its version is taken for one of it."""
    answers = (health_at(address) for address in addresses(settings))
    return [one for one in answers if one is not None and one.get("version") in (None, settings.version)]


def health_at(address: str) -> Mapping[str, Any] | None:
    """What the process at an address says of its jobs; None where nobody answers, or something else does."""
    try:
        _, body = get_bounded(f"{address}/healthz", HTTP_SECONDS, MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        log.debug("no health", address=address, error=repr(error))
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        log.debug("not an answer of /healthz", address=address, error=repr(error))
        return None
    return found if isinstance(found, dict) and isinstance(found.get("jobs"), dict) else None
