"""Telegraf, `data_format = "json"`: one metric, or a batch under `metrics`. Numeric fields become points `name.field`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS_TYPE, NO_POINTS, first_of, point

METRIC = f"struct<name:string,tags:{LABELS_TYPE},fields:map<string,variant>,timestamp:string>"

# Telegraf's JSON does not say what is a running total; these of its own plugins are
_TOTALS = (
    r"^(net\.(bytes|packets|err|drop)_.*|diskio\.(reads|writes|.*_bytes|.*_time|merged_.*)|cpu\.time_.*"
    r"|kernel\.(context_switches|interrupts|processes_forked|boot_time)|.*_(total|count))$"
)


def points(document: Column, batch: Column) -> Column:
    """The record's text and the text of its `metrics` -> array<POINT>."""
    metrics = F.coalesce(F.from_json(batch, f"array<{METRIC}>"), F.array(F.from_json(document, METRIC)))
    known = F.filter(metrics, lambda m: m.isNotNull())
    return F.flatten(F.transform(known, _of_metric))


def _of_metric(metric: Column) -> Column:
    def of_field(field: Column) -> Column:
        name = F.concat(metric["name"], F.lit("."), field["key"])
        return point(
            at=metric["timestamp"],
            host=first_of(metric["tags"]["host"], metric["tags"]["hostname"]),
            service=metric["tags"]["service"],
            metric=name,
            labels=F.map_filter(metric["tags"], lambda k, _: ~k.isin("host", "hostname", "service")),
            value=field["value"].try_cast("string"),
            counter=name.rlike(_TOTALS),
        )

    fields = F.filter(F.map_entries(metric["fields"]), lambda f: is_number(f["value"]))
    return F.coalesce(F.transform(fields, of_field), F.array().cast(NO_POINTS))


def is_number(value: Column) -> Column:
    """Whether a variant is a JSON number (and not text that looks like one)."""
    return F.schema_of_variant(value).rlike("^(BIGINT|DOUBLE|DECIMAL|FLOAT)")
