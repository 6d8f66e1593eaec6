"""Two versions over the same events: what each found over time, and what only one of them found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.episodes import incidents, newest_event, novelties, span_of
from dashboards.queries.frames import Listing, frame_of, moment
from dashboards.queries.search import Span, all_of, at_least, at_most, buckets, search, terms, within
from models.records.index_names import alias_of

MAX_COMPARED = 3_000
MAX_INCIDENTS = 1_000
BUCKETS = 48
COUNT = ("time", "version", "kind", "count")


@dataclass(frozen=True)
class Comparison:
    """Two versions in one span. `counts` has the columns of COUNT, `only_left` and `only_right` those of NOVELTY.

    Novelties are compared from `compared_from` on: before it there are more than are read of one of them. `both` counts
    those that both versions have, `kinds_differ` how many of them are of another kind.
    """

    left: str
    right: str
    span: Span
    newest: tuple[datetime | None, datetime | None]
    counts: pd.DataFrame
    only_left: pd.DataFrame
    only_right: pd.DataFrame
    both: int
    kinds_differ: int
    compared_from: datetime


def compare(client: Elasticsearch, left: str, right: str, length: timedelta, now: datetime) -> Comparison:
    """Compare one version with another. Raises QueryError if a search fails.

    The span ends with the newest event of the version that is less far: what the other one found later is no difference.
    """
    newest = (newest_event(client, left), newest_event(client, right))
    known = [at for at in newest if at is not None]
    span = span_of(min(known, default=None), now, length)
    found = [listed(client, version, span) for version in (left, right)]
    since = max([span.start, *(oldest(listing) for listing in found)])
    mine, theirs = ({row["id"]: row for _, row in one.rows.iterrows() if row["since"] >= since} for one in found)
    shared = mine.keys() & theirs.keys()
    return Comparison(
        left=left,
        right=right,
        span=span,
        newest=newest,
        counts=pd.concat([counts(client, version, span) for version in (left, right)], ignore_index=True),
        only_left=without(found[0], theirs.keys(), since),
        only_right=without(found[1], mine.keys(), since),
        both=len(shared),
        kinds_differ=sum(mine[name]["kind"] != theirs[name]["kind"] for name in shared),
        compared_from=since,
    )


def listed(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Novelties that began in the span, the latest first."""
    return novelties(client, version, within("@timestamp", span), MAX_COMPARED, [{"@timestamp": "desc"}])


def oldest(listing: Listing) -> datetime:
    """The time from which on a listing is complete: of one that was cut, its last row."""
    whole = listing.total <= len(listing.rows)
    at: pd.Timestamp = pd.Timestamp(0, tz="UTC") if whole else listing.rows["since"].min()
    return at.to_pydatetime()


def without(listing: Listing, others: Collection[str], since: datetime) -> pd.DataFrame:
    """Novelties that the other version does not have, the highest score first."""
    rows = listing.rows
    own = rows[(rows["since"] >= since) & ~rows["id"].isin(list(others))]
    return own.sort_values("score", ascending=False)


def counts(client: Elasticsearch, version: str, span: Span) -> pd.DataFrame:
    """Novelties by when they began and by kind: columns of COUNT."""
    seconds = max(1, int(span.length.total_seconds()) // BUCKETS)
    over_time = {
        "date_histogram": {"field": "@timestamp", "fixed_interval": f"{seconds}s", "min_doc_count": 1},
        "aggs": {"kinds": {"terms": {"field": "novelty.kind", "size": 10}}},
    }
    found = search(
        client, [alias_of("novelties", version)], size=0, query=within("@timestamp", span), aggs={"times": over_time}
    )
    rows = [
        {"time": moment(bucket["key"]), "version": version, "kind": kind["key"], "count": kind["doc_count"]}
        for bucket in buckets(found, "times")
        for kind in bucket["kinds"]["buckets"]
    ]
    return frame_of(rows, COUNT)


def incidents_on(client: Elasticsearch, version: str, hosts: Sequence[str], span: Span) -> Listing:
    """Incidents of a version that were there in the span on one of these hosts, the latest first: columns of INCIDENT."""
    there = [at_least("novelty.window_end", span.start), at_most("@timestamp", span.end)]
    query = all_of(terms("host.name", hosts), *there)
    return incidents(client, version, query, MAX_INCIDENTS, [{"@timestamp": "desc"}])
