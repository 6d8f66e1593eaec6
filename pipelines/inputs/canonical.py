"""The canonical forms: flat keys (`"host.name": ...`) or nested (`"host": {"name": ...}`), one point or line a record.

Flat records are the hot path: `flat_point` and `flat_line` read their bytes in Java (pipelines/jvm). Whatever is not plainly
good there is null and is read by `points` and `lines`, slowly and with reasons.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import line, named, point


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


def lines(shape: Column) -> Column:
    """A record's `SHAPE` -> lines, one. Filebeat's documents are the same, with more to fall back on."""
    dataset = F.coalesce(shape["event.dataset"], shape["event"]["dataset"])
    file = _file(F.coalesce(shape["log.file.path"], shape["log"]["file"]["path"]))
    return F.array(
        line(
            at=shape["@timestamp"],
            host=host_of(shape),
            service=F.coalesce(service_of(shape), dataset, file, shape["agent"]["type"]),
            level=F.coalesce(shape["log.level"], shape["log"]["level"]),
            message=F.coalesce(shape["message"], shape["event"]["original"]),
        )
    )


def _file(path: Column) -> Column:
    """The name of a path's last part, up to its first dot that is not at the beginning."""
    last = F.substring_index(F.translate(path, "\\", "/"), "/", -1)
    return F.substring_index(F.ltrim(last, F.lit(".")), ".", 1)


def host_of(shape: Column) -> Column:
    """The host's name, flat or nested."""
    return F.coalesce(shape["host.name"], shape["host"]["name"], shape["host"]["hostname"], shape["agent"]["hostname"])


def service_of(shape: Column) -> Column:
    """The service's name, flat or nested; null where there is none."""
    return F.coalesce(shape["service.name"], shape["service"]["name"])
