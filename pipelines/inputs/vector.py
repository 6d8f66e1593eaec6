"""Vector, `encoding.codec = "json"`: one metric a record. Distributions and sets are left out: they are made of what is counted elsewhere."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import cut, let, named, point

_OF_BOTH = "struct<count:string,sum:string>"
MEMBERS = (
    "kind:string,namespace:string,counter:struct<value:string>,gauge:struct<value:string>,"
    f"aggregated_histogram:{_OF_BOTH},aggregated_summary:{_OF_BOTH}"
)
KINDS = ("absolute", "incremental")


def points(shape: Column) -> Column:
    """A record's `MEMBERS`, `name`, `tags` and `timestamp` -> points; `.count` and `.sum` of a histogram or summary."""

    def part(suffix: str, value: Column) -> Column:
        return F.struct(F.lit(suffix).alias("suffix"), value.alias("value"))

    def of_tags(labels: Column) -> Column:
        numbers = F.coalesce(shape["counter"], shape["gauge"])
        both = F.coalesce(shape["aggregated_histogram"], shape["aggregated_summary"])
        found = F.when(numbers.isNotNull(), F.array(part("", numbers["value"])))
        found = found.when(both.isNotNull(), F.array(part(".count", both["count"]), part(".sum", both["sum"])))
        return F.transform(found, lambda p: of_part(p, labels))

    def of_part(p: Column, labels: Column) -> Column:
        return point(
            at=shape["timestamp"],
            host=shape["tags"]["host"],
            service=shape["tags"]["service"],
            metric=F.concat(F.concat_ws("_", cut(shape["namespace"]), cut(shape["name"])), p["suffix"]),
            labels=labels,
            value=p["value"],
            counter=shape["gauge"].isNull() & (shape["kind"] == KINDS[0]),
        )

    return let(named(F.map_filter(shape["tags"], lambda k, _: ~k.isin("host", "service"))), of_tags)
