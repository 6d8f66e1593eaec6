"""The canonical forms: flat keys (`"host.name": ...`) or nested (`"host": {"name": ...}`), one point or line a record.

Flat records are the hot path: `flat_point` and `flat_line` read their bytes in Java (pipelines/jvm). Whatever is not plainly
good there is null and is read by `points` and `lines`, slowly and with reasons.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, line, name_labels, point
from pipelines.inputs.members import ANY, OBJECT, Members, parse_member, paths_of_kind
from pipelines.inputs.shippers import (
    container_of,
    host_in,
    level_in,
    message_in,
    node_of,
    service_in,
    service_of_file,
    time_in,
)

COMMON = paths_of_kind(
    ANY,
    (
        *("@timestamp", "record", "message", "host.name", "host.hostname", "agent.hostname", "service.name"),
        *("event.dataset", "event.module"),
    ),
)
OF_POINTS = paths_of_kind(ANY, ("metric.name", "metric.value", "metric.type")) | {"labels": OBJECT}
OF_LINES = paths_of_kind(
    ANY,
    (
        *("log.level", "log.file.path", "log.syslog.hostname", "log.syslog.appname", "log.syslog.priority"),
        *("log.syslog.severity.code", "container.name", "process.name", "event.original", "event.provider"),
        *("agent.name", "agent.type"),
    ),
)


def flat_point(record: Column) -> Column:
    """The bytes of a record -> struct<event_time, series, value>; null for what is not a plainly good flat point."""
    return F.call_function("kappa_flat_point", record)


def flat_line(record: Column) -> Column:
    """The bytes of a record -> struct<event_time, host, service, level, message>; null for what is not plainly good."""
    return F.call_function("kappa_flat_line", record)


def points(members: Members) -> Column:
    """A record's members -> points, one."""
    return F.array(
        point(
            at=members["@timestamp"],
            host=host_of(members),
            service=members["service.name"],
            metric=members["metric.name"],
            labels=name_labels(parse_member(members["labels"], LABELS)),
            value=members["metric.value"],
            counter=members["metric.type"] == "counter",
        )
    )


def lines(members: Members) -> Column:
    """A record's members -> lines, one. Filebeat's documents are the same, with more to fall back on, and so are those of other shippers.

    What a syslog server or an agent hands on is of the host and program that wrote it. The message is as it was before a module of Filebeat
    took it apart where there is no other.
    """
    container = F.coalesce(container_of(members), members["container.name"])
    file = service_of_file(members["log.file.path"])
    known = F.coalesce(
        members["service.name"], container, members["log.syslog.appname"], members["event.dataset"], file
    )
    last = F.coalesce(members["process.name"], members["event.provider"], members["agent.type"])
    severity = F.coalesce(members["log.syslog.severity.code"], members["log.syslog.priority"]).try_cast("int")
    return F.array(
        line(
            at=F.coalesce(members["@timestamp"], time_in(members)),
            host=F.coalesce(
                node_of(members),
                members["log.syslog.hostname"],
                host_of(members),
                host_in(members),
                members["agent.name"],
            ),
            service=F.coalesce(known, service_in(members), last),
            level=F.coalesce(members["log.level"], F.pmod(severity, F.lit(8)).cast("string"), level_in(members)),
            message=F.coalesce(F.nullif(members["message"], F.lit("")), members["event.original"], message_in(members)),
        )
    )


def host_of(members: Members) -> Column:
    """The host's name."""
    return F.coalesce(members["host.name"], members["host.hostname"], members["agent.hostname"])
