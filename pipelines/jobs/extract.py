"""extract: telemetry, logs, labels, changes and rules -> statistics, late, dead-letters.

One query reads all input topics, so that one watermark message covers them. A record is admitted or refused from the record alone; admitted
points are summed exactly per series and event-time window, and log lines are counted per template. Refused records pass through the same
windows as a group of their own, so that one batch writes all or nothing.

The watermark is put on the *append time* of each Kafka partition, before anything is parsed: an admitted record has
`event time >= append time - lateness`, append times of a partition do not go back, so none can be behind the watermark
`append time - lateness`. See docs/decisions/0001-watermark-on-append-time.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from models.core.limits import LimitParameters
from models.detection.logged_rules import FIRST as RULE
from models.records.records import LETTER_BYTES, MAX_REASON, RefusedRecord, StatisticsRow, WatermarkMessage
from models.records.schema import fields_of
from pipelines import letters, overflow, surplus, time_refusals
from pipelines.inputs import Refusal, change_lines, label_lines, log_lines, rule_lines, telemetry_points
from pipelines.inputs.fields import HEARTBEAT, length_of, quote, sha256_of
from pipelines.inputs.masking import template_id
from pipelines.jvm import SUMS, Needed, count_flat_lines, merge_sums, sum_flat_points, sum_into_blocks, unpack_sums
from pipelines.overflow import Excess
from pipelines.peers import with_peers
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import JOB_PRODUCER, BatchSink, Kafka, write_to_kafka
from pipelines.series_columns import (
    host_of,
    is_metric,
    is_other_templates,
    is_rule,
    is_template,
    level_series,
    shard_of,
)
from pipelines.windowing import MILLIS, WindowingConfig

# The mark that `withWatermark` leaves on a column. Spark looks for it to decide when a window is closed.
WATERMARK_MARK = "spark.watermarkDelayMs"
LATE, DEAD_LETTERS = "late", "dead-letters"
STATISTICS = [name for name in fields_of(StatisticsRow) if name != "record"]

SUM_COLUMNS = [field.name for field in SUMS]

# A refused record: the kind of topic it goes to, its source position and append time (ms), why, its first bytes, and the
# length and SHA-256 of all of them; where it is refused for its time, the quoted host and how late it was (ms).
REFUSED = (
    "destination:string,topic:string,partition:int,offset:bigint,timestamp:bigint,reason:string,value:binary,"
    "length:bigint,sha256:string,host:string,delay:bigint"
)

Reader = Callable[[DataFrame], DataFrame]


def closed_windows(
    telemetry: DataFrame,
    logs: DataFrame,
    windowing: WindowingConfig,
    *,
    labels: DataFrame | None = None,
    changes: DataFrame | None = None,
    rules: DataFrame | None = None,
    quarantine: Quarantine = NO_QUARANTINE,
    limits: LimitParameters | None = None,
) -> DataFrame:
    """Statistics of closed windows, and the records that were refused in them. Records in `quarantine` are refused without being parsed.

    Inputs have the columns of a Kafka source, with the watermark on `timestamp` where they are streams. The result has the columns
    `series, window_end (ms), n, mean, m2, min, max, last, template, sample, refused`. A row is of a series, or of a refused record, with `series`
    null and the fields of `REFUSED` in `refused`.

    With `limits`, rows that `overflow` would leave out may be missing already (`pipelines.surplus`); of templates, a row without an id then counts
    the lines of all that are missing of its level.
    """
    read_points, read_lines, read_labels, read_changes, read_rules = make_readers(windowing, quarantine, limits)
    points = admit_or_refuse(read_points(telemetry), ["series", "value", *SUM_COLUMNS], windowing, quarantine)
    lines = read_lines(logs)
    for read, few in ((read_labels, labels), (read_changes, changes), (read_rules, rules)):
        if few is not None:
            found = read(few).withColumn("n", F.lit(1).cast("long"))
            shared = [name for name in found.columns if name in lines.columns]
            lines = lines.select(*shared).unionByName(found.select(*shared))
    lines = admit_or_refuse(lines, ["series", "template", "message", "n"], windowing, quarantine)
    rows = sum_points(points, windowing, surplus.needed_series(limits))
    return rows.unionByName(count_lines(surplus.drop_surplus_lines(lines, limits)))


def make_readers(
    windowing: WindowingConfig, quarantine: Quarantine = NO_QUARANTINE, limits: LimitParameters | None = None
) -> tuple[Reader, ...]:
    """Functions that parse telemetry, logs, labels, changes and rules: columns of a Kafka source -> the columns that `admit_or_refuse` takes.

    With `limits`, series that `overflow` would leave out may be missing.
    """

    def reading(read: Reader) -> Reader:
        return lambda raw: quarantine.mark_refused(read(quarantine.blank_values(raw)))

    return (
        reading(lambda raw: points_and_sums(raw, windowing, surplus.needed_series(limits))),
        reading(lambda raw: lines_and_counts(raw, windowing)),
        reading(label_lines),
        reading(change_lines),
        reading(rule_lines),
    )


def points_and_sums(telemetry: DataFrame, windowing: WindowingConfig, needed: Needed) -> DataFrame:
    """Points as `telemetry_points` returns them, and rows of sums of many points, with the columns `SUM_COLUMNS`.

    The event time of a sum is the last millisecond of its window: its points were admitted before they were summed.
    """
    summed = sum_flat_points(telemetry, windowing, needed)
    time = F.timestamp_millis(F.col("sums_window") - 1)
    points = telemetry_points(summed, F.col("sums_block").isNotNull(), make_refusal(windowing))
    return points.withColumn("event_time", F.coalesce(time, "event_time"))


def lines_and_counts(logs: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """Lines as `log_lines` returns them, with their `series`, and rows of `n` lines counted already, at the last millisecond of their window."""
    counted = count_flat_lines(logs, windowing)
    done = F.col("lines_series").isNotNull()
    time = F.timestamp_millis(F.col("lines_window") - 1)
    return log_lines(counted, done, make_refusal(windowing)).withColumns(
        {
            "event_time": F.coalesce(time, "event_time"),
            "series": F.when(done, F.col("lines_series")).otherwise(template_series()),
            "template": F.coalesce("lines_template", "template"),
            "message": F.coalesce("lines_sample", "message"),
            "n": F.coalesce("lines_n", F.lit(1).cast("long")),
        }
    )


def template_series() -> Column:
    """The series of a log line, `template/HOST/SERVICE/LEVEL/ID`; that of a heartbeat is `HEARTBEAT`."""
    host, service = quote(F.col("host")), quote(F.col("service"))
    name = F.concat_ws("/", F.lit("template"), host, service, F.col("level"), template_id(F.col("template")))
    beat = (F.col("host") == HEARTBEAT) & F.col("message").isNull()  # a host may have that name, but no line is empty
    return F.when(beat, F.lit(HEARTBEAT)).otherwise(name)


@cache
def make_refusal(windowing: WindowingConfig) -> Refusal:
    """An expression of a row's event time and reason: struct<destination, why> for what is unreadable, late or ahead; null for what is admitted."""

    def refusal(event_time: Column, reason: Column) -> Column:
        append, event = F.unix_millis("timestamp"), F.unix_millis(event_time)
        ahead = F.concat(
            F.lit("event time is "),
            F.floor((event - append) / MILLIS).cast("string"),
            F.lit(f" s ahead of the append time, more than {windowing.skew_seconds} s"),
        )
        is_late = append - event > windowing.lateness_seconds * MILLIS
        is_early = event - append > windowing.skew_seconds * MILLIS
        late = F.lit(f"more than {windowing.lateness_seconds} s late")
        why = F.coalesce(reason, F.when(is_late, late).when(is_early, ahead))
        destination = F.when(reason.isNull() & is_late, F.lit(LATE)).otherwise(F.lit(DEAD_LETTERS))
        return F.when(
            reason.isNotNull() | is_late | is_early, F.struct(destination.alias("destination"), why.alias("why"))
        )

    return refusal


def admit_or_refuse(
    records: DataFrame, keep: list[str], windowing: WindowingConfig, quarantine: Quarantine = NO_QUARANTINE
) -> DataFrame:
    """Admit or refuse each record, from the record alone. Returns `event_time, window, series, refused`, `keep`, `offset, partition`.

    A refused record has null as `series`, and its append time as event time, so that it is never behind the watermark.
    """
    append = F.unix_millis("timestamp")
    refusal = make_refusal(windowing)(F.col("event_time"), F.col("reason"))
    for_time = F.col("reason").isNull() & refusal.isNotNull() & (is_metric() | is_template())
    is_refused = F.col("why").isNotNull()
    value = F.coalesce("raw_value", F.lit("").cast("binary"))
    # Cut here, so that the state of a window holds no more of it than its letter does.
    record = F.struct(
        F.col("destination"),
        F.col("topic"),
        F.col("partition"),
        F.col("offset"),
        append,
        F.substring("why", 1, MAX_REASON),
        F.substring(value, 1, LETTER_BYTES),
        quarantine.known_length(length_of(value)),
        quarantine.known_sha256(sha256_of(value)),
        F.col("host_refused"),
        F.col("delay"),
    ).cast(f"struct<{REFUSED}>")
    kept = [c for c in keep if c != "series"]
    # Never null, and Spark can see it: else it would filter for nulls before the parser, by parsing everything twice.
    time = F.coalesce(
        F.when(is_refused, F.col("timestamp")).otherwise(F.col("event_time")), F.timestamp_seconds(F.lit(0))
    )
    return (
        records.withColumns(
            {
                "why": refusal["why"],
                "destination": refusal["destination"],
                "delay": F.when(for_time, append - F.unix_millis("event_time")),
                "host_refused": F.when(for_time, host_of(F.col("series"))),
            }
        )
        .withColumn("event_time", time)  # of what is refused it changes here: those above are made of what it was
        .select(
            "event_time",
            window_column(windowing).alias("window", metadata=watermark_mark(windowing)),
            F.when(~is_refused, F.col("series")).alias("series"),
            F.when(is_refused, record).alias("refused"),
            *kept,
            "offset",
            "partition",
        )
    )


def sum_points(points: DataFrame, windowing: WindowingConfig, needed: Needed) -> DataFrame:
    """Exact statistics per series and window: n, mean, M2, min, max and the last value.

    Summed in Java, one array of bytes for all series of a bucket of hosts: with a row for each series, Spark's aggregation and state would take
    several times as long as the sums (docs/decisions/0041-sums-in-blocks.md).
    """
    own_window = F.unix_millis("window").alias("sums_window")
    sums = sum_into_blocks(
        points.withColumn("sums_window", own_window), window=windowing.window_seconds * MILLIS, needed=needed
    )
    ends = F.timestamp_millis("sums_window").alias("window", metadata=watermark_mark(windowing))
    blocks = sums.select(ends, "sums_bucket", "sums_block", "refused")
    merged = blocks.groupBy("window", "sums_bucket", "refused").agg(merge_sums(blocks, needed).alias("sums_block"))
    return unpack_sums(merged, window_end_ms()).withColumns(
        {name: F.lit(None).cast("string") for name in ("template", "sample")}
    )


def count_lines(lines: DataFrame) -> DataFrame:
    """Lines per template and window, with the least message in the order of its bytes as the sample.

    Two templates can share an id, as anybody can construct: the least one is taken, so that a window has one row of a series.
    """
    counts = lines.groupBy("window", "series", "refused").agg(
        F.sum("n").alias("n"), F.min("template").alias("template"), F.min("message").alias("sample")
    )
    nothing = F.lit(None).cast("double")
    return counts.select(
        "series",
        window_end_ms().alias("window_end"),
        "n",
        *[nothing.alias(name) for name in ("mean", "m2", "min", "max", "last")],
        "template",
        "sample",
        "refused",
    )


def window_column(windowing: WindowingConfig) -> Column:
    """The end of the window of `event_time`, a timestamp: a cheaper group key than the struct of `F.window`."""
    length = windowing.window_seconds * MILLIS
    return F.timestamp_millis((F.floor(F.unix_millis("event_time") / length) + 1) * length)


def watermark_mark(windowing: WindowingConfig) -> dict[str, int]:
    """Metadata of the column of windows, by which Spark knows when one is closed."""
    return {WATERMARK_MARK: windowing.watermark_delay_seconds * MILLIS}


def window_end_ms() -> Column:
    """The end of a row's window, epoch ms."""
    return F.unix_millis("window")


OnRefused = Callable[[str, int], None]  # called with a kind of topic and how many records went there


@dataclass(frozen=True)
class ClosedWindows:
    """The windows that a batch has closed: their `ends`, epoch ms, ascending, each of which gets watermark messages.

    `refused` is the number of their records that go to `late` and to `dead-letters`; `over` are the limits that they exceed.
    """

    ends: tuple[int, ...]
    refused: Mapping[str, int]
    over: tuple[Excess, ...] = ()


def find_closed_windows(
    closed: DataFrame, windowing: WindowingConfig, limits: LimitParameters | None = None
) -> ClosedWindows:
    """The windows of rows of `closed_windows`. A window without records is none of them."""
    refused, late = F.col("refused").isNotNull(), F.col("refused.destination") == LATE
    counts = {DEAD_LETTERS: F.count_if(refused & ~late), LATE: F.count_if(refused & late)}
    table, whole = overflow.count_by_window(closed, counts, limits, windowing.shards)
    rows = sorted(table.collect(), key=lambda row: row["window_end"])
    return ClosedWindows(
        tuple(row["window_end"] for row in rows),
        {kind: sum(row[kind] for row in rows) for kind in counts},
        () if limits is None else tuple(overflow.find_excesses(closed, rows, whole, limits)),
    )


def output_records(
    closed: DataFrame,
    windows: ClosedWindows,
    windowing: WindowingConfig,
    topics: dict[str, str],
    partitions: int,
    limits: LimitParameters | None = None,
) -> DataFrame:
    """What a batch writes, in the order of writing: `topic, partition, key, value, headers`.

    For each window the rows of statistics, within the limits, then its watermark messages, shard by shard; and the refused records. `topics` has
    the names of `statistics`, `late` and `dead-letters`; `partitions` is the number of partitions of `statistics`.
    """
    rows = statistics_rows(closed, windows, windowing, limits).select(
        "shard",
        "window_end",
        F.lit(False).alias("is_watermark"),
        "series",
        F.to_json(F.struct(F.lit(StatisticsRow.KIND).alias("record"), *STATISTICS)).cast("binary").alias("value"),
    )
    watermarks = watermark_rows(closed.sparkSession, windows.ends, windowing)
    sorted_rows = (
        rows.unionByName(watermarks)
        .withColumn("partition", F.pmod("shard", F.lit(partitions)).cast("int"))
        .repartition(partitions, "partition")
        .sortWithinPartitions("partition", "window_end", "is_watermark", "shard", "series")
    )
    written = sorted_rows.select(
        F.lit(topics["statistics"]).alias("topic"),
        "partition",
        F.col("series").cast("binary").alias("key"),
        "value",
        F.lit(None).cast(letters.HEADERS).alias("headers"),
    )
    written = letters.replace_oversized(written, topics[DEAD_LETTERS], "extract")
    return written.unionByName(refused_rows(closed, topics)) if any(windows.refused.values()) else written


def statistics_rows(
    closed: DataFrame, windows: ClosedWindows, windowing: WindowingConfig, limits: LimitParameters | None = None
) -> DataFrame:
    """The rows of statistics of a batch, within the limits, gauges with their peers: the fields of `StatisticsRow`, and `shard`."""
    if limits is not None and windows.over:
        rows = overflow.apply_limits(all_rows(closed, windowing), windows.over, limits, windowing.shards)
        others = []
    else:
        # No level has peers: as part of those rows the totals would be computed for them as well, twice.
        rows, others = series_rows(closed, windowing), [level_rows(closed, windowing)]
    if any(windows.refused.values()):
        others.append(time_refusals.count_by_host(closed, windowing.shards))
    rows = with_peers(rows, windows.ends, windowing.window_seconds)
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), others, rows)


def all_rows(closed: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """Rows of series as `closed_windows` counted them, and the totals of log lines per host, service and level."""
    return series_rows(closed, windowing).unionByName(level_rows(closed, windowing), allowMissingColumns=True)


def series_rows(closed: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """Rows of series as `closed_windows` counted them, with the `shard` that reads them; a rule is a row for every shard."""
    named = F.concat(F.lit(RULE), F.col("shard"), F.lit("/"), F.substring_index("series", "/", -1))
    return (
        without_heartbeats(closed)
        .where(~is_other_templates())
        .drop("refused")
        .withColumn("shard", F.explode(reading_shards(F.col("series"), windowing.shards)))
        .withColumn("series", F.when(is_rule(), named).otherwise(F.col("series")))
    )


def level_rows(closed: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """The totals of log lines per host, service and level: `window_end, series, n, shard`."""
    totals = (
        without_heartbeats(closed)
        .where(is_template())
        .groupBy("window_end", level_series(F.col("series"), "logs").alias("series"))
        .agg(F.sum("n").alias("n"))
    )
    return totals.withColumn("shard", shard_of(host_of(F.col("series")), windowing.shards))


def without_heartbeats(closed: DataFrame) -> DataFrame:
    """Rows of series without those of heartbeats and of refused records."""
    return closed.where(F.col("refused").isNull() & (F.col("series") != HEARTBEAT))


def reading_shards(series: Column, shards: int) -> Column:
    """The shards that read a row, an array: that of its host; for a rule all of them."""
    every = F.sequence(F.lit(0), F.lit(shards - 1))
    return F.when(is_rule(), every).otherwise(F.array(shard_of(host_of(series), shards)))


def watermark_rows(spark: SparkSession, windows: Iterable[int], windowing: WindowingConfig) -> DataFrame:
    """A watermark message per closed window and shard: no more rows of the shard with a window up to it are written."""
    # Through JSON, because a DataFrame made of Python values would start a Python worker for each batch.
    ends = F.explode(F.from_json(F.lit(json.dumps(list(windows))), "array<bigint>"))
    watermarks = spark.range(windowing.shards).select(F.col("id").cast("int").alias("shard"), ends.alias("window_end"))
    watermark = F.struct(
        F.lit(WatermarkMessage.KIND).alias("record"),
        F.col("window_end").alias("watermark"),
        "shard",
    )
    return watermarks.select(
        "shard",
        "window_end",
        F.lit(True).alias("is_watermark"),
        F.lit(None).cast("string").alias("series"),
        F.to_json(watermark).cast("binary").alias("value"),
    )


def refused_rows(closed: DataFrame, topics: dict[str, str]) -> DataFrame:
    """Records for `late` and `dead-letters`: the first bytes of each, and as headers the fields of `RefusedRecord`.

    A record is written once, with the least of its reasons, however many of its points or lines were refused.
    """
    refused = closed.where(F.col("refused").isNotNull()).select("refused.*")
    source = ("topic", "partition", "offset", "timestamp")
    least = F.min(F.struct("destination", "reason")).alias("least")
    refused = refused.groupBy(*source, "value", "length", "sha256").agg(least).select("*", "least.*")
    fields = {
        "record": F.lit(RefusedRecord.KIND),
        **{name: F.col(name) for name in (*source, "reason", "length", "sha256")},
        "stage": F.lit("extract"),
    }
    where = F.when(F.col("destination") == LATE, F.lit(topics[LATE])).otherwise(F.lit(topics[DEAD_LETTERS]))
    return refused.select(
        where.alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("binary").alias("key"),
        "value",
        letters.header_array(fields).alias("headers"),
    )


def make_sink(
    windowing: WindowingConfig,
    topics: dict[str, str],
    partitions: int,
    kafka: Kafka,
    on_refused: OnRefused | None = None,
    limits: LimitParameters | None = None,
) -> BatchSink:
    """A sink that writes a batch of closed windows to Kafka. A batch that is repeated writes the same records again."""

    def write(closed: DataFrame, batch_id: int) -> None:
        closed = closed.persist()
        try:
            windows = find_closed_windows(closed, windowing, limits)
            if windows.ends:
                found = output_records(closed, windows, windowing, topics, partitions, limits)
                write_to_kafka(found, kafka, JOB_PRODUCER)
        finally:
            closed.unpersist()
        if on_refused is not None:
            for kind, count in windows.refused.items():
                on_refused(kind, count)

    return write
