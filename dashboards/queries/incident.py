"""One incident: what is known of it, the episodes and templates that belong to it, and earlier ones that are like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.episodes import INCIDENT, incidents, novelties
from dashboards.queries.frames import Listing, as_list, frame_of, pick
from dashboards.queries.search import Query, Span, search
from models.records.index_names import alias_of

MAX_SIMILAR = 10
# Searched for of an earlier incident: so many of each, the first ones, which have the largest shares.
MAX_COMPARED = 20
CONTRIBUTION = ("series", "share", "score", "kind", "reason")
CAUSE = ("kind", "host", "service", "metric", "series", "onset", "score", "why")
# How far it reaches, and what chance makes of it; absent from documents of before they were.
ABOUT = ("scope", "affected", "population", "share", "false_alarms_per_day")
BEFORE_SHARE = 0.5  # of the incident's length is shown before and after it
AROUND = timedelta(hours=1)
MARGINS = (timedelta(minutes=10), timedelta(hours=6))
# What an incident may have in common with another one, how much that weighs, and where it is.
SHARED = {"series": 4.0, "templates": 3.0, "hosts": 1.0, "services": 0.5}


@dataclass(frozen=True)
class Incident:
    """What is known of an incident. `until` is None while it is open; `contributions` has the largest share first.

    `episodes` are the ids of its episodes, strongest first, `episodes_omitted` is the number of weaker ones that it does not list.

    `about` has those of ABOUT that its document says; `causes` has the likeliest first.
    """

    id: str
    version: str
    since: datetime
    until: datetime | None
    latest: datetime
    kind: str
    reason: str
    score: float
    novelties: int
    hosts: tuple[str, ...]
    services: tuple[str, ...]
    templates: tuple[str, ...]
    contributions: pd.DataFrame
    severity: str = ""
    points: int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    episodes: tuple[str, ...] = ()
    episodes_omitted: int = 0
    causes: pd.DataFrame = field(default_factory=lambda: frame_of([], CAUSE))

    @property
    def series(self) -> list[str]:
        """The series that contribute, the largest share first."""
        return [str(name) for name in self.contributions["series"]]

    @property
    def span(self) -> Span:
        """From its beginning to its end, or to its latest event."""
        return Span(self.since, max(self.since, self.until or self.latest))

    @property
    def around(self) -> Span:
        """Its time with an hour before and an hour after it."""
        return Span(self.since - AROUND, self.span.end + AROUND)

    @property
    def shown(self) -> Span:
        """Its time with some before and after it."""
        least, most = MARGINS
        margin = min(max(self.span.length * BEFORE_SHARE, least), most)
        return Span(self.since - margin, self.span.end + margin)


def incident(client: Elasticsearch, version: str, identity: str) -> Incident | None:
    """The incident of this id, None where the version has none. Raises QueryError if the search fails."""
    names = ["@timestamp", "event", "host", "service", "novelty"]
    found = search(
        client, [alias_of("incidents", version)], size=1, query={"ids": {"values": [identity]}}, source=names
    )
    hits = found["hits"]["hits"]
    return of_document(identity, version, hits[0]["_source"]) if hits else None


def of_document(identity: str, version: str, source: Mapping[str, Any]) -> Incident:
    """An incident from its document."""
    since = datetime.fromisoformat(source["@timestamp"])
    until, latest = (pick(source, INCIDENT[name]) for name in ("until", "latest"))
    own = source.get("novelty", {})
    return Incident(
        id=identity,
        version=version,
        since=since,
        until=datetime.fromisoformat(until) if until else None,
        latest=datetime.fromisoformat(latest) if latest else since,
        kind=own.get("kind", ""),
        reason=pick(source, "event.reason") or "",
        score=float(own.get("score") or 0.0),
        severity=own.get("severity") or "",
        points=pick(source, INCIDENT["points"]) if own.get("severity") else None,
        novelties=int(own.get("novelties") or 0),
        hosts=tuple(as_list(pick(source, "host.name"))),
        services=tuple(as_list(pick(source, "service.name"))),
        templates=tuple(as_list(own.get("template"))),
        contributions=frame_of(as_list(own.get("contributions")), CONTRIBUTION),
        about={name: own[name] for name in ABOUT if own.get(name) is not None},
        episodes=tuple(as_list(own.get("episodes"))),
        episodes_omitted=int(own.get("episodes_omitted") or 0),
        causes=frame_of([dict.fromkeys(CAUSE, "") | one for one in as_list(own.get("causes"))], CAUSE),
    )


def episodes(client: Elasticsearch, version: str, of: Incident) -> Listing:
    """The episodes of an incident, by their ids, in order of time: columns of NOVELTY.

    Raises QueryError if the search fails.
    """
    ids: Query = {"ids": {"values": list(of.episodes)}}
    return novelties(client, version, ids, max(len(of.episodes), 1), [{"@timestamp": "asc"}, {"novelty.series": "asc"}])


def similar(client: Elasticsearch, version: str, to: Incident) -> Listing:
    """Earlier incidents that share series, templates, hosts or services with it, the most similar first.

    Columns of INCIDENT and `shared`, in words.
    """
    names = {"templates": "novelty.template", "hosts": "host.name", "services": "service.name"}
    likes = [
        weighed({"term": {path: v}}, SHARED[n]) for n, path in names.items() for v in getattr(to, n)[:MAX_COMPARED]
    ]
    each = [weighed({"term": {"novelty.contributions.series": s}}, SHARED["series"]) for s in to.series[:MAX_COMPARED]]
    if each:
        inner: Query = {"bool": {"should": each}}
        likes.append({"nested": {"path": "novelty.contributions", "score_mode": "sum", "query": inner}})
    before: Query = {"range": {"@timestamp": {"lt": to.since.isoformat()}}}
    query: Query = {
        "bool": {
            "should": likes,
            "minimum_should_match": 1,
            "filter": [before],
            "must_not": [{"ids": {"values": [to.id]}}],
        }
    }
    found = incidents(client, version, query, MAX_SIMILAR, [{"_score": "desc"}, {"@timestamp": "desc"}])
    found.rows["shared"] = [in_common(to, row) for _, row in found.rows.iterrows()]
    return found


def weighed(query: Query, weight: float) -> Query:
    """A match that counts the same however rare it is."""
    return {"constant_score": {"filter": query, "boost": weight}}


def in_common(to: Incident, row: Any) -> str:
    """What an earlier incident shares with this one, for people."""
    counts = {name: len(set(row[name]) & set(getattr(to, name))) for name in ("series", "hosts", "services")}
    words = [
        f"{n} {name.removesuffix('s') if n == 1 and name != 'series' else name}" for name, n in counts.items() if n
    ]
    return ", ".join(words) or "a template"
