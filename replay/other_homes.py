"""What another home may have made of a version: records in its topics, and aliases by which readers find it.

A home knows what was replayed and run in it. Topics, indices and aliases belong to the whole deployment: a command with another
home than the jobs have would write into them, delete them or point them elsewhere, and see no lock and no checkpoint of those jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elasticsearch import ApiError, Elasticsearch, TransportError
from kafka import TopicPartition

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import open_consumer
from app.search.mappings import unavailable_error
from models.records.index_names import INDEX_KINDS, PREFIX, alias_of, version_of

OF_JOBS = "the home of its jobs (`home` in kappa.toml, or KAPPA_HOME)"


def filled_topics(settings: Settings) -> list[str]:
    """Names of the topics with results of the settings' version that hold records, sorted."""
    with open_consumer(settings) as consumer:
        names = [settings.topic(kind) for kind in topics.OUTPUTS]
        there = [TopicPartition(name, p) for name in names for p in consumer.partitions_for_topic(name)]
        if not there:
            return []
        begins, ends = consumer.beginning_offsets(there), consumer.end_offsets(there)
    return sorted({at.topic for at in there if ends[at] > begins[at]})


def shown_versions(client: Elasticsearch) -> dict[str, bool]:
    """The versions whose documents the live aliases show; true of those that serve now, whose filter has no end.

    Raises ServiceUnavailable if the cluster does not answer.
    """
    try:
        # A server answers 404 when there are none.
        answer = client.options(ignore_status=404).indices.get_alias(index=PREFIX + "*")
    except (ApiError, TransportError) as error:
        what = "read the aliases"
        raise unavailable_error(what, "*", error) from error
    found: dict[str, bool] = {}
    for index in {} if answer.meta.status == 404 else answer.values():
        held = index["aliases"]
        live = [alias for kind in INDEX_KINDS if (alias := alias_of(kind)) in held]
        for version in {version_of(name) for name in held if live} - {""}:
            found[version] = found.get(version, False) or any(
                has_open_interval(held[alias].get("filter")) for alias in live
            )
    return found


def has_open_interval(query: Mapping[str, Any] | None) -> bool:
    """Whether the filter of a live alias (`app.search.aliases.version_filters`) has an interval without end; without a filter all is shown."""
    if query is None:
        return True
    if "range" in query:
        return not any({"lt", "lte"} & ends.keys() for ends in query["range"].values())
    parts = query.get("bool", {})
    return any(has_open_interval(one) for name in ("should", "filter") for one in parts.get(name, ()))
