"""Vector, `encoding.codec = "json"`: one metric a record. Distributions, sets and changes of a gauge are refused: they hold no value."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import cut, let, named, part, point, without_port

_OF_BOTH = "struct<count:string,sum:string>"
MEMBERS = (
    "kind:string,namespace:string,counter:struct<value:string>,gauge:struct<value:string>,"
    f"aggregated_histogram:{_OF_BOTH},aggregated_summary:{_OF_BOTH}"
)
KINDS = ("absolute", "incremental")
_OWN, _OF_TARGET = ("host", "service"), ("instance", "job")


def points(shape: Column) -> Column:
    """A record's `MEMBERS`, `name`, `tags` and `timestamp` -> points; `.count` and `.sum` of a histogram or summary."""

    def of_labels(labels: Column, tags: Column) -> Column:
        numbers = F.coalesce(shape["counter"], shape["gauge"])
        both = F.coalesce(shape["aggregated_histogram"], shape["aggregated_summary"])
        one, two = (
            F.array(part("", numbers["value"])),
            F.array(part(".count", both["count"]), part(".sum", both["sum"])),
        )
        change = shape["gauge"].isNotNull() & _incremental(shape)  # and no value
        found = F.when(numbers.isNotNull() & ~change, one).when(both.isNotNull(), two).otherwise(F.slice(one, 1, 0))
        return F.transform(found, lambda p: of_part(p, labels, tags))

    def of_part(p: Column, labels: Column, tags: Column) -> Column:
        return point(
            at=shape["timestamp"],
            host=F.coalesce(tags["host"], without_port(tags["instance"])),
            service=F.coalesce(tags["service"], tags["job"]),
            metric=F.concat(F.concat_ws("_", cut(shape["namespace"]), cut(shape["name"])), p["suffix"]),
            labels=labels,
            value=p["value"],
            counter=shape["gauge"].isNull() & ~_incremental(shape),
        )

    def of_tags(tags: Column) -> Column:
        # what the receiver of Prometheus' metrics says of a target where the metric has no host
        own = F.map_filter(tags, lambda k, _: ~(k.isin(*_OWN) | (k.isin(*_OF_TARGET) & tags["host"].isNull())))
        return let(named(own), lambda labels: of_labels(labels, tags))

    return let(F.transform_values(shape["tags"], lambda _, value: _last(value)), of_tags)


def _incremental(shape: Column) -> Column:
    return shape["kind"] != KINDS[0]


def _last(value: Column) -> Column:
    """The last value of a tag that has several."""
    listed = F.when(value.startswith("["), F.from_json(value, "array<string>"))
    return F.coalesce(F.try_element_at(listed, F.lit(-1)), value)
