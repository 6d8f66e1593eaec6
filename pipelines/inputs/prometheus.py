"""prometheus-kafka-adapter, `SERIALIZATION_FORMAT=json`: one sample a record, its value as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, let, name_labels, point, truncate, without_port
from pipelines.inputs.members import ANY, OBJECT, Members, parse_member, paths_of_kind

MEMBERS = paths_of_kind(ANY, ("name", "value", "timestamp")) | {"labels": OBJECT}


def points(members: Members) -> Column:
    """A record's `MEMBERS` -> points, one. A stale marker is NaN, which no check passes."""
    return let(parse_member(members["labels"], LABELS), lambda labels: F.array(_sample(members, labels)))


def _sample(members: Members, labels: Column) -> Column:
    return point(
        at=members["timestamp"],
        host=without_port(labels["instance"]),
        service=labels["job"],
        metric=members["name"],
        labels=name_labels(F.map_filter(labels, lambda k, _: ~k.isin("__name__", "instance", "job"))),
        value=members["value"],
        counter=truncate(members["name"]).rlike("_(total|count|sum|bucket)$"),
    )
