"""OpenTelemetry Collector, `encoding: otlp_json`: one record holds many resources, scopes, metrics and points.

64-bit integers come as strings. A cumulative monotonic sum is a counter, any other number a gauge; a histogram or summary
gives `.count` and `.sum`, counters where they are cumulative (a summary always is). Quantiles and buckets are left out.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS_TYPE, NO_POINTS, first_of, let, line, otel_level, point

_VALUE = "struct<stringValue:string,intValue:string,doubleValue:string,boolValue:string>"
_ATTRIBUTES = f"array<struct<key:string,value:{_VALUE}>>"
_NUMBERS = f"array<struct<attributes:{_ATTRIBUTES},timeUnixNano:string,asDouble:string,asInt:string>>"
_DISTRIBUTIONS = f"array<struct<attributes:{_ATTRIBUTES},timeUnixNano:string,count:string,sum:string>>"
_METRIC = (
    f"struct<name:string,gauge:struct<dataPoints:{_NUMBERS}>,"
    f"sum:struct<dataPoints:{_NUMBERS},aggregationTemporality:string,isMonotonic:boolean>,"
    f"histogram:struct<dataPoints:{_DISTRIBUTIONS},aggregationTemporality:string>,"
    f"exponentialHistogram:struct<dataPoints:{_DISTRIBUTIONS},aggregationTemporality:string>,"
    f"summary:struct<dataPoints:{_DISTRIBUTIONS}>>"
)
_RESOURCE = f"resource:struct<attributes:{_ATTRIBUTES}>"
METRICS = f"array<struct<{_RESOURCE},scopeMetrics:array<struct<metrics:array<{_METRIC}>>>>>"
_RECORD = (
    "struct<timeUnixNano:string,observedTimeUnixNano:string,severityNumber:string,severityText:string,"
    "body:struct<stringValue:string,intValue:string,doubleValue:string,boolValue:string,kvlistValue:string,arrayValue:string>>"
)
LOGS = f"array<struct<{_RESOURCE},scopeLogs:array<struct<logRecords:array<{_RECORD}>>>>>"

_MAX_ATTRIBUTES = 128
# parts of a resource that tell apart what runs on one host
_RESOURCE_LABELS = ("k8s.namespace.name", "k8s.pod.name", "k8s.container.name", "container.name")


def points(resource_metrics: Column) -> Column:
    """The text of `resourceMetrics` -> array<POINT>; null where it is not of OTLP's shape."""

    def of_resource(resource: Column) -> Column:
        metrics = F.flatten(_known(F.transform(resource["scopeMetrics"], lambda scope: scope["metrics"])))
        return let(
            _attributes(resource["resource"]["attributes"]),
            lambda known: F.flatten(F.transform(_known(metrics), lambda m: _of_metric(m, known))),
        )

    return F.flatten(_known(F.transform(_known(F.from_json(resource_metrics, METRICS)), of_resource)))


def lines(resource_logs: Column) -> Column:
    """The text of `resourceLogs` -> array<LINE>; null where it is not of OTLP's shape."""

    def of_resource(resource: Column) -> Column:
        records = F.flatten(_known(F.transform(resource["scopeLogs"], lambda scope: scope["logRecords"])))
        return let(
            _attributes(resource["resource"]["attributes"]),
            lambda known: F.transform(_known(records), lambda r: _of_record(r, known)),
        )

    return F.flatten(_known(F.transform(_known(F.from_json(resource_logs, LOGS)), of_resource)))


def _known(items: Column) -> Column:
    # a null inside makes flatten null, and with it the whole record
    return F.filter(items, lambda item: item.isNotNull())


def _scalar(value: Column) -> Column:
    return F.coalesce(value["stringValue"], value["intValue"], value["doubleValue"], value["boolValue"])


def _attributes(attributes: Column) -> Column:
    """The first 128 attributes as a map; the first of equal keys wins, because a map of repeated keys would raise."""

    def of_named(named: Column) -> Column:
        keys = F.transform(named, lambda a: a["key"])
        first = F.filter(named, lambda a, i: F.array_position(keys, a["key"]) == i + 1)
        entries = F.transform(first, lambda a: F.struct(a["key"].alias("key"), _scalar(a["value"]).alias("value")))
        return F.map_from_entries(entries)

    named = F.slice(F.filter(attributes, lambda a: a["key"].isNotNull()), 1, _MAX_ATTRIBUTES)
    return F.coalesce(let(named, of_named), F.create_map().cast(LABELS_TYPE))


def _host(resource: Column) -> Column:
    return first_of(resource["host.name"], resource["k8s.node.name"], resource["host.id"])


def _labels(resource: Column, attributes: Column) -> Column:
    def of_own(own: Column) -> Column:
        inherited = F.map_filter(resource, lambda k, _: k.isin(*_RESOURCE_LABELS) & ~F.map_contains_key(own, k))
        return F.map_concat(own, inherited)

    return let(_attributes(attributes), of_own)


def _of_metric(metric: Column, resource: Column) -> Column:
    total = metric["sum"]
    counter = _cumulative(total["aggregationTemporality"]) & F.coalesce(total["isMonotonic"], F.lit(False))
    groups = [
        _numbers(metric["name"], metric["gauge"]["dataPoints"], F.lit(False), resource),
        _numbers(metric["name"], total["dataPoints"], counter, resource),
        _distributions(metric["name"], metric["summary"]["dataPoints"], F.lit(True), resource),
    ]
    for form in ("histogram", "exponentialHistogram"):
        cumulative = _cumulative(metric[form]["aggregationTemporality"])
        groups.append(_distributions(metric["name"], metric[form]["dataPoints"], cumulative, resource))
    return F.concat(*groups)


def _cumulative(temporality: Column) -> Column:
    return F.coalesce(temporality.isin("2", "AGGREGATION_TEMPORALITY_CUMULATIVE"), F.lit(False))


def _numbers(name: Column, data: Column, counter: Column, resource: Column) -> Column:
    def of_point(d: Column) -> Column:
        return point(
            at=d["timeUnixNano"],
            host=_host(resource),
            service=resource["service.name"],
            metric=name,
            labels=_labels(resource, d["attributes"]),
            value=F.coalesce(d["asDouble"], d["asInt"]),
            counter=counter,
        )

    return F.coalesce(F.transform(_known(data), of_point), F.array().cast(NO_POINTS))


def _distributions(name: Column, data: Column, counter: Column, resource: Column) -> Column:
    def of_point(d: Column) -> Column:
        def part(what: str) -> Column:
            return point(
                at=d["timeUnixNano"],
                host=_host(resource),
                service=resource["service.name"],
                metric=F.concat(name, F.lit(f".{what}")),
                labels=_labels(resource, d["attributes"]),
                value=d[what],
                counter=counter,
            )

        both = F.array(part("count"), part("sum"))
        return F.filter(both, lambda p: p["value"].isNotNull() | p["metric"].endswith(".count"))  # sum is optional

    return F.coalesce(F.flatten(F.transform(_known(data), of_point)), F.array().cast(NO_POINTS))


def _of_record(record: Column, resource: Column) -> Column:
    body = record["body"]
    started = F.when(record["timeUnixNano"] != "0", record["timeUnixNano"])  # 0 means unknown
    return line(
        at=F.coalesce(started, record["observedTimeUnixNano"]),
        host=_host(resource),
        service=resource["service.name"],
        level=otel_level(record["severityText"], record["severityNumber"]),
        message=F.coalesce(_scalar(body), body["kvlistValue"], body["arrayValue"]),
    )
