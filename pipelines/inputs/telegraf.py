"""Telegraf, `data_format = "json"`: one metric, or a batch of them. Numeric fields become points `name.field`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, known, point

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
    tags = metric["tags"]

    def of_field(field: Column) -> Column:
        name = F.concat(metric["name"], F.lit("."), field["key"])
        return point(
            at=metric["timestamp"],
            host=tags["host"],
            service=tags["service"],
            metric=name,
            labels=F.map_filter(tags, lambda k, _: ~k.isin("host", "service")),
            value=field["value"].try_cast("string"),
            counter=name.rlike(_TOTALS),
        )

    return F.transform(F.filter(F.map_entries(metric["fields"]), lambda f: is_number(f["value"])), of_field)


def is_number(value: Column) -> Column:
    """Whether a variant is a JSON number (and not text that looks like one)."""
    return F.schema_of_variant(value).rlike("^(BIGINT|DOUBLE|DECIMAL|FLOAT)")
