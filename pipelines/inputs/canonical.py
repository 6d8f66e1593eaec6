"""The canonical forms: flat keys (`"host.name": ...`) or nested (`"host": {"name": ...}`), one point or line a record.

Flat records are the hot path: `quick_point` and `quick_line` read them with one parse, without lambdas, so that Spark
compiles them; whatever is not plainly good there is null and is read once more, slowly and with reasons, by `points`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import (
    CONTROL,
    LABELS_TYPE,
    MAX_COUNTER,
    MAX_GAUGE,
    MAX_MESSAGE,
    MAX_NAME,
    first_of,
    in_bounds,
    level_name,
    line,
    point,
    series_name,
)

FLAT_POINT = (
    "struct<`@timestamp`:string,`host.name`:string,`service.name`:string,`metric.name`:string,`metric.value`:double,"
    "`metric.type`:string,labels:string,heartbeat:string>"
)
FLAT_LINE = "struct<`@timestamp`:string,`host.name`:string,`service.name`:string,`log.level`:string,message:string,heartbeat:string>"


def quick_time(at: Column) -> Column:
    """The timestamp of ISO text with a full date and a time; null for anything else."""
    # a cast alone would take "12:30:00" as today
    dated = (F.octet_length(at) >= 19) & (F.substring(at, 5, 1) == "-") & (F.substring(at, 8, 1) == "-")
    return F.when(dated, at.try_cast("timestamp"))


def _clean(name: Column) -> Column:
    return (F.octet_length(name) > 0) & (F.octet_length(name) <= MAX_NAME)


def quick_series(text: Column, record: Column, time: Column) -> Column:
    """The series of a plainly good flat record without labels, else null."""
    host, service, metric = record["host.name"], F.coalesce(record["service.name"], F.lit("")), record["metric.name"]
    counter = F.coalesce(record["metric.type"] == "counter", F.lit(False))
    size = F.abs(record["metric.value"])  # NaN is above every number
    good = (
        in_bounds(time)
        & _clean(host)
        & _clean(metric)
        & (F.octet_length(service) <= MAX_NAME)
        & (size <= F.when(counter, MAX_COUNTER).otherwise(MAX_GAUGE))
        & record["labels"].isNull()
        & record["heartbeat"].isNull()
        & ~(F.contains(text, F.lit("\\")) & F.concat(host, service, metric).rlike(CONTROL))
        & ~F.contains(F.concat(host, service, metric), F.lit("\x7f"))
    )
    return F.when(good, series_name(counter, host, service, metric))


def quick_line(text: Column, record: Column, time: Column) -> Column:
    """The row of a plainly good flat record, else null."""
    host, service, message = record["host.name"], F.coalesce(record["service.name"], F.lit("")), record["message"]
    names = F.concat(host, service)
    good = (
        in_bounds(time)
        & _clean(host)
        & (F.octet_length(service) > 0)
        & (F.octet_length(service) <= MAX_NAME)
        & (F.octet_length(message) > 0)
        & record["log.level"].isNotNull()
        & record["heartbeat"].isNull()
        & ~(F.contains(text, F.lit("\\")) & names.rlike(CONTROL))
        & ~F.contains(names, F.lit("\x7f"))
    )
    row = F.struct(
        time.alias("event_time"),
        host.alias("host"),
        service.alias("service"),
        level_name(record["log.level"]).alias("level"),
        F.substring(message, 1, MAX_MESSAGE).alias("message"),
        F.lit(None).cast("string").alias("reason"),
    )
    return F.when(good, row)


def points(shape: Column) -> Column:
    """A record's `SHAPE` -> array<POINT> of one."""
    return F.array(
        point(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=service_of(shape),
            metric=first_of(shape["metric.name"], part(shape["metric"], "name")),
            labels=F.from_json(shape["labels"], LABELS_TYPE),
            value=F.coalesce(shape["metric.value"], part(shape["metric"], "value")),
            counter=F.lower(first_of(shape["metric.type"], part(shape["metric"], "type"))) == "counter",
        )
    )


def lines(shape: Column) -> Column:
    """A record's `SHAPE` -> array<LINE> of one. Filebeat's documents are the same, with more to fall back on."""
    path = first_of(shape["log.file.path"], F.get_json_object(shape["log"], "$.file.path"))
    file = F.regexp_extract(path, r"([^/\\.]+)[^/\\]*$", 1)
    dataset = first_of(shape["event.dataset"], part(shape["event"], "dataset"))
    return F.array(
        line(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=first_of(service_of(shape), dataset, file, part(shape["agent"], "type")),
            level=first_of(shape["log.level"], part(shape["log"], "level")),
            message=first_of(shape["message"], part(shape["event"], "original")),
        )
    )


def host_of(shape: Column) -> Column:
    """The host's name, flat, nested, or as plain text."""
    plain = F.when(~shape["host"].startswith("{"), shape["host"])
    nested = [part(shape["host"], "name"), part(shape["host"], "hostname"), part(shape["agent"], "hostname")]
    return first_of(shape["host.name"], *nested, plain)


def service_of(shape: Column) -> Column:
    """The service's name, flat, nested, or as plain text; null where there is none."""
    plain = F.when(~shape["service"].startswith("{"), shape["service"])
    return first_of(shape["service.name"], part(shape["service"], "name"), plain)


def part(document: Column, key: str) -> Column:
    """One member of a JSON object given as text; null where it is no object or has no such member."""
    return F.get_json_object(document, f"$.{key}")
