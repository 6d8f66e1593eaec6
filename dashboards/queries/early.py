"""Early alarms: those that wait, what became of the others, and the one that came before an incident."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.frames import Listing, frame_of, listing_of, pick
from dashboards.queries.search import Query, Span, all_of, buckets, search, term, within
from models.records.index_names import EARLY, alias_of
from models.records.records import CONFIRMED, RAISED, WITHDRAWN

MAX_ALARMS = 20
COLUMNS = {
    "time": "@timestamp",
    "version": "alarm.version",
    "series": "alarm.series",
    "value": "alarm.value",
    "lower": "alarm.lower",
    "upper": "alarm.upper",
    "template": "alarm.template",
    "won": "alarm.seconds_won",
}


@dataclass(frozen=True)
class EarlySummary:
    """Early alarms of a time: those that wait, the newest first, and how many were confirmed or withdrawn; `won`: median, seconds."""

    waiting: Listing = field(default_factory=lambda: Listing(frame_of([], COLUMNS), 0))
    confirmed: int = 0
    withdrawn: int = 0
    won: float | None = None

    @property
    def share(self) -> float | None:
        """Which part of those that are settled was confirmed; None where none is settled."""
        settled = self.confirmed + self.withdrawn
        return self.confirmed / settled if settled else None


def of_version(version: str) -> Query:
    """The alarms against bounds of a version."""
    return term("alarm.version", version)


def summary(client: Elasticsearch, version: str, span: Span) -> EarlySummary:
    """What became of the alarms in the span. Raises QueryError if a search fails."""
    query = all_of(of_version(version), within("@timestamp", span))
    aggs: dict[str, Any] = {
        "statuses": {"terms": {"field": "alarm.status"}},
        "won": {"percentiles": {"field": "alarm.seconds_won", "percents": [50]}},
    }
    found = search(client, [alias_of(EARLY)], size=0, query=query, aggs=aggs)
    counts = {bucket["key"]: bucket["doc_count"] for bucket in buckets(found, "statuses")}
    won = pick(found, "aggregations.won.values") or {}
    waiting = search(
        client,
        [alias_of(EARLY)],
        size=MAX_ALARMS,
        query=all_of(query, term("alarm.status", RAISED)),
        sort=[{"@timestamp": "desc"}],
    )
    return EarlySummary(
        listing_of(waiting, COLUMNS), counts.get(CONFIRMED, 0), counts.get(WITHDRAWN, 0), won.get("50.0")
    )


@dataclass(frozen=True)
class FirstSeen:
    """The first early alarm that an incident has confirmed."""

    at: datetime
    row: pd.Series[Any]


def of_incident(client: Elasticsearch, identity: str) -> FirstSeen | None:
    """The first early alarm that an incident has confirmed; None without one. Raises QueryError if the search fails.

    It may be one of another version, whose incident has the same id: what was raised before a promotion is settled after it.
    """
    query = all_of(term("alarm.incident", identity), term("alarm.status", CONFIRMED))
    found = search(client, [alias_of(EARLY)], size=1, query=query, sort=[{"@timestamp": "asc"}])
    rows = listing_of(found, COLUMNS).rows
    return None if rows.empty else FirstSeen(rows.iloc[0]["time"].to_pydatetime(), rows.iloc[0])
