"""Notifications of an incident: who was notified, when, and what the channel answered."""

from __future__ import annotations

from datetime import datetime

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.frames import pick
from dashboards.queries.search import search, terms
from models.records.index_names import DELIVERIES, alias_of

MAX_DELIVERIES = 200
COLUMNS = {
    "channel": "delivery.channel",
    "status": "delivery.status",
    "severity": "delivery.severity",
    "outcome": "delivery.outcome",
    "why": "delivery.why",
    "answer": "delivery.answer",
    "attempts": "delivery.attempts",
}


def of_incident(client: Elasticsearch, identity: str) -> pd.DataFrame:
    """The newest MAX_DELIVERIES notifications of an incident, the oldest of them first. Raises QueryError if the search fails."""
    found = search(
        client,
        [alias_of(DELIVERIES)],
        size=MAX_DELIVERIES,
        query=terms("delivery.incident", [identity]),
        sort=[{"@timestamp": "desc"}],
    )
    rows = [
        {"at": datetime.fromisoformat(hit["_source"]["@timestamp"])}
        | {name: pick(hit["_source"], field) for name, field in COLUMNS.items()}
        for hit in reversed(found["hits"]["hits"])
    ]
    return pd.DataFrame(rows, columns=["at", *COLUMNS])
