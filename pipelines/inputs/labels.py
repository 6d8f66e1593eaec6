"""Labels, as people give them to incidents -> rows for the hosts that they are about.

A label is `{"label": "false-alarm", "series": ["gauge/web-1//cpu.load", ...], ...}`; other members are for people. Its
event time is its append time: it takes effect in the window in which it came.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.detection.labels import FIRST
from models.records.labels import MOST_BYTES, MOST_NAME, MOST_SERIES, NAME
from models.records.records import LABELS, Heartbeat
from pipelines.inputs.fields import HEARTBEAT, let, not_null, record_text
from pipelines.series_columns import host_of

MEMBERS = "record string, label string, series array<string>"
OFFSET_DIGITS = 20  # as text, offsets keep their order


def label_lines(raw: DataFrame) -> DataFrame:
    """A row for each label and host: `series` is `label/HOST/OFFSET`, `message` what the models read of it.

    Keeps Kafka's columns but the value, which is `raw_value` of a row with a `reason`: of what cannot be read there is one. A
    heartbeat is one row of series `heartbeat`.
    """
    others = [F.col(f"`{name}`") for name in raw.columns if name != "value"]
    shape, host, label = F.col("__shape"), F.col("__row")["host"], F.col("__label")
    beat = F.coalesce(shape["record"] == Heartbeat.KIND, F.lit(False))
    unreadable = F.concat(F.lit("not a label: "), F.col("__record")["reason"])
    read = raw.select(*others, F.col("value").alias("raw_value"), record_text(F.col("value")).alias("__record"))
    read = read.withColumn("__shape", F.from_json(F.col("__record")["json"], MEMBERS))
    read = read.withColumn("reason", F.coalesce(unreadable, F.when(~beat, label_problem(shape, F.col("raw_value")))))
    rows = let(shape["series"], group_by_host, F.col("reason").isNull() & ~beat)
    # What is not read below is not carried along: it would be copied for each host.
    read = read.select(
        *others,
        F.when(F.col("reason").isNotNull(), F.col("raw_value")).alias("raw_value"),
        "reason",
        shape["label"].alias("__label"),
        beat.alias("__beat"),
        F.explode_outer(rows).alias("__row"),
    )
    offset = F.lpad(F.col("offset").cast("string"), OFFSET_DIGITS, "0")
    series = F.when(host.isNotNull(), F.concat(F.lit(FIRST), host, F.lit("/"), offset))
    return read.select(
        *others,
        "raw_value",
        "reason",
        F.col("timestamp").alias("event_time"),
        F.when(F.col("__beat"), F.lit(HEARTBEAT)).otherwise(series).alias("series"),
        F.lit(None).cast("string").alias("template"),
        F.to_json(F.struct(label.alias("label"), F.col("__row")["series"].alias("series"))).alias("message"),
    )


def group_by_host(series: Column) -> Column:
    """Names of series -> array<struct<host, series>>: the names of each host in order, each once."""

    def of(names: Column, all_hosts: Column) -> Column:
        # names in the order of their hosts: a host's begin where the one before is of another
        places = F.sequence(F.lit(0), F.size(names) - 1)
        begins = F.filter(places, lambda i: (i == 0) | (F.get(all_hosts, i) != F.get(all_hosts, i - 1)))
        return let(begins, lambda found: F.transform(found, lambda begin, i: row(names, all_hosts, found, begin, i)))

    def row(names: Column, all_hosts: Column, begins: Column, begin: Column, i: Column) -> Column:
        end = F.coalesce(F.get(begins, i + 1), F.size(names))
        own = F.transform(F.slice(names, begin + 1, end - begin), lambda pair: pair["name"])
        return F.struct(F.get(all_hosts, begin).alias("host"), own.alias("series"))

    # Spark compares texts by their hashes, and structs with each other
    pairs = F.transform(
        F.array_distinct(series), lambda name: F.struct(host_of(name).alias("host"), name.alias("name"))
    )
    return let(
        F.sort_array(pairs),
        lambda names: let(F.transform(names, lambda pair: pair["host"]), lambda hosts: of(names, hosts)),
    )


def label_problem(shape: Column, value: Column) -> Column:
    """Why a label cannot be used, or null. `value` is the record."""
    label, series = shape["label"], shape["series"]
    shown = F.regexp_replace(F.substring(label, 1, 32), r'["\x00-\x1f\x7f-\x9f]', "")
    return (
        F.when(F.octet_length(value) > MOST_BYTES, f"a label of more than {MOST_BYTES} bytes")
        .when(label.isNull(), "not a label: no JSON with a member `label`")
        .when(~label.isin(*LABELS), F.concat(F.lit("label is "), shown, F.lit(f"; wanted {', '.join(LABELS)}")))
        .when(F.coalesce(F.size(not_null(series)), F.lit(0)) <= 0, "a label without series")
        .when(F.size(series) > MOST_SERIES, f"a label with more than {MOST_SERIES} series")
        .when(F.exists(series, is_bad_name), "a label with something that is not the name of a series")
    )


def is_bad_name(name: Column) -> Column:
    """Whether it is not the name of a series."""
    return name.isNull() | (F.length(name) > MOST_NAME) | ~name.rlike(rf"^({NAME})\z")
