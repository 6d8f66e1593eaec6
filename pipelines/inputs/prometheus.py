"""prometheus-kafka-adapter, `SERIALIZATION_FORMAT=json`: one sample a record, its value as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import cut, named, point, without_port


def points(shape: Column) -> Column:
    """A record's `name`, `value`, `timestamp` and `labels` -> points, one. A stale marker is NaN, which no check passes."""
    labels = shape["labels"]
    return F.array(
        point(
            at=shape["timestamp"],
            host=without_port(labels["instance"]),
            service=labels["job"],
            metric=shape["name"],
            labels=named(F.map_filter(labels, lambda k, _: ~k.isin("__name__", "instance", "job"))),
            value=shape["value"],
            counter=cut(shape["name"]).rlike("_(total|count|sum|bucket)$"),
        )
    )
