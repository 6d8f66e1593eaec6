"""Index templates and aliases: what documents may hold, and which version is live.

Mappings are strict: a field that is not listed here is refused. A version's indices carry the alias `kappa-KIND-VERSION`,
those of versions that serve, or served for a time, `kappa-KIND` as well, with a filter that shows of each what it decided then
(`app.search.aliases`). Labels, deliveries and early alarms belong to no version: their indices have the aliases `kappa-labels`,
`kappa-deliveries` and `kappa-early`. Index names end in a date, so that old data go by dropping indices; where the server has index
lifecycles it does so itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elasticsearch import ApiError, Elasticsearch, TransportError

from app.core.settings import ElasticsearchSettings
from models.records.index_names import DELIVERIES, EARLY, INDEX_KINDS, LABELS, PREFIX, SHARED, alias_of, version_of
from models.records.records import Delivery, EarlyAlarm, EpisodeEvent, IncidentEvent, Label, RefusedRecord, Score
from models.records.schema import KEYWORD, search_type, search_types
from pipelines.elasticsearch.refusals import describe_refusal
from pipelines.errors import ServiceUnavailable

PRIORITY = 500
DEFAULTS = ElasticsearchSettings()
TEXT: dict[str, Any] = {"type": "text"}
DATE: dict[str, Any] = {"type": "date"}
LONG: dict[str, Any] = {"type": "long"}
OF_EPISODES = (
    *("version", "kind", "status", "window_end", "score", "series", "evidence", "value", "typical", "lower", "upper"),
    *("part", "certainty", "provisional", "before", "after", "unit", "metric", "template", "sample"),
)
OF_INCIDENTS = (
    *("version", "kind", "status", "window_end", "score", "novelties", "scope", "affected", "population", "share"),
    *("false_alarms_per_day", "episodes", "episodes_omitted", "severity"),
)
OF_DELIVERIES = ("channel", "incident", "version", "status", "severity", "outcome", "why", "answer", "attempts")
OF_ALARMS = (
    *("version", "status", "series", "window_end", "value", "lower", "upper", "typical", "chance", "bound_window_end"),
    *("template", "incident", "seconds_won", "settled_at"),
)
OF_SCORES = ("series", "kind", "score", "template", "value", "typical", "lower", "upper")


def object_field(**fields: Any) -> dict[str, Any]:
    """A field that holds fields."""
    return {"properties": fields}


ALERT = object_field(
    **dict.fromkeys(("kind", "category", "type", "module", "dataset", "id", "reason"), KEYWORD),
    start=DATE,
    end=DATE,
    severity=LONG,
)
RULE = object_field(**dict.fromkeys(("id", "name", "category", "ruleset"), KEYWORD))
NAMED = object_field(name=KEYWORD)
ECS = object_field(version=KEYWORD)
OF_ALERTS: dict[str, Any] = {
    **{"@timestamp": DATE, "ecs": ECS, "event": ALERT, "rule": RULE, "observer": NAMED},
    **{"host": NAMED, "service": NAMED, "message": TEXT, "tags": KEYWORD},
}

# Of each kind of document: fields of the Elastic Common Schema, and under `novelty`, `pipeline` and `label` those of the record.
PROPERTIES: dict[str, dict[str, Any]] = {
    "scores": {
        "@timestamp": DATE,
        "ecs": ECS,
        "event": object_field(kind=KEYWORD, dataset=KEYWORD),
        "host": NAMED,
        "service": NAMED,
        "novelty": object_field(version=KEYWORD, metric=KEYWORD, **search_types(Score, *OF_SCORES)),
    },
    "novelties": {
        **OF_ALERTS,
        "log": object_field(level=KEYWORD),
        "novelty": object_field(**search_types(EpisodeEvent, *OF_EPISODES)),
    },
    "incidents": {
        **OF_ALERTS,
        "novelty": object_field(
            **search_types(IncidentEvent, *OF_INCIDENTS),
            template=search_type(IncidentEvent, "templates"),
            contributions=search_type(IncidentEvent, "series"),
            causes=search_type(IncidentEvent, "causes"),
        ),
    },
    "pipeline": {
        "@timestamp": DATE,
        "ecs": ECS,
        "event": object_field(kind=KEYWORD, dataset=KEYWORD, reason=KEYWORD),
        "message": TEXT,
        "pipeline": object_field(
            version=KEYWORD, **search_types(RefusedRecord, "topic", "partition", "offset", "stage", "length", "sha256")
        ),
    },
    LABELS: {
        "@timestamp": DATE,
        "ecs": ECS,
        "event": object_field(kind=KEYWORD, dataset=KEYWORD, start=DATE, end=DATE),
        "host": NAMED,
        "message": TEXT,
        "label": object_field(**search_types(Label, "label", "incident", "version", "author", "series")),
    },
    DELIVERIES: {
        "@timestamp": DATE,
        "ecs": ECS,
        "event": object_field(kind=KEYWORD, dataset=KEYWORD),
        "message": TEXT,
        "delivery": object_field(**search_types(Delivery, *OF_DELIVERIES)),
    },
    EARLY: {
        "@timestamp": DATE,
        "ecs": ECS,
        "event": object_field(kind=KEYWORD, dataset=KEYWORD),
        "host": NAMED,
        "service": NAMED,
        "alarm": object_field(**search_types(EarlyAlarm, *OF_ALARMS)),
    },
}


# What of a kind of document is shown under the live alias, as a query; None for all of it.
Shown = Mapping[str, dict[str, Any] | None]


def ensure_templates(
    client: Elasticsearch,
    version: str,
    *,
    live: bool,
    shown: Shown | None = None,
    settings: ElasticsearchSettings = DEFAULTS,
) -> None:
    """Put the index templates of a version; with `live` new indices get the live aliases too, filtered as `shown` says.

    Of `settings` are taken the copies and shards of new indices and the days that they are kept. Days need a server with index lifecycles and
    are left out elsewhere; labels, which are few and people's work, are kept. Indices that are there get the fields that they lack. Putting the
    templates again changes nothing.
    Raises ServiceUnavailable if the cluster does not do it.
    """
    try:
        for kind in SHARED:
            client.indices.put_index_template(
                name=alias_of(kind), create=False, **shared_index_template(kind, settings)
            )
            add_fields(client, alias_of(kind), kind)
        lifecycles = settings.retention_days is not None and has_lifecycles(client)
        for kind in INDEX_KINDS:
            of_indices = index_settings(kind, settings)
            if lifecycles:
                client.ilm.put_lifecycle(name=alias_of(kind), policy=deletion_policy(settings.retention_days or 0))
                of_indices["lifecycle"] = {"name": alias_of(kind)}
            client.indices.put_index_template(
                name=alias_of(kind, version),
                create=False,
                **index_template(kind, version, live, of_indices, (shown or {}).get(kind)),
            )
            add_fields(client, alias_of(kind, version), kind)
    except (ApiError, TransportError) as error:
        what = "put the index templates"
        raise unavailable_error(what, version, error) from error


def add_fields(client: Elasticsearch, alias: str, kind: str) -> None:
    """Give indices that are there the fields that they lack: they are strict, and a release before may have had fewer."""
    if indices_with_alias(client, alias):
        client.indices.put_mapping(index=alias, properties=PROPERTIES[kind])


def has_templates(client: Elasticsearch, version: str) -> bool:
    """Whether the index templates of a version are there, and those that all versions share."""
    # A server answers 404 when there are none.
    answer = client.options(ignore_status=404).indices.get_index_template(
        name=PREFIX + "*", filter_path="index_templates.name"
    )
    names = {template["name"] for template in answer.body.get("index_templates", [])}
    return names >= {*map(alias_of, SHARED), *(alias_of(kind, version) for kind in INDEX_KINDS)}


def index_template(
    kind: str, version: str, live: bool, settings: dict[str, Any], shown: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The index template of one kind of document of a version."""
    aliases: dict[str, Any] = {alias_of(kind, version): {}}
    if live:
        aliases[alias_of(kind)] = {} if shown is None else {"filter": shown}
    return {
        # `live-2` would match the pattern of `live` as well: the longer name has the higher priority.
        "index_patterns": [alias_of(kind, version) + "-*"],
        "priority": PRIORITY + len(version),
        "template": {
            "settings": {"index": settings},
            "mappings": {"dynamic": "strict", "properties": PROPERTIES[kind]},
            "aliases": aliases,
        },
    }


def shared_index_template(kind: str, settings: ElasticsearchSettings) -> dict[str, Any]:
    """The index template of labels, deliveries or early alarms, which all versions share."""
    return {
        "index_patterns": [alias_of(kind) + "-*"],
        "priority": PRIORITY,
        "template": {
            "settings": {"index": index_settings(kind, settings)},
            "mappings": {"dynamic": "strict", "properties": PROPERTIES[kind]},
            "aliases": {alias_of(kind): {}},
        },
    }


def index_settings(kind: str, settings: ElasticsearchSettings) -> dict[str, Any]:
    """Settings of an index. What people wait for can be searched at once: few documents, so that this costs little."""
    return {
        "number_of_shards": settings.score_shards if kind == "scores" else 1,
        "number_of_replicas": settings.replicas,
        "refresh_interval": "200ms" if kind in ("novelties", "incidents", EARLY) else "1s",
    }


def indices_with_alias(client: Elasticsearch, alias: str) -> set[str]:
    """The indices that have an alias."""
    found = client.options(ignore_status=404).indices.get_alias(name=alias)
    return set() if found.meta.status == 404 else set(found)


def versions_with_templates(client: Elasticsearch) -> set[str]:
    """The versions that have index templates. Raises ServiceUnavailable if the cluster does not answer."""
    try:
        # A server answers 404 when there are none.
        answer = client.options(ignore_status=404).indices.get_index_template(name=PREFIX + "*")
    except (ApiError, TransportError) as error:
        what = "list the index templates"
        raise unavailable_error(what, "", error) from error
    names = [t["name"] for t in answer.body.get("index_templates", [])]
    return {version_of(name) for name in names} - {""}


def drop_version(client: Elasticsearch, version: str) -> list[str]:
    """Delete the templates and indices of a version; answer the indices' names."""
    try:
        names = sorted({name for kind in INDEX_KINDS for name in indices_with_alias(client, alias_of(kind, version))})
        for name in names:
            client.indices.delete(index=name)
        for kind in INDEX_KINDS:
            client.options(ignore_status=404).indices.delete_index_template(name=alias_of(kind, version))
    except (ApiError, TransportError) as error:
        what = "drop the indices"
        raise unavailable_error(what, version, error) from error
    return names


def has_lifecycles(client: Elasticsearch) -> bool:
    """Whether the server has index lifecycles; the embedded one has none."""
    answer = client.options(ignore_status=[400, 404, 405]).ilm.get_lifecycle()
    return answer.meta.status == 200


def deletion_policy(retention_days: int) -> dict[str, Any]:
    """Delete an index so many days after it was made."""
    return {"phases": {"delete": {"min_age": f"{retention_days}d", "actions": {"delete": {}}}}}


def unavailable_error(what: str, version: str, error: Exception) -> ServiceUnavailable:
    """A foreign error as ours, in one line; `version` is empty where it is about all of them."""
    of = f" of version {version}" if version else ""
    if isinstance(error, ApiError):
        return ServiceUnavailable(f"Elasticsearch: cannot {what}{of}: it {describe_refusal(error)}")
    lines = str(error).splitlines()
    first = lines[0] if lines else type(error).__name__
    return ServiceUnavailable(f"Elasticsearch: cannot {what}{of}: {first}; check elasticsearch.url")
