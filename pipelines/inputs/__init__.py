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
from pipelines.inputs.fields import HEARTBEAT, LABELS, checked_lines, checked_points, good_and_one_bad, let
from pipelines.masking import template_of

__all__ = ["log_lines", "telemetry_points"]

# the members of a record that tell the forms apart, and most of what is read of them
_COMMON = (
    "`@timestamp`:string,`host.name`:string,host:struct<name:string,hostname:string>,"
    "`service.name`:string,service:struct<name:string,type:string>,agent:struct<hostname:string,type:string>,"
    "`event.dataset`:string,event:struct<dataset:string,module:string,original:string>,heartbeat:string"
)
POINT_SHAPE = (
    f"struct<{_COMMON},`metric.name`:string,`metric.value`:string,`metric.type`:string,"
    f"metric:struct<name:string,value:string,type:string>,labels:{LABELS},metricset:string,ecs:string,"
    f"timestamp:string,name:string,value:string,tags:{LABELS},fields:{telegraf.FIELDS},"
    f"metrics:{telegraf.METRICS},resourceMetrics:{otlp.METRICS}>"
)
LINE_SHAPE = (
    f"struct<{_COMMON},message:string,`log.level`:string,`log.file.path`:string,"
    f"log:struct<level:string,file:struct<path:string>>,resourceLogs:{otlp.LOGS}>"
)

_POINT_ROW = {"event_time": "timestamp", "series": "string", "host": "string", "value": "double"}
_LINE_ROW = {"event_time": "timestamp", "host": "string", "service": "string", "level": "string", "message": "string"}


def telemetry_points(raw: DataFrame) -> DataFrame:
    """Add `event_time`, `series`, `host`, `value`, `reason`: a row per point of every record.

    The record's bytes are renamed to `raw_value`, because `value` is the number. `reason` is null where the point is good;
    else it says why not, and `series` is null. A record with points that cannot be read has one such row beside its good
    ones. A heartbeat is one row of series and host `heartbeat` at its append time.
    """
    read = _parsed(raw, canonical.FLAT_POINT)
    flat, quick, time = F.col("__flat"), F.col("__quick"), F.col("__time")
    read = read.withColumn("__quick", canonical.quick_series(F.col("raw_value").cast("string"), flat, time))
    labelled = F.struct(
        time.alias("event_time"),
        canonical.with_labels(quick, flat["labels"]).alias("series"),
        flat["host.name"].alias("host"),
        flat["metric.value"].alias("value"),
        F.lit(None).cast("string").alias("reason"),
    )
    rows = _rows(POINT_SHAPE, lambda text, shape: checked_points(_points(text, shape)), _POINT_ROW)
    read = read.select(
        *_columns(raw),
        time,
        quick,
        flat,
        F.explode_outer(F.when(quick.isNull(), rows).when(flat["labels"].isNotNull(), F.array(labelled))).alias(
            "__row"
        ),
    )
    row = F.col("__row")
    return read.select(
        *_columns(raw),
        F.when(row.isNull(), time).otherwise(row["event_time"]).alias("event_time"),
        F.when(row.isNull(), quick).otherwise(row["series"]).alias("series"),
        F.when(row.isNull(), flat["host.name"]).otherwise(row["host"]).alias("host"),
        F.when(row.isNull(), flat["metric.value"]).otherwise(row["value"]).alias("value"),
        row["reason"].alias("reason"),
    )


def log_lines(raw: DataFrame) -> DataFrame:
    """Add `event_time`, `host`, `service`, `level`, `message`, `template`, `reason`: a row per log line of every record.

    `raw_value` and `reason` as in `telemetry_points`. A heartbeat is one row of host `heartbeat` at its append time.
    """
    read = _parsed(raw, canonical.FLAT_LINE)
    quick = canonical.quick_line(F.col("raw_value").cast("string"), F.col("__flat"), F.col("__time"))
    read = read.withColumn("__quick", quick)
    rows = _rows(LINE_SHAPE, lambda text, shape: checked_lines(_lines(text, shape)), _LINE_ROW)
    row = F.explode_outer(F.when(F.col("__quick").isNull(), rows)).alias("__row")
    read = read.select(*_columns(raw), "__quick", row)
    read = read.withColumn("__line", F.coalesce("__quick", "__row"))
    return read.select(
        *_columns(raw),
        *(F.col("__line")[name].alias(name) for name in _LINE_ROW),
        template_of(F.col("__line.message")).alias("template"),
        F.col("__line.reason").alias("reason"),
    )


def _columns(raw: DataFrame) -> list[Column]:
    return [F.col("raw_value" if name == "value" else f"`{name}`") for name in raw.columns]


def _parsed(raw: DataFrame, flat: str) -> DataFrame:
    """Add `__flat`, the members of a flat record, and `__time`, its event time; null where they are not there."""
    # Always true, which the optimizer cannot see: it would copy all that follows below a union of many partitions, and
    # filters on what is parsed below the parser, so that records are parsed twice.
    here = F.spark_partition_id() >= 0
    read = raw.withColumnRenamed("value", "raw_value")
    read = read.withColumn("__flat", F.from_json(F.when(here, F.col("raw_value").cast("string")), flat))
    return read.withColumn("__time", canonical.quick_time(F.col("__flat")["@timestamp"]))


def _points(text: Column, shape: Column) -> Column:
    """The points of a record by its form; null where there is none in it."""
    metric = F.struct(*(shape[name].alias(name) for name in ("name", "tags", "fields", "timestamp")))
    ecs_parts = (shape["metricset"], shape["event"]["dataset"], shape["event"]["module"], shape["event.dataset"])
    return (
        F.when(shape["resourceMetrics"].isNotNull(), otlp.points(shape["resourceMetrics"]))
        .when(
            shape["metrics"].isNotNull() | shape["fields"].isNotNull() & shape["name"].isNotNull(),
            telegraf.points(F.coalesce(shape["metrics"], F.array(metric))),
        )
        .when(shape["name"].isNotNull() & shape["value"].isNotNull(), prometheus.points(shape))
        .when(
            F.coalesce(*ecs_parts, shape["ecs"]).isNotNull()
            & F.coalesce(shape["metric.name"], shape["metric"]["name"]).isNull(),
            ecs.points(text, shape, canonical.host_of(shape), canonical.service_of(shape)),
        )
        .when(shape.isNotNull(), canonical.points(shape))
    )


def _lines(text: Column, shape: Column) -> Column:
    """The lines of a record by its form; null where there is none in it."""
    return (
        F.when(shape["resourceLogs"].isNotNull(), otlp.lines(shape["resourceLogs"]))
        .when(shape.isNotNull(), canonical.lines(shape))
        .otherwise(syslog.lines(text, F.col("timestamp")))
    )


def _rows(form: str, read: Callable[[Column, Column], Column], schema: dict[str, str]) -> Column:
    """The rows of a record that is not plainly good: at least one. `read` makes them of a record's text and its shape."""

    def row(reason: Column, **given: Column) -> Column:
        fields = [given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in schema.items()]
        return F.array(F.struct(*fields, reason.cast("string").alias("reason")))

    def of_shape(text: Column, shape: Column) -> Column:
        beat = row(F.lit(None), event_time=F.col("timestamp"), host=F.lit(HEARTBEAT), series=F.lit(HEARTBEAT))
        none = row(_record_problem(text, shape))
        some = let(good_and_one_bad(read(text, shape)), lambda rows: F.when(F.size(rows) > 0, rows).otherwise(none))
        return F.when(shape["heartbeat"] == "true", beat).otherwise(some)

    def of_text(text: Column) -> Column:
        # inside an array, because from_json reads one value and ignores what follows: a second one would vanish silently
        values = F.from_json(F.concat(F.lit("["), text, F.lit("]")), f"array<{form}>")
        one = let(values, lambda found: F.when(F.size(found) == 1, F.get(found, F.lit(0))))
        return let(one, lambda shape: of_shape(text, shape))

    given = F.col("raw_value").cast("string")
    return let(F.when(F.is_valid_utf8(given), given), of_text)


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
