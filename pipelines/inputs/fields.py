"""What every input format shares: reading times and numbers from text, checking names, naming series.

Formats hand over *points* and *lines* whose parts are still text; the checks here turn each into a row of the output, or
into a reason why it cannot be read. All of it is Spark SQL: nothing raises, what is unreadable is null.

Spark plans a stream again for every batch, and that costs time in proportion to the size of these expressions (they were
1 s a batch once). So a Column that is used more than once is bound with `let`, and not written out twice.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from models.records.records import MAX_NAME
from models.templates.extraction import COLOUR, ESCAPE

MAX_RECORD = 1 << 20  # bytes of a record
MARK = b"stand-in"
MAX_SEEN = 1024  # bytes of a number
MAX_CUT = 320  # characters of a name or label that any expression sees: a host with its port, and more
MAX_LABELS = 16
MAX_LABEL = 128  # characters of a label's key, and of its value
MAX_SERIES = 2048  # bytes of a series' whole name
MAX_MESSAGE = 8192  # characters of a log message that are kept
MAX_GAUGE = 1e15  # squares stay exact in fixed point below it
MAX_COUNTER = 1e18
MAX_TIME = 128  # bytes of a time
FIRST_TIME, LAST_TIME = "1970-01-01 00:00:00", "2200-01-01 00:00:00"
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
HEARTBEAT = "heartbeat"

LABELS = "map<string,string>"
LINES = "array<struct<at:string,host:string,service:string,level:string,message:string>>"

# `\z` and not `$`, before which Java allows the end of a line
_ISO = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,12})?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?\z"
# a decimal is made of the digits one by one, so they are few, and the exponent has two
_EPOCH = r"^[+-]?(\d{1,24}(\.\d{0,24})?|\.\d{1,24})(E[+-]?\d{1,2})?\z"
_NUMBER = r"^[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,400})?\z"


def let(value: Column, body: Callable[[Column], Column], where: Column | None = None) -> Column:
    """Bind a value: `body(value)`, with the value evaluated once and contained once in the plan; null unless `where`.

    Use it rather than `F.when(where, <large expression>)`: Spark's planner compares the branches of a CASE with each other, which takes long for
    large ones. It is implemented as `aggregate` over an empty array with the value as its start and `body` as its finish, because that copies
    nothing: `transform` copies its result, so ten of them around the points of a record copied each point ten times.
    """
    nothing = F.array().cast("array<int>")
    return F.aggregate(nothing if where is None else F.when(where, nothing), value, lambda held, _: held, body)


def record_text(value: Column) -> Column:
    """The bytes of a record -> struct<json, line, reason>: one JSON object within the limits; else why not.

    `line` is the beginning of what may be a line of syslog. Everything but the readers of flat records looks at a record
    through this, so that no expression sees more than pipelines/jvm/RecordText.java lets pass.
    """
    return F.call_function("kappa_record_text", value)


def point_record(value: Column) -> Column:
    """As `record_text`, with `members`: a struct of what forms of telemetry read, by paths; null where there is a reason."""
    return F.call_function("kappa_point_record", value)


def line_record(value: Column) -> Column:
    """As `point_record`, with the members that forms of log lines read."""
    return F.call_function("kappa_line_record", value)


def is_stand_in(value: Column) -> Column:
    """Whether a value is a stand-in of one that is too long (pipelines/jvm/ByteArrayDeserializer.java)."""
    size = MAX_RECORD + 8 + 32 + len(MARK)
    return (F.octet_length(value) == size) & (F.substring(value, size + 1 - len(MARK), len(MARK)) == F.lit(MARK))


def length_of(value: Column) -> Column:
    """The bytes of a record's value, also where that has a stand-in."""
    own = F.conv(F.hex(F.substring(value, MAX_RECORD + 1, 8)), 16, 10).cast("bigint")
    return F.when(is_stand_in(value), own).otherwise(F.octet_length(value))


def sha256_of(value: Column) -> Column:
    """The SHA-256 of a record's value, also where that has a stand-in."""
    own = F.lower(F.hex(F.substring(value, MAX_RECORD + 9, 32)))
    return F.when(is_stand_in(value), own).otherwise(F.sha2(value, 256))


def not_empty(text: Column) -> Column:
    """The text, null if it is empty."""
    return F.nullif(text, F.lit(""))


def truncate(text: Column) -> Column:
    """The first MAX_CUT characters: enough to refuse a name that is too long without evaluating all of it."""
    return F.substring(text, 1, MAX_CUT)


def not_null(items: Column) -> Column:
    """The items of an array that are not null. `flatten` of an array with a null would be null."""
    return F.filter(items, lambda item: item.isNotNull())


def distinct_map(entries: Column) -> Column:
    """A map of array<struct<key, value>>; the first of equal keys wins, because Spark raises for repeated keys."""

    def of(named: Column, keys: Column) -> Column:
        return F.map_from_entries(F.filter(named, lambda e, i: F.array_position(keys, e["key"]) == i + 1))

    bounded = F.slice(F.filter(entries, lambda e: e["key"].isNotNull()), 1, 128)
    return let(bounded, lambda named: let(F.transform(named, lambda e: e["key"]), lambda keys: of(named, keys)))


def parse_time(text: Column) -> Column:
    """A timestamp from ISO 8601 text or from an epoch number, null where it is neither.

    ISO text without an offset is in UTC. The size of a number decides its unit: seconds below 1e11 (the year 5138),
    milliseconds below 1e14, microseconds below 1e17, nanoseconds above. The usual forms are read in Java (pipelines/jvm/PlainTime.java).
    """

    def of(given: Column) -> Column:
        return F.coalesce(F.timestamp_micros(F.call_function("kappa_plain_time", given)), parse_time_in_spark(given))

    return let(F.when(F.octet_length(text) <= MAX_TIME, text), of)


def parse_time_in_spark(text: Column) -> Column:
    """As `parse_time`, by Spark's functions, which read every form."""
    return let(F.upper(F.trim(text)), _parse_upper_time)


def _parse_upper_time(text: Column) -> Column:
    iso = F.translate(text, ",", ".").try_cast("timestamp")
    # decimals, because a double of nanoseconds is only good to 0.2 microseconds
    number = F.when(text.rlike(_EPOCH), text).try_cast("decimal(30,9)")
    return F.when(text.rlike(_ISO), iso).otherwise(let(number, _from_epoch))


def _from_epoch(number: Column) -> Column:
    factor = F.when(number < F.lit(10**11), "1000000").when(number < F.lit(10**14), "1000")
    factor = factor.when(number < F.lit(10**17), "1").otherwise("0.001").cast("decimal(10,3)")
    return F.timestamp_micros(F.floor(number * factor).try_cast("bigint"))


def is_in_bounds(time: Column) -> Column:
    """Whether a time is in the range of event times, FIRST_TIME to before LAST_TIME."""
    return (time >= F.lit(FIRST_TIME).cast("timestamp")) & (time < F.lit(LAST_TIME).cast("timestamp"))


def parse_number(text: Column) -> Column:
    """A double from text, infinite where it is too large for one; null where it is not a number. A cast alone would accept `1d` and `Infinity`."""
    return let(F.when(F.octet_length(text) <= MAX_SEEN, text), lambda t: F.when(t.rlike(_NUMBER), t.try_cast("double")))


def quote(part: Column) -> Column:
    """A part of a series' name as `models.core.series.quote` writes it."""
    return F.replace(F.replace(part, F.lit("%"), F.lit("%25")), F.lit("/"), F.lit("%2F"))


def unquote(part: Column) -> Column:
    """The inverse of `quote`."""
    return F.replace(F.replace(part, F.lit("%2F"), F.lit("/")), F.lit("%25"), F.lit("%"))


def labels_text(labels: Column) -> Column:
    """`{k=v,...}` sorted by key, empty for no labels; labels without a value are left out."""

    def text(entries: Column) -> Column:
        joined = F.array_join(F.transform(entries, lambda e: F.concat(e["key"], F.lit("="), e["value"])), ",")
        return F.when(F.size(entries) > 0, F.concat(F.lit("{"), joined, F.lit("}"))).otherwise("")

    valued = F.filter(F.sort_array(F.map_entries(labels)), lambda e: e["value"].isNotNull())
    return F.coalesce(let(valued, text), F.lit(""))


def name_problem(what: str, name: Column, required: bool = True) -> Column:
    """Why a name cannot be used, or null."""
    absent = F.coalesce(F.length(name), F.lit(0)) == 0 if required else F.lit(False)
    return (
        F.when(absent, f"no {what}")
        .when(F.length(name) > MAX_NAME, f"{what} longer than {MAX_NAME}")
        .when(name.rlike(CONTROL), f"control character in {what}")
    )


def time_problem(text: Column, time: Column) -> Column:
    """Why a record has no usable event time, or null."""
    return (
        F.when(text.isNull(), "no @timestamp")
        .when(time.isNull(), "@timestamp is not a time")
        .when(~is_in_bounds(time), "event time outside 1970..2200")
    )


def value_problem(text: Column, value: Column, counter: Column) -> Column:
    """Why a value cannot be used, or null."""
    shown = F.regexp_replace(F.substring(text, 1, 32), rf'"|{CONTROL}', "")
    return (
        F.when(text.isNull(), "no metric.value")
        .when(value.isNull(), F.concat(F.lit("value is not a number: "), shown))
        .when(F.abs(value) <= F.when(counter, MAX_COUNTER).otherwise(MAX_GAUGE), None)
        .otherwise(F.when(counter, "value beyond 1e18").otherwise("value beyond 1e15"))
    )


def labels_problem(labels: Column) -> Column:
    """Why labels cannot be used, or null. They are refused and not cut: cut labels would join series that differ."""

    def bad(text: Column) -> Column:
        return (F.length(text) > MAX_LABEL) | text.rlike(CONTROL)

    entries = F.map_entries(labels)
    any_bad = F.exists(entries, lambda e: bad(e["key"]) | F.coalesce(bad(e["value"]), F.lit(False)))
    return F.when(F.size(labels) > MAX_LABELS, f"more than {MAX_LABELS} labels").when(
        any_bad, f"label longer than {MAX_LABEL} or with a control character"
    )


def name_labels(labels: Column) -> Column:
    """A map of labels -> struct<text, reason>: their text in the name of a series, or why they cannot be used.

    Points that share labels share this value. A text that is too long for any series is truncated one character beyond the limit, because Spark
    copies it for each point.
    """

    def of(known_labels: Column, reason: Column) -> Column:
        text = F.substring(quote(labels_text(known_labels)), 1, MAX_SERIES + 1)
        return F.struct(F.when(reason.isNull(), text).alias("text"), reason.alias("reason"))

    return let(labels, lambda known_labels: let(labels_problem(known_labels), lambda reason: of(known_labels, reason)))


def part(suffix: str, value: Column) -> Column:
    """One of several numbers of a metric, with the suffix of the metric's name for it."""
    return F.struct(F.lit(suffix).alias("suffix"), value.alias("value"))


def without_port(instance: Column) -> Column:
    """The host in the label `instance` of Prometheus."""
    return F.regexp_replace(truncate(instance), ":[0-9]{1,5}$", "")


def point(
    *, at: Column, host: Column, service: Column, metric: Column, labels: Column, value: Column, counter: Column
) -> Column:
    """The parts of one point, as text; the labels as `name_labels` returns them."""
    return F.struct(
        at.alias("at"),
        host.alias("host"),
        service.alias("service"),
        metric.alias("metric"),
        labels.alias("labels"),
        value.alias("value"),
        F.coalesce(counter, F.lit(False)).alias("counter"),
    )


def line(*, at: Column, host: Column, service: Column, level: Column, message: Column) -> Column:
    """The parts of one log line, as text."""
    parts = {"at": at, "host": host, "service": service, "level": level, "message": message}
    return F.struct(*(part.alias(name) for name, part in parts.items()))


def check_points(points: Column) -> Column:
    """Points -> array<struct<event_time, series, host, value, reason>>, same length and order."""

    def read(p: Column) -> Column:
        return let(parse_time(p["at"]), lambda time: let(parse_number(p["value"]), lambda value: check(p, time, value)))

    def check(p: Column, time: Column, value: Column) -> Column:
        reason = F.coalesce(
            time_problem(p["at"], time),
            name_problem("host.name", p["host"]),
            name_problem("service.name", p["service"], required=False),
            name_problem("metric.name", p["metric"]),
            p["labels"]["reason"],
            value_problem(p["value"], value, p["counter"]),
        )
        return let(reason, lambda why: let(named_series(p, why), lambda series: row(p, time, value, series, why)))

    def named_series(p: Column, reason: Column) -> Column:
        kind = F.when(p["counter"], "counter").otherwise("gauge")
        parts = (quote(part) for part in (p["host"], F.coalesce(p["service"], F.lit("")), p["metric"]))
        return F.when(reason.isNull(), F.concat(F.concat_ws("/", kind, *parts), p["labels"]["text"]))

    def row(p: Column, time: Column, value: Column, series: Column, reason: Column) -> Column:
        long = F.octet_length(series) > MAX_SERIES
        return F.struct(
            time.alias("event_time"),
            F.when(~long, series).alias("series"),
            p["host"].alias("host"),
            value.alias("value"),
            F.when(long, f"name of a series longer than {MAX_SERIES} bytes").otherwise(reason).alias("reason"),
        )

    return F.transform(points, read)


def check_lines(lines: Column) -> Column:
    """Lines -> array<struct<event_time, host, service, level, message, reason>>, same length and order."""

    def read(p: Column) -> Column:
        return F.struct(p.alias("p"), parse_time(p["at"]).alias("time"))

    def check(r: Column) -> Column:
        p = r["p"]
        reason = F.coalesce(
            time_problem(p["at"], r["time"]),
            name_problem("host.name", p["host"]),
            name_problem("service.name", p["service"], required=False),
            F.when(F.coalesce(F.length(p["message"]), F.lit(0)) == 0, "no message"),
        )
        return F.struct(
            r["time"].alias("event_time"),
            p["host"].alias("host"),
            F.coalesce(p["service"], F.lit("")).alias("service"),
            level_of(p["level"], p["message"]).alias("level"),
            F.substring(strip_colours(p["message"]), 1, MAX_MESSAGE).alias("message"),
            reason.alias("reason"),
        )

    return F.transform(F.transform(lines, read), check)


def good_and_least_refused(rows: Column, refusal: Callable[[Column, Column], Column], value: Column) -> Column:
    """The rows of a record that are not refused, and one of those that are, with the record's bytes, so that a record is reported once.

    Rows are struct<event_time, ..., reason>. The refused row is the one with the least refusal; of unreadable rows only the first is considered.
    """

    def judged(r: Column) -> Column:
        return F.struct(refusal(r["event_time"], r["reason"]).alias("refusal"), r.alias("row"))

    def with_bytes(j: Column, given: Column) -> Column:
        return j["row"].withField("raw_value", given.cast("binary"))

    def parted(all_rows: Column) -> Column:
        unread = F.slice(F.filter(all_rows, lambda j: j["row"]["reason"].isNotNull()), 1, 1)
        read = F.filter(all_rows, lambda j: j["row"]["reason"].isNull() & j["refusal"].isNotNull())
        least = F.filter(F.array(F.array_min(F.concat(unread, read))), lambda j: j.isNotNull())
        good = F.filter(all_rows, lambda j: j["refusal"].isNull())
        return F.concat(
            F.transform(good, lambda j: with_bytes(j, F.lit(None))), F.transform(least, lambda j: with_bytes(j, value))
        )

    return let(F.transform(rows, judged), parted)


def level_of(given: Column, message: Column) -> Column:
    """One of trace, debug, info, warn, error, fatal: the given level, else one that the message names, else info."""
    return F.call_function("kappa_level", given, message)


def strip_colours(message: Column) -> Column:
    """A message without escape sequences of terminals. Java's readers of flat records leave messages with such sequences to this function."""
    return F.when(F.contains(message, F.lit(ESCAPE)), F.regexp_replace(message, COLOUR, "")).otherwise(message)
