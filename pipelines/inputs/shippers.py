"""Log shippers and loggers that do not write ECS: Fluent Bit, Fluentd, Vector, Logstash, journald, GELF, programs that log JSON.

Each has names of its own for the parts of a line, and hardly a name means two things. So the parts are looked for by name, whoever wrote
them. The names of ECS and of the canonical form come first: these are looked at where a line lacks a time, a host or a message.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import let, line

# The first that is there counts. What a program says of itself comes before what its shipper adds.
_TIMES = ("timestamp", "time", "__REALTIME_TIMESTAMP", "timereported", "date", "ts")
_HOSTS = ("_HOSTNAME", "hostname", "host", "ec2_instance_id")
_SERVICES = ("service", "container_name", "appname", "programname", "SYSLOG_IDENTIFIER", "ident", "_SYSTEMD_UNIT")
_FILES = ("file", "path", "filename")
_LEVELS = ("level", "severity", "syslogseverity", "PRIORITY")
_MESSAGES = ("MESSAGE", "short_message", "msg")
_LOG = "log"  # a message, or the object of ECS
_NAMES = (*_TIMES, *_HOSTS, *_SERVICES, *_FILES, *_LEVELS, *_MESSAGES, _LOG)
SHAPE = "struct<" + ",".join(f"`{name}`:string" for name in _NAMES) + ">"

# of `kubernetes`, as Filebeat, Fluent Bit and Vector write it
KUBERNETES = (
    "struct<container_name:string,container:struct<name:string>,host:string,pod_node_name:string,node_name:string,"
    "node:struct<name:string>>"
)
# the files of containers on a node: /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log, /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
_OF_CONTAINER = (
    r"(?:/pods/[^/]{1,512}/([^/]{1,256})/[^/]{1,64}|/[^/_]{1,256}_[^/_]{1,256}_([^/]{1,256})-[0-9a-f]{64}\.log)\z"
)
_LONGEST_PATH = 1024  # of a longer one, its end


def parts(text: Column, log: Column, where: Column) -> Column:
    """The JSON of a record -> struct<at, host, service, level, message>, as in `fields.line`; nulls unless `where`.

    `log` is the object of that name, null where it is none.
    """

    def of(shape: Column) -> Column:
        def first(names: tuple[str, ...]) -> Column:
            return F.coalesce(*(_plain(shape[name]) for name in names))

        # what is no text is given as its JSON
        message = F.coalesce(*(shape[name] for name in _MESSAGES), F.when(log.isNull(), shape[_LOG]))
        return line(
            at=first(_TIMES),
            host=first(_HOSTS),
            service=F.coalesce(F.ltrim(first(_SERVICES), F.lit("/")), service_of_file(first(_FILES))),
            level=first(_LEVELS),
            message=F.rtrim(message, F.lit("\r\n")),
        )

    return let(F.when(where, F.from_json(text, SHAPE)), of)


def container_of(kubernetes: Column) -> Column:
    """The name of the container in a `KUBERNETES`."""
    return F.coalesce(kubernetes["container_name"], kubernetes["container"]["name"])


def node_of(kubernetes: Column) -> Column:
    """The name of the node in a `KUBERNETES`."""
    names = (kubernetes[name] for name in ("host", "pod_node_name", "node_name"))
    return F.coalesce(*names, kubernetes["node"]["name"])


def service_of_file(path: Column) -> Column:
    """The container whose file it is, else the name of the path's last part, up to its first dot that is not at the beginning."""

    def of(slashed: Column) -> Column:
        containers = (F.nullif(F.regexp_extract(slashed, _OF_CONTAINER, group), F.lit("")) for group in (1, 2))
        last = F.substring_index(slashed, "/", -1)
        return F.coalesce(*containers, F.substring_index(F.ltrim(last, F.lit(".")), ".", 1))

    return let(F.translate(F.right(path, F.lit(_LONGEST_PATH)), "\\", "/"), of)


def _plain(text: Column) -> Column:
    """What is no object and no array, which are given as their JSON."""
    return F.when(~F.substring(text, 1, 1).isin("{", "["), text)
