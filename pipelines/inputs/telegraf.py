"""Telegraf, `data_format = "json"`: one metric, or a batch of them. Numeric fields become points `name.field`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, cut, few, known, let, point

FIELDS = "map<string,variant>"
METRICS = f"array<struct<name:string,tags:{LABELS},fields:{FIELDS},timestamp:string>>"

# Telegraf's JSON does not say what is a running total; these of its own plugins are
_TOTALS = (
    r"^(net\.(bytes|packets|err|drop)_.*|diskio\.(reads|writes|.*_bytes|.*_time|merged_.*)|cpu\.time_.*"
    r"|kernel\.(context_switches|interrupts|processes_forked)|.*_(total|count))$"
)


def points(metrics: Column) -> Column:
    """`METRICS` -> points."""
    return F.flatten(known(F.transform(known(metrics), _of_metric)))


def _of_metric(metric: Column) -> Column:
    tags = let(metric["tags"], lambda all_tags: F.transform_values(all_tags, lambda _, value: cut(value)))
    return let(tags, lambda known_tags: let(_labels(known_tags), lambda labels: _of_fields(metric, known_tags, labels)))


def _labels(tags: Column) -> Column:
    return let(F.map_filter(tags, lambda k, _: ~k.isin("host", "service")), few)


def _of_fields(metric: Column, tags: Column, labels: Column) -> Column:
    def of_field(field: Column) -> Column:
        return let(F.concat(cut(metric["name"]), F.lit("."), cut(field["key"])), lambda name: of_named(name, field))

    def of_named(name: Column, field: Column) -> Column:
        return point(
            at=metric["timestamp"],
            host=tags["host"],
            service=tags["service"],
            metric=name,
            labels=labels,
            value=field["value"].try_cast("string"),
            counter=name.rlike(_TOTALS),
        )

    return F.transform(F.filter(F.map_entries(metric["fields"]), lambda f: is_number(f["value"])), of_field)


def is_number(value: Column) -> Column:
    """Whether a variant is a JSON number (and not text that looks like one)."""
    # the schema of an array is that of all its items in one: which takes long for many objects that differ
    array, members = (F.try_variant_get(value, "$", kind) for kind in ("array<variant>", "map<string,variant>"))
    nested = array.isNotNull() | members.isNotNull()
    return F.when(nested, False).otherwise(F.schema_of_variant(value).rlike("^(BIGINT|DOUBLE|DECIMAL|FLOAT)"))
