"""Records that the pipeline refused, by reason and over time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
from elasticsearch import Elasticsearch

from dashboards.queries.episodes import judged_until, span_of
from dashboards.queries.frames import Listing, frame_of, moment, pick
from dashboards.queries.search import Span, buckets, counts_over_time, search, within
from models.records.index_names import alias_of

MAX_REASONS = 10
# Of each kind: reasons that differ in numbers alone, such as by how many seconds a clock is ahead, are one.
MAX_TEXTS = 200
NUMBER = re.compile(r"\d+")
BUCKETS = 60
REFUSED = ("dataset", "reason", "count", "latest", "stage", "source_position", "sample")
RATE = ("time", "dataset", "count")


@dataclass(frozen=True)
class Reasons(Listing):
    """The most frequent reasons of each kind, columns of REFUSED, and how many records there are in all. `kinds`: how many of each kind."""

    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusals:
    """Refused records of a span: by reason with a sample, and their number over time (columns of RATE)."""

    read: datetime
    span: Span
    newest: datetime | None
    reasons: Reasons
    rate: pd.DataFrame


def refusals(client: Elasticsearch, version: str, length: timedelta, now: datetime) -> Refusals:
    """What was refused. Raises QueryError if a search fails."""
    newest = judged_until(client, version)
    own = span_of(newest, now, length)
    span = Span(own.start, max(own.end, now))
    return Refusals(now, span, newest, refused(client, version, span), rate(client, version, span))


def refused(client: Elasticsearch, version: str, span: Span) -> Reasons:
    """Late and dead records appended in the span, by reason, with the newest one as sample and its reason."""
    newest = {
        "top_hits": {"size": 1, "sort": [{"@timestamp": "desc"}], "_source": ["@timestamp", "message", "pipeline"]}
    }
    by_reason = {
        "terms": {"field": "event.reason", "size": MAX_TEXTS, "missing": "no reason given"},
        "aggs": {"newest": newest},
    }
    by_topic = {
        "terms": {"field": "pipeline.topic", "size": MAX_REASONS, "missing": ""},
        "aggs": {"reasons": by_reason},
    }
    by_dataset = {"terms": {"field": "event.dataset", "size": 5}, "aggs": {"topics": by_topic}}
    found = search(
        client, [alias_of("pipeline", version)], size=0, query=within("@timestamp", span), aggs={"datasets": by_dataset}
    )
    datasets = buckets(found, "datasets")
    rows = [row for dataset in datasets for row in refused_rows(dataset)]
    kinds = {kind_of(dataset["key"]): dataset["doc_count"] for dataset in datasets}
    return Reasons(frame_of(rows, REFUSED), found["hits"]["total"]["value"], kinds)


def kind_of(dataset: str) -> str:
    """The kind of records of a dataset: `late` or `dead-letters`."""
    return dataset.removeprefix("kappa.")


def refused_rows(dataset: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The most frequent reasons of a kind in each topic. Of those that differ in numbers alone there is one, that of the newest record."""
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for topic in dataset["topics"]["buckets"]:
        for reason in topic["reasons"]["buckets"]:
            same = (topic["key"], NUMBER.sub("0", reason["key"]))
            alike.setdefault(same, []).append(refused_row(dataset["key"], reason))
    merged = [
        max(rows, key=lambda row: str(row["latest"])) | {"count": sum(row["count"] for row in rows)}
        for rows in alike.values()
    ]
    return sorted(merged, key=lambda row: -row["count"])[:MAX_REASONS]


def refused_row(dataset: str, reason: Mapping[str, Any]) -> dict[str, Any]:
    """How often records were refused for a reason, and the newest of them."""
    sample = reason["newest"]["hits"]["hits"][0]["_source"]
    source_position = [pick(sample, f"pipeline.{name}") for name in ("topic", "partition", "offset")]
    return {
        "dataset": kind_of(dataset),
        "reason": reason["key"],
        "count": reason["doc_count"],
        "latest": sample["@timestamp"],
        "stage": pick(sample, "pipeline.stage"),
        "source_position": "/".join(str(part) for part in source_position if part is not None),
        "sample": pick(sample, "message"),
    }


def rate(client: Elasticsearch, version: str, span: Span) -> pd.DataFrame:
    """How many records were refused, by time and dataset: columns of RATE."""
    found = counts_over_time(client, alias_of("pipeline", version), span, BUCKETS, "event.dataset", 5)
    return frame_of([{"time": moment(at), "dataset": kind_of(name), "count": count} for at, name, count in found], RATE)
