"""Log shippers and loggers that do not write ECS: Fluent Bit, Fluentd, Vector, Logstash, journald, GELF, programs that log JSON.

Each has names of its own for the parts of a line, and hardly a name means two things. So the parts are looked for by name, whoever wrote
them, wherever the names of ECS and of the canonical form do not say them.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, let

MEMBERS = LABELS  # of a record, by name: what is an object or array, as its JSON

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
    *("lvl", "@l", "@level", "PRIORITY"),
)
_PRIORITY = "pri"  # facility and severity in one
_MESSAGES = ("MESSAGE", "short_message", "Message", "msg", "@m", "@mt", "@message")
_LOG = "log"  # a message, or the object of ECS
_EVENT = "event"  # likewise

# of `kubernetes`, as Filebeat, Fluent Bit and Vector write it
KUBERNETES = (
    "struct<container_name:string,container:struct<name:string>,host:string,pod_node_name:string,node_name:string,"
    "node:struct<name:string>>"
)
_TIME = r"^(?:[0-9]{4}-[0-9]{2}|[0-9]{9}|[0-9]\.[0-9]{1,18}E(?:9|1[0-9]))"
_BYTES = r"^\[[0-9,]{1,65536}+\]\z"
_LONGEST_PATH = 1024  # of a longer one, its end
# the files of containers on a node: /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log, /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
_OF_CONTAINER = (
    r"(?:/pods/[^/]{1,512}/([^/]{1,256})/[^/]{1,64}|/[^/_]{1,256}_[^/_]{1,256}_([^/]{1,256})-[0-9a-f]{64}\.log)\z"
)
# A member that names a file may mean the source of a program, and `path` that of a request.
_OF_LOG = r"(?i)(?:[/\\]logs?[/\\]|\.log\z)"
# What names one run of a service and not the service: a date, the id of a container or an allocation, the number of a replica.
_RUN = (
    r"(?:[-_.]?(?:19|20)[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?[0-3][0-9][0-9_:-]{0,16}"
    r"|[-_]?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[-_]?[0-9a-f]{12,64}(?:-json)?|\.[0-9]{1,6}\.[0-9a-z]{20,30})\z"
)
_RUN_BEFORE = r"^(?:k8s_(?=[^_]{1,256}_)|ecs-.{1,256}-[0-9]{1,6}-(?=.{1,256}-[0-9a-f]{12}))"
_POD_BEHIND = r"^([^_]{1,256})_[^_]{1,256}_[^_]{1,256}_[0-9a-f-]{36}_[0-9]{1,6}\z"


# Each part by itself, so that what ECS says is not looked for here.
def time_in(members: Column) -> Column:
    """The time among `MEMBERS`, as text: the first that looks like one."""
    likely = (F.when(members[name].rlike(_TIME), members[name]) for name in _TIMES)
    return F.coalesce(*likely, _first(members, _TIMES))


def host_in(members: Column) -> Column:
    """The host among `MEMBERS`."""
    return _first(members, _HOSTS)


def service_in(members: Column) -> Column:
    """The service among `MEMBERS`, or the one that a log's file is named after."""
    files = F.coalesce(*(F.when(members[name].rlike(_OF_LOG), members[name]) for name in _FILES))
    return F.coalesce(_without_run(_first(members, _SERVICES)), service_of_file(files))


def level_in(members: Column) -> Column:
    """The level among `MEMBERS`, as it was given."""
    severity = F.pmod(members[_PRIORITY].try_cast("int"), F.lit(8)).cast("string")
    return F.coalesce(_first(members, _LEVELS), severity)


def message_in(members: Column, log: Column, event: Column) -> Column:
    """The message among `MEMBERS`; `log` and `event` are the objects of these names, null where they are none."""
    texts = [_decoded(_some(members[name])) for name in _MESSAGES]
    own = (F.when(given.isNull(), _some(members[name])) for name, given in ((_LOG, log), (_EVENT, event)))
    return F.rtrim(F.coalesce(*texts, *own), F.lit("\r\n"))


def _first(members: Column, names: tuple[str, ...]) -> Column:
    return F.coalesce(*(_plain(members[name]) for name in names))


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
        last = F.substring_index(F.ltrim(F.substring_index(slashed, "/", -1), F.lit(".")), ".", 1)
        return F.coalesce(*containers, _without_run(last))

    return let(F.translate(F.right(path, F.lit(_LONGEST_PATH)), "\\", "/"), of)


def _without_run(name: Column) -> Column:
    """A service's name without what tells its runs apart; null where nothing is left."""
    short = F.ltrim(F.substring(name, 1, _LONGEST_PATH), F.lit("/"))
    whole = F.regexp_replace(F.regexp_replace(short, _RUN_BEFORE, ""), _POD_BEHIND, "$1")
    return F.nullif(F.regexp_replace(whole, _RUN, ""), F.lit(""))


def _some(text: Column) -> Column:
    """A text that is not empty."""
    return F.nullif(text, F.lit(""))


def _plain(text: Column) -> Column:
    """A text that is not empty, and no object and no array, which are given as their JSON."""
    return F.when(~F.substring(text, 1, 1).isin("{", "[", ""), text)


def _decoded(text: Column) -> Column:
    """What journald writes as an array of bytes, as text: what has colours, for one."""

    def of(numbers: Column) -> Column:
        digits = F.transform(numbers, lambda number: F.lpad(F.hex(number), 2, "0"))
        return F.make_valid_utf8(F.unhex(F.array_join(digits, "")).cast("string"))

    return F.coalesce(F.when(text.rlike(_BYTES), of(F.from_json(text, "array<int>"))), text)
