"""The canonical forms: flat keys (`"host.name": ...`) or nested (`"host": {"name": ...}`), one point or line a record.

Flat records are the hot path: `quick_point` and `quick_line` read them with one parse, without lambdas, so that Spark
compiles them; whatever is not plainly good there is null and is read once more, slowly and with reasons, by `points`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import (
    CONTROL,
    LABELS,
    MAX_COUNTER,
    MAX_GAUGE,
    MAX_LABELS,
    MAX_MESSAGE,
    MAX_NAME,
    in_bounds,
    labels_text,
    level_name,
    line,
    point,
    quoted,
)

FLAT_POINT = (
    "struct<`@timestamp`:string,`host.name`:string,`service.name`:string,`metric.name`:string,`metric.value`:double,"
    "`metric.type`:string,labels:string>"
)
FLAT_LINE = "struct<`@timestamp`:string,`host.name`:string,`service.name`:string,`log.level`:string,message:string>"


def quick_time(at: Column) -> Column:
    """The timestamp of ISO text with a date, a `T` and a time; null for anything else."""
    # a cast alone would take "12:30:00" as today; instr stops at the first hit, which is cheaper than substrings
    dated = (F.instr(at, "-") == 5) & (F.instr(at, "T") == 11)
    return F.when(dated, at.try_cast("timestamp"))


def ends_there(text: Column, labels: Column | None = None) -> Column:
    """Whether nothing follows a JSON object that `from_json` could read; that reads one value and ignores the rest.

    An object whose only `}` is its last byte, or which has one more for its labels, needs no second look.
    """
    before = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1).cast("string")
    closed = F.when(~text.endswith("}"), False).when(~F.contains(before, F.lit("}")), True)
    if labels is not None:
        around = F.octet_length(F.substring_index(before, "}", 1)) + F.octet_length(F.substring_index(before, "}", -1))
        closed = closed.when(labels.startswith("{") & (around == F.octet_length(before) - 1), True)
    return closed.otherwise(F.coalesce(F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1, F.lit(False)))


def _fits(name: Column) -> Column:
    return (F.octet_length(name) > 0) & (F.octet_length(name) <= MAX_NAME)


def _clean(text: Column, names: Column) -> Column:
    """No control characters, and nothing that stands for bytes that were not UTF-8."""
    # JSON can only write a control character below 0x20 with a backslash; U+0080..U+009F start with the byte C2
    escaped = F.when(F.contains(text, F.lit("\\")), ~names.rlike(CONTROL)).otherwise(True)
    odd = F.contains(names, F.lit("\x7f")) | F.contains(names, F.lit("\ufffd"))
    return escaped & ~odd & ~F.contains(names.cast("binary"), F.lit(b"\xc2"))


def quick_series(text: Column, record: Column, time: Column) -> Column:
    """The series of a plainly good flat record, its labels left out, else null."""
    host, service, metric = record["host.name"], F.coalesce(record["service.name"], F.lit("")), record["metric.name"]
    counter = F.coalesce(record["metric.type"] == "counter", F.lit(False))
    names = F.concat(host, service, metric)
    bound = F.when(counter, MAX_COUNTER).otherwise(MAX_GAUGE)
    good = (
        in_bounds(time)
        & _fits(host)
        & _fits(metric)
        & (F.octet_length(service) <= MAX_NAME)
        & (F.abs(record["metric.value"]) <= bound)  # false for NaN, which is above every number
        & _clean(text, names)
        & _quick_labels(record["labels"])
        & ends_there(text, record["labels"])
    )
    kind = F.when(counter, "counter/").otherwise("gauge/")
    plain = ~(F.contains(names, F.lit("/")) | F.contains(names, F.lit("%")))
    name = F.concat(kind, host, F.lit("/"), service, F.lit("/"), metric)
    encoded = F.concat(kind, quoted(host), F.lit("/"), quoted(service), F.lit("/"), quoted(metric))
    return F.when(good, F.when(plain, name).otherwise(encoded))


def _quick_labels(labels: Column) -> Column:
    # so few bytes of JSON without a backslash hold no label that is too long, nor too many, nor a control character
    short = (F.octet_length(labels) <= MAX_LABELS * 6) & labels.startswith("{") & _clean(labels, labels)
    return F.when(labels.isNull(), True).otherwise(short & ~F.contains(labels, F.lit("\\")))


def with_labels(series: Column, labels: Column) -> Column:
    """A series' name with its labels, given as short JSON text."""
    return F.concat(series, quoted(labels_text(F.from_json(labels, LABELS))))


def quick_line(text: Column, record: Column, time: Column) -> Column:
    """The row of a plainly good flat record, else null."""
    host, service, message = record["host.name"], F.coalesce(record["service.name"], F.lit("")), record["message"]
    good = (
        in_bounds(time)
        & _fits(host)
        & _fits(service)
        & (F.octet_length(message) > 0)
        & record["log.level"].isNotNull()
        & _clean(text, F.concat(host, service))
        & ~F.contains(message, F.lit("\ufffd"))
        & ends_there(text)
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
    """A record's `SHAPE` -> points, one."""
    metric = shape["metric"]
    return F.array(
        point(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=service_of(shape),
            metric=F.coalesce(shape["metric.name"], metric["name"]),
            labels=shape["labels"],
            value=F.coalesce(shape["metric.value"], metric["value"]),
            counter=F.coalesce(shape["metric.type"], metric["type"]) == "counter",
        )
    )


def lines(shape: Column) -> Column:
    """A record's `SHAPE` -> lines, one. Filebeat's documents are the same, with more to fall back on."""
    path = F.coalesce(shape["log.file.path"], shape["log"]["file"]["path"])
    dataset = F.coalesce(shape["event.dataset"], shape["event"]["dataset"])
    file = F.when(path.isNotNull(), F.regexp_extract(path, r"([^/\\\\.]+)[^/\\\\]*$", 1))
    return F.array(
        line(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=F.coalesce(service_of(shape), dataset, file, shape["agent"]["type"]),
            level=F.coalesce(shape["log.level"], shape["log"]["level"]),
            message=F.coalesce(shape["message"], shape["event"]["original"]),
        )
    )


def host_of(shape: Column) -> Column:
    """The host's name, flat or nested."""
    return F.coalesce(shape["host.name"], shape["host"]["name"], shape["host"]["hostname"], shape["agent"]["hostname"])


def service_of(shape: Column) -> Column:
    """The service's name, flat or nested; null where there is none."""
    return F.coalesce(shape["service.name"], shape["service"]["name"])
