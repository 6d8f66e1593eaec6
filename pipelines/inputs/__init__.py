"""Parses input events, in all forms in which agents write them, into points and lines. The shape of a record decides which form it has.

`telemetry_points` and `log_lines` take the columns of a Kafka source, keep them all, and add their own. They contain no aggregation, join or
shuffle, so they run on streams as on tables. No record makes them raise: one that cannot be read becomes a row with a `reason`. docs/inputs.md has
the forms, docs/refused-records.md the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, StructField, StructType, TimestampType

from models.records.records import Heartbeat
from pipelines.inputs import canonical, collectd, ecs, otlp, prometheus, shippers, syslog, telegraf, vector
from pipelines.inputs.changes import change_lines
from pipelines.inputs.fields import (
    HEARTBEAT,
    check_lines,
    check_points,
    good_and_least_refused,
    let,
    level_of,
    line_record,
    point_record,
    unquote,
)
from pipelines.inputs.labels import label_lines
from pipelines.inputs.masking import template_of
from pipelines.inputs.members import Members, Paths
from pipelines.inputs.rules import rule_lines
from pipelines.spark_internals import precompile

__all__ = ["change_lines", "label_lines", "log_lines", "rule_lines", "telemetry_points"]

# what is read of records, by paths (`members`)
OF_POINTS: Paths = (
    canonical.COMMON
    | canonical.OF_POINTS
    | ecs.MEMBERS
    | otlp.OF_POINTS
    | telegraf.MEMBERS
    | prometheus.MEMBERS
    | vector.MEMBERS
    | collectd.MEMBERS
)
OF_LINES: Paths = shippers.MEMBERS | canonical.COMMON | canonical.OF_LINES | otlp.OF_LINES

# (event time, reason why the row cannot be read) -> null for a row that is not refused, else a struct. Of several the least one is reported.
Refusal = Callable[[Column, Column], Column]
Make = Callable[["Refusal"], Column]

# of each Spark context, by what made it
_MADE: WeakKeyDictionary[SparkContext, dict[tuple[Make, Refusal | None], Column]] = WeakKeyDictionary()

# what the rows of a record are made of
_RECORD = StructType(
    [
        StructField("raw_value", BinaryType()),
        StructField("timestamp", TimestampType()),
        StructField("__left", BooleanType()),
    ]
)
_POINT_ROW = {"event_time": "timestamp", "series": "string", "host": "string", "value": "double"}
_LINE_ROW = {"event_time": "timestamp", "host": "string", "service": "string", "level": "string", "message": "string"}


def refuse_unreadable(event_time: Column, reason: Column) -> Column:
    """Refuse rows that cannot be read, and no others."""
    return F.when(reason.isNotNull(), F.struct(reason))


def telemetry_points(raw: DataFrame, done: Column | None = None, refusal: Refusal = refuse_unreadable) -> DataFrame:
    """Add `event_time`, `series`, `host`, `value`, `reason`: a row per point of every record.

    Rows that are `done` are not records (they are sums already) and pass through, with nulls in these columns.

    `value` becomes the number, and the record's bytes `raw_value`. `reason` is null for a good point; else it says why the point cannot be read,
    and `series` is null. Of the points of a record for which there is a `refusal`, one row is kept, the one with the least refusal. Only that row,
    and the row of a flat record, have `raw_value`, as Spark would copy the bytes for each of up to ten thousand rows. A heartbeat is one row with
    `heartbeat` as series and host, at its append time.
    """
    flat = F.col("__flat")
    read = _parse_flat(raw, canonical.flat_point).select(
        *_without_value(raw),
        "raw_value",
        F.timestamp_micros(flat["event_time"]).alias("__time"),
        flat["series"].alias("__series"),
        flat["value"].alias("__value"),
    )
    series = F.col("__series")
    read = _mark_remaining(read, series.isNull() if done is None else series.isNull() & ~done)
    # in the generator and not in a column of its own: that is planned faster, and nothing is pushed through it
    read = read.withColumn("__row", F.explode_outer(_cached_expression(raw.sparkSession, _point_rows, refusal)))
    row, plain = F.col("__row"), F.col("__row").isNull()
    host = unquote(F.element_at(F.split(series, "/", 3), 2))
    return read.select(
        *_input_columns(raw),
        F.when(plain, F.col("__time")).otherwise(row["event_time"]).alias("event_time"),
        F.when(plain, series).otherwise(row["series"]).alias("series"),
        F.when(plain, host).otherwise(row["host"]).alias("host"),
        F.when(plain, F.col("__value")).otherwise(row["value"]).alias("value"),
        row["reason"].alias("reason"),
    )


def log_lines(raw: DataFrame, done: Column | None = None, refusal: Refusal = refuse_unreadable) -> DataFrame:
    """Add `event_time`, `host`, `service`, `level`, `message`, `template`, `reason`: a row per log line of every record.

    `done`, `raw_value`, `reason` and `refusal` as in `telemetry_points`. A heartbeat is one row of host `heartbeat` at its append time.
    """
    flat = F.col("__flat")
    left = flat.isNull() if done is None else flat.isNull() & ~done
    read = _mark_remaining(_parse_flat(raw, canonical.flat_line), left)
    read = read.withColumn("__row", F.explode_outer(_cached_expression(raw.sparkSession, _line_rows, refusal)))
    row, plain = F.col("__row"), F.col("__row").isNull()
    own = {name: flat[name] for name in _LINE_ROW}
    own |= {"event_time": F.timestamp_micros(flat["event_time"]), "level": level_of(flat["level"], flat["message"])}
    message = F.when(plain, flat["message"]).otherwise(row["message"])
    return read.select(
        *_input_columns(raw),
        *(F.when(plain, own[name]).otherwise(row[name]).alias(name) for name in _LINE_ROW),
        template_of(message).alias("template"),
        row["reason"].alias("reason"),
    )


def _point_rows(refusal: Refusal) -> Column:
    return _rows(point_record, lambda record: check_points(_points(record)), _POINT_ROW, refusal)


def _line_rows(refusal: Refusal) -> Column:
    return _rows(line_record, lambda record: check_lines(_lines(record)), _LINE_ROW, refusal)


def _cached_expression(spark: SparkSession, make: Make, refusal: Refusal) -> Column:
    """The column of `make(refusal)`, made and optimized once for a Spark context: it takes ten thousand calls to the JVM, that is seconds."""
    made = _MADE.setdefault(spark.sparkContext, {})
    if (make, refusal) not in made:
        made[make, refusal] = precompile(spark, make(refusal), _RECORD)
    return made[make, refusal]


def _without_value(raw: DataFrame) -> list[Column]:
    return [F.col(f"`{name}`") for name in raw.columns if name != "value"]


def _input_columns(raw: DataFrame) -> list[Column]:
    """The columns that came in; `raw_value` are the bytes of the row, else of the flat record."""
    return [*_without_value(raw), F.coalesce(F.col("__row")["raw_value"], F.col("__bytes")).alias("raw_value")]


def _parse_flat(raw: DataFrame, flat: Callable[[Column], Column]) -> DataFrame:
    """The record's bytes as `raw_value`, and `__flat`: the record parsed as a flat one, null where it is not."""
    # Always true, which the optimizer cannot see: it would copy all that follows below a union of many partitions, and
    # filters on what is parsed below the parser, so that records are parsed twice.
    here = F.spark_partition_id() >= 0
    value = F.col("value")
    return raw.select(*_without_value(raw), value.alias("raw_value"), flat(F.when(here, value)).alias("__flat"))


def _points(record: Column) -> Column:
    """The points of a `point_record`, by its form; null if it has no known form."""
    members = Members(record["members"])
    named = members["name"].isNotNull()
    # what has a message is a log line
    document = (
        F.coalesce(*(members[name] for name in ("metricset", "event.dataset", "event.module", "ecs"))).isNotNull()
        & F.coalesce(members["metric.name"], members["message"]).isNull()
    )

    def let_members(points: Callable[[Members], Column], where: Column) -> Column:
        return let(record["members"], lambda found: points(Members(found)), where)

    return F.coalesce(
        otlp.points(members),
        collectd.points(members),
        telegraf.points(members),
        let_members(prometheus.points, named & members["value"].isNotNull()),
        let_members(vector.points, named & members["kind"].isin(*vector.KINDS)),
        let(
            record["json"],
            lambda text: ecs.points(text, members, canonical.host_of(members)),
            document,
        ),
        let_members(canonical.points, record["members"].isNotNull()),
    )


def _lines(record: Column) -> Column:
    """The lines of a `line_record`, by its form; null if it has no known form."""
    members = Members(record["members"])
    return F.coalesce(
        otlp.lines(members),
        let(record["members"], lambda found: canonical.lines(Members(found)), record["members"].isNotNull()),
        syslog.lines(record["line"], F.col("timestamp")),
    )


def _mark_remaining(read: DataFrame, left: Column) -> DataFrame:
    """Add `__left`, whether Spark's functions have to parse a record, and `__bytes`, the bytes of all others, which are one row each."""
    return read.withColumn("__left", left).withColumn("__bytes", F.when(~F.col("__left"), F.col("raw_value")))


def _rows(
    text: Callable[[Column], Column], read: Callable[[Column], Column], schema: dict[str, str], refusal: Refusal
) -> Column:
    """The rows of a record that is `__left`, at least one. `text` extracts its text and members, of which `read` makes rows."""
    beat = {"event_time": F.col("timestamp"), "host": F.lit(HEARTBEAT), "series": F.lit(HEARTBEAT)}

    def of_record(record: Column) -> Column:
        nothing = F.coalesce(record["reason"], F.lit("nothing to read in a record of a known form"))
        none = F.array(_struct(schema, reason=nothing))
        found = good_and_least_refused(read(record), refusal, F.col("raw_value"))
        some = let(found, lambda rows: F.when(F.size(rows) > 0, rows))
        is_beat = record["members"]["record"] == Heartbeat.KIND
        heartbeat = F.when(is_beat, F.array(_struct(schema, *map(beat.get, schema))))
        return F.coalesce(heartbeat, some, none)

    return let(text(F.col("raw_value")), of_record, F.col("__left"))


def _struct(schema: dict[str, str], *given: Column | None, reason: Column | None = None) -> Column:
    """A row: the given columns in the order of the schema, null for what is missing, and the bytes where there is a reason."""
    null = F.lit(None)
    columns = [null if c is None else c for c in given] + [null] * (len(schema) - len(given))
    fields = [c.cast(kind).alias(name) for c, (name, kind) in zip(columns, schema.items(), strict=True)]
    bytes_of = (null if reason is None else F.col("raw_value")).cast("binary").alias("raw_value")
    return F.struct(*fields, (null if reason is None else reason).cast("string").alias("reason"), bytes_of)
