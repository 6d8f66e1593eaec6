"""What every input format shares: reading times and numbers from text, checking names, naming series.

Formats hand over *points* and *lines* whose parts are still text (`POINT`, `LINE`); the checks here turn each into a row
of the output or a reason why it cannot be read. All of it is Spark SQL: nothing raises, a part that is unreadable is null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

MAX_NAME = 256  # characters of a host, service or metric
MAX_LABELS = 16
MAX_LABEL = 128  # characters of a label's key, and of its value
MAX_MESSAGE = 8192  # characters of a log message that are kept
MAX_GAUGE = 1e15  # sums of squares stay exact in fixed point below it
MAX_COUNTER = 1e18
FIRST_TIME, LAST_TIME = "1970-01-01 00:00:00", "2200-01-01 00:00:00"
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
HEARTBEAT = "heartbeat"

LABELS_TYPE = "map<string,string>"
POINT = f"struct<at:string,host:string,service:string,metric:string,labels:{LABELS_TYPE},value:string,counter:boolean>"
NO_POINTS = f"array<{POINT}>"
LINE = "struct<at:string,host:string,service:string,level:string,message:string>"

_ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,12})?)?( ?(Z|[+-][0-9]{2}(:?[0-9]{2})?))?$"
)
_NUMBER = r"^[+-]?([0-9]{1,400}([.][0-9]{0,400})?|[.][0-9]{1,400})([eE][+-]?[0-9]{1,6})?$"
_NOT_FINITE = r"^[+-]?(nan|inf|infinity)$"


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body(value)` with the value evaluated once: a lambda's argument is otherwise written out wherever it is used."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def text_or_null(text: Column) -> Column:
    """The text, or null where it is empty."""
    return F.nullif(text, F.lit(""))


def first_of(*candidates: Column) -> Column:
    """The first text that is neither null nor empty."""
    return F.coalesce(*(text_or_null(c) for c in candidates))


def instant(text: Column) -> Column:
    """A timestamp from ISO 8601 text or from an epoch number, null where it is neither.

    ISO text without an offset is in UTC. The unit of a number is told by its size: seconds below 1e11 (the year 5138),
    milliseconds below 1e14, microseconds below 1e17, nanoseconds above.
    """
    trimmed = F.upper(F.trim(text))
    iso = F.when(trimmed.rlike(_ISO), F.replace(trimmed, F.lit(","), F.lit(".")).try_cast("timestamp"))
    return F.coalesce(iso, _epoch(trimmed))


def _epoch(text: Column) -> Column:
    # decimals, because a double of nanoseconds is only good to 0.2 microseconds
    number = F.when(F.length(text) <= 40, text).try_cast("decimal(30,9)")
    size = F.abs(number)
    micros = (
        F.when(size < F.lit(10**11), number * F.lit(10**6).cast("decimal(7,0)"))
        .when(size < F.lit(10**14), number * F.lit(10**3).cast("decimal(4,0)"))
        .when(size < F.lit(10**17), number)
        .otherwise(number / F.lit(10**3).cast("decimal(4,0)"))
    )
    return F.timestamp_micros(F.floor(micros).try_cast("bigint"))


def in_bounds(time: Column) -> Column:
    """Whether a time is one that windows can be made of."""
    return (time >= F.lit(FIRST_TIME).cast("timestamp")) & (time < F.lit(LAST_TIME).cast("timestamp"))


def number(text: Column) -> Column:
    """A double from text; null where it is not a number, or not a finite one."""
    return F.when(text.rlike(_NUMBER), text.try_cast("double"))


def quoted(part: Column) -> Column:
    """A part of a series' name as `models.series.quote` writes it."""
    return F.replace(F.replace(part, F.lit("%"), F.lit("%25")), F.lit("/"), F.lit("%2F"))


def labels_text(labels: Column) -> Column:
    """`{k=v,...}` sorted by key, empty for no labels; labels without a value are left out."""
    known = F.filter(F.sort_array(F.map_entries(labels)), lambda e: e["value"].isNotNull())
    joined = F.array_join(F.transform(known, lambda e: F.concat(e["key"], F.lit("="), e["value"])), ",")
    return F.when(F.coalesce(F.size(known) > 0, F.lit(False)), F.concat(F.lit("{"), joined, F.lit("}"))).otherwise("")


def series_name(counter: Column, host: Column, service: Column, metric: Column) -> Column:
    """The name of a gauge or counter; `metric` with its labels, all parts known to be good."""
    kind = F.when(counter, "counter").otherwise("gauge")
    return F.concat_ws("/", kind, quoted(host), quoted(service), quoted(metric))


def name_problem(what: str, name: Column, required: bool) -> Column:
    """Why a name cannot be used, or null."""
    missing = F.when(text_or_null(name).isNull(), f"no {what}") if required else F.lit(None).cast("string")
    shape = F.when(F.length(name) > MAX_NAME, f"{what} longer than {MAX_NAME}").when(
        name.rlike(CONTROL), f"control character in {what}"
    )
    return F.coalesce(missing, shape)


def time_problem(text: Column, time: Column) -> Column:
    """Why a record has no usable event time, or null."""
    return (
        F.when(text_or_null(text).isNull(), "no @timestamp")
        .when(time.isNull(), "@timestamp is not a time")
        .when(~in_bounds(time), "event time outside 1970..2200")
    )


def value_problem(text: Column, value: Column, counter: Column) -> Column:
    """Why a value cannot be used, or null."""
    clean = F.regexp_replace(F.substring(text, 1, 32), CONTROL, "?")
    beyond = F.when(counter & (F.abs(value) > MAX_COUNTER), "value beyond 1e18").when(
        ~counter & (F.abs(value) > MAX_GAUGE), "value beyond 1e15"
    )
    return (
        F.when(text_or_null(text).isNull(), "no metric.value")
        .when(value.isNull(), F.concat(F.lit("value is not a number: "), clean))
        .when(value == float("inf"), "value beyond 1e15")
        .when(value == float("-inf"), "value beyond 1e15")
        .otherwise(beyond)
    )


def labels_problem(labels: Column) -> Column:
    """Why labels cannot be used, or null. Bounds are refused and not cut: cut labels would join series that differ."""

    def too_long(entry: Column) -> Column:
        return (F.length(entry["key"]) > MAX_LABEL) | (F.coalesce(F.length(entry["value"]), F.lit(0)) > MAX_LABEL)

    def unclean(entry: Column) -> Column:
        return entry["key"].rlike(CONTROL) | F.coalesce(entry["value"], F.lit("")).rlike(CONTROL)

    entries = F.map_entries(labels)
    return (
        F.when(labels.isNull(), None)
        .when(F.size(labels) > MAX_LABELS, f"more than {MAX_LABELS} labels")
        .when(F.exists(entries, too_long), f"label longer than {MAX_LABEL}")
        .when(F.exists(entries, unclean), "control character in a label")
    )


def point(
    *, at: Column, host: Column, service: Column, metric: Column, labels: Column | None, value: Column, counter: Column
) -> Column:
    """A `POINT`: the parts of one point, as text."""
    parts = {"at": at, "host": host, "service": service, "metric": metric, "value": value}
    fields = [c.cast("string").alias(k) for k, c in parts.items()]
    fields.insert(4, (F.lit(None) if labels is None else labels).cast(LABELS_TYPE).alias("labels"))
    fields.append(F.coalesce(counter, F.lit(False)).alias("counter"))
    return F.struct(*fields)


def line(*, at: Column, host: Column, service: Column, level: Column, message: Column) -> Column:
    """A `LINE`: the parts of one log line, as text."""
    parts = {"at": at, "host": host, "service": service, "level": level, "message": message}
    return F.struct(*(c.cast("string").alias(k) for k, c in parts.items()))


def checked_points(points: Column) -> Column:
    """array<POINT> -> array<struct<event_time, series, host, value, reason>>, same length and order."""

    def read(p: Column) -> Column:
        value = F.when(F.lower(p["value"]).rlike(_NOT_FINITE), None).otherwise(number(p["value"]))
        return F.struct(p.alias("p"), instant(p["at"]).alias("time"), value.alias("value"))

    def check(r: Column) -> Column:
        p = r["p"]
        reason = F.coalesce(
            time_problem(p["at"], r["time"]),
            name_problem("host.name", p["host"], True),
            name_problem("service.name", p["service"], False),
            name_problem("metric.name", p["metric"], True),
            labels_problem(p["labels"]),
            value_problem(p["value"], r["value"], p["counter"]),
        )
        service = F.coalesce(p["service"], F.lit(""))
        metric = F.concat(p["metric"], labels_text(p["labels"]))
        series = series_name(p["counter"], p["host"], service, metric)
        return _row(
            reason,
            event_time=(r["time"], "timestamp"),
            series=(series, "string"),
            host=(p["host"], "string"),
            value=(r["value"], "double"),
        )

    return F.transform(F.transform(points, read), check)


def checked_lines(lines: Column) -> Column:
    """array<LINE> -> array<struct<event_time, host, service, level, message, reason>>, same length and order."""

    def read(p: Column) -> Column:
        return F.struct(p.alias("p"), instant(p["at"]).alias("time"))

    def check(r: Column) -> Column:
        p = r["p"]
        reason = F.coalesce(
            time_problem(p["at"], r["time"]),
            name_problem("host.name", p["host"], True),
            name_problem("service.name", p["service"], False),
            F.when(text_or_null(p["message"]).isNull(), "no message"),
        )
        return _row(
            reason,
            event_time=(r["time"], "timestamp"),
            host=(p["host"], "string"),
            service=(F.coalesce(p["service"], F.lit("")), "string"),
            level=(level_name(p["level"]), "string"),
            message=(F.substring(p["message"], 1, MAX_MESSAGE), "string"),
        )

    return F.transform(F.transform(lines, read), check)


def _row(reason: Column, **columns: tuple[Column, str]) -> Column:
    good = reason.isNull()
    fields = [F.when(good, c).cast(t).alias(k) for k, (c, t) in columns.items()]
    return F.struct(*fields, reason.cast("string").alias("reason"))


def good_and_one_bad(rows: Column) -> Column:
    """All rows without a reason, and the first with one: the record is reported once, its good rows are kept."""
    good = F.filter(rows, lambda r: r["reason"].isNull())
    bad = F.slice(F.filter(rows, lambda r: r["reason"].isNotNull()), 1, 1)
    return F.concat(good, bad)


_LEVELS: dict[str, Sequence[str]] = {
    "trace": ("trace", "finest", "verbose", "10"),
    "debug": ("debug", "dbg", "fine", "7", "20"),
    "info": ("info", "information", "informational", "notice", "5", "6", "30"),
    "warn": ("warn", "warning", "4", "40"),
    "error": ("error", "err", "severe", "3", "50"),
    "fatal": ("fatal", "crit", "critical", "emerg", "emergency", "alert", "panic", "dpanic", "0", "1", "2", "60"),
}


def level_name(level: Column) -> Column:
    """One of trace, debug, info, warn, error, fatal; info where it is unknown. Numbers are syslog's severities."""
    given = F.lower(F.trim(level))
    known = F.when(given.isin(*_LEVELS["info"]), "info")
    for name, words in _LEVELS.items():
        known = known.when(given.isin(*words), name)
    return known.otherwise("info")


def syslog_level(severity: Column) -> Column:
    """The level of a syslog severity 0..7."""
    return level_name(severity.cast("string"))


def otel_level(text: Column, severity: Column) -> Column:
    """The level of an OpenTelemetry record: its text where that is known, else its number 1..24, else null."""
    words = [w for names in _LEVELS.values() for w in names if not w.isdigit()]
    short = F.regexp_replace(F.lower(text), "[0-9]$", "")  # INFO2 is a shade of INFO
    number_ = F.coalesce(F.regexp_extract(severity, "([A-Z]+)[0-9]?$", 1), F.lit(""))
    named = F.when(F.lower(number_).isin(*words), F.lower(number_))
    grade = severity.try_cast("int")
    bands = [(4, "trace"), (8, "debug"), (12, "info"), (16, "warn"), (20, "error"), (24, "fatal")]
    banded = F.when(grade < 1, None)
    for upper, name in bands:
        banded = banded.when(grade <= upper, name)
    return F.when(short.isin(*words), short).otherwise(F.coalesce(named, banded))
