"""Changes and calls that people and tools announce -> rows for `detect`. Their members decide which form one has.

    canonical       {"change": "deployment", "service": "cart", "version": "1.8.2", "at": "2026-01-05T10:00:00Z", ...}
                    {"client": "web", "server": "cart"}: a call between services; with "removed": true it is no more
    GitHub          webhooks `deployment` and `deployment_status`
    Argo CD         an Application, as notifications have it in `app`: its last operation
    Kubernetes      Event of core/v1 and events.k8s.io/v1: a controller has scaled

A record belongs to the window in which it was appended; when the change was made is in it. What is of a known form and no change, as a
deployment that waits or an event that a pod was started, is read and has no row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.detection.announcements import FIRST
from models.records.records import CHANGE_KINDS, MOST_TEXT, Heartbeat
from pipelines.inputs.fields import (
    CONTROL,
    HEARTBEAT,
    is_in_bounds,
    let,
    name_problem,
    parse_time,
    quote,
    record_text,
    truncate,
)
from pipelines.inputs.labels import OFFSET_DIGITS

_APPLICATION = "metadata:struct<name:string>,status:struct<operationState:struct<phase:string,startedAt:string>,sync:struct<revision:string>>"
_OBJECT = "struct<kind:string,name:string>"
MEMBERS = (
    "struct<record:string,change:string,service:string,host:string,at:string,`@timestamp`:string,version:string,comment:string,"
    "author:string,client:string,server:string,removed:string,"
    "deployment:struct<ref:string,sha:string,created_at:string,environment:string,creator:struct<login:string>>,"
    "deployment_status:struct<state:string,created_at:string>,repository:struct<name:string>,"
    f"kind:string,app:struct<kind:string,{_APPLICATION}>,{_APPLICATION},"
    f"involvedObject:{_OBJECT},regarding:{_OBJECT},reason:string,message:string,note:string,lastTimestamp:string,"
    "eventTime:string,firstTimestamp:string,deprecatedLastTimestamp:string>"
)
_CHANGE = ("change", "service", "host", "at", "version", "comment", "author")
_UNDER_WAY = ("in_progress", "success", "failure", "error")  # states of GitHub in which something has been changed
_SCALED = ("ScalingReplicaSet", "SuccessfulRescale")  # reasons of Kubernetes


def change_lines(raw: DataFrame) -> DataFrame:
    """A row for each change or call: `series` is `change/NAME/OFFSET`, `message` what `detect` reads of it.

    Keeps Kafka's columns but the value, which is `raw_value` of a row with a `reason`: of what cannot be read there is one. A
    heartbeat, and what is no change, is one row of series `heartbeat`.
    """
    others = [F.col(f"`{name}`") for name in raw.columns if name != "value"]
    shape, change, text = F.col("__shape"), F.col("__change"), F.col("__record")
    read = raw.select(*others, F.col("value").alias("raw_value"), record_text(F.col("value")).alias("__record"))
    read = read.withColumn("__shape", F.from_json(text["json"], MEMBERS))
    read = read.withColumn("__change", F.coalesce(_canonical(shape), _github(shape), _argo(shape), _kubernetes(shape)))
    is_call = F.coalesce(shape["client"], shape["server"]).isNotNull() & shape["change"].isNull()
    beat = F.coalesce(shape["record"] == Heartbeat.KIND, F.lit(False))
    ignored = beat | (change["change"] == "")
    made = parse_time(change["at"])
    why = F.when(is_call, call_problem(shape)).otherwise(change_problem(change, made))
    unreadable = F.concat(F.lit("not a change: "), text["reason"])
    reason = F.coalesce(unreadable, F.when(~F.coalesce(ignored, F.lit(False)), why))
    name = F.when(is_call, shape["client"]).otherwise(
        F.coalesce(F.nullif(change["service"], F.lit("")), change["host"])
    )
    offset = F.lpad(F.col("offset").cast("string"), OFFSET_DIGITS, "0")
    series = F.concat(F.lit(FIRST), quote(name), F.lit("/"), offset)
    removed = F.coalesce(_parse_bool(shape["removed"]), F.lit(False))
    call = F.to_json(F.struct(shape["client"], shape["server"], removed.alias("removed")))
    return read.select(
        *others,
        F.when(reason.isNotNull(), F.col("raw_value")).alias("raw_value"),
        reason.alias("reason"),
        F.col("timestamp").alias("event_time"),
        F.when(ignored, F.lit(HEARTBEAT)).otherwise(series).alias("series"),
        F.lit(None).cast("string").alias("template"),
        F.when(is_call, call).otherwise(change_message(change, _time_made(made, F.col("timestamp")))).alias("message"),
    )


def _time_made(made: Column, appended: Column) -> Column:
    """When a change was made, at the latest when it was appended: where that is later, the clock of who announced it is ahead."""
    return F.least(made, appended)  # what is null does not count


def change_message(change: Column, at: Column) -> Column:
    """What `detect` reads of a change: `AnnouncedChange` as JSON."""
    names = [F.coalesce(change[name], F.lit("")).alias(name) for name in ("change", "service", "host")]
    texts = [_readable(change[name]).alias(name) for name in ("version", "comment", "author")]
    return F.to_json(F.struct(F.unix_millis(at).alias("at"), *names, *texts))


def change_problem(change: Column, made: Column) -> Column:
    """Why a change cannot be used, or null."""
    kind, at = change["change"], change["at"]
    shown = F.regexp_replace(F.substring(kind, 1, 32), rf'"|{CONTROL}', "")
    nobody = F.coalesce(F.length(change["service"]), F.lit(0)) + F.coalesce(F.length(change["host"]), F.lit(0)) == 0
    return F.coalesce(
        F.when(kind.isNull(), "not a change: no member of a known form, such as `change` or `client`"),
        F.when(
            ~kind.isin(*CHANGE_KINDS),
            F.concat(F.lit("change is "), shown, F.lit(f"; wanted {', '.join(CHANGE_KINDS)}")),
        ),
        F.when(nobody, "a change of no service and no host"),
        _name_problem("service", change["service"], required=False),
        _name_problem("host", change["host"], required=False),
        F.when(at.isNotNull() & made.isNull(), "the time of a change is not a time"),
        F.when(made.isNotNull() & ~is_in_bounds(made), "the time of a change is outside 1970..2200"),
    )


def call_problem(shape: Column) -> Column:
    """Why a call cannot be used, or null."""
    return F.coalesce(
        _name_problem("client", shape["client"]),
        _name_problem("server", shape["server"]),
        F.when(shape["client"] == shape["server"], "a service that calls itself"),
        F.when(
            shape["removed"].isNotNull() & _parse_bool(shape["removed"]).isNull(), "removed is neither true nor false"
        ),
    )


def _parse_bool(text: Column) -> Column:
    """`true` or `false`, in capitals or not; null for anything else."""
    return F.when(F.lower(text) == "true", True).when(F.lower(text) == "false", False)


def _name_problem(what: str, name: Column, required: bool = True) -> Column:
    """The same of a name that is the JSON of a member where that is no text."""
    nested = name.rlike(r"^[{\[]") & F.try_parse_json(name).isNotNull()
    return F.coalesce(name_problem(what, name, required), F.when(nested, f"{what} is an object or an array"))


def _canonical(shape: Column) -> Column:
    at = F.coalesce(shape["at"], shape["@timestamp"])
    known = {name: shape[name] for name in _CHANGE}
    kind = F.nullif(shape["change"], F.lit(""))  # empty is what is no change
    return _change(shape["change"].isNotNull(), **(known | {"at": at, "change": kind}))


def _github(shape: Column) -> Column:
    deployment, status = shape["deployment"], shape["deployment_status"]
    begun = status.isNull() | status["state"].isin(*_UNDER_WAY)
    ref, sha = deployment["ref"], F.substring(deployment["sha"], 1, 7)
    state = F.when(status.isNotNull(), F.concat(F.lit(", "), status["state"])).otherwise("")
    return _change(
        deployment.isNotNull() & shape["repository"].isNotNull(),
        change=F.when(begun, "deployment").otherwise(""),
        service=shape["repository"]["name"],
        at=F.coalesce(status["created_at"], deployment["created_at"]),
        version=F.when(ref.startswith(sha), sha).otherwise(ref),
        comment=F.concat(F.lit("to "), deployment["environment"], state),
        author=deployment["creator"]["login"],
    )


def _argo(shape: Column) -> Column:
    bare = shape["kind"] == "Application"
    metadata = F.coalesce(shape["app"]["metadata"], F.when(bare, shape["metadata"]))
    status = F.coalesce(shape["app"]["status"], F.when(bare, shape["status"]))
    operation = status["operationState"]
    return _change(
        metadata.isNotNull(),
        change=F.when(operation["startedAt"].isNotNull(), "deployment").otherwise(""),
        service=metadata["name"],
        at=operation["startedAt"],
        version=F.substring(status["sync"]["revision"], 1, 7),
    )


def _kubernetes(shape: Column) -> Column:
    about = F.coalesce(shape["involvedObject"], shape["regarding"])
    times = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp")
    return _change(
        about.isNotNull(),
        change=F.when(shape["reason"].isin(*_SCALED), "scaling").otherwise(""),
        service=about["name"],
        at=F.coalesce(*(shape[name] for name in times)),
        comment=F.coalesce(shape["message"], shape["note"]),
    )


def _change(where: Column, **parts: Column) -> Column:
    """The parts of a change as text; null unless `where`."""
    fields = [parts.get(name, F.lit(None)).cast("string").alias(name) for name in _CHANGE]
    return F.when(F.coalesce(where, F.lit(False)), F.struct(*fields))


def _readable(text: Column) -> Column:
    """A text for people: one line, cut."""
    return let(
        F.regexp_replace(F.substring(truncate(text), 1, MOST_TEXT), CONTROL, " "),
        lambda one: F.coalesce(one, F.lit("")),
    )
