"""Telegraf, `data_format = "json"`: one metric, or a batch of them. Numeric fields become points `name.field`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, let, name_labels, not_null, point, truncate
from pipelines.inputs.members import ANY, LIST, OBJECT, Members, parse_member

_FIELDS = "map<string,variant>"
_METRICS = f"array<struct<name:string,tags:{LABELS},fields:{_FIELDS},timestamp:string>>"
MEMBERS = {"metrics": LIST, "name": ANY, "timestamp": ANY, "tags": OBJECT, "fields": OBJECT}

# Telegraf's JSON does not say what is a running total; these of its own plugins are
_TOTALS = (
    r"^(net\.((bytes|packets|err|drop)_.*|(tcp|udp|icmp|ip)_(?!currestab|maxconn|rto|forwarding|defaultttl).*)|diskio\.(reads|writes|.*_bytes|.*_time|merged_.*)|cpu\.time_.*|swap\.(in|out)"
    r"|kernel\.(context_switches|interrupts|processes_forked|disk_pages_(in|out))|nstat\.(Tcp|Udp|Ip|Icmp).*(In|Out|Opens|Segs|Discards|Errors|Errs)[A-Za-z0-9]{0,64}"
    r"|docker_container_net\.[rt]x_.*|docker_container_blkio\.io_.*|procstat\.(cpu_time_.*|(read|write)_(bytes|count)|.*_switches|.*_faults)"
    r"|nginx\.(accepts|handled|requests)|redis\.(keyspace_(hits|misses)|total_.*|(expired|evicted)_keys)|postgresql\.(xact|blks|tup|conflicts|deadlocks).*"
    r"|mysql\.(queries|questions|connections|slow_queries|bytes_.*|com_.*|handler_.*)|.*\.counter|.*_total"
    r"|prometheus(_remote_write)?\..*_(count|sum|bucket)|elasticsearch_jvm\.gc_collectors_(young|old)_collection_count)$"
)
# what tells processes apart, and is no measurement
_IDENTITIES = ("pid", "ppid")


def points(members: Members) -> Column:
    """A record's `MEMBERS` -> points; null where there is neither a list of metrics nor a metric."""
    metric = F.struct(
        members["name"].alias("name"),
        parse_member(members["tags"], LABELS).alias("tags"),
        parse_member(members["fields"], _FIELDS).alias("fields"),
        members["timestamp"].alias("timestamp"),
    )
    one = F.when(members["name"].isNotNull() & members["fields"].isNotNull(), F.array(metric))
    metrics = F.coalesce(parse_member(members["metrics"], _METRICS), one)
    return F.flatten(not_null(F.transform(not_null(metrics), _of_metric)))


def _of_metric(metric: Column) -> Column:
    # of all fields: a map is searched from its beginning, and there may be thousands of tags and of fields
    def of_tags(tags: Column) -> Column:
        shared = F.struct(tags["host"].alias("host"), tags["service"].alias("service"), _labels(tags).alias("labels"))
        return let(shared, lambda own: _of_fields(metric, own))

    return let(
        let(metric["tags"], lambda all_tags: F.transform_values(all_tags, lambda _, value: truncate(value))), of_tags
    )


def _labels(tags: Column) -> Column:
    return name_labels(F.map_filter(tags, lambda k, _: ~k.isin("host", "service")))


def _of_fields(metric: Column, shared: Column) -> Column:
    def of_field(field: Column) -> Column:
        whole = F.concat(truncate(metric["name"]), F.lit("."), truncate(field["key"]))
        return let(truncate(whole), lambda name: of_named(name, field))

    def of_named(name: Column, field: Column) -> Column:
        return point(
            at=metric["timestamp"],
            host=shared["host"],
            service=shared["service"],
            metric=name,
            labels=shared["labels"],
            value=field["value"].try_cast("string"),
            counter=name.rlike(_TOTALS),
        )

    def measured(field: Column) -> Column:
        return is_number(field["value"]) & ~field["key"].isin(*_IDENTITIES)

    return F.transform(F.filter(F.map_entries(metric["fields"]), measured), of_field)


def is_number(value: Column) -> Column:
    """Whether a variant is a JSON number (and not text that looks like one)."""
    # the schema of an array is that of all its items in one: which takes long for many objects that differ
    array, members = (F.try_variant_get(value, "$", kind) for kind in ("array<variant>", "map<string,variant>"))
    nested = array.isNotNull() | members.isNotNull()
    return F.when(nested, False).otherwise(F.schema_of_variant(value).rlike("^(BIGINT|DOUBLE|DECIMAL|FLOAT)"))
