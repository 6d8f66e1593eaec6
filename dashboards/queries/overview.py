"""The first page: what is wrong now, what was, and what is normal now and was not before."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from elasticsearch import Elasticsearch

from dashboards.queries import early
from dashboards.queries.early import EarlySummary
from dashboards.queries.episodes import (
    CLOSED,
    FRESH,
    OPEN,
    incidents,
    judged_until,
    novelties,
    span_of,
    touching,
)
from dashboards.queries.frames import Listing
from dashboards.queries.labels import Answers, answers
from dashboards.queries.search import SIDE_BY_SIDE, Query, Span, all_of, at_least, at_most, buckets, search, term, terms
from models.records.index_names import alias_of

MAX_INCIDENTS = 100
MAX_LANES = 20
MAX_NOVELTIES = 1_000
MAX_CHANGES = 100
LANES = {"host": "host.name", "service": "service.name"}

WORST: Query = {"event.severity": {"order": "desc", "unmapped_type": "long"}}


@dataclass(frozen=True)
class Lanes:
    """Hosts or services with novelties, the highest score first; `complete` where these are all.

    `novelties` counts those of all hosts and services.
    """

    by: str
    names: list[str]
    novelties: int
    complete: bool


@dataclass(frozen=True)
class Overview:
    """All that the first page shows. `newest` is up to when the version has been judged, None where that is not known.

    `novelties` are those of `lanes`; `changes` those since `changes_from`; `answers` has what people answered to open incidents, by their ids.
    """

    read: datetime
    span: Span
    newest: datetime | None
    open_incidents: Listing
    closed_incidents: Listing
    lanes: Lanes
    novelties: Listing
    changes: Listing
    changes_from: datetime
    refused: int
    answers: Mapping[str, Answers] = field(default_factory=dict)
    early: EarlySummary = field(default_factory=EarlySummary)

    @property
    def age(self) -> timedelta | None:
        """How far the last window judged was behind the clock."""
        return None if self.newest is None else self.read - self.newest

    @property
    def stale(self) -> bool:
        """Whether something was judged, but nothing recently."""
        return self.age is not None and self.age > FRESH


def overview(
    client: Elasticsearch,
    version: str,
    length: timedelta,
    now: datetime,
    by: str = "host",
    midnight: datetime | None = None,
) -> Overview:
    """Everything for the first page. Raises QueryError if one of its searches fails.

    `by` is a name of LANES. Changes of state are those of the range, and of the day where `midnight` is earlier.
    """
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        opened = pool.submit(open_incidents, client, version)
        newest = judged_until(client, version)
        span = span_of(newest, now, length)
        since = span.start if midnight is None else min(span.start, midnight)
        closed = pool.submit(closed_incidents, client, version, span)
        changed = pool.submit(changes, client, version, Span(since, span.end))
        # Refused records stand under the time they were appended, which is later than the events of a replay.
        count = pool.submit(refused, client, version, Span(span.start, max(span.end, now)))
        alarms = pool.submit(early.summary, client, version, Span(span.start, max(span.end, now)))
        lanes = strongest(client, version, span, by)
        return Overview(
            read=now,
            span=span,
            newest=newest,
            open_incidents=opened.result(),
            closed_incidents=closed.result(),
            lanes=lanes,
            novelties=in_lanes(client, version, span, lanes),
            changes=changed.result(),
            changes_from=since,
            refused=count.result(),
            answers=answers(client, list(opened.result().rows["id"])),
            early=alarms.result(),
        )


def open_incidents(client: Elasticsearch, version: str) -> Listing:
    """Incidents that are not closed, the worst first, however long ago they began."""
    return incidents(client, version, OPEN, MAX_INCIDENTS, [WORST, {"novelty.score": "desc"}, {"@timestamp": "desc"}])


def closed_incidents(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Incidents that were closed and touch the span, the latest first."""
    query = all_of(CLOSED, at_least("event.end", span.start), at_most("@timestamp", span.end))
    return incidents(client, version, query, MAX_INCIDENTS, [{"event.end": "desc"}, {"novelty.score": "desc"}])


def strongest(client: Elasticsearch, version: str, span: Span, by: str = "host") -> Lanes:
    """Hosts or services with novelties in the span, by their highest score, MAX_LANES at most."""
    lanes = {
        "terms": {"field": LANES[by], "size": MAX_LANES, "order": [{"score": "desc"}, {"_key": "asc"}]},
        "aggs": {"score": {"max": {"field": "novelty.score"}}},
    }
    found = search(client, [alias_of("novelties", version)], size=0, query=touching(span), aggs={"lanes": lanes})
    others = found.get("aggregations", {}).get("lanes", {}).get("sum_other_doc_count", 0)
    names = [bucket["key"] for bucket in buckets(found, "lanes")]
    return Lanes(by, names, found["hits"]["total"]["value"], complete=not others)


def in_lanes(client: Elasticsearch, version: str, span: Span, lanes: Lanes) -> Listing:
    """Novelties of these hosts or services that touch the span, the highest score first: columns of NOVELTY."""
    return novelties(client, version, all_of(touching(span), terms(LANES[lanes.by], lanes.names)), MAX_NOVELTIES)


def changes(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Changes of state in the span, of all hosts, the latest first: columns of NOVELTY."""
    query: Query = all_of(touching(span), term("novelty.kind", "change"))
    return novelties(client, version, query, MAX_CHANGES, [{"@timestamp": "desc"}, {"novelty.score": "desc"}])


def refused(client: Elasticsearch, version: str, span: Span) -> int:
    """How many records were too late or unreadable."""
    query = all_of(at_least("@timestamp", span.start), at_most("@timestamp", span.end))
    found = search(client, [alias_of("pipeline", version)], size=0, query=query)
    return int(found["hits"]["total"]["value"])
