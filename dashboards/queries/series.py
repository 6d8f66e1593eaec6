"""One series: which there are, observed and expected values, and novelties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.episodes import novelties, touching
from dashboards.queries.frames import Listing, frame_of, moment
from dashboards.queries.search import Query, Span, all_of, any_of, buckets, none_of, search, term, terms, within
from models.core.series import quote
from models.records.index_names import alias_of

MAX_MATCHES = 50
MAX_WORDS = 6
BETWEEN_PARTS = "·"
MAX_POINTS = 600
MAX_EPISODES = 100
POINT = ("time", "value", "least", "most", "typical", "lower", "upper", "score", "kind")
MATCH = ("series", "score", "latest", "documents")
IS_NOVELTY: Query = {"exists": {"field": "novelty.status"}}  # and no score of a window
NOT_NOVEL = ("normal", "warming")


def matching(client: Elasticsearch, version: str, text: str, span: Span) -> Listing:
    """Series whose names hold every word of the text, the highest score first, of windows in the span and novelties that touch it: columns of MATCH.

    Without a text, the series with the highest scores. `documents` counts windows and novelties. `total` is not above
    MAX_MATCHES: how many more there are is not counted. Raises QueryError if the search fails.
    """
    words = list(map(contains, words_of(text)))
    # Without a word every series of the fleet would be counted: what was novel is far less.
    aliases = [alias_of("novelties", version), *([alias_of("scores", version)] if words else [])]
    by_series = {
        "terms": {"field": "novelty.series", "size": MAX_MATCHES, "order": [{"score": "desc"}, {"_key": "asc"}]},
        "aggs": {"score": {"max": {"field": "novelty.score"}}, "latest": {"max": {"field": "@timestamp"}}},
    }
    of_scores = all_of(none_of(IS_NOVELTY), within("@timestamp", span))
    query = all_of(any_of(of_scores, all_of(IS_NOVELTY, touching(span))), *words)
    found = search(client, aliases, size=0, query=query, aggs={"series": by_series})
    rows = [
        {
            "series": bucket["key"],
            "score": bucket["score"]["value"],
            "latest": moment(bucket["latest"]["value"]),
            "documents": bucket["doc_count"],
        }
        for bucket in buckets(found, "series")
    ]
    return Listing(frame_of(rows, MATCH), len(rows))


def words_of(text: str) -> list[str]:
    """The words of a text, as many as are searched for. What pages put between the parts of a name is none: names are copied from there."""
    return [word for word in text.split() if word != BETWEEN_PARTS][:MAX_WORDS]


def contains(word: str) -> Query:
    """Names of series that hold a word, whatever its case: as it stands in the name, or as a part of the name that is encoded there."""
    return any_of(*(holds(text) for text in dict.fromkeys((word, quote(word)))))


def holds(text: str) -> Query:
    """Names of series that hold a text as it is, whatever its case."""
    escaped = "".join(f"\\{c}" if c in "*?\\" else c for c in text)
    return {"wildcard": {"novelty.series": {"value": f"*{escaped}*", "case_insensitive": True}}}


def points(client: Elasticsearch, version: str, series: Sequence[str], span: Span) -> dict[str, pd.DataFrame]:
    """What was seen of these series and what was expected: a frame for each that has scores, columns of POINT.

    A point is a window, or several of them where the span is long: then `value`, `typical` and bounds are means, `least`
    and `most` the extremes of the value, `score` the highest, and `kind` what is not normal among them.
    """
    milliseconds = max(1000, int(span.length.total_seconds() * 1000 / MAX_POINTS))
    numbers = {name: {"avg": {"field": f"novelty.{name}"}} for name in ("value", "typical", "lower", "upper")}
    each = numbers | {
        "time": {"max": {"field": "@timestamp"}},
        "least": {"min": {"field": "novelty.value"}},
        "most": {"max": {"field": "novelty.value"}},
        "score": {"max": {"field": "novelty.score"}},
        "kinds": {"terms": {"field": "novelty.kind", "size": 6}},
    }
    over_time = {
        "date_histogram": {"field": "@timestamp", "fixed_interval": f"{milliseconds}ms", "min_doc_count": 1},
        "aggs": each,
    }
    by_series = {"terms": {"field": "novelty.series", "size": len(series) or 1}, "aggs": {"times": over_time}}
    query = all_of(terms("novelty.series", series), within("@timestamp", span))
    found = search(client, [alias_of("scores", version)], size=0, query=query, aggs={"series": by_series})
    return {
        bucket["key"]: frame_of([point(inner) for inner in bucket["times"]["buckets"]], POINT)
        for bucket in buckets(found, "series")
    }


def point(bucket: Mapping[str, Any]) -> dict[str, Any]:
    """A point of a series."""
    names = ("value", "least", "most", "typical", "lower", "upper", "score")
    kinds = [kind["key"] for kind in bucket["kinds"]["buckets"]]
    return {
        "time": moment(bucket["time"]["value"]),
        "kind": next((kind for kind in kinds if kind not in NOT_NOVEL), "normal"),
        **{name: bucket[name]["value"] for name in names},
    }


def has_scores(client: Elasticsearch, version: str) -> bool:
    """Whether the version's scores are indexed at all: they are only with `index.scores`."""
    return bool(search(client, [alias_of("scores", version)], size=0)["hits"]["total"]["value"])


def novelties_of(client: Elasticsearch, version: str, series: str, span: Span) -> Listing:
    """Novelties of a series that touch the span, the latest first: columns of NOVELTY."""
    query = all_of(touching(span), term("novelty.series", series))
    return novelties(client, version, query, MAX_EPISODES, [{"@timestamp": "desc"}])
