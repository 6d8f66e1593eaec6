"""Syslog lines: RFC 5424, and RFC 3164 as BSD's syslog and rsyslog's forwarding write it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import let, line

# bounded and possessive: a group repeated without bounds overflows Java's stack on hostile input
_PRIORITY = r"^<([0-9]{1,3})>"
_DATA = r"(?:-|(?:\[(?:[^\]\\]++|\\.){0,200}+\]){1,32}+)"
RFC5424 = (
    _PRIORITY
    + r"[1-9][0-9]? (\S{1,64}) (\S{1,512}) (\S{1,256}) (?:\S{1,256}) (?:\S{1,64}) "
    + _DATA
    + r"(?: ([\s\S]*))?$"
)
_BSD_TIME = r"([A-Z][a-z]{2}) ([ 0-9]?[0-9]) ([0-9]{2}:[0-9]{2}:[0-9]{2})"
RFC3164 = (
    _PRIORITY
    + r"(?:"
    + _BSD_TIME
    + r"|([0-9]{4}-[0-9]{2}-[0-9]{2}T\S{8,40})) (\S{1,512}) (?:([^\s:\[]{1,256}+)(?:\[[^\]\s]{0,64}\])?: ?)?([\s\S]*)$"
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


def lines(text: Column, arrival: Column) -> Column:
    """A line of text -> array<LINE> of one; null where it is no syslog line. `arrival` gives RFC 3164 its year."""
    return F.coalesce(
        let(
            F.call_function("kappa_rfc5424", text), lambda groups: F.when(groups.isNotNull(), F.array(_rfc5424(groups)))
        ),
        let(
            F.call_function("kappa_rfc3164", text),
            lambda groups: F.when(groups.isNotNull(), F.array(_rfc3164(groups, arrival))),
        ),
    )


def _rfc5424(groups: Column) -> Column:
    def group(index: int) -> Column:
        return groups[index - 1]

    return line(
        at=_unless_nil(group(2)),
        host=_unless_nil(group(3)),
        service=_unless_nil(group(4)),
        level=_severity(group(1)),
        message=_message(F.regexp_replace(group(5), "^\ufeff", "")),  # a byte order mark says that the message is UTF-8
    )


def _rfc3164(groups: Column, arrival: Column) -> Column:
    def group(index: int) -> Column:
        return groups[index - 1]

    at = F.coalesce(F.nullif(group(5), F.lit("")), _bsd_time(group(2), group(3), group(4), arrival))
    # without a host, as programs write to their own machine's socket, its place is the tag's
    host = F.when(~group(6).endswith(":"), group(6))
    return line(at=at, host=host, service=group(7), level=_severity(group(1)), message=_message(group(8)))


def _message(text: Column) -> Column:
    """Without what rsyslog leaves around it: the space before it in RFC 3164, and its template's end of the line."""
    return F.btrim(text, F.lit(" \r\n"))


def _unless_nil(text: Column) -> Column:
    return F.when(text != "-", text)


def _severity(priority: Column) -> Column:
    return F.when(priority.cast("int") <= 191, F.pmod(priority.cast("int"), F.lit(8))).cast("string")


def _bsd_time(month: Column, day: Column, clock: Column, arrival: Column) -> Column:
    """ISO text in UTC: the last such day and time at most a day after the arrival."""
    number = ((F.instr(F.lit(_MONTHS), month) + 2) / 3).cast("int")
    suffix = F.format_string("-%02d-%02dT%sZ", number, F.trim(day).cast("int"), clock)

    def of_year(year: Column) -> Column:
        return F.concat(F.lpad(year.cast("string"), 4, "0"), suffix)

    this, last = of_year(F.year(arrival)), of_year(F.year(arrival) - 1)
    soon = arrival + F.expr("interval 1 day")
    return F.when(this.try_cast("timestamp") <= soon, this).otherwise(last)
