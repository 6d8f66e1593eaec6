"""What the pages ask of `kappa dashboard`, which started them and knows Kafka: on loopback, with a token.

Unanswered    there is no answer: one sentence for a person
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.error import HTTPError

from dashboards.queries.frames import moment
from dashboards.queries.search import PREFIX

MOST_BYTES = 50_000_000
PATIENCE = 2.0  # seconds that a page waits for what it can do without


class Unanswered(Exception):
    """There is no answer: one sentence for a person."""


def ask(about: str, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The answer to a question about this, as JSON types. Raises Unanswered."""
    where = os.environ.get(f"{PREFIX}{about.upper()}_URL", "")
    if not where:
        msg = "This dashboard was not started by `kappa dashboard`, so it cannot read from Kafka."
        raise Unanswered(msg)
    headers = {"X-Kappa-Token": os.environ.get(f"{PREFIX}SCORES_TOKEN", "")}
    request = urllib.request.Request(where, json.dumps(question).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            found: dict[str, Any] = json.loads(answer.read(MOST_BYTES))
            return found
    except HTTPError as error:
        with error:
            raise Unanswered(reason(error.read(MOST_BYTES))) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        msg = f"Kafka cannot be read now ({type(error).__name__}): see whether `kappa dashboard` runs."
        raise Unanswered(msg) from error


def reason(body: bytes) -> str:
    """What the server says of a question that it does not answer."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return "Kafka cannot be read: the server refuses this question."


def judged_in_log(version: str) -> datetime | None:
    """The end of the last window that was judged, by the log; None where it says nothing, or cannot be read."""
    try:
        until = ask("judged", {"version": version}, PATIENCE)["until"]
    except Unanswered:
        return None
    return None if until is None else moment(until)


def serving_version() -> str | None:
    """The version that the pages show where nobody chose one: that of the settings, or whichever serves now. None where nobody answers."""
    try:
        return str(ask("serving", {}, PATIENCE)["version"])
    except Unanswered:
        return None
