"""Input events, in the forms that agents write them -> points and lines. Forms are told apart by their shape.

`telemetry_points` and `log_lines` take Kafka's columns, keep them all, and add their own. They hold no aggregation, join or
shuffle, so they run on streams as on tables, and no record makes them raise: what cannot be read becomes a row with a
`reason`. See docs/inputs.md for the forms and the reasons.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.inputs import canonical, ecs, otlp, prometheus, syslog, telegraf
from pipelines.inputs.fields import HEARTBEAT, LINE, POINT, checked_lines, checked_points, good_and_one_bad, let
from pipelines.masking import template_of

__all__ = ["log_lines", "telemetry_points"]

# the members of a record that tell the forms apart; what is an object or array stays JSON text
_TEXTS = (
    "@timestamp host.name service.name metric.name metric.value metric.type log.level log.file.path event.dataset "
    "timestamp host service metric labels log message event agent metricset ecs "
    "name value tags fields metrics resourceMetrics resourceLogs heartbeat"
).split()
SHAPE = "struct<" + ",".join(f"`{name}`:string" for name in _TEXTS) + ">"

_POINT_ROW = {"event_time": "timestamp", "series": "string", "host": "string", "value": "double"}
_LINE_ROW = {"event_time": "timestamp", "host": "string", "service": "string", "level": "string", "message": "string"}


def telemetry_points(raw: DataFrame) -> DataFrame:
    """Add `event_time`, `series`, `host`, `value`, `reason`: a row per point of every record.

    The record's bytes are renamed to `raw_value`, because `value` is the number. `reason` is null where the point is good;
    else it says why not, and the others are null. A record with points that cannot be read has one such row beside its good
    ones. A heartbeat is one row of series and host `heartbeat` at its append time.
    """
    read = _parsed(raw, canonical.FLAT_POINT)
    flat = F.col("__flat")
    quick = canonical.quick_series(F.col("raw_value").cast("string"), flat, F.col("__time"))
    read = read.withColumn("__quick", quick)
    rows = _rows(lambda text, shape: checked_points(_points(text, shape)), {"series": F.lit(HEARTBEAT)}, _POINT_ROW)
    kept = _columns(raw)
    read = read.select(
        *kept,
        F.when(F.col("__quick").isNotNull(), F.col("__time")).alias("__time"),
        canonical.with_labels(F.col("__quick"), flat["labels"]).alias("__quick"),
        flat["host.name"].alias("__host"),
        flat["metric.value"].alias("__value"),
        F.when(F.col("__quick").isNull(), rows).alias("__rows"),
    )
    read = read.withColumn("__row", F.explode_outer("__rows"))
    row, is_quick = F.col("__row"), F.col("__quick").isNotNull()
    return read.select(
        *kept,
        F.coalesce("__time", row["event_time"]).alias("event_time"),
        F.coalesce("__quick", row["series"]).alias("series"),
        F.when(is_quick, F.col("__host")).otherwise(row["host"]).alias("host"),
        F.when(is_quick, F.col("__value")).otherwise(row["value"]).alias("value"),
        row["reason"].alias("reason"),
    )


def log_lines(raw: DataFrame) -> DataFrame:
    """Add `event_time`, `host`, `service`, `level`, `message`, `template`, `reason`: a row per log line of every record.

    `raw_value` and `reason` as in `telemetry_points`. A heartbeat is one row of host `heartbeat` at its append time.
    """
    read = _parsed(raw, canonical.FLAT_LINE)
    quick = canonical.quick_line(F.col("raw_value").cast("string"), F.col("__flat"), F.col("__time"))
    read = read.withColumn("__quick", quick)
    rows = _rows(lambda text, shape: checked_lines(_lines(text, shape, F.col("timestamp"))), {}, _LINE_ROW)
    kept = _columns(raw)
    read = read.select(*kept, "__quick", F.when(F.col("__quick").isNull(), rows).alias("__rows"))
    read = read.withColumn("__row", F.explode_outer("__rows"))
    read = read.withColumn("__line", F.coalesce("__quick", "__row"))
    return read.select(
        *kept,
        *(F.col("__line")[name].alias(name) for name in _LINE_ROW),
        template_of(F.col("__line.message")).alias("template"),
        F.col("__line.reason").alias("reason"),
    )


def _columns(raw: DataFrame) -> list[Column]:
    return [F.col("raw_value" if name == "value" else f"`{name}`") for name in raw.columns]


def _parsed(raw: DataFrame, flat: str) -> DataFrame:
    """Add `__flat`, the members of a flat record, and `__time`, its event time; null where they are not there."""
    renamed = raw.withColumnRenamed("value", "raw_value")
    read = renamed.withColumn("__flat", F.from_json(F.col("raw_value").cast("string"), flat))
    return read.withColumn("__time", canonical.quick_time(F.col("__flat")["@timestamp"]))


def _one(text: Column, record: str) -> Column:
    # inside an array, because from_json reads one value and ignores what follows: a second one would vanish silently
    return F.from_json(F.concat(F.lit("["), text, F.lit("]")), f"array<{record}>")


def _shape(text: Column) -> Column:
    return let(_one(text, SHAPE), lambda many: F.when(F.size(many) == 1, F.get(many, F.lit(0))))


def _points(text: Column, shape: Column) -> Column:
    """array<POINT> of a record by its form; null where there is no form or no point in it."""
    form = (
        F.when(shape["resourceMetrics"].isNotNull(), otlp.points(shape["resourceMetrics"]))
        .when(
            shape["metrics"].isNotNull() | (shape["name"].isNotNull() & shape["fields"].isNotNull()),
            telegraf.points(text, shape["metrics"]),
        )
        .when(
            shape["name"].isNotNull() & shape["value"].isNotNull() & shape["timestamp"].isNotNull(),
            prometheus.points(shape["name"], shape["value"], shape["timestamp"], shape["labels"]),
        )
        .when(
            F.coalesce(shape["metricset"], shape["event"], shape["event.dataset"], shape["ecs"]).isNotNull()
            & F.coalesce(shape["metric.name"], shape["metric.value"]).isNull(),
            ecs.points(text, shape),
        )
        .when(shape.isNotNull(), canonical.points(shape))
    )
    return form.cast(f"array<{POINT}>")


def _lines(text: Column, shape: Column, arrival: Column) -> Column:
    """array<LINE> of a record by its form; null where there is no form or no line in it."""
    form = (
        F.when(shape["resourceLogs"].isNotNull(), otlp.lines(shape["resourceLogs"]))
        .when(shape.isNotNull(), canonical.lines(shape))
        .otherwise(syslog.lines(text, arrival))
    )
    return form.cast(f"array<{LINE}>")


def _rows(read: Callable[[Column, Column], Column], heartbeat: dict[str, Column], schema: dict[str, str]) -> Column:
    """The rows of a record that is not plainly good: at least one. `read` makes them of a record's text and `SHAPE`."""

    def row(reason: Column, **known: Column) -> Column:
        fields = [known.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in schema.items()]
        return F.array(F.struct(*fields, reason.cast("string").alias("reason")))

    def of_shape(text: Column, shape: Column) -> Column:
        beat = row(F.lit(None), event_time=F.col("timestamp"), host=F.lit(HEARTBEAT), **heartbeat)
        some = let(
            good_and_one_bad(read(text, shape)),
            lambda rows: F.when(F.size(rows) > 0, rows).otherwise(row(_record_problem(text, shape))),
        )
        return F.when(shape["heartbeat"] == "true", beat).otherwise(some)

    bytes_ = F.col("raw_value").cast("string")
    return let(
        F.when(F.is_valid_utf8(bytes_), bytes_),
        lambda text: let(_shape(text), lambda shape: of_shape(text, shape)),
    )


def _record_problem(text: Column, shape: Column) -> Column:
    """Why a record has neither points nor lines."""
    values = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    return (
        F.when(F.coalesce(F.octet_length("raw_value"), F.lit(0)) == 0, "empty value")
        .when(text.isNull(), "not UTF-8")
        .when(shape.isNotNull(), "nothing to read in a record of a known form")
        .when(values.isNull(), "not JSON")
        .when(values > 1, "more than one JSON value")
        .otherwise("not a JSON object")
    )
