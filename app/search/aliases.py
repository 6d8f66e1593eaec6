"""Sets the live aliases, which show of each version that serves, or served, the documents that belong to that time.

A document belongs to the moment of its last change:

    scores                 the window's end
    novelties, incidents   the window in which they were closed; what is open has not ended, and belongs to the last interval
    pipeline               when the refused record was appended: it is of the window that ends later

The intervals in which a version served become a filter on its indices, so that each moment is shown by one version, and its other documents stay
where they are. All aliases are changed in one request.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from elasticsearch import ApiError, Elasticsearch, TransportError

from app.core.settings import ElasticsearchSettings, Settings
from app.search.mappings import (
    DEFAULTS,
    Shown,
    ensure_templates,
    indices_with_alias,
    unavailable_error,
    versions_with_templates,
)
from app.versions import serving
from app.versions.serving import Serving, TimeRange
from models.records.index_names import INDEX_KINDS, alias_of
from pipelines.errors import InputError, ServiceUnavailable

Query = dict[str, Any]
CLOSED: Query = {"term": {"novelty.status": "close"}}


def version_filters(spans: list[TimeRange]) -> Shown:
    """For each kind the filter on a version's documents, where it serves in these spans; None for all documents."""
    if spans == [(None, None)]:
        return dict.fromkeys(INDEX_KINDS)
    return {
        "scores": any_of([within("@timestamp", span, ("gt", "lte")) for span in spans]),
        "pipeline": any_of([within("@timestamp", span, ("gte", "lt")) for span in spans]),
        **{kind: any_of([query for span in spans for query in closed_in(span)]) for kind in ("novelties", "incidents")},
    }


def closed_in(span: TimeRange) -> list[Query]:
    """Queries for documents that were closed in a span and, if the span has no end, for open ones."""
    closed: Query = {"bool": {"filter": [CLOSED, within("novelty.window_end", span, ("gt", "lte"))]}}
    return [closed] if span[1] is not None else [closed, {"bool": {"must_not": [CLOSED]}}]


def within(field: str, span: TimeRange, operators: tuple[str, str]) -> Query:
    """Documents whose field lies in a span; an end that is None is left open."""
    ends = {name: end for name, end in zip(operators, span, strict=True) if end is not None}
    return {"range": {field: {**ends, "format": "epoch_millis"}}}


def any_of(queries: list[Query]) -> Query:
    """Documents that match one of the queries."""
    return {"bool": {"should": queries, "minimum_should_match": 1}}


def point_live_aliases(client: Elasticsearch, served: Serving, settings: ElasticsearchSettings = DEFAULTS) -> int:
    """Set the live aliases for the versions that serve or served: templates first, for indices that are created meanwhile.

    Parameters
    ----------
    client
        A connected client.
    served
        The versions that serve or served, with their intervals.
    settings
        Copies, shards and days of indices that are created from now on.

    Returns
    -------
    int
        The number of indices that have a live alias now. Doing it again changes nothing.

    Raises
    ------
    ServiceUnavailable
        The cluster does not answer, or refuses.
    """
    shown = {version: version_filters(served.ranges(version)) for version in served.versions}
    try:
        for version in sorted(versions_with_templates(client) | shown.keys()):
            ensure_templates(client, version, live=version in shown, shown=shown.get(version), settings=settings)
        actions = [action for kind in INDEX_KINDS for action in alias_actions(client, kind, shown)]
        if actions:
            client.indices.update_aliases(actions=actions)
    except (ApiError, TransportError) as error:
        what = "point the aliases"
        raise unavailable_error(what, served.version, error) from error
    return sum("add" in action for action in actions)


def alias_actions(client: Elasticsearch, kind: str, shown: dict[str, Shown]) -> list[dict[str, Any]]:
    """Actions that give the live alias of a kind to the indices of these versions, filtered, and take it from all others."""
    wanted = {
        name: filters_of[kind]
        for version, filters_of in shown.items()
        for name in indices_with_alias(client, alias_of(kind, version))
    }
    alias = alias_of(kind)
    others = sorted(indices_with_alias(client, alias) - wanted.keys())
    given = [{"index": name, "alias": alias} | ({"filter": q} if q else {}) for name, q in sorted(wanted.items())]
    return [{"remove": {"index": name, "alias": alias}} for name in others] + [{"add": one} for one in given]


def prepare_indices(client: Elasticsearch, settings: Settings) -> None:
    """Put the templates of the settings' version, and finish a promotion that was interrupted before it set the aliases.

    Raises ServiceUnavailable where the cluster does not answer, or another process holds the lock for long, as it does while it waits for
    the cluster.
    """
    with ExitStack() as held:
        try:
            held.enter_context(serving.locked(settings.home))
        except InputError as error:
            raise ServiceUnavailable(str(error)) from error
        served = serving.read(settings.home)
        live = settings.version in served.versions
        shown = version_filters(served.ranges(settings.version)) if live else None
        ensure_templates(client, settings.version, live=live, shown=shown, settings=settings.elasticsearch)
        if not served.aliased:
            point_live_aliases(client, served, settings.elasticsearch)
            serving.mark_aliased(settings.home)


def follow_serving(client: Elasticsearch, settings: Settings) -> int:
    """Set the live aliases as the file of serving versions has it; returns the number of indices that have one."""
    with serving.locked(settings.home):
        count = point_live_aliases(client, serving.read(settings.home), settings.elasticsearch)
        serving.mark_aliased(settings.home)
        return count
