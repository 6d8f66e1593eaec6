"""What notifications link to: the incident's page, and its runbook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from app.core.settings import Settings
from app.notify.incident import ReadIncident
from models.records.records import EarlyAlarm
from models.rules.runbook import IncidentFacts, Runbook, runbook_address


@dataclass(frozen=True)
class Links:
    """`pages`: the address of the dashboard, None where nobody set one; the first of the `runbooks` that matches counts."""

    pages: str | None = None
    runbooks: Sequence[Runbook] = ()

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the settings say."""
        return cls(settings.notify.link, settings.dashboard.all_runbooks)

    def page(self, one: ReadIncident) -> str:
        """The incident's page; empty where no address is known."""
        if not self.pages:
            return ""
        return f"{self.pages.rstrip('/')}/incident?incident={quote(one.id)}&version={quote(one.version)}"

    def series(self, alarm: EarlyAlarm) -> str:
        """The page of the series of an early alarm; empty where no address is known."""
        if not self.pages:
            return ""
        return f"{self.pages.rstrip('/')}/series?series={quote(alarm.series, safe='')}&version={quote(alarm.version)}"

    def runbook(self, one: ReadIncident) -> str:
        """Its runbook; empty where there is none."""
        facts = IncidentFacts(one.id, one.kind, one.severity, one.hosts, one.services, one.series, one.labels)
        return runbook_address(self.runbooks, facts) or ""
