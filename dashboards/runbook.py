"""What to do now: a link to the runbook of an incident's kind and service, by the setting `dashboard.runbook_url`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

from dashboards.queries.incident import Incident
from dashboards.queries.search import PREFIX


def address(of: Incident, environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of the runbook; None where none is set. Names are quoted: whatever they hold, they are part of its path or query."""
    found = environment.get(f"{PREFIX}RUNBOOK_URL", "")
    first = of.contributions["series"].iloc[0] if len(of.contributions) else ""
    names = {
        "kind": of.kind,
        "severity": of.severity,
        "host": next(iter(of.hosts), ""),
        "service": next(iter(of.services), ""),
        "series": str(first),
        "incident": of.id,
    }
    for name, text in names.items():
        found = found.replace(f"{{{name}}}", quote(text, safe=""))
    return found or None
