"""prometheus-kafka-adapter, `SERIALIZATION_FORMAT=json`: one sample a record, its value as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS_TYPE, first_of, point


def points(name: Column, value: Column, timestamp: Column, labels: Column) -> Column:
    """The texts of a record's parts -> array<POINT> of one. A stale marker is NaN, which no check lets pass."""
    tags = F.from_json(labels, LABELS_TYPE)
    metric = first_of(name, tags["__name__"])
    instance = F.regexp_replace(tags["instance"], ":[0-9]{1,5}$", "")
    return F.array(
        point(
            at=timestamp,
            host=first_of(instance, tags["host"], tags["node"]),
            service=tags["job"],
            metric=metric,
            labels=F.map_filter(tags, lambda k, _: ~k.isin("__name__", "instance", "job")),
            value=value,
            counter=metric.rlike("_(total|count|sum|bucket)$"),
        )
    )
