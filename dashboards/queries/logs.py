"""Log templates: novel ones, new ones first, and how frequent each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elasticsearch import Elasticsearch

from dashboards.queries.episodes import touching
from dashboards.queries.frames import Listing, frame_of, moment, pick
from dashboards.queries.search import Span, all_of, buckets, search, terms, within
from models.records.index_names import alias_of

MAX_TEMPLATES = 50
MAX_RATES = 30
RATE_BUCKETS = 40
NOVEL_COLUMNS = (
    "template",
    "kind",
    "since",
    "latest",
    "score",
    "times",
    "hosts",
    "service",
    "level",
    "series",
    "reason",
    "sample",
)
RATE = ("series", "text", "share", "most", "score", "latest", "rate")


@dataclass(frozen=True)
class NovelTemplates(Listing):
    """The first novel templates, columns of NOVEL_COLUMNS, and how many there are in all. `new`: how many of all are new."""

    new: int = 0


def novel_templates(client: Elasticsearch, version: str, span: Span) -> NovelTemplates:
    """Templates that were novel in the span: columns of NOVEL_COLUMNS, new ones first, then by score.

    Of a template on several hosts the novelty with the highest score is shown; `hosts` says how many they are.
    """
    strongest = {
        "top_hits": {"size": 1, "sort": [{"novelty.score": "desc"}], "_source": ["service", "log", "event", "novelty"]}
    }
    by_template = {
        "terms": {"field": "novelty.template", "size": MAX_TEMPLATES, "order": [{"new": "desc"}, {"score": "desc"}]},
        "aggs": {
            "score": {"max": {"field": "novelty.score"}},
            "since": {"min": {"field": "@timestamp"}},
            "latest": {"max": {"field": "novelty.window_end"}},
            "hosts": {"cardinality": {"field": "host.name", "precision_threshold": 1000}},
            "new": {"filter": {"term": {"novelty.kind": "new"}}},
            "strongest": strongest,
        },
    }
    count: dict[str, Any] = {"cardinality": {"field": "novelty.template", "precision_threshold": 3000}}
    new = {"filter": {"term": {"novelty.kind": "new"}}, "aggs": {"all": count}}
    query = all_of(touching(span), {"exists": {"field": "novelty.template"}})
    found = search(
        client,
        [alias_of("novelties", version)],
        size=0,
        query=query,
        aggs={"templates": by_template, "all": count, "new": new},
    )
    rows = [novel_row(bucket) for bucket in buckets(found, "templates")]
    rows.sort(key=lambda row: (row["kind"] != "new", -row["score"]))
    # Where there are more than 3,000 both are estimates, which must not fall below what is listed.
    total, total_new = (int(pick(found, f"aggregations.{name}.value") or 0) for name in ("all", "new.all"))
    listed_new = sum(row["kind"] == "new" for row in rows)
    return NovelTemplates(frame_of(rows, NOVEL_COLUMNS), max(len(rows), total), max(listed_new, total_new))


def novel_row(bucket: Mapping[str, Any]) -> dict[str, Any]:
    """A novel template as a row."""
    source = bucket["strongest"]["hits"]["hits"][0]["_source"]
    return {
        "template": bucket["key"],
        "kind": "new" if bucket["new"]["doc_count"] else pick(source, "novelty.kind"),
        "since": moment(bucket["since"]["value"]),
        "latest": moment(bucket["latest"]["value"]),
        "score": bucket["score"]["value"],
        "times": bucket["doc_count"],
        "hosts": bucket["hosts"]["value"],
        "service": pick(source, "service.name"),
        "level": pick(source, "log.level"),
        "series": pick(source, "novelty.series"),
        "reason": pick(source, "event.reason"),
        "sample": pick(source, "novelty.sample"),
    }


def rates(client: Elasticsearch, version: str, span: Span, by: str = "lines") -> Listing:
    """Series of templates by their lines in the span, or by their highest `score`: columns of RATE.

    `text` is the template, None where scores do not hold it: `detect` wrote none before it was asked to. `share` is that of all lines in the
    span, `most` the most lines a minute in a window, and `rate` lists these for equal parts of the span, up to the newest line of any template.
    Empty where scores are not indexed.
    `total` is not above MAX_RATES.
    """
    milliseconds = max(1000, int(span.length.total_seconds() * 1000 / RATE_BUCKETS))
    bounds = {"min": int(span.start.timestamp() * 1000), "max": int(span.end.timestamp() * 1000)}
    lines, most = ({how: {"field": "novelty.value"}} for how in ("sum", "max"))
    over_time = {
        "date_histogram": {"field": "@timestamp", "fixed_interval": f"{milliseconds}ms", "extended_bounds": bounds},
        "aggs": {"most": most},
    }
    by_series = {
        "terms": {"field": "novelty.series", "size": MAX_RATES, "order": [{by: "desc"}, {"_key": "asc"}]},
        "aggs": {
            "lines": lines,
            "most": most,
            "text": {"terms": {"field": "novelty.template", "size": 1}},
            "score": {"max": {"field": "novelty.score"}},
            "latest": {"max": {"field": "@timestamp"}},
            "times": over_time,
        },
    }
    query = all_of(within("@timestamp", span), {"prefix": {"novelty.series": "template/"}})
    aggs = {"series": by_series, "lines": lines, "newest": {"max": {"field": "@timestamp"}}}
    found = search(client, [alias_of("scores", version)], size=0, query=query, aggs=aggs)
    overall = found.get("aggregations", {})
    whole = overall.get("lines", {}).get("value") or 1.0
    newest = overall.get("newest", {}).get("value") or bounds["max"]
    rows = [
        {
            "series": bucket["key"],
            "text": next((text["key"] for text in bucket["text"]["buckets"]), None),
            "share": bucket["lines"]["value"] / whole,
            "most": bucket["most"]["value"],
            "score": bucket["score"]["value"],
            "latest": moment(bucket["latest"]["value"]),
            "rate": [inner["most"]["value"] or 0.0 for inner in bucket["times"]["buckets"] if inner["key"] <= newest],
        }
        for bucket in buckets(found, "series")
    ]
    return Listing(frame_of(rows, RATE), len(rows))


def texts(client: Elasticsearch, version: str, series: list[str]) -> dict[str, str]:
    """The templates of these series, of those that were ever novel."""
    if not series:
        return {}
    by_series = {
        "terms": {"field": "novelty.series", "size": len(series)},
        "aggs": {"template": {"terms": {"field": "novelty.template", "size": 1}}},
    }
    query = terms("novelty.series", series)
    found = search(client, [alias_of("novelties", version)], size=0, query=query, aggs={"series": by_series})
    named = {bucket["key"]: bucket["template"]["buckets"] for bucket in buckets(found, "series")}
    return {name: inner[0]["key"] for name, inner in named.items() if inner}
