"""What the pages ask of Elasticsearch, and nothing else asks it: client in, data frames out.

Every search is bounded in size and time. A missing index or alias is an empty answer, because nothing may have been
written yet. Times are aware, UTC.

    QueryError    Elasticsearch gave no usable answer: one sentence for a person, with what to do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from elastic_transport import ConnectionTimeout, TransportError
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

PREFIX = "KAPPA_DASHBOARD_"
TIMEOUT_SECONDS = 5.0
FRESH = timedelta(minutes=2)
MAX_INCIDENTS = 100
MAX_HOSTS = 20
MAX_NOVELTIES = 2_000
MAX_CHANGES = 100
MAX_REASONS = 10
# Kinds that last until they are closed; a change and a new message have happened and are over.
LASTING = ("anomaly", "silence")
TIMES = ("since", "until", "latest")

INCIDENT = {
    "since": "@timestamp",
    "until": "event.end",
    "latest": "novelty.window_end",
    "kind": "novelty.kind",
    "hosts": "host.name",
    "reason": "event.reason",
    "score": "novelty.score",
    "series": "novelty.contributions.series",
}
NOVELTY = {
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
    "series": "novelty.series",
    "score": "novelty.score",
    "reason": "event.reason",
}
REFUSED = ("dataset", "reason", "count", "latest", "stage", "whence", "sample")

Query = dict[str, Any]


class QueryError(Exception):
    """Elasticsearch gave no usable answer: one sentence for a person."""


@dataclass(frozen=True)
class Connection:
    """How to reach Elasticsearch. Secrets are left out of `repr`."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    ca_certs: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Connection:
        """Read the variables KAPPA_DASHBOARD_*. Raises QueryError where they name no server."""
        named = {name: text for name, text in environment.items() if name.startswith(PREFIX) and text}
        own = {name.removeprefix(PREFIX).lower(): text for name, text in named.items()}
        if "url" not in own:
            msg = "No Elasticsearch is named: start these pages with `kappa dashboard`, or set KAPPA_DASHBOARD_URL."
            raise QueryError(msg)
        return cls(
            url=own["url"],
            username=own.get("username", ""),
            password=own.get("password", ""),
            api_key=own.get("api_key", ""),
            ca_certs=own.get("ca_certs", ""),
        )

    def connect(self) -> Elasticsearch:
        """A client that never retries: the page asks again by itself. Raises QueryError for settings that cannot be."""
        options: dict[str, Any] = {}
        if self.api_key:
            options["api_key"] = self.api_key
        elif self.username:
            options["basic_auth"] = (self.username, self.password)
        if self.ca_certs:
            options["ca_certs"] = self.ca_certs
        try:
            return Elasticsearch(self.url, request_timeout=self.timeout_seconds, max_retries=0, **options)
        except (ValueError, OSError) as error:
            msg = (
                f"Elasticsearch cannot be reached with these settings ({error}): check elasticsearch.url and ca_certs."
            )
            raise QueryError(msg) from error


@dataclass(frozen=True)
class Span:
    """The part of event time that is shown."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class Listing:
    """The first rows of an answer, and how many there are in all."""

    rows: pd.DataFrame
    total: int


@dataclass(frozen=True)
class Hosts:
    """Hosts with novelties, the highest score first; `complete` where these are all. `novelties` is of all hosts."""

    names: list[str]
    novelties: int
    complete: bool


@dataclass(frozen=True)
class Overview:
    """All that the first page shows. `newest` is the latest event time, None where nothing has been written.

    `novelties` are those of `hosts`.
    """

    read: datetime
    span: Span
    newest: datetime | None
    open_incidents: Listing
    closed_incidents: Listing
    hosts: Hosts
    novelties: Listing
    changes: Listing
    refused: Listing

    @property
    def age(self) -> timedelta | None:
        """How far the newest event was behind the clock."""
        return None if self.newest is None else self.read - self.newest

    @property
    def stale(self) -> bool:
        """Whether something was written, but nothing recently."""
        return self.age is not None and self.age > FRESH


def overview(client: Elasticsearch, version: str, length: timedelta, now: datetime) -> Overview:
    """Everything for the first page. Raises QueryError if one of its searches fails."""
    newest = newest_event(client, version)
    span = span_of(newest, now, length)
    hosts = strongest_hosts(client, version, span)
    return Overview(
        read=now,
        span=span,
        newest=newest,
        open_incidents=open_incidents(client, version),
        closed_incidents=closed_incidents(client, version, span),
        hosts=hosts,
        novelties=novelties(client, version, span, hosts.names),
        changes=changes(client, version, span),
        # Refused records stand under the time they were appended, which is later than the events of a replay.
        refused=refused(client, version, Span(span.start, max(span.end, now))),
    )


def span_of(newest: datetime | None, now: datetime, length: timedelta) -> Span:
    """The last `length` until now; until the newest event where that is stale, as in a replay, or ahead of now."""
    fresh = newest is None or timedelta() <= now - newest <= FRESH
    end = now if fresh or newest is None else newest
    return Span(end - length, end)


def newest_event(client: Elasticsearch, version: str) -> datetime | None:
    """The latest event time of all that was written, None where nothing was."""
    names = ["scores", "novelties", "incidents"]
    aggs = {"scored": {"max": {"field": "@timestamp"}}, "stated": {"max": {"field": "novelty.window_end"}}}
    found = search(client, [f"{name}-{version}" for name in names], size=0, aggs=aggs).get("aggregations", {})
    millis = [found[name]["value"] for name in aggs if name in found and found[name]["value"] is not None]
    return datetime.fromtimestamp(max(millis) / 1000, tz=UTC) if millis else None


def open_incidents(client: Elasticsearch, version: str) -> Listing:
    """Incidents that are not closed, the highest score first, however long ago they began."""
    query: Query = {"bool": {"must_not": {"term": {"novelty.status": "close"}}}}
    return incidents(client, version, query, ["novelty.score", "@timestamp"])


def closed_incidents(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Incidents that were closed and touch the span, the latest first."""
    closed: Query = {"term": {"novelty.status": "close"}}
    query: Query = {"bool": {"filter": [closed, at_least("event.end", span.start), at_most("@timestamp", span.end)]}}
    return incidents(client, version, query, ["event.end", "novelty.score"])


def incidents(client: Elasticsearch, version: str, query: Query, sort: Sequence[str]) -> Listing:
    """Incidents: columns of INCIDENT, `hosts` a list and `series` the number of series that are listed in it."""
    found = search(
        client,
        [f"incidents-{version}"],
        size=MAX_INCIDENTS,
        query=query,
        sort=[{name: "desc"} for name in sort],
        source=list(INCIDENT.values()),
    )
    listing = listing_of(found, INCIDENT)
    rows = listing.rows
    rows["hosts"] = rows["hosts"].map(as_list)
    rows["series"] = rows["series"].map(as_list).map(len)
    return listing


def strongest_hosts(client: Elasticsearch, version: str, span: Span) -> Hosts:
    """Hosts with novelties in the span, by their highest score, MAX_HOSTS at most."""
    by_host = {
        "terms": {"field": "host.name", "size": MAX_HOSTS, "order": [{"score": "desc"}, {"_key": "asc"}]},
        "aggs": {"score": {"max": {"field": "novelty.score"}}},
    }
    found = search(client, [f"novelties-{version}"], size=0, query=touching(span), aggs={"hosts": by_host})
    names = [bucket["key"] for bucket in buckets(found, "hosts")]
    others = found.get("aggregations", {}).get("hosts", {}).get("sum_other_doc_count", 0)
    return Hosts(names, found["hits"]["total"]["value"], complete=not others)


def novelties(client: Elasticsearch, version: str, span: Span, hosts: Sequence[str]) -> Listing:
    """Novelties of these hosts that touch the span, the highest score first: columns of NOVELTY."""
    query: Query = {"bool": {"filter": [touching(span), {"terms": {"host.name": list(hosts)}}]}}
    found = search(
        client,
        [f"novelties-{version}"],
        size=MAX_NOVELTIES,
        query=query,
        sort=[{"novelty.score": "desc"}],
        source=list(NOVELTY.values()),
    )
    return listing_of(found, NOVELTY)


def changes(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Changes of state in the span, of all hosts, the latest first: columns of NOVELTY."""
    query: Query = {"bool": {"filter": [touching(span), {"term": {"novelty.kind": "change"}}]}}
    found = search(
        client,
        [f"novelties-{version}"],
        size=MAX_CHANGES,
        query=query,
        sort=[{"@timestamp": "desc"}, {"novelty.score": "desc"}],
        source=list(NOVELTY.values()),
    )
    return listing_of(found, NOVELTY)


def refused(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Late and dead records appended in the span, by reason: columns of REFUSED, with the newest one as sample.

    `total` counts the records, `rows` has the most frequent reasons of either kind.
    """
    newest = {
        "top_hits": {"size": 1, "sort": [{"@timestamp": "desc"}], "_source": ["@timestamp", "message", "pipeline"]}
    }
    by_reason = {
        "terms": {"field": "event.reason", "size": MAX_REASONS, "missing": "no reason given"},
        "aggs": {"newest": newest},
    }
    by_dataset = {"terms": {"field": "event.dataset", "size": 5}, "aggs": {"reasons": by_reason}}
    query: Query = {"bool": {"filter": [at_least("@timestamp", span.start), at_most("@timestamp", span.end)]}}
    found = search(client, [f"pipeline-{version}"], size=0, query=query, aggs={"datasets": by_dataset})
    rows = [
        refused_row(dataset["key"], reason)
        for dataset in buckets(found, "datasets")
        for reason in dataset["reasons"]["buckets"]
    ]
    return Listing(frame_of(rows, REFUSED), found["hits"]["total"]["value"])


def refused_row(dataset: str, reason: Mapping[str, Any]) -> dict[str, Any]:
    """How often records were refused for a reason, and the newest of them."""
    sample = reason["newest"]["hits"]["hits"][0]["_source"]
    whence = [pick(sample, f"pipeline.{name}") for name in ("topic", "partition", "offset")]
    return {
        "dataset": dataset.removeprefix("kappa."),
        "reason": reason["key"],
        "count": reason["doc_count"],
        "latest": sample["@timestamp"],
        "stage": pick(sample, "pipeline.stage"),
        "whence": "/".join(str(part) for part in whence if part is not None),
        "sample": pick(sample, "message"),
    }


def search(
    client: Elasticsearch,
    aliases: Sequence[str],
    *,
    size: int,
    query: Query | None = None,
    sort: list[dict[str, str]] | None = None,
    source: list[str] | None = None,
    aggs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One search. Raises QueryError where it gets no answer, or not a whole one, in time."""
    try:
        answer = client.search(
            index=",".join(aliases),
            ignore_unavailable=True,
            allow_no_indices=True,
            track_total_hits=True,
            size=size,
            query=query,
            sort=sort,
            source_includes=source,
            aggs=aggs,
            timeout=f"{TIMEOUT_SECONDS:g}s",
        )
    except (ApiError, TransportError, UnsupportedProductError) as error:
        raise QueryError(sentence(error)) from error
    if answer["timed_out"] or answer["_shards"]["failed"]:
        msg = "Elasticsearch answered only in part: it is overloaded, or some of its shards are not there."
        raise QueryError(msg)
    return dict(answer)


def sentence(error: Exception) -> str:
    """What went wrong and what to do, for a person."""
    match error:
        case ApiError() if error.meta.status in (401, 403):
            return (
                f"Elasticsearch refuses to answer ({error.meta.status}): check elasticsearch.username, password or "
                "api_key, and that they may read the indices."
            )
        case ApiError():
            return f"Elasticsearch answered with an error ({error.meta.status}, {error.error})."
        case ConnectionTimeout():
            return "Elasticsearch did not answer in time: it is overloaded, or the network is."
        case UnsupportedProductError():
            return "What answers at elasticsearch.url is not Elasticsearch: check the address."
    return "Elasticsearch does not answer: see whether it runs (`kappa status`), and check elasticsearch.url."


def touching(span: Span) -> Query:
    """Novelties that began before the end of the span and had not ended before its start."""
    lasting: Query = {
        "bool": {
            "filter": [{"terms": {"novelty.kind": list(LASTING)}}],
            "must_not": [{"term": {"novelty.status": "close"}}],
        }
    }
    reaches: Query = {
        "bool": {"should": [at_least("novelty.window_end", span.start), lasting], "minimum_should_match": 1}
    }
    return {"bool": {"filter": [at_most("@timestamp", span.end), reaches]}}


def at_least(name: str, time: datetime) -> Query:
    """The field is at this time or later."""
    return {"range": {name: {"gte": time.isoformat()}}}


def at_most(name: str, time: datetime) -> Query:
    """The field is at this time or earlier."""
    return {"range": {name: {"lte": time.isoformat()}}}


def buckets(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Buckets of an aggregation; none where there was no index to search."""
    return list(found.get("aggregations", {}).get(name, {}).get("buckets", []))


def listing_of(found: Mapping[str, Any], columns: Mapping[str, str]) -> Listing:
    """Hits as a frame: a column for each field."""
    sources = [hit["_source"] for hit in found["hits"]["hits"]]
    rows = [{column: pick(source, name) for column, name in columns.items()} for source in sources]
    return Listing(frame_of(rows, columns), found["hits"]["total"]["value"])


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str]) -> pd.DataFrame:
    """A frame with these columns, even without rows; times are times, scores numbers."""
    frame = pd.DataFrame(list(rows), columns=list(columns))
    for name in TIMES:
        if name in frame:
            frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    if "score" in frame:
        frame["score"] = frame["score"].astype(float)
    return frame


def pick(source: Mapping[str, Any], path: str) -> Any:
    """A field of a document by its full name, None where it is absent; through a list, the values of its members."""
    value: Any = source
    for name in path.split("."):
        if isinstance(value, list):
            value = [member.get(name) for member in value]
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def as_list(value: Any) -> list[Any]:
    """Elasticsearch lets a field hold one value or several."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
