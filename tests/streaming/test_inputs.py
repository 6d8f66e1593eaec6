"""Laws of reading input events: every form gives its points, both ways of reading agree, nothing raises or vanishes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from support.named_levels import NAMED_LEVELS
from support.poison import ONE_HASH

from app.collector.log_tail import service_of_file
from models.core.series import Series, build
from pipelines.inputs import canonical, log_lines, telemetry_points
from pipelines.jvm import functions

pytestmark = pytest.mark.spark

AT = "2026-01-05T00:00:10.500Z"
MS = 1_767_571_210_500
NS = str(MS * 1_000_000)
APPENDED = datetime.fromtimestamp(MS / 1000 + 1, tz=UTC)
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
AFTER = "something after the JSON value"
FEW = settings(max_examples=2, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


def raw(spark: SparkSession, values: list[bytes | str | None]) -> DataFrame:
    """Kafka's columns; a record's place in the list is its offset."""
    data = [v.encode() if isinstance(v, str) else v for v in values]
    rows = [(None, None if v is None else bytearray(v), "t", 0, i, APPENDED) for i, v in enumerate(data)]
    return spark.createDataFrame(rows, KAFKA)


def by_record(read: DataFrame) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in read.withColumn("ms", F.unix_millis("event_time")).drop("raw_value", "event_time").collect():
        found[row["offset"]].append(row)
    return found


def points(spark: SparkSession, values: list[bytes | str | None]) -> dict[int, list[Row]]:
    return by_record(telemetry_points(raw(spark, values)))


def lines(spark: SparkSession, values: list[bytes | str | None]) -> dict[int, list[Row]]:
    return by_record(log_lines(raw(spark, values)))


def flat(**changes: Any) -> str:
    """A good flat record with members changed; `__` stands for a dot, `...` leaves a member out."""
    record = {"@timestamp": AT, "host.name": "h", "service.name": "s", "metric.name": "m", "metric.value": 1.5}
    record |= {("@timestamp" if k == "at" else k.replace("__", ".")): v for k, v in changes.items()}
    return json.dumps({k: v for k, v in record.items() if v is not ...})


def log(**changes: Any) -> str:
    message = {"metric__name": ..., "metric__value": ..., "log__level": "info", "message": "it works"}
    return flat(**(message | changes))


def attributes(**values: Any) -> list[dict[str, Any]]:
    return [{"key": k.replace("__", "."), "value": v} for k, v in values.items()]


def otlp(*metrics: dict[str, Any], resource: list[dict[str, Any]] | None = None, service: str | None = "s") -> str:
    own = attributes(host__name={"stringValue": "h"})
    own += [] if service is None else attributes(service__name={"stringValue": service})
    part = {
        "resource": {"attributes": own + (resource or [])},
        "scopeMetrics": [{"scope": {}, "metrics": list(metrics)}],
    }
    return json.dumps({"resourceMetrics": [part]})


def otlp_lines(body: dict[str, Any]) -> str:
    """A log record whose body is a map."""
    values = [{"key": key, "value": value} for key, value in body.items()]
    record = {"timeUnixNano": NS, "body": {"kvlistValue": {"values": values}}}
    own = {"attributes": attributes(host__name={"stringValue": "pod"}, k8s__node__name={"stringValue": "h"})}
    return json.dumps({"resourceLogs": [{"resource": own, "scopeLogs": [{"logRecords": [record]}]}]})


def data(**values: Any) -> dict[str, Any]:
    return {"timeUnixNano": NS, **values}


def metricbeat(module: str, **members: Any) -> str:
    event = {"dataset": f"{module}.x", "module": module, "duration": 12}
    known = {
        "@timestamp": AT,
        "event": event,
        "metricset": {"name": "x", "period": 10000},
        "host": {"name": "h", "uptime": 5},
    }
    return json.dumps(known | {"service": {"type": module}, "ecs": {"version": "8.0.0"}} | members)


def telegraf(name: str, fields: dict[str, Any], timestamp: int = MS // 1000, **tags: str) -> dict[str, Any]:
    return {"name": name, "fields": fields, "tags": {"host": "h", **tags}, "timestamp": timestamp}


def collectd(*values: float | None, **members: Any) -> dict[str, Any]:
    known = {
        "values": values,
        "dstypes": ["gauge"] * len(values),
        "dsnames": ["value"],
        "time": MS / 1000,
        "interval": 10.0,
    }
    names = {"host": "h", "plugin": "memory", "plugin_instance": "", "type": "memory", "type_instance": "free"}
    return known | names | members


def prometheus(value: str, **labels: str) -> str:
    name = labels.pop("name", "up")
    tags = {"__name__": name, "instance": "h:9100", "job": "s", **labels}
    return json.dumps({"timestamp": AT, "value": value, "name": name, "labels": tags})


JVM = {"mem": {"heap": {"used": {"bytes": 7}}}, "gc": {"collectors": {"old": {"collection": {"ms": 9}}}}}

NAMES_OF_RESOURCES = (
    *("rabbitmq.queue.name", "rabbitmq.vhost.name", "rabbitmq.node.name", "elasticsearch.node.name"),
    *("sqlserver.database.name", "postgresql.database.name", "postgresql.table.name", "postgresql.index.name"),
    *("k8s.deployment.name", "k8s.statefulset.name", "k8s.daemonset.name", "k8s.replicaset.name", "k8s.job.name"),
    *("k8s.cronjob.name", "k8s.hpa.name", "k8s.persistentvolumeclaim.name", "k8s.volume.name", "container.name"),
)
NO_LABELS = (
    *("host.image.name", "os.name", "telemetry.sdk.name", "process.runtime.name", "container.image.name"),
    *("k8s.cluster.name", "k8s.pod.uid", "deployment.environment.name", "service.instance.id", "k8s.deployment.uid"),
)
# members of a document of Metricbeat that is about one of many things, the name of its series, and the label
OF_MANY = {
    **{
        f"kubernetes.{kind}.name": (
            *("kubernetes", json.dumps({"kubernetes": {kind: {"name": "a", "n": 1}}})),
            *(f"gauge/h/kubernetes/kubernetes.{kind}.n", kind),
        )
        for kind in (
            *("deployment", "statefulset", "daemonset", "replicaset", "job", "cronjob", "service"),
            *("persistentvolumeclaim", "persistentvolume"),
        )
    },
    "kubernetes.system.container": (
        *("kubernetes", json.dumps({"kubernetes": {"system": {"container": "a", "n": 1}}})),
        *("gauge/h/kubernetes/kubernetes.system.n", "container"),
    ),
    "docker.network.interface": (
        *("docker", json.dumps({"docker": {"network": {"interface": "a", "inbound": {"bytes": 1}}}})),
        *("counter/h/docker/docker.network.inbound.bytes", "interface"),
    ),
    "elasticsearch.node.name": (
        *("elasticsearch", json.dumps({"elasticsearch": {"node": {"name": "a", "n": 1}}})),
        *("gauge/h/elasticsearch/elasticsearch.node.n", "node"),
    ),
    "system.raid.name": (
        *("system", json.dumps({"system": {"raid": {"name": "a", "disks": {"active": 1}}}})),
        *("gauge/h/system/system.raid.disks.active", "raid"),
    ),
}
GOOD: dict[str, tuple[str, set[tuple[str, float]]]] = {
    "flat": (flat(), {("gauge/h/s/m", 1.5)}),
    "flat, no service": (flat(service__name=...), {("gauge/h//m", 1.5)}),
    "flat, service null": (flat(service__name=None), {("gauge/h//m", 1.5)}),
    "flat, counter": (flat(metric__type="counter", metric__value=10**17), {("counter/h/s/m", 1e17)}),
    "flat, gauge": (flat(metric__type="gauge"), {("gauge/h/s/m", 1.5)}),
    "flat, names to encode": (flat(host__name="a/b", service__name="50%"), {("gauge/a%2Fb/50%25/m", 1.5)}),
    "flat, not ASCII": (flat(host__name="høst"), {("gauge/høst/s/m", 1.5)}),
    "flat, number as text": (flat(metric__value="-2.5e3"), {("gauge/h/s/m", -2500.0)}),
    "flat, labels": (flat(labels={"b": "2", "a": 1, "c": None}), {("gauge/h/s/m{a=1,b=2}", 1.5)}),
    "flat, no label in labels": (flat(labels={}), {("gauge/h/s/m", 1.5)}),
    "flat, label to encode": (flat(labels={"mount": "/var"}), {("gauge/h/s/m{mount=%2Fvar}", 1.5)}),
    "flat, brace in a label": (flat(labels={"a": "}{"}), {("gauge/h/s/m{a=}{}", 1.5)}),
    "flat, many labels": (
        flat(labels={f"k{i:02}": "v" * 100 for i in range(16)}),
        {("gauge/h/s/m{" + ",".join(f"k{i:02}=" + "v" * 100 for i in range(16)) + "}", 1.5)},
    ),
    "flat, members nobody reads": (flat(tags=["x"], other={"deep": [{}]}), {("gauge/h/s/m", 1.5)}),
    "flat, with a byte order mark": ("\ufeff" + flat(), {("gauge/h/s/m", 1.5)}),
    "flat, with a line's end": (flat() + "\r\n", {("gauge/h/s/m", 1.5)}),
    "nested": (
        json.dumps(
            {"@timestamp": AT, "host": {"name": "h"}, "service": {"name": "s"}, "metric": {"name": "m", "value": 1.5}}
        ),
        {("gauge/h/s/m", 1.5)},
    ),
    "Metricbeat": (
        metricbeat("system", system={"load": {"1": 0.5, "norm": {"5": 0.25}, "name": "7"}, "id": 3}),
        {("gauge/h/system/system.load.1", 0.5), ("gauge/h/system/system.load.norm.5", 0.25)},
    ),
    "Metricbeat, dimension and totals": (
        metricbeat("system", system={"network": {"name": "eth0", "in": {"bytes": 7}}}, labels={"zone": "a"}),
        {("counter/h/system/system.network.in.bytes{interface=eth0,zone=a}", 7.0)},
    ),
    "Metricbeat, disks: totals, and what is under way": (
        metricbeat("system", system={"diskio": {"name": "sda", "io": {"time": 5, "ops": 3}, "write": {"count": 7}}}),
        {
            ("counter/h/system/system.diskio.io.time{disk=sda}", 5.0),
            ("gauge/h/system/system.diskio.io.ops{disk=sda}", 3.0),
            ("counter/h/system/system.diskio.write.count{disk=sda}", 7.0),
        },
    ),
    "Metricbeat, as deep as its modules are": (
        metricbeat("elasticsearch", elasticsearch={"node": {"stats": {"jvm": JVM, "indices": {"docs": {"count": 3}}}}}),
        {
            ("gauge/h/elasticsearch/elasticsearch.node.stats.indices.docs.count", 3.0),
            ("gauge/h/elasticsearch/elasticsearch.node.stats.jvm.mem.heap.used.bytes", 7.0),
            ("gauge/h/elasticsearch/elasticsearch.node.stats.jvm.gc.collectors.old.collection.ms", 9.0),
        },
    ),
    "Metricbeat, of a process": (
        metricbeat(
            "system", process={"name": "p", "pid": 9, "cpu": {"pct": 0.5}}, system={"process": {"fd": {"open": 3}}}
        ),
        {("gauge/h/system/process.cpu.pct{process=p}", 0.5), ("gauge/h/system/system.process.fd.open{process=p}", 3.0)},
    ),
    "Metricbeat, service named": (
        metricbeat("redis", redis={"info": {"clients": {"connected": 4}}}, service={"type": "redis", "name": "s"}),
        {("gauge/h/s/redis.info.clients.connected", 4.0)},
    ),
    "Metricbeat, labels of what Prometheus scrapes": (
        metricbeat("prometheus", prometheus={"labels": {"code": "200"}, "metrics": {"http_requests_total": 3}}),
        {("counter/h/prometheus/prometheus.metrics.http_requests_total{code=200}", 3.0)},
    ),
    "Elastic Agent, what Prometheus scrapes with its types": (
        metricbeat("prometheus", prometheus={"alloc_bytes_total": {"counter": 3, "rate": 1}, "up": {"value": 1}}),
        {
            ("counter/h/prometheus/prometheus.alloc_bytes_total.counter", 3.0),
            ("gauge/h/prometheus/prometheus.alloc_bytes_total.rate", 1.0),
            ("gauge/h/prometheus/prometheus.up.value", 1.0),
        },
    ),
    **{
        f"Metricbeat, one of many: {path}": (
            metricbeat(module, **json.loads(members)),
            {(f"{series}{{{label}=a}}", 1.0)},
        )
        for path, (module, members, series, label) in OF_MANY.items()
    },
    "Metricbeat, a pod: what owns it has no label": (
        metricbeat(
            "kubernetes",
            kubernetes={
                **{"pod": {"name": "p", "memory": 1}, "replicaset": {"name": "r"}, "deployment": {"name": "d"}},
                "namespace": "n",
            },
        ),
        {("gauge/h/kubernetes/kubernetes.pod.memory{namespace=n,pod=p}", 1.0)},
    ),
    "Metricbeat, one of many queues": (
        metricbeat("rabbitmq", rabbitmq={"vhost": "v", "queue": {"name": "q", "messages": {"total": {"count": 7}}}}),
        {("gauge/h/rabbitmq/rabbitmq.queue.messages.total.count{queue=q,vhost=v}", 7.0)},
    ),
    "Telegraf": (
        json.dumps(telegraf("cpu", {"idle": 9.5, "name": "7", "up": True}, cpu="cpu0")),
        {("gauge/h//cpu.idle{cpu=cpu0}", 9.5)},
    ),
    "Telegraf, batch": (
        json.dumps({"metrics": [telegraf("net", {"bytes_recv": 5, "x": 1}, MS), telegraf("text", {"a": "b"})]}),
        {("counter/h//net.bytes_recv", 5.0), ("gauge/h//net.x", 1.0)},
    ),
    "OTLP numbers": (
        otlp(
            {
                "name": "g",
                "gauge": {
                    "dataPoints": [data(asDouble=0.5), data(asInt="-3", attributes=attributes(a={"intValue": "1"}))]
                },
            },
            {"name": "t", "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [data(asInt="7")]}},
            {"name": "u", "sum": {"aggregationTemporality": 2, "dataPoints": [data(asInt="8")]}},
            {"name": "d", "sum": {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": [data(asInt="9")]}},
        ),
        {
            *{("gauge/h/s/g", 0.5), ("gauge/h/s/g{a=1}", -3.0), ("counter/h/s/t", 7.0)},
            *{("gauge/h/s/u", 8.0), ("gauge/h/s/d", 9.0)},
        },
    ),
    "OTLP distributions": (
        otlp(
            {
                "name": "h",
                "histogram": {
                    "aggregationTemporality": 2,
                    "dataPoints": [data(count="4", sum=2.5, bucketCounts=["4"])],
                },
            },
            {"name": "e", "exponentialHistogram": {"aggregationTemporality": 1, "dataPoints": [data(count="5")]}},
            {"name": "q", "summary": {"dataPoints": [data(count=6, sum=1.5)]}},
        ),
        {
            *{("counter/h/s/h.count", 4.0), ("counter/h/s/h.sum", 2.5), ("gauge/h/s/e.count", 5.0)},
            *{("counter/h/s/q.count", 6.0), ("counter/h/s/q.sum", 1.5)},
        },
    ),
    "OTLP, flags that are reserved": (
        otlp({"name": "q", "summary": {"dataPoints": [data(flags=2, count=6, sum=1.5)]}}),
        {("counter/h/s/q.count", 6.0), ("counter/h/s/q.sum", 1.5)},
    ),
    "OTLP, repeated attribute, and a pod": (
        otlp(
            {"name": "g", "gauge": {"dataPoints": [data(asInt="1", attributes=attributes(a={"boolValue": True}) * 2)]}},
            resource=attributes(k8s__pod__name={"stringValue": "p"}),
        ),
        {("gauge/h/s/g{a=true,k8s.pod.name=p}", 1.0)},
    ),
    **{
        f"OTLP, {name} of a resource": (
            otlp(
                {"name": "g", "gauge": {"dataPoints": [data(asInt="1")]}},
                resource=[{"key": name, "value": {"stringValue": "a"}}],
            ),
            {(f"gauge/h/s/g{{{name}=a}}", 1.0)},
        )
        for name in NAMES_OF_RESOURCES
    },
    "OTLP, names of a resource that are no labels": (
        otlp(
            {"name": "g", "gauge": {"dataPoints": [data(asInt="1")]}},
            resource=[{"key": name, "value": {"stringValue": "a"}} for name in NO_LABELS],
        ),
        {("gauge/h/s/g", 1.0)},
    ),
    "OTLP, a pod: what owns it has no label": (
        otlp(
            {"name": "g", "gauge": {"dataPoints": [data(asInt="1")]}},
            resource=[
                {"key": f"k8s.{kind}.name", "value": {"stringValue": "a"}}
                for kind in ("namespace", "pod", "container", "volume", "replicaset", "deployment", "job", "cronjob")
            ],
        ),
        {("gauge/h/s/g{k8s.container.name=a,k8s.namespace.name=a,k8s.pod.name=a,k8s.volume.name=a}", 1.0)},
    ),
    "OTLP, one of the processes of a host: running totals of each are apart": (
        otlp(
            {"name": "process.memory.usage", "sum": {"dataPoints": [data(asInt="7")], "aggregationTemporality": 2}},
            {
                "name": "process.cpu.time",
                "sum": {"dataPoints": [data(asDouble=9.5)], "aggregationTemporality": 2, "isMonotonic": True},
            },
            resource=attributes(process__pid={"intValue": "41"}, process__executable__name={"stringValue": "postgres"}),
            service=None,
        ),
        {
            ("gauge/h//process.memory.usage{process.executable.name=postgres}", 7.0),
            ("counter/h//process.cpu.time{process.executable.name=postgres,process.pid=41}", 9.5),
        },
    ),
    "OTLP, an application that says which process it is": (
        otlp(
            {
                "name": "requests",
                "sum": {"dataPoints": [data(asInt="9")], "aggregationTemporality": 2, "isMonotonic": True},
            },
            resource=attributes(process__pid={"intValue": "41"}, process__executable__name={"stringValue": "java"}),
        ),
        {("counter/h/s/requests", 9.0)},
    ),
    "Metricbeat, one of the processes of a host: running totals of each are apart": (
        metricbeat(
            "system",
            process={"name": "nginx", "pid": 7},
            system={"process": {"cpu": {"total": {"value": 5, "pct": 0.5}}, "fd": {"open": 3}}},
        ),
        {
            ("counter/h/system/system.process.cpu.total.value{pid=7,process=nginx}", 5.0),
            ("gauge/h/system/system.process.cpu.total.pct{process=nginx}", 0.5),
            ("gauge/h/system/system.process.fd.open{process=nginx}", 3.0),
        },
    ),
    "Telegraf, what Prometheus would scrape, and a process": (
        json.dumps(
            {
                "metrics": [
                    telegraf("http_requests_total", {"counter": 9}),
                    telegraf("procstat", {"pid": 7, "cpu_time_user": 2, "memory_rss": 4}),
                ]
            }
        ),
        {
            ("counter/h//http_requests_total.counter", 9.0),
            ("counter/h//procstat.cpu_time_user", 2.0),
            ("gauge/h//procstat.memory_rss", 4.0),
        },
    ),
    "Telegraf, numbers of things at a time": (
        json.dumps(
            {
                "metrics": [
                    telegraf("conntrack", {"nf_conntrack_count": 7}),
                    telegraf("zookeeper", {"znode_count": 5}),
                    telegraf("elasticsearch_jvm", {"threads_count": 3, "gc_collectors_old_collection_count": 4}),
                    telegraf("prometheus", {"rpc_count": 2, "rpc_sum": 1.5, "up": 1}),
                    telegraf("other", {"hits_total": 9}),
                ]
            }
        ),
        {
            *{("gauge/h//conntrack.nf_conntrack_count", 7.0), ("gauge/h//zookeeper.znode_count", 5.0)},
            ("gauge/h//elasticsearch_jvm.threads_count", 3.0),
            ("counter/h//elasticsearch_jvm.gc_collectors_old_collection_count", 4.0),
            *{("counter/h//prometheus.rpc_count", 2.0), ("counter/h//prometheus.rpc_sum", 1.5)},
            *{("gauge/h//prometheus.up", 1.0), ("counter/h//other.hits_total", 9.0)},
        },
    ),
    "Metricbeat, numbers of things at a time": (
        metricbeat("zookeeper", zookeeper={"mntr": {"znode_count": 5, "watch_count": 7}}),
        {
            ("gauge/h/zookeeper/zookeeper.mntr.znode_count", 5.0),
            ("gauge/h/zookeeper/zookeeper.mntr.watch_count", 7.0),
        },
    ),
    "Metricbeat, a summary of Prometheus": (
        metricbeat("prometheus", prometheus={"metrics": {"rpc_count": 2, "rpc_sum": 1.5, "rpc_bucket": 1}}),
        {
            *{("counter/h/prometheus/prometheus.metrics.rpc_count", 2.0)},
            *{("counter/h/prometheus/prometheus.metrics.rpc_sum", 1.5)},
            *{("counter/h/prometheus/prometheus.metrics.rpc_bucket", 1.0)},
        },
    ),
    "Vector, a counter": (
        json.dumps(
            {
                **{"name": "cpu_seconds_total", "namespace": "host", "timestamp": AT, "kind": "absolute"},
                **{"tags": {"host": "h", "cpu": "0", "mode": "idle"}, "counter": {"value": 12.5}},
            }
        ),
        {("counter/h//host_cpu_seconds_total{cpu=0,mode=idle}", 12.5)},
    ),
    "Vector, a gauge": (
        json.dumps(
            {
                **{"name": "load1", "timestamp": AT, "kind": "absolute", "gauge": {"value": 0.5}},
                "tags": {"host": "h", "service": "s"},
            }
        ),
        {("gauge/h/s/load1", 0.5)},
    ),
    "Vector, increments": (
        json.dumps(
            {"name": "n", "timestamp": AT, "kind": "incremental", "tags": {"host": "h"}, "counter": {"value": 3}}
        ),
        {("gauge/h//n", 3.0)},
    ),
    "Vector, tags of several values": (
        json.dumps(
            {
                "name": "n",
                "timestamp": AT,
                "kind": "absolute",
                "tags": {"host": ["h"], "a": ["1", "2"]},
                "gauge": {"value": 3},
            }
        ),
        {("gauge/h//n{a=2}", 3.0)},
    ),
    "Vector, what Prometheus would scrape": (
        json.dumps(
            {
                **{"name": "up", "timestamp": AT, "kind": "absolute", "gauge": {"value": 1}},
                "tags": {"instance": "h:9100", "job": "s", "a": "b"},
            }
        ),
        {("gauge/h/s/up{a=b}", 1.0)},
    ),
    "Vector, a histogram": (
        json.dumps(
            {
                **{"name": "rt", "timestamp": AT, "kind": "absolute", "tags": {"host": "h"}},
                "aggregated_histogram": {"buckets": [{"upper_limit": 1.0, "count": 4}], "count": 4, "sum": 2.5},
            }
        ),
        {("counter/h//rt.count", 4.0), ("counter/h//rt.sum", 2.5)},
    ),
    "collectd": (json.dumps([collectd(7835099136)]), {("gauge/h//memory{type_instance=free}", 7835099136.0)}),
    "collectd, several": (
        "\n"
        + json.dumps(
            [
                collectd(
                    *(5, 7, 0.5),
                    dsnames=["rx", "tx", "value"],
                    dstypes=["derive", "counter", "absolute"],
                    **{"plugin": "interface", "plugin_instance": "eth0", "type": "if_octets", "type_instance": ""},
                ),
                collectd(1.5, meta={"network:received": True}),
            ]
        ),
        {
            ("counter/h//interface.if_octets.rx{plugin_instance=eth0}", 5.0),
            ("counter/h//interface.if_octets.tx{plugin_instance=eth0}", 7.0),
            ("gauge/h//interface.if_octets{plugin_instance=eth0}", 0.5),
            ("gauge/h//memory{type_instance=free}", 1.5),
        },
    ),
    "Prometheus": (prometheus("12.5"), {("gauge/h/s/up", 12.5)}),
    "Prometheus, total": (
        prometheus("3", name="http_requests_total", code="200"),
        {("counter/h/s/http_requests_total{code=200}", 3.0)},
    ),
}

TIMES: dict[Any, int] = {
    AT: MS,
    "2026-01-05T00:00:10.500": MS,
    "2026-01-05 00:00:10,500": MS,
    "2026-01-05T02:00:10.500+02:00": MS,
    "2026-01-05T02:00:10.500+0200": MS,
    "2026-01-04T19:00:10.500123456-05:00": MS,
    "2026-01-05t00:00:10.5z": MS,
    MS: MS,
    MS / 1000: MS,
    str(MS): MS,
    MS * 1000: MS,
    MS * 1_000_000: MS,
    "1970-01-01T00:00:00Z": 0,
    0: 0,
}

DEEP = 3000
# what data points that were not recorded may have, by their form
ZEROS: dict[str, dict[str, Any]] = {
    "gauge": {"asDouble": 0},
    "sum": {"asInt": "0"},
    "histogram": {"count": "0", "sum": 0},
    "exponentialHistogram": {},
    "summary": {},
}
BAD: dict[str, tuple[bytes | str | None, str]] = {
    "no value": (None, "empty value"),
    "empty": (b"", "empty value"),
    "not UTF-8": (b'{"@timestamp": "\xff\xfe"}', "not UTF-8"),
    "not UTF-8 in a good record": (flat(host__name="hXh").encode().replace(b"X", b"\xc3"), "not UTF-8"),
    "text": ("hello", "not JSON"),
    "null byte": (flat().replace("h", "\x00", 1), "not JSON"),
    "cut off": (flat()[:-9], "not JSON"),
    "something behind": (flat() + " x", AFTER),
    "brace behind": (flat() + "}", AFTER),
    "text and brace behind": (flat() + " x}", AFTER),
    "labels are text, text and brace behind": (flat(labels="x") + " x}", AFTER),
    "two records": (flat() + flat(), AFTER),
    "two records in lines": (flat() + "\n" + flat(), AFTER),
    "two records with a comma": (flat() + "," + flat(), AFTER),
    "two records as if in an array": (flat() + "],[" + flat(), AFTER),
    "an array's end and garbage": (flat() + "],garbage", AFTER),
    "a key twice": (flat()[:-1] + ', "host.name": "x"}', "a key twice: host.name"),
    "a key twice, another spelling": (flat()[:-1] + ', "host\\u002ename": "x"}', "a key twice: host.name"),
    "a key twice in labels": (flat(labels="X").replace('"X"', '{"a": "1", "a": "2"}'), "a key twice: a"),
    "a key twice where nothing is read": (flat(x="X").replace('"X"', '[{"a\\n": 1, "a\\n": 2}]'), "a key twice: a"),
    "array": ("[" + flat() + "]", "not a JSON object"),
    "number": ("12", "not a JSON object"),
    "null": ("null", "not a JSON object"),
    "deeply nested": ('{"a":' * DEEP + "1" + "}" * DEEP, "nested deeper than 32"),
    "deeply nested arrays": ("[" * DEEP + "]" * DEEP, "nested deeper than 32"),
    "nested too deep by one": (flat(x="X").replace('"X"', "[" * 32 + "]" * 32), "nested deeper than 32"),
    "more than a megabyte": (
        flat(x="x" * (1 << 20)),
        f"a record of {len(flat(x='')) + (1 << 20)} bytes, more than 1048576",
    ),
    "many elements": (flat(x=[1] * 10_001), "more than 10000 elements in an array"),
    "many members": (flat(x={str(i): "" for i in range(10_001)}), "more than 10000 members in an object"),
    "many numbers": (flat(x=[{str(i): i for i in range(101)}] * 100), "more than 2048 points or lines"),
    "many objects": (flat(x=[[{}] * 6_000] * 11), "more than 10000 objects and arrays"),
    "time with a huge exponent": (flat(at="1E-2000000000"), "@timestamp is not a time"),
    "time with a large exponent": (flat(at="1E-20000000"), "@timestamp is not a time"),
    "time beyond all numbers": (flat(at="1e999999"), "@timestamp is not a time"),
    "time of many digits": (flat(at="0." + "0" * 100_000), "@timestamp is not a time"),
    "time of a far zone": (flat(at="2026-01-05T00:00:10+99:99"), "@timestamp is not a time"),
    "time of the last long": (flat(at="9223372036854775807"), "event time outside 1970..2200"),
    "time of the last timestamp": (flat(at="+292278994-08-17T07:12:55.807Z"), "@timestamp is not a time"),
    "leap second": (flat(at="2016-12-31T23:59:60Z"), "@timestamp is not a time"),
    "value with a huge exponent": (flat(metric__value="1E2000000000"), "value beyond 1e15"),
    "empty object": ("{}", "no @timestamp"),
    "no time": (flat(at=...), "no @timestamp"),
    "time is text": (flat(at="yesterday"), "@timestamp is not a time"),
    "time of day only": (flat(at="12:30:00"), "@timestamp is not a time"),
    "time of day, long": (flat(at="12:3-08:00         "), "@timestamp is not a time"),
    "date only": (flat(at="2026-01-05"), "@timestamp is not a time"),
    "no such day": (flat(at="2026-02-30T00:00:00Z"), "@timestamp is not a time"),
    "time is an object": (flat(at={"a": 1}), "@timestamp is not a time"),
    "time is true": (flat(at=True), "@timestamp is not a time"),
    "huge time": (flat(at=10**300), "@timestamp is not a time"),
    "year 1": (flat(at="0001-01-01T00:00:00Z"), "event time outside 1970..2200"),
    "year 9999": (flat(at="9999-12-31T23:59:59Z"), "event time outside 1970..2200"),
    "before 1970": (flat(at=-1), "event time outside 1970..2200"),
    "no host": (flat(host__name=...), "no host.name"),
    "empty host": (flat(host__name=""), "no host.name"),
    "long host": (flat(host__name="h" * 257), "host.name longer than 256"),
    "host with a null": (flat(host__name="h\x00"), "control character in host.name"),
    "host with a delete": (flat(host__name="h\x7f"), "control character in host.name"),
    "host with a C1 control": (flat(host__name="h\x85"), "control character in host.name"),
    "service with a tab": (flat(service__name="a\tb"), "control character in service.name"),
    "long service": (flat(service__name="s" * 300), "service.name longer than 256"),
    "no metric": (flat(metric__name=...), "no metric.name"),
    "long metric": (flat(metric__name="m" * 1_000_000), "metric.name longer than 256"),
    "metric with a line's end": (flat(metric__name="a\nb"), "control character in metric.name"),
    "no value in it": (flat(metric__value=...), "no metric.value"),
    "value null": (flat(metric__value=None), "no metric.value"),
    "value NaN": (flat(metric__value=math.nan), "value is not a number: NaN"),
    "value 'NaN'": (flat(metric__value="NaN"), "value is not a number: NaN"),
    "value infinite": (flat(metric__value=-math.inf), "value is not a number: -Infinity"),
    "value 1e999": (flat(metric__value="X").replace('"X"', "1e999"), "value beyond 1e15"),
    "value '1d'": (flat(metric__value="1d"), "value is not a number: 1d"),
    "value true": (flat(metric__value=True), "value is not a number: true"),
    "value is an object": (flat(metric__value={"a": 1}), "value is not a number: {a: 1}"),
    "value too large": (flat(metric__value=1.1e15), "value beyond 1e15"),
    "counter too large": (flat(metric__value=-1.1e18, metric__type="counter"), "value beyond 1e18"),
    "digits without end": (flat(metric__value="X").replace('"X"', "1" * 5000), "a number of more than 400 digits"),
    "many labels": (flat(labels={f"k{i}": "v" for i in range(17)}), "more than 16 labels"),
    "long label": (flat(labels={"k": "v" * 129}), "label longer than 128 or with a control character"),
    "label with a null": (flat(labels={"k": "\x00"}), "label longer than 128 or with a control character"),
    "Metricbeat without numbers": (
        metricbeat("system", system={"a": "b"}),
        "nothing to read in a record of a known form",
    ),
    "Metricbeat with a repeated key": (
        metricbeat("system", system={"a": 1}).replace('"a": 1', '"a": 1, "a": 2'),
        "a key twice: a",
    ),
    "a log line of Filebeat's module": (
        metricbeat("nginx", nginx={"access": {"bytes": 5}}, message="GET / 200"),
        "no metric.name",
    ),
    "Telegraf without numbers": (json.dumps(telegraf("a", {"b": "c"})), "nothing to read in a record of a known form"),
    "Telegraf without host": (json.dumps(telegraf("a", {"b": 1}) | {"tags": {}}), "no host.name"),
    "collectd, not a number": (json.dumps([collectd(None)]), "no metric.value"),
    "collectd, no name of a source": (json.dumps([collectd(1, dsnames=[])]), "no metric.name"),
    "collectd, no host": (json.dumps([collectd(1, host="")]), "no host.name"),
    "collectd, no time": (json.dumps([collectd(1, time=None)]), "no @timestamp"),
    "Vector, a change of a gauge": (
        json.dumps(
            {"name": "n", "timestamp": AT, "kind": "incremental", "tags": {"host": "h"}, "gauge": {"value": -1}}
        ),
        "nothing to read in a record of a known form",
    ),
    "Vector, a distribution": (
        json.dumps({"name": "n", "timestamp": AT, "kind": "incremental", "tags": {"host": "h"}, "distribution": {}}),
        "nothing to read in a record of a known form",
    ),
    "collectd, no values": (json.dumps([collectd()]), "nothing to read in a record of a known form"),
    "collectd, many values": (json.dumps([collectd(*[1] * 2049)]), "more than 2048 points or lines"),
    "collectd, not its shape": (json.dumps([{"dsnames": 1}, 5, []]), "no @timestamp"),
    "collectd, in an array": (json.dumps([[collectd(1)]]), "not a JSON object"),
    "collectd, twice": (json.dumps([collectd(1)]) * 2, AFTER),
    "an empty array": ("[]", "not a JSON object"),
    "Prometheus, stale": (prometheus("NaN"), "value is not a number: NaN"),
    "OTLP, not its shape": ('{"resourceMetrics": 5}', "no @timestamp"),
    "OTLP, nothing in it": ('{"resourceMetrics": [{}, null]}', "nothing to read in a record of a known form"),
    "OTLP, no value": (otlp({"name": "g", "gauge": {"dataPoints": [data()]}}), "no metric.value"),
    **{
        f"OTLP, a {form} that was not recorded": (
            otlp({"name": "g", form: {"aggregationTemporality": 2, "dataPoints": [data(flags=1, **zeros)]}}),
            "no metric.value",
        )
        for form, zeros in ZEROS.items()
    },
    "a byte order mark alone": ("\ufeff", "not a JSON object"),
    "two byte order marks": ("\ufeff\ufeff" + flat(), "not JSON"),
    "keys of one hash": (
        flat(metric__value="1.5", x=dict.fromkeys(ONE_HASH[:65], "")),
        "more than 64 keys of one hash",
    ),
}


def test_every_form_gives_its_points_at_their_time(spark: SparkSession) -> None:
    found = points(spark, [record for record, _ in GOOD.values()])
    for i, (name, (_, wanted)) in enumerate(GOOD.items()):
        assert [r["reason"] for r in found[i]] == [None] * len(wanted), name
        assert {(r["series"], r["value"]) for r in found[i]} == wanted, name
        assert {r["ms"] // 1000 for r in found[i]} == {MS // 1000}, name
        assert {r["host"] for r in found[i]} == {
            "a/b" if "encode" in name and "label" not in name else found[i][0]["host"]
        }


def test_times_are_read_in_every_usual_notation(spark: SparkSession) -> None:
    found = points(spark, [flat(at=at) for at in TIMES])
    assert {at: found[i][0]["ms"] for i, at in enumerate(TIMES)} == TIMES


def test_every_malformed_record_is_one_row_with_its_reason(spark: SparkSession) -> None:
    found = points(spark, [record for record, _ in BAD.values()])
    reasons = {name: [r["reason"] for r in found[i]] for i, name in enumerate(BAD)}
    assert reasons == {name: [reason] for name, (_, reason) in BAD.items()}
    assert {r["series"] for rows in found.values() for r in rows} == {None}


def test_keys_of_one_hash_change_nothing_for_the_records_behind_them(spark: SparkSession) -> None:
    hostile = [flat(metric__value="1.5", x=dict.fromkeys(keys, "")) for keys in (ONE_HASH[:400], ONE_HASH[400:460])]
    good = [flat(metric__value="1.5", x={f"k{i}-{j}": "" for j in range(60)}) for i in range(60)]
    one_task = raw(spark, [*hostile, *good]).coalesce(1)  # which shares a table of keys
    found = by_record(telemetry_points(one_task))
    assert [row["reason"] for rows in found.values() for row in rows] == ["more than 64 keys of one hash"] + [None] * 61


def test_good_points_of_a_record_are_kept_beside_one_reason(spark: SparkSession) -> None:
    bad = [data(asDouble="NaN"), data(asDouble="NaN"), data(asDouble=1.0), {"asDouble": 1.0}]
    (rows,) = points(spark, [otlp({"name": "g", "gauge": {"dataPoints": bad}})]).values()
    assert sorted((r["series"] or "", r["reason"] or "") for r in rows) == [
        ("", "value is not a number: NaN"),
        ("gauge/h/s/g", ""),
    ]


def test_numbers_deeper_than_objects_are_opened_are_refused_beside_the_others(spark: SparkSession) -> None:
    deep: dict[str, Any] = {"b": 7}
    for _ in range(10):
        deep = {"a": deep}
    (rows,) = points(spark, [metricbeat("system", system={"load": {"1": 0.5}} | deep)]).values()
    assert sorted((r["series"] or "", r["reason"] or "") for r in rows) == [
        ("", "value is not a number: {a:{b:7}}"),
        ("gauge/h/system/system.load.1", ""),
    ]


def test_a_heartbeat_is_one_row_at_its_append_time(spark: SparkSession) -> None:
    beat = '{"record":"heartbeat","partition":3}'
    (point,), (line,) = points(spark, [beat])[0], lines(spark, [beat])[0]
    at = MS + 1000
    assert (point["series"], point["host"], point["ms"], point["reason"]) == ("heartbeat", "heartbeat", at, None)
    assert (line["host"], line["ms"], line["template"], line["reason"]) == ("heartbeat", at, None, None)


CLEAN_NAMES = st.text(min_size=1, max_size=12).filter(lambda s: not any(ord(c) < 32 or 126 < ord(c) < 160 for c in s))
RECORDS = st.fixed_dictionaries(
    {
        "host": CLEAN_NAMES,
        "service": st.none() | CLEAN_NAMES,
        "metric": CLEAN_NAMES,
        "value": st.floats(-1e15, 1e15).map(lambda x: x + 0.0),
        "counter": st.booleans(),
        "labels": st.dictionaries(CLEAN_NAMES, CLEAN_NAMES, max_size=4),
    }
)


def written(record: dict[str, Any]) -> list[str]:
    """One point in five notations: quick to read, and those that are not."""
    plain = {
        "@timestamp": AT,
        "host.name": record["host"],
        "service.name": record["service"],
        "metric.name": record["metric"],
        "metric.value": record["value"],
        "metric.type": "counter" if record["counter"] else "gauge",
        **({"labels": record["labels"]} if record["labels"] else {}),
    }
    nested = {
        "@timestamp": MS,
        "host": {"name": record["host"]},
        "service": {"name": record["service"]},
        "metric": {"name": record["metric"], "value": str(record["value"]), "type": plain["metric.type"]},
        "labels": record["labels"],
    }
    return [
        json.dumps(plain),
        json.dumps(plain, ensure_ascii=False, separators=(",", ":")),
        json.dumps(plain, indent=1),
        json.dumps(plain | {"zz": {"}": "}"}}),
        json.dumps(nested),
    ]


@given(st.lists(RECORDS, min_size=40, max_size=40))
@FEW
def test_one_point_is_the_same_in_every_notation(spark: SparkSession, records: list[dict[str, Any]]) -> None:
    found = points(spark, [text for record in records for text in written(record)])
    for i, record in enumerate(records):
        tags = ",".join(f"{k}={v}" for k, v in sorted(record["labels"].items(), key=lambda kv: kv[0].encode()))
        metric = record["metric"] + (f"{{{tags}}}" if tags else "")
        kind = "counter" if record["counter"] else "gauge"
        series = build(Series(kind, record["host"], record["service"] or "", metric))
        for j in range(5):
            (row,) = found[5 * i + j]
            assert (row["series"], row["value"], row["ms"], row["reason"]) == (series, record["value"], MS, None)


@given(
    st.lists(
        st.tuples(st.sampled_from(range(200)), st.binary(max_size=6), st.integers(0, 400)), min_size=150, max_size=150
    )
)
@FEW
def test_no_damage_to_a_record_raises_or_loses_it(spark: SparkSession, damages: list[tuple[int, bytes, int]]) -> None:
    whole = [record.encode() for record, _ in GOOD.values()] + [log().encode(), SYSLOG.encode()]
    values: list[bytes | str | None] = []
    for which, inserted, place in damages:
        record = whole[which % len(whole)]
        values.append(record[:place] + inserted + record[place + len(inserted) % 3 :])
    for found in (points(spark, values), lines(spark, values)):
        assert set(found) == set(range(len(values)))
        assert all(sum(r["reason"] is not None for r in rows) <= 1 for rows in found.values())


SYSLOG = '<165>1 2026-01-05T00:00:10.500Z h app 1 ID47 [x@1 a="1" b="\\]"][y] \ufeffan event'
LINES: dict[str, tuple[str, tuple[str, str, str, str]]] = {
    "flat": (log(), ("h", "s", "info", "it works")),
    "flat, level": (log(log__level="WARNING"), ("h", "s", "warn", "it works")),
    "flat, level unknown": (log(log__level="loud"), ("h", "s", "info", "it works")),
    "flat, no level, no service": (log(log__level=..., service__name=...), ("h", "", "info", "it works")),
    "flat, lines in it": (log(message="a\nb\x00"), ("h", "s", "info", "a\nb\x00")),
    "long": (log(message="x" * 10_000), ("h", "s", "info", "x" * 8192)),
    "nested": (
        json.dumps({"@timestamp": MS, "host": {"name": "h"}, "log": {"level": "crit"}, "message": "m"}),
        ("h", "", "fatal", "m"),
    ),
    "Filebeat, service from the file": (
        json.dumps(
            {"@timestamp": AT, "host": {"name": "h"}, "log": {"file": {"path": "/v/nginx.1.log"}}, "message": "m"}
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Filebeat, service from the agent": (
        json.dumps({"@timestamp": AT, "host": {"name": "h"}, "agent": {"type": "filebeat"}, "message": "m"}),
        ("h", "filebeat", "info", "m"),
    ),
    "Filebeat, a container": (
        json.dumps(
            {
                **{"@timestamp": AT, "host": {"name": "h"}, "message": "m"},
                **{"kubernetes": {"container": {"name": "nginx"}}, "event": {"dataset": "kubernetes.container_logs"}},
            }
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Filebeat, the file of a container": (
        json.dumps(
            {
                **{"@timestamp": AT, "host": {"name": "h"}, "message": "m"},
                "log": {"file": {"path": f"/var/log/containers/web-7d9c_default_nginx-{'0f' * 32}.log"}},
            }
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Filebeat, the file of a pod": (
        json.dumps(
            {
                **{"@timestamp": AT, "host": {"name": "h"}, "message": "m"},
                "log": {"file": {"path": "/var/log/pods/default_web-7d9c_5f/nginx/0.log"}},
            }
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Fluent Bit, a container": (
        json.dumps(
            {
                **{"@timestamp": MS / 1000, "stream": "stderr", "logtag": "F", "log": "m\n"},
                "kubernetes": {"pod_name": "web-7d9c", "host": "h", "container_name": "nginx", "labels": {"app": "a"}},
            }
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Fluent Bit, a file": (
        json.dumps({"@timestamp": AT, "log": "m", "hostname": "h", "filename": "/var/log/app.log"}),
        ("h", "app", "info", "m"),
    ),
    "Fluentd, from Docker": (
        json.dumps({"time": AT, "log": "m", "hostname": "h", "container_name": "/web", "source": "stdout"}),
        ("h", "web", "info", "m"),
    ),
    "Vector, a file": (
        json.dumps({"timestamp": AT, "message": "m", "host": "h", "file": "/var/log/app.log", "source_type": "file"}),
        ("h", "app", "info", "m"),
    ),
    "Vector, a container": (
        json.dumps(
            {
                **{"timestamp": AT, "message": "m", "source_type": "kubernetes_logs", "file": "/x/0.log"},
                "kubernetes": {"pod_node_name": "h", "container_name": "nginx"},
            }
        ),
        ("h", "nginx", "info", "m"),
    ),
    "Vector, syslog": (
        json.dumps(
            {"timestamp": AT, "message": "m", "host": "10.0.0.1", "hostname": "h", "appname": "su", "severity": "err"}
        ),
        ("h", "su", "error", "m"),
    ),
    "Logstash without ECS": (
        json.dumps({"@timestamp": AT, "@version": "1", "message": "m", "host": "h", "path": "/var/log/app.log"}),
        ("h", "app", "info", "m"),
    ),
    "journald": (
        json.dumps(
            {
                **{"__REALTIME_TIMESTAMP": str(MS * 1000), "_HOSTNAME": "h", "PRIORITY": "3", "MESSAGE": "m"},
                **{"SYSLOG_IDENTIFIER": "sshd", "_SYSTEMD_UNIT": "ssh.service", "_PID": "7"},
            }
        ),
        ("h", "sshd", "error", "m"),
    ),
    "journald, bytes that are no text": (
        json.dumps({"__REALTIME_TIMESTAMP": str(MS * 1000), "_HOSTNAME": "h", "MESSAGE": [255, 1]}),
        ("h", "", "info", "\ufffd\x01"),
    ),
    "Fluent Bit, a message in brackets": (
        json.dumps({"@timestamp": AT, "log": "[error] m\n", "hostname": "h"}),
        ("h", "", "error", "[error] m"),
    ),
    "Fluent Bit, a message in JSON": (
        json.dumps({"@timestamp": AT, "log": '{"level":"warn","msg":"m"}\n', "hostname": "h"}),
        ("h", "", "warn", '{"level":"warn","msg":"m"}'),
    ),
    "Fluent Bit, a message in JSON that was merged": (
        json.dumps(
            {"@timestamp": AT, "log": '{"level":"warn","msg":"m"}\n', "level": "warn", "msg": "m", "hostname": "h"}
        ),
        ("h", "", "warn", "m"),
    ),
    "rsyslog's JSON": (
        json.dumps(
            {
                **{"msg": " m", "hostname": "h", "timereported": AT, "syslogtag": "su[7]:", "programname": "su"},
                **{"syslogseverity": "3", "pri": "35", "fromhost": "relay"},
            }
        ),
        ("h", "su", "error", " m"),
    ),
    "Fluent Bit, whose own pod says that it is the host": (
        json.dumps(
            {
                "@timestamp": AT,
                "log": "m",
                "hostname": "fluent-bit-9k2lm",
                "kubernetes": {"host": "h", "pod_name": "web-7d9c", "container_name": "web"},
            }
        ),
        ("h", "web", "info", "m"),
    ),
    "Filebeat, in a pod of its own": (
        json.dumps(
            {
                **{"@timestamp": AT, "message": "m", "host": {"name": "filebeat-9k2lm"}},
                "kubernetes": {"node": {"name": "h"}, "container": {"name": "web"}},
            }
        ),
        ("h", "web", "info", "m"),
    ),
    "Filebeat, a program's own JSON": (
        json.dumps({"@timestamp": AT, "host": {"name": "h"}, "message": "m", "level": "ERROR", "service": "cart"}),
        ("h", "cart", "error", "m"),
    ),
    "Filebeat, syslog": (
        json.dumps(
            {
                **{"@timestamp": AT, "host": {"name": "relay"}, "message": "m", "agent": {"type": "filebeat"}},
                "log": {"syslog": {"hostname": "h", "appname": "su", "priority": 35, "severity": {"code": 3}}},
            }
        ),
        ("h", "su", "error", "m"),
    ),
    "Winlogbeat": (
        json.dumps(
            {
                **{"@timestamp": AT, "host": {"name": "h"}, "message": "m", "agent": {"type": "winlogbeat"}},
                **{"event": {"provider": "Disk", "code": "7"}, "log": {"level": "warning"}},
            }
        ),
        ("h", "Disk", "warn", "m"),
    ),
    "Fluent Bit, no file of a log": (
        json.dumps(
            {"@timestamp": AT, "log": "m", "hostname": "h", "path": "/api/users/48213", "file": "/app/handler.go:58"}
        ),
        ("h", "", "info", "m"),
    ),
    "Fluent Bit, syslog": (
        json.dumps({"@timestamp": AT, "message": "m", "host": "h", "ident": "su", "pri": "11"}),
        ("h", "su", "error", "m"),
    ),
    "Fluent Bit, names without underscores": (
        json.dumps({"@timestamp": AT, "MESSAGE": "m", "HOSTNAME": "h", "SYSLOG_IDENTIFIER": "su", "PRIORITY": "4"}),
        ("h", "su", "warn", "m"),
    ),
    "FireLens": (
        json.dumps(
            {
                **{"@timestamp": AT, "log": "m", "ec2_instance_id": "h", "source": "stdout"},
                "container_name": "/ecs-shop-cart-39-app-d0c8f0e4a1b2c3d4e5f6",
            }
        ),
        ("h", "app", "info", "m"),
    ),
    "a container of Swarm": (
        json.dumps(
            {"timestamp": AT, "message": "m", "host": "h", "container_name": "shop_web.1.l3c0xyzl3c0xyzl3c0xyz1234"}
        ),
        ("h", "shop_web", "info", "m"),
    ),
    "a container of a kubelet": (
        json.dumps(
            {
                **{"timestamp": AT, "message": "m", "host": "h"},
                "container_name": "k8s_web_web-7d9c_default_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f_0",
            }
        ),
        ("h", "web", "info", "m"),
    ),
    "a file of each day": (
        json.dumps({"timestamp": AT, "message": "m", "host": "h", "file": "/var/log/postgresql-2026-01-05_000000.log"}),
        ("h", "postgresql", "info", "m"),
    ),
    "the file of Docker": (
        json.dumps({"timestamp": AT, "message": "m", "host": "h", "file": f"/var/lib/docker/{'0f' * 32}-json.log"}),
        ("h", "", "info", "m"),
    ),
    "a duration that is called time": (
        json.dumps({"ts": MS / 1000, "time": 0.035, "msg": "m", "hostname": "h"}),
        ("h", "", "info", "m"),
    ),
    "a time that is not read, and one that is": (
        json.dumps({"timestamp": "05/Jan/2026:00:00:10 +0000", "ts": MS / 1000, "msg": "m", "hostname": "h"}),
        ("h", "", "info", "m"),
    ),
    "journald, colours": (
        json.dumps(
            {
                **{"__REALTIME_TIMESTAMP": str(MS * 1000), "_HOSTNAME": "h", "_COMM": "app"},
                "MESSAGE": list("\x1b[31mERROR\x1b[0m é".encode()),
            }
        ),
        ("h", "app", "error", "ERROR é"),
    ),
    "colours": (log(message="\x1b[1;31mm\x1b[0m"), ("h", "s", "info", "m")),
    "an empty message beside another": (
        json.dumps({"@timestamp": AT, "host": {"name": "h"}, "message": "", "log": "m"}),
        ("h", "", "info", "m"),
    ),
    "structlog": (
        json.dumps({"timestamp": AT, "event": "m", "level": "error", "hostname": "h"}),
        ("h", "", "error", "m"),
    ),
    "Serilog": (json.dumps({"@t": AT, "@m": "m", "@l": "Warning", "host": "h"}), ("h", "", "warn", "m")),
    "syslog-ng": (
        json.dumps({"ISODATE": AT, "HOST": "h", "PROGRAM": "su", "PRIORITY": "err", "MESSAGE": "m"}),
        ("h", "su", "error", "m"),
    ),
    "OTLP, a body of several members": (
        otlp_lines(
            {
                "MESSAGE": {"stringValue": "m"},
                "PRIORITY": {"stringValue": "3"},
                "SYSLOG_IDENTIFIER": {"stringValue": "su"},
            }
        ),
        ("h", "su", "error", "m"),
    ),
    "OTLP, a body with names of the canonical form": (
        otlp_lines(
            {
                "service.name": {"stringValue": "cart"},
                "log.level": {"stringValue": "error"},
                "msg": {"stringValue": "another"},
                "message": {"stringValue": "m"},
            }
        ),
        ("h", "cart", "error", "m"),
    ),
    "OTLP, a body with an empty message": (
        otlp_lines({"message": {"stringValue": ""}, "msg": {"stringValue": "m"}}),
        ("h", "", "info", "m"),
    ),
    "OTLP, a long message in a body of many members": (
        otlp_lines({f"k{i}": {"intValue": "1"} for i in range(200)} | {"MESSAGE": {"stringValue": "x" * 9_000}}),
        ("h", "", "info", "x" * 8_192),
    ),
    "OTLP, a body without a message": (
        otlp_lines({"a": {"intValue": "1"}}),
        ("h", "", "info", '{"values":[{"key":"a","value":{"intValue":"1"}}]}'),
    ),
    "NXLog": (
        json.dumps(
            {
                **{"EventTime": AT, "Hostname": "h", "SeverityValue": 4, "Severity": "ERROR"},
                **{"SourceName": "Disk", "Message": "m"},
            }
        ),
        ("h", "Disk", "error", "m"),
    ),
    "GELF": (
        json.dumps({"version": "1.1", "timestamp": MS / 1000, "host": "h", "level": 4, "short_message": "m"}),
        ("h", "", "warn", "m"),
    ),
    "a program that logs JSON": (
        json.dumps({"level": 50, "time": MS, "pid": 7, "hostname": "h", "msg": "m"}),
        ("h", "", "error", "m"),
    ),
    "RFC 5424": (SYSLOG, ("h", "app", "info", "an event")),
    "RFC 5424, as rsyslog writes it": (
        "<38>1 2026-01-05T00:00:10.500000+00:00 h sshd 7 - -  a  b\n",
        ("h", "sshd", "info", "a  b"),
    ),
    "RFC 5424, nothing but a host": ("<0>1 2026-01-05T00:00:10.5Z h - - - - m", ("h", "", "fatal", "m")),
    "RFC 5424, a byte order mark before it": ("\ufeff" + SYSLOG, ("h", "app", "info", "an event")),
    "RFC 3164": ("<34>Jan  5 00:00:10 h su[12]: failed: x", ("h", "su", "fatal", "failed: x")),
    "RFC 3164, a day without a space before it": (
        "<34>Jan 5 00:00:10 h su[12]: failed: x",
        ("h", "su", "fatal", "failed: x"),
    ),
    "RFC 3164, ISO time": ("<28>2026-01-05T00:00:10.500+00:00 h cron: x", ("h", "cron", "warn", "x")),
}
BAD_LINES: dict[str, tuple[bytes | str | None, str]] = {
    "no value": (None, "empty value"),
    "not UTF-8": (log(message="aXb").encode().replace(b"X", b"\xff"), "not UTF-8"),
    "text": ("hello", "not JSON"),
    "two": (log() + log(), AFTER),
    "array": ("[]", "not a JSON object"),
    "no message": (log(message=...), "no message"),
    "empty message": (log(message=""), "no message"),
    "no host": (log(host__name=...), "no host.name"),
    "no time": (log(at=...), "no @timestamp"),
    "host without a name": (json.dumps({"@timestamp": AT, "host": {"ip": "10.0.0.1"}, "message": "m"}), "no host.name"),
    "ECS without a message": (
        json.dumps({"@timestamp": AT, "host": {"name": "h"}, "log": {"level": "info", "file": {"path": "/v/a.log"}}}),
        "no message",
    ),
    "year 9999": (log(at="9999-01-01T00:00:00Z"), "event time outside 1970..2200"),
    "syslog, no time": ("<34>1 - h su - - - m", "no @timestamp"),
    "syslog, no host": ("<34>Jan  5 00:00:10 su[12]: failed: x", "no host.name"),
    "syslog, no such month": ("<34>Abc 10 00:00:10 h su: m", "@timestamp is not a time"),
    "syslog, hostile data": ("<34>1 2026-01-05T00:00:10Z h a - - [" + "\\]" * 50_000, "not JSON"),
}


def test_every_form_gives_its_lines(spark: SparkSession) -> None:
    found = lines(spark, [record for record, _ in LINES.values()])
    got = {
        name: [(r["host"], r["service"], r["level"], r["message"], r["ms"] // 1000, r["reason"]) for r in found[i]]
        for i, name in enumerate(LINES)
    }
    assert got == {name: [(*wanted, MS // 1000, None)] for name, (_, wanted) in LINES.items()}


FILES = {
    **{r"C:\inetpub\logs\LogFiles\W3SVC1\u_ex260105.log": "u_ex", "/var/log/u_in26010513.log": "u_in"},
    **{"/var/log/server-2026-01-04T18-30-00.000.log": "server", "/var/log/app_20260105T000000Z.log": "app"},
    **{"/var/log/app-05-01-2026.log": "app", "/var/log/app_05_01_2026.log": "app", "/var/log/05-01-2026.log": "agent"},
    **{"/var/log/app-2026-01.log": "app", "/var/log/app-202601.log": "app", "/var/log/app-1767571210.log": "app"},
    **{"/var/log/app-2026010513.log": "app", "/var/log/app.2026-01-05.0.log": "app"},
    # what may be part of a name
    **{"/var/log/app-2024.log": "app-2024", "/var/log/app-8080.log": "app-8080", "/var/log/app202601.log": "app202601"},
    **{"/var/log/sql-2019-01.log": "sql-2019-01", "/var/log/sql-2022-14.log": "sql-2022-14"},
    **{"/var/log/lane-1234567890.log": "lane-1234567890", "/var/log/postgresql-16-main.log": "postgresql-16-main"},
    **{"/var/log/ex260105.log": "ex260105", "/var/log/app-202613.log": "app-202613"},
}


def test_the_date_in_the_name_of_a_log_file_is_no_part_of_the_service(spark: SparkSession) -> None:
    found = lines(spark, [log(service__name=..., log__file__path=path, agent__type="agent") for path in FILES])
    assert {path: found[i][0]["service"] for i, path in enumerate(FILES)} == FILES
    here = {path: service for path, service in FILES.items() if path.startswith("/")}
    assert {path: service_of_file(path) for path in here} == here | {"/var/log/05-01-2026.log": "log"}, (
        "`kappa collect`"
    )


def test_every_malformed_line_is_one_row_with_its_reason(spark: SparkSession) -> None:
    found = lines(spark, [record for record, _ in BAD_LINES.values()])
    reasons = {name: [r["reason"] for r in found[i]] for i, name in enumerate(BAD_LINES)}
    assert reasons == {name: [reason] for name, (_, reason) in BAD_LINES.items()}


def test_a_line_without_a_level_has_the_one_that_it_names_itself(spark: SparkSession) -> None:
    messages = [message for message in NAMED_LEVELS if message]
    found = lines(spark, [log(message=message, log__level=...) for message in messages])
    assert {message: [r["level"] for r in found[i]] for i, message in enumerate(messages)} == {
        message: [NAMED_LEVELS[message]] for message in messages
    }
    (given,) = lines(spark, [log(message="[error] it failed", log__level="info")])[0]
    assert given["level"] == "info"


def test_levels_of_all_dialects_become_six(spark: SparkSession) -> None:
    words = {
        "TRACE": "trace",
        "debug": "debug",
        "Notice": "info",
        "warn": "warn",
        "err": "error",
        "alert": "fatal",
        "3": "error",
        "WARN ": "warn",
        " Error": "error",
        "\xa0error": "info",
        "WRN": "warn",
        "Ftl": "fatal",
        "FAILURE": "error",
        "V": "trace",
    }
    severities = {1: "trace", 8: "debug", 9: "info", 16: "warn", 17: "error", 24: "fatal", 0: "error", 99: "error"}
    records = [
        {"timeUnixNano": NS, "severityNumber": n, "severityText": "Error", "body": {"intValue": "1"}}
        for n in severities
    ]
    scope = [{"logRecords": records}]
    own = {"attributes": attributes(host__name={"stringValue": "h"})}
    found = lines(
        spark,
        [*(log(log__level=w) for w in words), json.dumps({"resourceLogs": [{"resource": own, "scopeLogs": scope}]})],
    )
    assert {w: found[i][0]["level"] for i, w in enumerate(words)} == words
    assert [r["level"] for r in found[len(words)]] == list(severities.values())


def test_other_columns_pass_with_their_watermark_on_a_stream(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withColumn("append_time", F.col("timestamp"))
    stream = stream.withWatermark("append_time", "75 seconds").withColumn(
        "value", F.col("value").cast("string").cast("binary")
    )
    for read in (telemetry_points(stream), log_lines(stream)):
        assert read.isStreaming
        assert read.schema["append_time"].metadata == {"spark.watermarkDelayMs": 75_000}
        assert read.schema["raw_value"].dataType.simpleString() == "binary"


def test_neither_unions_nor_filters_make_spark_parse_a_record_twice(spark: SparkSession) -> None:
    def parsers(frame: DataFrame) -> int:
        plan = str(frame._jdf.queryExecution().optimizedPlan())
        return plan.count("applyfunctionexpression(") + plan.count("kappa_flat_")

    one = raw(spark, [flat()])
    for read in (telemetry_points, log_lines):
        many = read(one.union(one).union(one)).where("reason is null and host <> 'x' and event_time > '2000-01-01'")
        assert parsers(many) == parsers(read(one)) == 2


READ_TIMES: list[Any] = [
    *(
        f"2026-01-05T00:00:10{fraction}Z"
        for fraction in ("", ".1", ".123456", ".1234567", ".123456789", ".1234567890", ".")
    ),
    *("1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "2199-12-31T23:59:59.999999Z", "2200-01-01T00:00:00Z"),
    *(
        "2024-02-29T12:00:00Z",
        "2023-02-29T12:00:00Z",
        "2100-02-29T00:00:00Z",
        "2000-02-29T00:00:00.5Z",
        "2026-04-31T00:00:00Z",
    ),
    *(
        "2026-01-05T24:00:00Z",
        "2026-01-05T23:60:00Z",
        "2026-01-05T23:59:60Z",
        "2026-13-01T00:00:00Z",
        "2026-00-10T00:00:00Z",
    ),
    *("2026-01-05T00:00:10", "2026-01-05T00:00:10+02:00", "2026-01-05 00:00:10Z", "2026-01-05T00:00:10z", "2026-01-05"),
    *(
        "2026-1-5T00:00:10Z",
        "+2026-01-05T00:00:10Z",
        "12026-01-05T00:00:10Z",
        "2026-01-05T00:00:1\u0660Z",
        "2026-01-05T-1:00:00Z",
    ),
    *(
        "2026-01-05T00:00Z",
        "2026-01-05T00:00:10,5Z",
        "2026-01-05T00:00:10.5ZZ",
        "",
        "Z",
        None,
        1_767_571_210,
        1.5,
        True,
        {},
    ),
]
NAMES: list[Any] = [
    "h",
    "a/b",
    "100%",
    "%2F",
    "ü",
    "\U0001f600",
    "\ud800",
    "\ufffd",
    "a\tb",
    "\x7f",
    "\x85",
    "",
    "x" * 256,
    "x" * 257,
    "ü" * 256,
]
NAMES += ["é" * 128 + "\U0001f600" * 128, "\\", '"', None, 7, 1.5, False, [], {"a": "b"}, "heartbeat", "\u2028", " h "]
VALUES: list[Any] = [
    0,
    -0.0,
    1,
    -1,
    1e15,
    1.0000001e15,
    1e18,
    1.1e18,
    5e-324,
    1e-400,
    2**53 + 1,
    2**63,
    2**64 + 1,
    0.1,
    1e22,
    123456789.12345678,
]
VALUES += ["1.5", "nan", "", True, None, [], {}, float("nan"), float("inf"), 10**400, 1e308]
LABEL_SETS = [
    {},
    {"b": "2", "a": "1"},
    {"a": None},
    {"a": 1},
    {"": ""},
    {"a/b": "c%"},
    {"k": "ü"},
    {"ü": "v", "z": "w"},
    {"a": "\x01"},
    [],
    "x",
    None,
]
LABEL_SETS += (
    [{f"k{i}": "v" for i in range(n)} for n in (15, 16, 17)]
    + [{"k": "v" * n} for n in (128, 129)]
    + [{"a": {"b": "c"}}]
)
MESSAGES = [
    "it works",
    "ü",
    "\U0001f600",
    "\ufffd",
    "\ud83d",
    "a\nb",
    "\x00",
    "x" * 8192,
    "x" * 8193,
    "",
    " ",
    None,
    5,
    {"a": 1},
    '{"json": true}',
]
SHAPES = [
    b" %s",
    b"%s ",
    b"%s\n",
    b"%s,",
    b"%s}",
    b"%s{}",
    b"%s %s",
    b"[%s]",
    b"\xef\xbb\xbf%s",
    b"%s\x00",
    b"\x00%s",
    b"%s#c",
    b'{"a":{"b":[1,{}]},%s',
    b'{"host.name":"x",%s',
    b'{"metric.value":2,%s',
    b'{"@timestamp":"2026-01-05T00:00:11Z",%s',
    b'{"labels":{"a":"1","a":"2"},%s',
    b'{"service.name":null,"z":[],%s',
    b'{"x":NaN,%s',
    b"{'y':1,%s",
    b'{"\xff":1,%s',
    b'{"x":"\xc0\x80",%s',
    b'{"x":"\xed\xa0\x80",%s',
    b'{"x":"\xfe",%s',
    b'{"metric.type":"gauge","metric.type":"counter",%s',
    b'{"record":"heartbeat",%s',
    b'{"resourceMetrics":[],%s',
    b'{"x":01,%s',
    b'{"x":1.,%s',
]


def variants(good: Callable[..., str]) -> list[bytes | str | None]:
    """A good record with each of its members changed in every way above, and in the company of all kinds of bytes."""
    changed = [good(at=time) for time in READ_TIMES] + [
        good(service__name=...),
        good(metric__type="counter", metric__value=1e17),
    ]
    changed += [
        good(**{member: name})
        for member in ("host__name", "service__name", "metric__name", "metric__type")
        for name in NAMES
    ]
    changed += [good(metric__value=value) for value in VALUES] + [good(labels=labels) for labels in LABEL_SETS]
    changed += [good(message=message) for message in MESSAGES] + [good(log__level=word) for word in NAMES]
    whole = good().encode()
    shaped = [shape.replace(b"%s", whole if not shape.startswith(b"{") else whole[1:]) for shape in SHAPES]
    cut = [whole[:n] for n in range(0, len(whole), 7)]
    return [*changed, *shaped, *cut, whole.decode().encode("utf-16"), whole.decode().encode("utf-16-le"), b"", None]


@pytest.mark.parametrize(("read", "good"), [("points", flat), ("lines", log)])
def test_what_is_read_in_java_is_what_sparks_functions_read(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, read: str, good: Callable[..., str]
) -> None:
    of = {"points": (points, "flat_point"), "lines": (lines, "flat_line")}
    reader, name = of[read]
    values = variants(good)
    quick = raw(spark, values).select(getattr(canonical, name)(F.col("value")).isNotNull().alias("quick"))
    assert quick.where("quick").count() > 40
    fast = reader(spark, values)
    answer = functions()[f"kappa_{name}"][1]
    monkeypatch.setattr(canonical, name, lambda record: F.lit(None).cast(answer))
    slow = reader(spark, values)
    assert len(slow) == len(values)
    for i, value in enumerate(values):
        assert fast[i] == slow[i], value
