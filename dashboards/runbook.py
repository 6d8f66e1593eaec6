"""What to do now: a link to the runbook of an incident, by the settings `dashboard.runbooks` and `dashboard.runbook_url`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from dashboards.queries.incident import Incident
from dashboards.queries.search import PREFIX
from models.core.series import labels_of
from models.rules import runbook
from models.rules.runbook import IncidentFacts, Runbook


def address(of: Incident, environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of the runbook; None where none is set for such an incident."""
    known = [Runbook(**one) for one in json.loads(environment.get(f"{PREFIX}RUNBOOKS", "[]"))]
    labels = frozenset(label for name in of.series for label in labels_of(name))
    first = next(iter(of.series), "")
    return runbook.runbook_address(
        known, IncidentFacts(of.id, of.kind, of.severity, of.hosts, of.services, first, labels)
    )
