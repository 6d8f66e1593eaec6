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
    "`metric.type`:string,"
    f"labels:{LABELS}>"
)
FLAT_LINE = "struct<`@timestamp`:string,`host.name`:string,`service.name`:string,`log.level`:string,message:string>"


def quick_time(at: Column) -> Column:
    """The timestamp of ISO text with a date, a `T` and a time; null for anything else."""
    # a cast alone would take "12:30:00" as today; instr stops at the first hit, which is cheaper than substrings
    dated = (F.instr(at, "-") == 5) & (F.instr(at, "T") == 11)
    # sessions run in UTC, and Spark takes longer to look up the zone Z than to read all the rest
    local = F.when(at.endswith("Z"), F.substring(at, F.lit(1), F.octet_length(at) - 1)).otherwise(at)
    return F.when(dated, local.try_cast("timestamp"))


def ends_there(text: Column, labels: Column | None = None) -> Column:
    """Whether nothing follows a JSON object that `from_json` could read; that reads one value and ignores the rest.

    An object whose only `}` is its last byte, or which has one more for its labels, needs no second look.
    """
    before = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1).cast("string")
    closed = F.when(~text.endswith("}"), False).when(~F.contains(before, F.lit("}")), True)
    if labels is not None:
        around = F.octet_length(F.substring_index(before, "}", 1)) + F.octet_length(F.substring_index(before, "}", -1))
        closed = closed.when(labels.isNotNull() & (around == F.octet_length(before) - 1), True)
    return closed.otherwise(F.coalesce(F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1, F.lit(False)))


def _fits(name: Column) -> Column:
    return (F.octet_length(name) > 0) & (F.octet_length(name) <= MAX_NAME)


def _clean(text: Column, names: Column) -> Column:
    """No control characters in the names, and nothing that stands for bytes that were not UTF-8."""
    # cheap tests first: ASCII without a backslash in its JSON can hold no control character but DEL
    plain = (F.octet_length(names) == F.char_length(names)) & ~F.contains(text, F.lit("\\"))
    return F.when(plain, ~F.contains(names, F.lit("\x7f"))).otherwise(~names.rlike(f"{CONTROL}|\ufffd"))


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
        & F.when(record["labels"].isNull(), True).otherwise(_quick_labels(text, record["labels"].cast("string")))
        & ends_there(text, record["labels"])
    )
    kind = F.when(counter, "counter/").otherwise("gauge/")
    plain = ~(F.contains(names, F.lit("/")) | F.contains(names, F.lit("%")))
    name = F.concat(kind, host, F.lit("/"), service, F.lit("/"), metric)
    encoded = F.concat(kind, quoted(host), F.lit("/"), quoted(service), F.lit("/"), quoted(metric))
    return F.when(good, F.when(plain, name).otherwise(encoded))


def _quick_labels(text: Column, labels: Column) -> Column:
    # `{k -> v, ...}` takes six bytes a label, so what is shorter than 96 holds no label too long, and at most 16
    return (F.octet_length(labels) < 6 * MAX_LABELS) & _clean(text, labels)


def with_labels(series: Column, labels: Column) -> Column:
    """A series' name with its labels."""
    return F.concat(series, quoted(labels_text(labels)))


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
