"""How the pages reach Elasticsearch, and the one function that asks it.

Every search is bounded in size and time. A missing index or alias is an empty answer, because nothing may have been
written yet. Times are aware, UTC.

    QueryError    Elasticsearch gave no usable answer: one sentence for a person, with what to do
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from elastic_transport import ConnectionTimeout, TlsError, TransportError
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

from models.records.index_names import INDEX_KINDS, alias_of, version_of

PREFIX = "KAPPA_DASHBOARD_"
TIMEOUT_SECONDS = 5.0
SIDE_BY_SIDE = 4  # searches of one page that are under way at once

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
    client_cert: str = ""
    client_key: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Connection:
        """Read the variables KAPPA_DASHBOARD_*. Raises QueryError where they name no server."""
        named = {name: text for name, text in environment.items() if name.startswith(PREFIX) and text}
        own = {name.removeprefix(PREFIX).lower(): text for name, text in named.items()}
        if "url" not in own:
            msg = "No Elasticsearch is named: start the dashboard with `kappa dashboard`, or set KAPPA_DASHBOARD_URL."
            raise QueryError(msg)
        return cls(
            url=own["url"],
            username=own.get("username", ""),
            password=own.get("password", ""),
            api_key=own.get("api_key", ""),
            ca_certs=own.get("ca_certs", ""),
            client_cert=own.get("client_cert", ""),
            client_key=own.get("client_key", ""),
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
        if self.client_cert:
            options |= {"client_cert": self.client_cert, "client_key": self.client_key}
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

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.start


def search(
    client: Elasticsearch,
    aliases: Sequence[str],
    *,
    size: int,
    query: Query | None = None,
    sort: Sequence[Mapping[str, Any]] | None = None,
    source: Sequence[str] | None = None,
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


def indexed_versions(client: Elasticsearch) -> list[str]:
    """Every version of which anything is indexed, sorted. Raises QueryError as `search`."""
    try:
        answer = client.options(ignore_status=404).indices.get_alias(name=[alias_of(kind, "*") for kind in INDEX_KINDS])
    except (ApiError, TransportError, UnsupportedProductError) as error:
        raise QueryError(sentence(error)) from error
    found: Mapping[str, Any] = {} if answer.meta.status == 404 else answer.body
    return sorted({version_of(alias) for index in found.values() for alias in index.get("aliases", {})} - {""})


def sentence(error: Exception) -> str:
    """What went wrong and what to do, for a person."""
    text = "Elasticsearch does not answer: see whether it runs (`kappa status`), and check elasticsearch.url."
    match error:
        case ApiError() if error.meta.status == 401:
            text = "Elasticsearch does not know us (401): check elasticsearch.username and password, or api_key."
        case ApiError() if error.meta.status == 403:
            text = (
                "Elasticsearch does not let us read (403): give this user or API key the privileges read and "
                "view_index_metadata on kappa-*."
            )
        case ApiError():
            text = f"Elasticsearch answered with an error ({error.meta.status}, {error.error})."
        case ConnectionTimeout():
            text = "Elasticsearch did not answer in time: it is overloaded, or the network is."
        case TlsError():
            text = (
                f"Elasticsearch cannot be reached by TLS ({error.message}): check elasticsearch.url, "
                "elasticsearch.ca_certs and the server's certificate."
            )
        case UnsupportedProductError():
            text = "What answers at elasticsearch.url is not Elasticsearch: check the address."
    return text


def term(name: str, value: Any) -> Query:
    """The field has this value."""
    return {"term": {name: value}}


def terms(name: str, values: Sequence[Any]) -> Query:
    """The field has one of these values."""
    return {"terms": {name: list(values)}}


def all_of(*queries: Query) -> Query:
    """What matches each of them, without a ranking."""
    return {"bool": {"filter": list(queries)}}


def any_of(*queries: Query) -> Query:
    """What matches one of them at least."""
    return {"bool": {"should": list(queries), "minimum_should_match": 1}}


def none_of(*queries: Query) -> Query:
    """What matches none of them."""
    return {"bool": {"must_not": list(queries)}}


def at_least(name: str, time: datetime) -> Query:
    """The field is at this time or later."""
    return {"range": {name: {"gte": time.isoformat()}}}


def at_most(name: str, time: datetime) -> Query:
    """The field is at this time or earlier."""
    return {"range": {name: {"lte": time.isoformat()}}}


def within(name: str, span: Span) -> Query:
    """The field lies in the span, edges included."""
    return {"range": {name: {"gte": span.start.isoformat(), "lte": span.end.isoformat()}}}


def buckets(found: Mapping[str, Any], *path: str) -> list[dict[str, Any]]:
    """Buckets of an aggregation, by the names that lead to it; none where there was no index to search."""
    inner: Mapping[str, Any] = found.get("aggregations", {})
    for name in path:
        inner = inner.get(name, {})
    return list(inner.get("buckets", []))


def counts_over_time(
    client: Elasticsearch, alias: str, span: Span, parts: int, field: str, size: int
) -> Iterator[tuple[int, str, int]]:
    """How many documents there are in parts of the span: when the part begins, epoch milliseconds, a value of the field, and their number."""
    seconds = max(1, int(span.length.total_seconds()) // parts)
    over_time = {
        "date_histogram": {"field": "@timestamp", "fixed_interval": f"{seconds}s", "min_doc_count": 1},
        "aggs": {"values": {"terms": {"field": field, "size": size}}},
    }
    found = search(client, [alias], size=0, query=within("@timestamp", span), aggs={"times": over_time})
    for bucket in buckets(found, "times"):
        for inner in bucket["values"]["buckets"]:
            yield bucket["key"], inner["key"], inner["doc_count"]
