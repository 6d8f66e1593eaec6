"""OpenTelemetry Collector, `otlp_json` or `otlp_proto`: one record holds many resources, scopes, metrics and points.

Of protobuf, pipelines/jvm/OtlpText.java makes the JSON that is read here. 64-bit integers come as strings, and zeros are left
out. A cumulative monotonic sum is a counter, any other number a gauge; a histogram or summary gives `.count` and `.sum`,
counters where they are cumulative (a summary always is). Quantiles and buckets are left out. A point that is flagged as having no value
has none, whatever its numbers say.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from models.core.series import LEVELS
from pipelines.inputs import shippers
from pipelines.inputs.fields import (
    LABELS,
    distinct_map,
    let,
    line,
    name_labels,
    not_empty,
    not_null,
    part,
    point,
    truncate,
)
from pipelines.inputs.members import LIST, Members, parse_member

_VALUE = "struct<stringValue:string,intValue:string,doubleValue:string,boolValue:string>"
_ATTRIBUTES = f"array<struct<key:string,value:{_VALUE}>>"
_RESOURCE = f"resource:struct<attributes:{_ATTRIBUTES}>"
_DATA = (
    f"array<struct<attributes:{_ATTRIBUTES},timeUnixNano:string,asDouble:string,asInt:string,count:string,sum:string,"
    "flags:string>>"
)
_FORM = f"struct<dataPoints:{_DATA},aggregationTemporality:string,isMonotonic:boolean>"
_FORMS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
_METRIC = "struct<name:string," + ",".join(f"{form}:{_FORM}" for form in _FORMS) + ">"
_METRICS = f"array<struct<{_RESOURCE},scopeMetrics:array<struct<metrics:array<{_METRIC}>>>>>"
_RECORD = (
    "struct<timeUnixNano:string,observedTimeUnixNano:string,severityNumber:int,severityText:string,"
    "body:struct<stringValue:string,intValue:string,doubleValue:string,boolValue:string,"
    "kvlistValue:string,arrayValue:string>>"
)
_LOGS = f"array<struct<{_RESOURCE},scopeLogs:array<struct<logRecords:array<{_RECORD}>>>>>"
OF_POINTS, OF_LINES = {"resourceMetrics": LIST}, {"resourceLogs": LIST}

# Attributes of a resource that tell apart what is on one host. A pod is known without what owns it, whose name may change with each release.
_RESOURCE_LABELS = (
    r"^(container|k8s\.(namespace|pod|container|volume)"
    r"|[a-z]{1,32}\.(queue|exchange|vhost|database|schema|table|index|topic|partition|node|volume|datastore|vm))\.name\z"
)
_POD, _NOT_IN_A_POD = "k8s.pod.name", r"^k8s\.[a-z]{1,32}\.name\z"
_OF_HOSTS = ("k8s.node.name", "k8s.cluster.name")
# A resource of the Collector's process scraper is one process of the host. Gauges of processes of one name are judged together; running
# totals of several in one series would be taken for resets. An application's own resource has a service, and a new pid with each start.
_PROCESS, _PROCESS_ID = "process.executable.name", "process.pid"
_OF_BODY = (*shippers.MEMBERS, "message", "log.level", "service.name")  # members of a body that are read
_NOT_RECORDED = 1  # DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_SEVERITIES = [level for level in LEVELS for _ in range(4)]


def points(members: Members) -> Column:
    """A record's members -> points."""
    resource_metrics = parse_member(members["resourceMetrics"], _METRICS)

    def of_resource(resource: Column, attributes: Column) -> Column:
        metrics = F.flatten(not_null(F.transform(resource["scopeMetrics"], lambda scope: scope["metrics"])))
        return let(_shared(attributes), lambda own: of_metrics(not_null(metrics), own))

    def of_metrics(metrics: Column, shared: Column) -> Column:
        return F.flatten(not_null(F.transform(metrics, lambda metric: _of_metric(metric, shared))))

    return F.flatten(
        not_null(F.transform(not_null(resource_metrics), lambda r: let(_resource(r), lambda a: of_resource(r, a))))
    )


def lines(members: Members) -> Column:
    """A record's members -> lines."""
    resource_logs = parse_member(members["resourceLogs"], _LOGS)

    def of_resource(resource: Column, attributes: Column) -> Column:
        records = F.flatten(not_null(F.transform(resource["scopeLogs"], lambda scope: scope["logRecords"])))
        return F.transform(not_null(records), lambda record: _of_record(record, attributes))

    return F.flatten(
        not_null(F.transform(not_null(resource_logs), lambda r: let(_resource(r), lambda a: of_resource(r, a))))
    )


def _resource(resource: Column) -> Column:
    return F.coalesce(_attributes(resource["resource"]["attributes"]), F.create_map().cast(LABELS))


def _attributes(attributes: Column) -> Column:
    def entry(a: Column) -> Column:
        return F.struct(truncate(a["key"]).alias("key"), truncate(_scalar(a["value"])).alias("value"))

    return distinct_map(F.transform(attributes, entry))


def _scalar(value: Column) -> Column:
    return F.coalesce(value["stringValue"], value["intValue"], value["doubleValue"], value["boolValue"])


def _host(resource: Column) -> Column:
    # a program in a pod takes the pod's name for the host's
    return F.coalesce(resource["k8s.node.name"], resource["host.name"], resource["host.id"])


def _shared(resource: Column) -> Column:
    """What all points of a resource have."""
    service = resource["service.name"]

    def labels(*of_process: str) -> Column:
        def told_apart(key: Column) -> Column:
            named = key.rlike(_RESOURCE_LABELS) | (key.rlike(_NOT_IN_A_POD) & resource[_POD].isNull())
            return (named & ~key.isin(*_OF_HOSTS)) | (key.isin(*of_process) & service.isNull())

        return F.map_filter(resource, lambda key, _: told_apart(key))

    return F.struct(
        _host(resource).alias("host"),
        service.alias("service"),
        labels(_PROCESS).alias("labels"),
        labels(_PROCESS, _PROCESS_ID).alias("labels_of_totals"),
    )


def _of_metric(metric: Column, resource: Column) -> Column:
    form = F.coalesce(*(metric[form] for form in _FORMS))
    return let(
        form, lambda f: F.flatten(F.transform(not_null(f["dataPoints"]), lambda d: _of_data(d, f, metric, resource)))
    )


def _of_data(data: Column, form: Column, metric: Column, resource: Column) -> Column:
    plain = F.coalesce(metric["gauge"], metric["sum"]).isNotNull()
    # a point that says that there is no value, as where a target of Prometheus was not reached: its zeros are none
    recorded = F.coalesce(data["flags"].try_cast("bigint").bitwiseAND(F.lit(_NOT_RECORDED)), F.lit(0)) == 0
    number = F.array(part("", F.when(recorded, F.coalesce(data["asDouble"], data["asInt"]))))
    count = part(".count", F.when(recorded, F.coalesce(data["count"], F.lit("0"))))
    given = F.coalesce(data["sum"], F.when(metric["summary"].isNotNull(), "0"))  # of a histogram it is optional
    given = F.when(recorded, given)
    both = F.when(given.isNull(), F.array(count)).otherwise(F.array(count, part(".sum", given)))
    cumulative = form["aggregationTemporality"].isin("2", "AGGREGATION_TEMPORALITY_CUMULATIVE")
    counter = F.when(metric["gauge"].isNotNull(), False).when(metric["summary"].isNotNull(), True)
    counter = counter.otherwise(cumulative & F.coalesce(form["isMonotonic"], metric["sum"].isNull()))

    inherited = F.when(counter, resource["labels_of_totals"]).otherwise(resource["labels"])
    labels = let(_attributes(data["attributes"]), lambda own: name_labels(_labels(own, inherited)))

    def of_part(p: Column, labels: Column) -> Column:
        return point(
            at=data["timeUnixNano"],
            host=resource["host"],
            service=resource["service"],
            metric=F.concat(truncate(metric["name"]), p["suffix"]),
            labels=labels,
            value=p["value"],
            counter=counter,
        )

    return let(labels, lambda known: F.transform(F.when(plain, number).otherwise(both), lambda p: of_part(p, known)))


def _labels(own: Column, inherited: Column) -> Column:
    missing = F.map_filter(inherited, lambda k, _: ~F.map_contains_key(own, k))
    return F.when(own.isNull(), inherited).otherwise(F.map_concat(own, missing))


def _of_record(record: Column, resource: Column) -> Column:
    body = record["body"]
    started = F.when(record["timeUnixNano"] != "0", record["timeUnixNano"])  # 0 means unknown
    members = F.from_json(body["kvlistValue"], f"struct<values:{_ATTRIBUTES}>")["values"]

    def entry(member: Column) -> Column:
        return F.struct(member["key"].alias("key"), _scalar(member["value"]).alias("value"))

    def of_members(own: Column) -> Column:
        service = F.coalesce(resource["service.name"], resource["k8s.container.name"], resource["container.name"])
        return line(
            at=F.coalesce(started, record["observedTimeUnixNano"]),
            host=_host(resource),
            service=F.coalesce(service, not_empty(own["service.name"]), shippers.service_in(own)),
            level=F.coalesce(_level(record), not_empty(own["log.level"]), shippers.level_in(own)),
            message=F.coalesce(
                _scalar(body),
                not_empty(own["message"]),
                shippers.message_in(own),
                body["kvlistValue"],
                body["arrayValue"],
            ),
        )

    # not cut: a message may be long
    read = F.transform(F.filter(members, lambda member: member["key"].isin(*_OF_BODY)), entry)
    return let(distinct_map(read), of_members)


def _level(record: Column) -> Column:
    """The level of the number 1..24, which is normalised; else the text as it was written."""
    graded = F.when(record["severityNumber"] > 0, F.try_element_at(F.lit(_SEVERITIES), record["severityNumber"]))
    return F.coalesce(graded, record["severityText"])
