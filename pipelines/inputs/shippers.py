"""Log shippers and loggers that do not write ECS: Fluent Bit, Fluentd, Vector, Logstash, journald, GELF, programs that log JSON.

Each has names of its own for the parts of a line, and hardly a name means two things. So the parts are looked for by name, whoever wrote
them, wherever the names of ECS and of the canonical form do not say them.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import not_empty
from pipelines.inputs.members import ANY, SCALAR, Named, paths_of_kind

# The first that is there counts. `time` is a duration for some.
_TIMES = (
    *("timestamp", "__REALTIME_TIMESTAMP", "timereported", "@t", "datetime", "ISODATE", "EventTime", "timeMillis"),
    *("ts", "date", "time"),
)
_HOSTS = (
    *("_HOSTNAME", "_hostname", "HOSTNAME", "hostname", "hostName", "Hostname", "sysloghost", "logsource", "HOST"),
    *("host", "ec2_instance_id"),
)
_SERVICES = (
    *("service", "container_name", "CONTAINER_NAME", "_container_name", "appname", "programname", "program", "PROGRAM"),
    *("SYSLOG_IDENTIFIER", "ident", "_COMM", "_SYSTEMD_UNIT", "ProviderName", "SourceName", "channel", "name"),
)
_FILES = ("filename", "file", "path")
_LEVELS = (
    *("level_name", "levelname", "level", "severity", "error_severity", "syslogseverity", "loglevel", "LogLevel"),
    *("Severity", "lvl", "@l", "@level", "PRIORITY"),
)
_PRIORITY = "pri"  # facility and severity in one
_MESSAGES = ("MESSAGE", "short_message", "Message", "msg", "@m", "@mt", "@message")
_TEXTS = ("log", "event")  # messages where they are no objects of ECS

# as Filebeat, Fluent Bit and Vector write them
_CONTAINERS = ("kubernetes.container_name", "kubernetes.container.name")
_NODES = ("kubernetes.host", "kubernetes.pod_node_name", "kubernetes.node_name", "kubernetes.node.name")

MEMBERS = paths_of_kind(SCALAR, (*_TIMES, *_HOSTS, *_SERVICES, *_FILES, *_LEVELS, _PRIORITY, *_TEXTS)) | paths_of_kind(
    ANY, (*_MESSAGES, *_CONTAINERS, *_NODES)
)
_TIME = r"^(?:[0-9]{4}-[0-9]{2}|[0-9]{9}|[0-9]\.[0-9]{1,18}E(?:9|1[0-9]))"
_BYTES = r"^\[[0-9, ]{1,65536}+\]\z"
_LONGEST = 1024  # characters of a name that are looked at; of a longer path, its end
# the files of containers on a node: /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log, /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
_OF_CONTAINER = (
    r"(?:/pods/[^/]{1,512}/([^/]{1,256})/[^/]{1,64}|/[^/_]{1,256}_[^/_]{1,256}_([^/]{1,256})-[0-9a-f]{64}\.log)\z"
)
# A member that names a file may mean the source of a program, and `path` that of a request.
_OF_LOG = r"(?i)(?:[/\\]logs?[/\\]|\.log\z)"
# What names one run of a service and not the service: a date or a time, the id of a container or an allocation, the number of a replica.
_RUN = (
    r"(?:[-_.]?(?:19|20)[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?[0-3][0-9][T0-9_:.-]{0,16}Z?"
    r"|[-_.]?[0-3][0-9][-_.][0-3][0-9][-_.]20[0-9]{2}|[-_.]20[2-9][0-9][-_]?(?:0[1-9]|1[0-2])|[-_.]1[5-9][0-9]{8}"
    r"|(?<=^u_(?:ex|in|nc))[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9](?:[0-9]{2})?"
    r"|[-_]?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[-_]?[0-9a-f]{12,64}(?:-json)?|\.[0-9]{1,6}\.[0-9a-z]{20,30})\z"
)
_RUN_BEFORE = r"^(?:k8s_(?=[^_]{1,256}_)|ecs-.{1,256}-[0-9]{1,6}-(?=.{1,256}-[0-9a-f]{12}))"
_POD_BEHIND = r"^([^_]{1,256})_[^_]{1,256}_[^_]{1,256}_[0-9a-f-]{36}_[0-9]{1,6}\z"
SERVICE_PATTERNS = (
    _LONGEST,
    _OF_CONTAINER,
    _RUN_BEFORE,
    _POD_BEHIND,
    _RUN,
)  # as pipelines/jvm/ServiceName.java takes them


# Each part by itself, so that what ECS says is not looked for here.
def time_in(members: Named) -> Column:
    """The time among `MEMBERS`, as text: the first that looks like one."""
    likely = (F.when(members[name].rlike(_TIME), members[name]) for name in _TIMES)
    return F.coalesce(*likely, _first(members, _TIMES))


def host_in(members: Named) -> Column:
    """The host among `MEMBERS`."""
    return _first(members, _HOSTS)


def service_in(members: Named) -> Column:
    """The service among `MEMBERS`, or the one that a log's file is named after."""
    files = F.coalesce(*(F.when(members[name].rlike(_OF_LOG), members[name]) for name in _FILES))
    return F.coalesce(_without_run(_first(members, _SERVICES)), service_of_file(files))


def level_in(members: Named) -> Column:
    """The level among `MEMBERS`, as it was given."""
    severity = F.pmod(members[_PRIORITY].try_cast("int"), F.lit(8)).cast("string")
    return F.coalesce(_first(members, _LEVELS), severity)


def message_in(members: Named) -> Column:
    """The message among `MEMBERS`."""
    texts = (_decoded(not_empty(members[name])) for name in _MESSAGES)
    return F.rtrim(F.coalesce(*texts, *(not_empty(members[name]) for name in _TEXTS)), F.lit("\r\n"))


def _first(members: Named, names: tuple[str, ...]) -> Column:
    return F.coalesce(*(not_empty(members[name]) for name in names))


def container_of(members: Named) -> Column:
    """The name of the container of Kubernetes among `MEMBERS`."""
    return F.coalesce(*(members[name] for name in _CONTAINERS))


def node_of(members: Named) -> Column:
    """The name of the node of Kubernetes among `MEMBERS`."""
    return F.coalesce(*(members[name] for name in _NODES))


def service_of_file(path: Column) -> Column:
    """The container whose file it is, else the name of the path's last part, up to its first dot that is not at the beginning."""
    return F.call_function("kappa_service_of_file", path)


def _without_run(name: Column) -> Column:
    """A service's name without what tells its runs apart; null where nothing is left."""
    return F.call_function("kappa_service", name)


def _decoded(text: Column) -> Column:
    """What journald writes as an array of bytes, as text: what has colours, for one."""

    def of(numbers: Column) -> Column:
        digits = F.transform(numbers, lambda number: F.lpad(F.hex(number), 2, "0"))
        return F.make_valid_utf8(F.unhex(F.array_join(digits, "")).cast("string"))

    return F.coalesce(F.when(text.rlike(_BYTES), of(F.from_json(text, "array<int>"))), text)
