"""Novelties and incidents: the columns that pages show of them, and how they are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from elasticsearch import Elasticsearch

from dashboards.queries.deployment import judged_in_log
from dashboards.queries.frames import Listing, as_list, listing_of, moment
from dashboards.queries.search import Query, Span, all_of, any_of, at_least, at_most, none_of, search, term, terms
from models.records.index_names import alias_of

FRESH = timedelta(minutes=5)  # while nothing but heartbeats comes, windows are closed once a minute
# Kinds that last until they are closed; a change and a new message have happened and are over.
LASTING = ("anomaly", "silence")
CLOSED = term("novelty.status", "close")
OPEN = none_of(CLOSED)

INCIDENT = {
    "id": "_id",
    "since": "@timestamp",
    "until": "event.end",
    "latest": "novelty.window_end",
    "kind": "novelty.kind",
    "status": "novelty.status",
    "hosts": "host.name",
    "affected": "novelty.affected",
    "services": "service.name",
    "reason": "event.reason",
    "severity": "novelty.severity",
    "points": "event.severity",
    "score": "novelty.score",
    "series": "novelty.contributions.series",
}
# `part` and what follows say how sure the model is and which part of it spoke; absent from documents of before they were.
NOVELTY = {
    "id": "_id",
    "since": "@timestamp",
    "latest": "novelty.window_end",
    "until": "event.end",
    "kind": "novelty.kind",
    "status": "novelty.status",
    "host": "host.name",
    "service": "service.name",
    "level": "log.level",
    "metric": "novelty.metric",
    "template": "novelty.template",
    "sample": "novelty.sample",
    "series": "novelty.series",
    "score": "novelty.score",
    "reason": "event.reason",
    "value": "novelty.value",
    "typical": "novelty.typical",
    "lower": "novelty.lower",
    "upper": "novelty.upper",
    "unit": "novelty.unit",
    "part": "novelty.part",
    "certainty": "novelty.certainty",
    "provisional": "novelty.provisional",
    "before": "novelty.before",
    "after": "novelty.after",
}


def judged_until(client: Elasticsearch, version: str) -> datetime | None:
    """The end of the last window that is known to be judged, None where none is: by the log, or the latest event time of all that is indexed.

    What is indexed alone would not do: a quiet version publishes nothing, and its scores are indexed only where that is asked for.
    """
    names = ["scores", "novelties", "incidents"]
    aggs = {"scored": {"max": {"field": "@timestamp"}}, "stated": {"max": {"field": "novelty.window_end"}}}
    found = search(client, [alias_of(name, version) for name in names], size=0, aggs=aggs).get("aggregations", {})
    known = [moment(found[name]["value"]) for name in aggs if name in found and found[name]["value"] is not None]
    return max(filter(None, [*known, judged_in_log(version)]), default=None)


def span_of(newest: datetime | None, now: datetime, length: timedelta) -> Span:
    """The last `length` until now; until the last window judged where that is long ago, as in a replay, or ahead of now."""
    fresh = newest is None or timedelta() <= now - newest <= FRESH
    end = now if fresh or newest is None else newest
    return Span(end - length, end)


def touching(span: Span) -> Query:
    """Novelties that began before the end of the span and had not ended before its start."""
    lasting: Query = {"bool": {"filter": [terms("novelty.kind", LASTING)], "must_not": [CLOSED]}}
    return all_of(at_most("@timestamp", span.end), any_of(at_least("novelty.window_end", span.start), lasting))


def novelties(
    client: Elasticsearch,
    version: str,
    query: Query,
    size: int,
    sort: Sequence[Mapping[str, Any]] = ({"novelty.score": "desc"},),
) -> Listing:
    """Novelties, by default the highest score first: columns of NOVELTY."""
    found = search(
        client, [alias_of("novelties", version)], size=size, query=query, sort=list(sort), source=list(NOVELTY.values())
    )
    return listing_of(found, NOVELTY)


def incidents(
    client: Elasticsearch, version: str, query: Query, size: int, sort: Sequence[Mapping[str, Any]]
) -> Listing:
    """Incidents: columns of INCIDENT; `hosts`, `services` and `series` (those that are listed in it) are lists."""
    found = search(
        client,
        [alias_of("incidents", version)],
        size=size,
        query=query,
        sort=list(sort),
        source=list(INCIDENT.values()),
    )
    listing = listing_of(found, INCIDENT)
    for name in ("hosts", "services", "series"):
        listing.rows[name] = listing.rows[name].map(as_list)
    return listing
