"""Metricbeat and Elastic Agent: numeric leaves under the module's object become points named by their dotted path."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.canonical import host_of, part, service_of
from pipelines.inputs.fields import NO_POINTS, first_of, let, point
from pipelines.inputs.telegraf import is_number

DEPTH = 6  # levels of objects that are opened; system.process.cgroup.cpu.stats.periods has that many names

_LEAVES = "array<struct<path:string,value:variant>>"
# objects of a document that describe where it comes from; read only if the module itself is called so
_ENVELOPE = (
    "@timestamp agent cloud container data_stream ecs elastic elastic_agent error event fields host input labels log "
    "message metricset orchestrator process service tags url user"
).split()
# leaves that say which of several like things (discks, interfaces, pods) a document is about -> the label's name
_DIMENSIONS = {
    "system.filesystem.mount_point": "mount_point",
    "system.network.name": "interface",
    "system.diskio.name": "disk",
    "system.core.id": "core",
    "system.process.name": "process",
    "process.name": "process",
    "container.name": "container",
    "docker.container.name": "container",
    "kubernetes.namespace": "namespace",
    "kubernetes.pod.name": "pod",
    "kubernetes.container.name": "container",
    "kubernetes.node.name": "node",
    "windows.service.display_name": "service",
    "kafka.topic.name": "topic",
    "kafka.partition.id": "partition",
    "redis.keyspace.id": "keyspace",
    "postgresql.database.name": "database",
    "elasticsearch.index.name": "index",
}
_IDENTITIES = r"(^|\.)(pid|ppid|pgid|uid|gid|id)$"
# running totals since the start of a device, process or server
_TOTALS = (
    r"^system\.(network\.(in|out)|diskio\.(read|write|io))\.[a-z]+$|\.ticks$|_total$|_count$|\.total\.ticks$"
    r"|^docker\.network\.(inbound|outbound)\.|^kubernetes\..*\.network\.(rx|tx)\.|\.cpu\.usage\.core\.ns$"
)


def points(text: Column, shape: Column) -> Column:
    """The record's text and `SHAPE` -> array<POINT>."""
    module = first_of(
        part(shape["event"], "module"),
        F.substring_index(first_of(part(shape["event"], "dataset"), shape["event.dataset"]), ".", 1),
        part(shape["service"], "type"),
    )
    return let(leaves(F.try_parse_json(text)), lambda known: _points_of(known, shape, module))


def leaves(document: Column) -> Column:
    """A variant object -> array<struct<path, value>> of what is no object, to `DEPTH` levels."""
    root = F.struct(F.lit("").alias("path"), document.alias("value"))
    level = F.array(root)
    for _ in range(DEPTH):
        level = F.flatten(F.transform(level, _opened))
    return level


def _opened(leaf: Column) -> Column:
    def of_members(members: Column) -> Column:
        prefix = F.when(leaf["path"] == "", "").otherwise(F.concat(leaf["path"], F.lit(".")))
        inner = F.transform(
            F.map_entries(members),
            lambda e: F.struct(F.concat(prefix, e["key"]).alias("path"), e["value"].alias("value")),
        )
        return F.coalesce(inner, F.array(leaf).cast(_LEAVES))

    return let(F.try_variant_get(leaf["value"], "$", "map<string,variant>"), of_members)


def _points_of(known: Column, shape: Column, module: Column) -> Column:
    labelled = F.filter(known, lambda e: e["path"].isin(*_DIMENSIONS) | e["path"].startswith("labels."))

    def of_labels(labels: Column) -> Column:
        measured = F.filter(known, lambda e: _measured(e, module))
        return F.transform(measured, lambda e: _of_leaf(e, shape, labels))

    return F.coalesce(let(_labels(labelled), of_labels), F.array().cast(NO_POINTS))


def _labels(labelled: Column) -> Column:
    names = F.create_map(*(F.lit(x) for pair in _DIMENSIONS.items() for x in pair))

    def entry(leaf: Column) -> Column:
        name = F.coalesce(F.try_element_at(names, leaf["path"]), F.substring(leaf["path"], 8, 1000))
        return F.struct(name.alias("key"), leaf["value"].try_cast("string").alias("value"))

    def distinct(entries: Column) -> Column:
        keys = F.transform(entries, lambda e: e["key"])
        return F.map_from_entries(F.filter(entries, lambda e, i: F.array_position(keys, e["key"]) == i + 1))

    return let(F.transform(labelled, entry), distinct)


def _measured(leaf: Column, module: Column) -> Column:
    top = F.substring_index(leaf["path"], ".", 1)
    inside = F.when(module.isNotNull(), (top == module) | (module == "system") & (top == "process"))
    chosen = F.coalesce(inside, ~top.isin(*_ENVELOPE))
    return chosen & is_number(leaf["value"]) & ~leaf["path"].rlike(_IDENTITIES)


def _of_leaf(leaf: Column, shape: Column, labels: Column) -> Column:
    return point(
        at=shape["@timestamp"],
        host=host_of(shape),
        service=first_of(service_of(shape), part(shape["service"], "type")),
        metric=leaf["path"],
        labels=labels,
        value=leaf["value"].try_cast("string"),
        counter=leaf["path"].rlike(_TOTALS),
    )
