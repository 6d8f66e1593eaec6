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
    "version": "delivery.version",
    "status": "delivery.status",
    "severity": "delivery.severity",
    "outcome": "delivery.outcome",
    "why": "delivery.why",
    "answer": "delivery.answer",
    "attempts": "delivery.attempts",
}


def of_incident(client: Elasticsearch, version: str, identity: str) -> pd.DataFrame:
    """The newest MAX_DELIVERIES notifications of a version's incident, the oldest of them first. Raises QueryError if the search fails.

    Versions have the same ids, and after a promotion an incident goes on under its id: what was sent of the version that served before is
    part of it. Of a version that did not serve it was sent under a key that names the version (`app.notify.incidents_reader`).
    """
    found = search(
        client,
        [alias_of(DELIVERIES)],
        size=MAX_DELIVERIES,
        query=terms("delivery.incident", [identity, f"{identity}-{version}"]),
        sort=[{"@timestamp": "desc"}],
    )
    rows = [
        {"at": datetime.fromisoformat(hit["_source"]["@timestamp"])}
        | {name: pick(hit["_source"], field) for name, field in COLUMNS.items()}
        for hit in reversed(found["hits"]["hits"])
    ]
    return pd.DataFrame(rows, columns=["at", *COLUMNS])
