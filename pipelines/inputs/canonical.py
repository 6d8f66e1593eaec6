"""The canonical forms: flat keys (`"host.name": ...`) or nested (`"host": {"name": ...}`), one point or line a record.

Flat records are the hot path: `flat_point` and `flat_line` read their bytes in Java (pipelines/jvm). Whatever is not plainly
good there is null and is read by `points` and `lines`, slowly and with reasons.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import line, named, point
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


def flat_point(record: Column) -> Column:
    """The bytes of a record -> struct<event_time, series, value>; null for what is not a plainly good flat point."""
    return F.call_function("kappa_flat_point", record)


def flat_line(record: Column) -> Column:
    """The bytes of a record -> struct<event_time, host, service, level, message>; null for what is not plainly good."""
    return F.call_function("kappa_flat_line", record)


def points(shape: Column) -> Column:
    """A record's `SHAPE` -> points, one."""
    metric = shape["metric"]
    return F.array(
        point(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=service_of(shape),
            metric=F.coalesce(shape["metric.name"], metric["name"]),
            labels=named(shape["labels"]),
            value=F.coalesce(shape["metric.value"], metric["value"]),
            counter=F.coalesce(shape["metric.type"], metric["type"]) == "counter",
        )
    )


def lines(shape: Column, members: Column) -> Column:
    """A record's `SHAPE` -> lines, one. Filebeat's documents are the same, with more to fall back on, and so are those of other shippers.

    `members` are looked through for what these name otherwise. What a syslog server or an agent hands on is of the host and program that wrote it.
    """
    dataset, syslog = F.coalesce(shape["event.dataset"], shape["event"]["dataset"]), shape["log"]["syslog"]
    file = service_of_file(F.coalesce(shape["log.file.path"], shape["log"]["file"]["path"]))
    container = F.coalesce(container_of(shape["kubernetes"]), shape["container"]["name"])
    named = F.coalesce(service_of(shape), container, syslog["appname"], dataset, file, service_in(members))
    severity = F.pmod(F.coalesce(syslog["severity"]["code"], syslog["priority"]).try_cast("int"), F.lit(8))
    return F.array(
        line(
            at=F.coalesce(shape["@timestamp"], time_in(members)),
            host=F.coalesce(
                node_of(shape["kubernetes"]),
                syslog["hostname"],
                host_of(shape),
                host_in(members),
                shape["agent"]["name"],
            ),
            service=F.coalesce(named, shape["process"]["name"], shape["event"]["provider"], shape["agent"]["type"]),
            level=F.coalesce(level_of(shape), severity.cast("string"), level_in(members)),
            message=F.coalesce(message_of(shape), message_in(members, shape["log"], shape["event"])),
        )
    )


def lacks_a_part(shape: Column) -> Column:
    """Whether a record lacks a time, host, service, level or message under the names of the canonical form."""
    parts = shape["@timestamp"], host_of(shape), service_of(shape), level_of(shape), message_of(shape)
    return reduce(or_, (part.isNull() for part in parts))


def message_of(shape: Column) -> Column:
    """The message, as it was before a module of Filebeat took it apart where there is no other."""
    return F.coalesce(F.nullif(shape["message"], F.lit("")), shape["event"]["original"])


def level_of(shape: Column) -> Column:
    """The level, flat or nested."""
    return F.coalesce(shape["log.level"], shape["log"]["level"])


def host_of(shape: Column) -> Column:
    """The host's name, flat or nested."""
    return F.coalesce(shape["host.name"], shape["host"]["name"], shape["host"]["hostname"], shape["agent"]["hostname"])


def service_of(shape: Column) -> Column:
    """The service's name, flat or nested; null where there is none."""
    return F.coalesce(shape["service.name"], shape["service"]["name"])
