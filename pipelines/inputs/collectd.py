"""collectd, `write_kafka` with `Format JSON`: an array of value lists. Each value becomes a point, named by plugin, type and data source."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import let, name_labels, not_null, point, truncate
from pipelines.inputs.members import LIST, Members, parse_member

_TEXTS = ("time", "host", "plugin", "plugin_instance", "type", "type_instance")
_LISTS = ("values", "dstypes", "dsnames")
_PARTS = ",".join((*(f"{name}:array<string>" for name in _LISTS), *(f"{name}:string" for name in _TEXTS)))
# `RecordText` makes an array the one member of an object, because the other forms are objects
_VALUE_LISTS = f"array<struct<{_PARTS}>>"
MEMBERS = {"collectd": LIST}


def points(members: Members) -> Column:
    """A record's `MEMBERS` -> points."""
    value_lists = parse_member(members["collectd"], _VALUE_LISTS)
    return F.flatten(not_null(F.transform(not_null(value_lists), _of_list)))


def _of_list(value_list: Column) -> Column:
    return let(
        F.struct(_metric(value_list).alias("metric"), _labels(value_list).alias("labels")),
        lambda shared: F.transform(value_list["values"], lambda value, i: _of_value(value_list, shared, value, i)),
    )


def _metric(value_list: Column) -> Column:
    """`plugin.type`; where both are one word, that word."""
    plugin, kind = truncate(value_list["plugin"]), truncate(value_list["type"])
    return F.when(plugin == kind, plugin).otherwise(F.concat(plugin, F.lit("."), kind))


def _labels(value_list: Column) -> Column:
    """What says which of several like things it is, where anything does."""
    names = ("plugin_instance", "type_instance")
    pairs = (part for name in names for part in (F.lit(name), truncate(value_list[name])))
    return name_labels(F.map_filter(F.create_map(*pairs), lambda _, value: value != ""))


def _of_value(value_list: Column, shared: Column, value: Column, place: Column) -> Column:
    """The point of a value; without the name of its data source it would be in the series of another one."""
    source = truncate(F.get(value_list["dsnames"], place))
    return point(
        at=value_list["time"],
        host=value_list["host"],
        service=F.lit(None).cast("string"),
        metric=F.when(source == "value", shared["metric"]).otherwise(F.concat(shared["metric"], F.lit("."), source)),
        labels=shared["labels"],
        value=value,
        counter=F.get(value_list["dstypes"], place).isin("counter", "derive"),
    )
