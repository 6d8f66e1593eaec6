"""Two versions over the same events: what each found over time, and what only one of them found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.episodes import incidents, judged_until, novelties, span_of
from dashboards.queries.frames import Listing, frame_of, moment
from dashboards.queries.labels import LabelDocument, of_span
from dashboards.queries.search import Span, all_of, at_least, at_most, counts_over_time, terms, within
from models.records.index_names import alias_of

MAX_COMPARED = 3_000
MAX_INCIDENTS = 1_000
BUCKETS = 48
COUNT = ("time", "version", "kind", "count")


@dataclass(frozen=True)
class Comparison:
    """Two versions in one span. `counts` has the columns of COUNT, `only_left` and `only_right` those of NOVELTY.

    Compared are novelties that began later than `compared_after`: there are more than are read of one of them. None where all are compared.
    `both` counts those that both versions have, `kinds_differ` how many of them are of another kind.
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
    compared_after: datetime | None = None


def compare(client: Elasticsearch, left: str, right: str, length: timedelta, now: datetime) -> Comparison:
    """Compare one version with another. Raises QueryError if a search fails.

    The span ends where the version that is less far has been judged: what the other one found later is no difference.
    """
    newest = (judged_until(client, left), judged_until(client, right))
    known = [at for at in newest if at is not None]
    span = span_of(min(known, default=None), now, length)
    found = [listed(client, version, span) for version in (left, right)]
    after = last_cut(found, "since")
    whole = [later(listing.rows, "since", after) for listing in found]
    mine, theirs = ({row["id"]: row for _, row in rows.iterrows()} for rows in whole)
    shared = mine.keys() & theirs.keys()
    return Comparison(
        left=left,
        right=right,
        span=span,
        newest=newest,
        counts=pd.concat([counts(client, version, span) for version in (left, right)], ignore_index=True),
        only_left=without(whole[0], theirs.keys()),
        only_right=without(whole[1], mine.keys()),
        both=len(shared),
        kinds_differ=sum(mine[name]["kind"] != theirs[name]["kind"] for name in shared),
        compared_after=after,
    )


def listed(client: Elasticsearch, version: str, span: Span) -> Listing:
    """Novelties that began in the span, the latest first."""
    return novelties(client, version, within("@timestamp", span), MAX_COMPARED, [{"@timestamp": "desc"}])


def last_cut(listings: Iterable[Listing], column: str) -> datetime | None:
    """The time after which all of these listings, the latest first by this column, are complete; None where none of them is cut.

    Of a listing that is cut it is the time of the last row, not included: others of that time may be missing.
    """
    cuts: list[pd.Timestamp] = [one.rows[column].min() for one in listings if one.total > len(one.rows)]
    return max(cuts).to_pydatetime() if cuts else None


def later(rows: pd.DataFrame, column: str, after: datetime | None) -> pd.DataFrame:
    """The rows that are later than this time; all of them for None."""
    return rows if after is None else rows[rows[column] > after]


def without(rows: pd.DataFrame, others: Collection[str]) -> pd.DataFrame:
    """Novelties that the other version does not have, the highest score first."""
    return rows[~rows["id"].isin(list(others))].sort_values("score", ascending=False)


def counts(client: Elasticsearch, version: str, span: Span) -> pd.DataFrame:
    """Novelties by when they began and by kind: columns of COUNT."""
    found = counts_over_time(client, alias_of("novelties", version), span, BUCKETS, "novelty.kind", 10)
    rows = [{"time": moment(at), "version": version, "kind": kind, "count": count} for at, kind, count in found]
    return frame_of(rows, COUNT)


@dataclass(frozen=True)
class Labelled:
    """The labelled incidents of a span, by their ids, and what each version has on the hosts that they name: columns of INCIDENT.

    Labels are those of incidents that began later than `after`: of a version there are more incidents than are read, and what lasted no longer than
    that may be missing. None where all are there. `cut`: there are more labels than are read, and these are the ones that were given last.
    """

    labels: Mapping[str, LabelDocument]
    incidents: Mapping[str, pd.DataFrame]
    after: datetime | None = None
    cut: bool = False


def labelled(client: Elasticsearch, names: Sequence[str], span: Span) -> Labelled:
    """What versions are held against. Raises QueryError if a search fails."""
    found = of_span(client, span)
    hosts = sorted({host for one in found.labels.values() for host in one.hosts})
    listings = {name: incidents_on(client, name, hosts, span) for name in names}
    after = last_cut(listings.values(), "latest")
    labels = {
        name: one
        for name, one in found.labels.items()
        if after is None or (one.start is not None and one.start > after)
    }
    return Labelled(labels, {name: one.rows for name, one in listings.items()}, after, found.cut)


def incidents_on(client: Elasticsearch, version: str, hosts: Sequence[str], span: Span) -> Listing:
    """Incidents of a version that were there in the span on one of these hosts, by the latest evidence, the latest first: columns of INCIDENT."""
    there = [at_least("novelty.window_end", span.start), at_most("@timestamp", span.end)]
    query = all_of(terms("host.name", hosts), *there)
    return incidents(client, version, query, MAX_INCIDENTS, [{"novelty.window_end": "desc"}])
