"""Labels of incidents: the latest of each that says what it was, and who has acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elasticsearch import Elasticsearch

from dashboards.queries.frames import as_list, pick
from dashboards.queries.search import Query, Span, all_of, any_of, at_least, at_most, none_of, search, term, terms
from models.records.index_names import LABELS, alias_of
from models.records.records import ACKNOWLEDGED

MAX_LABELS = 2_000
ACKNOWLEDGES: Query = term("label.label", ACKNOWLEDGED)
JUDGES: Query = none_of(ACKNOWLEDGES)  # says what an incident was


@dataclass(frozen=True)
class LabelDocument:
    """A person's label of an incident. `start` and `end` are the incident's; None where it had none then."""

    incident: str
    label: str
    given_at: datetime
    start: datetime | None = None
    end: datetime | None = None
    hosts: tuple[str, ...] = ()
    comment: str = ""
    author: str = ""


@dataclass(frozen=True)
class LatestLabels:
    """The last label of each incident, by its id. `cut`: there are more labels than were read, all of them given earlier."""

    labels: dict[str, LabelDocument]
    cut: bool = False


@dataclass(frozen=True)
class Answers:
    """What people answered to an incident: who has it in hand, and what it was, each by the latest such label."""

    taken: LabelDocument | None = None
    judged: LabelDocument | None = None


def answers(client: Elasticsearch, identities: Sequence[str]) -> dict[str, Answers]:
    """What was answered to each of these incidents, of those with an answer. Raises QueryError if a search fails."""
    taken, judged = acknowledged(client, identities), of_incidents(client, identities)
    return {name: Answers(taken.get(name), judged.get(name)) for name in taken | judged}


def of_incidents(client: Elasticsearch, identities: Sequence[str]) -> dict[str, LabelDocument]:
    """The latest label of each of these incidents that has one, by its id. Raises QueryError if the search fails."""
    return latest(client, all_of(JUDGES, terms("label.incident", identities))).labels if identities else {}


def acknowledged(client: Elasticsearch, identities: Sequence[str]) -> dict[str, LabelDocument]:
    """Who has acknowledged each of these incidents, the latest. Raises QueryError if the search fails."""
    return latest(client, all_of(ACKNOWLEDGES, terms("label.incident", identities))).labels if identities else {}


def of_span(client: Elasticsearch, span: Span) -> LatestLabels:
    """The latest label of each incident in the span. Raises QueryError if the search fails."""
    ended = at_least("event.end", span.start)
    was_open = all_of(none_of({"exists": {"field": "event.end"}}), at_least("@timestamp", span.start))
    reaches = any_of(ended, was_open)
    return latest(client, all_of(JUDGES, at_most("event.start", span.end), reaches))


def latest(client: Elasticsearch, query: Query) -> LatestLabels:
    """Of labels, the MAX_LABELS that were given last, the last one of each incident."""
    newest_first = [{"@timestamp": "desc"}]
    found = search(client, [alias_of(LABELS)], size=MAX_LABELS, query=query, sort=newest_first)
    labels = [of_document(hit["_source"]) for hit in found["hits"]["hits"]]
    last = {one.incident: one for one in reversed(labels) if one.incident}
    return LatestLabels(last, cut=found["hits"]["total"]["value"] > len(labels))


def of_document(source: dict[str, Any]) -> LabelDocument:
    """A label from its document."""
    start, end = (pick(source, f"event.{name}") for name in ("start", "end"))
    return LabelDocument(
        incident=pick(source, "label.incident") or "",
        label=pick(source, "label.label"),
        given_at=datetime.fromisoformat(source["@timestamp"]),
        start=moment(start),
        end=moment(end),
        hosts=tuple(as_list(pick(source, "host.name"))),
        comment=source.get("message") or "",
        author=pick(source, "label.author") or "",
    )


def moment(text: Any) -> datetime | None:
    """A time as somebody wrote it into a label, in UTC without a zone; None for any other form, of which Elasticsearch takes many."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
