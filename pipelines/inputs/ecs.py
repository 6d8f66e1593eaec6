"""Metricbeat and Elastic Agent: numeric leaves under the module's object become points named by their dotted path."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import distinct_map, let, name_labels, point, truncate
from pipelines.inputs.members import ANY, Members, paths_of_kind

MEMBERS = paths_of_kind(ANY, ("service.type", "metricset", "ecs"))

# Levels of objects that are opened: elasticsearch.node.stats.jvm.gc.collectors.old.collection.count has nine names. What is below is refused.
DEPTH = 10

# objects that describe where a document comes from: read only if the module itself is called so
_ENVELOPE = [
    *("@timestamp", "agent", "cloud", "container", "data_stream", "ecs", "elastic", "elastic_agent", "error", "event"),
    *("fields", "host", "input", "labels", "log", "message", "metricset", "orchestrator", "process", "service", "tags"),
    *("url", "user"),
]
# leaves that say which of several like things (disks, interfaces, pods) a document is about -> the label's name
_DIMENSIONS = {
    "system.filesystem.mount_point": "mount_point",
    "system.network.name": "interface",
    "system.diskio.name": "disk",
    "system.core.id": "core",
    "system.process.name": "process",
    "process.name": "process",
    "container.name": "container",
    "docker.container.name": "container",
    "docker.network.interface": "interface",
    "kubernetes.namespace": "namespace",
    "kubernetes.pod.name": "pod",
    "kubernetes.container.name": "container",
    "kubernetes.node.name": "node",
    "kubernetes.system.container": "container",
    "windows.service.display_name": "service",
    "kafka.topic.name": "topic",
    "kafka.partition.id": "partition",
    "redis.keyspace.id": "keyspace",
    "postgresql.database.name": "database",
    "elasticsearch.index.name": "index",
    "elasticsearch.node.name": "node",
    "kubernetes.volume.name": "volume",
    "system.service.name": "unit",
    "system.raid.name": "raid",
    "windows.perfmon.instance": "instance",
    "kafka.consumergroup.id": "consumergroup",
    "rabbitmq.vhost": "vhost",
    "rabbitmq.queue.name": "queue",
    "rabbitmq.exchange.name": "exchange",
    "activemq.queue.name": "queue",
    "activemq.topic.name": "topic",
    "haproxy.stat.proxy.name": "proxy",
    "haproxy.stat.service_name": "server",
    "mongodb.dbstats.db": "database",
    "mongodb.collstats.name": "collection",
    "mssql.database.name": "database",
    "oracle.tablespace.name": "tablespace",
    "couchbase.bucket.name": "bucket",
    "php_fpm.pool.name": "pool",
    "vsphere.host.name": "vsphere_host",
    "vsphere.virtualmachine.name": "virtualmachine",
    "vsphere.datastore.name": "datastore",
}
# A pod is known without what owns it, whose name may change with each release.
_POD = "kubernetes.pod.name"
_NOT_IN_A_POD = {
    f"kubernetes.{kind}.name": kind
    for kind in (
        *("deployment", "statefulset", "daemonset", "replicaset", "job", "cronjob", "service"),
        *("persistentvolumeclaim", "persistentvolume"),
    )
}
_PROCESS_IDS = {"process.pid": "pid", "system.process.pid": "pid"}
# objects whose leaves are labels: those of the document, and those of modules that hand on what others have measured
_LABELS = r"^(labels|(prometheus|openmetrics)\.labels|(aws|azure)\.dimensions)\."
_IDENTITIES = ("pid", "ppid", "pgid", "uid", "gid", "id")
# running totals since the start of a device, process or server: how their names begin, and end
_TOTALS = (
    r"^(system\.(network\.(in|out)\.[a-z]+|diskio\.((read|write)\.[a-z]+|io\.time))$"
    r"|(prometheus|openmetrics)\..*(\.counter|_count|_sum|_bucket)$"
    r"|docker\.(network\.(inbound|outbound)\.|diskio\.(read|write|summary)\.(bytes|ops)$)|kubernetes\..*\.network\.(rx|tx)\."
    r"|system\.process\.(cpu\.total\.value$|io\.)|nginx\.stubstatus\.(accepts|handled|requests)$|apache\.status\.total_"
    r"|redis\.info\.stats\.(connections\.received|commands_processed|net\.|keyspace\.)|postgresql\.database\.(transactions|blocks|rows)\."
    r"|mysql\.status\.(queries|questions|connections|bytes\.|command\.|handler\.))"
)
_TOTALS_END = (".ticks", "_total", ".cpu.usage.core.ns")


def points(text: Column, members: Members, host: Column) -> Column:
    """The record's text and members -> points."""
    dataset, kind = members["event.dataset"], members["service.type"]
    module = F.coalesce(members["event.module"], F.substring_index(dataset, ".", 1), kind)

    # what all points share: found once
    shared = F.struct(
        truncate(host).alias("host"),
        truncate(F.coalesce(members["service.name"], kind)).alias("service"),
        truncate(module).alias("module"),
    )

    def of_labels(found: Column, labels: Column, own: Column) -> Column:
        measured = F.filter(found, lambda leaf: _measured(leaf, own["module"]))
        return F.transform(measured, lambda leaf: of_leaf(leaf, labels, own))

    def of_leaf(leaf: Column, all_labels: Column, own: Column) -> Column:
        counter = reduce(or_, map(leaf["path"].endswith, _TOTALS_END)) | leaf["path"].rlike(_TOTALS)
        # running totals of several processes of one name in one series would be taken for resets
        of_process = counter & leaf["path"].startswith("system.process.")
        labels = F.coalesce(F.when(of_process, all_labels["of_totals"]), all_labels["labels"])
        return point(
            at=members["@timestamp"],
            host=own["host"],
            service=own["service"],
            metric=leaf["path"],
            labels=labels,
            value=leaf["value"],
            counter=counter,
        )

    def of_leaves(found: Column) -> Column:
        return let(_labels(found), lambda labels: let(shared, lambda own: of_labels(found, labels, own)))

    return let(F.call_function("kappa_leaves", text), of_leaves)


def _labels(found: Column) -> Column:
    """Labels of a document's points, and of running totals of its process: null where it is about none."""
    names = F.create_map(*(F.lit(x) for pair in (_DIMENSIONS | _NOT_IN_A_POD | _PROCESS_IDS).items() for x in pair))

    def entry(leaf: Column) -> Column:
        name = F.coalesce(F.try_element_at(names, leaf["path"]), F.regexp_replace(leaf["path"], _LABELS, ""))
        return F.struct(name.alias("key"), truncate(leaf["value"]).alias("value"))

    def of(*more: str) -> Column:
        paths = (*_DIMENSIONS, *_NOT_IN_A_POD, *more)
        labelled = F.filter(found, lambda e: e["path"].isin(*paths) | e["path"].rlike(_LABELS))
        return let(labelled, lambda leaves: name_labels(distinct_map(F.transform(_of_pod(leaves), entry))))

    of_process = F.exists(found, lambda e: e["path"].isin(*_PROCESS_IDS))
    return F.struct(of().alias("labels"), F.when(of_process, of(*_PROCESS_IDS)).alias("of_totals"))


def _of_pod(labelled: Column) -> Column:
    in_pod = F.exists(labelled, lambda e: e["path"] == _POD)
    return F.when(in_pod, F.filter(labelled, lambda e: ~e["path"].isin(*_NOT_IN_A_POD))).otherwise(labelled)


def _measured(leaf: Column, module: Column) -> Column:
    def chosen(top: Column) -> Column:
        return F.coalesce((top == module) | (top == "process") & (module == "system"), ~top.isin(*_ENVELOPE))

    # an object that was not opened is no number either: it is refused where points are checked
    return (
        let(F.substring_index(leaf["path"], ".", 1), chosen)
        & leaf["kind"].isin("number", "object")
        & ~F.substring_index(leaf["path"], ".", -1).isin(*_IDENTITIES)
    )
