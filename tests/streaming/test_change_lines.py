"""Changes and calls as they come, and the rows of statistics or the dead letters that they become."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester
from support.raw_records import NOON, WINDOWING, frame, raw

from models.core.parameters import DetectorParameters
from models.core.series import quote
from models.incidents.parameters import CorrelationParameters
from models.records.records import AnnouncedChange, ChangeMade, EpisodeEvent, Topology
from models.records.schema import parsed, plain
from pipelines.jobs import extract
from pipelines.jobs.correlate import CorrelateProcessor, NoveltiesTopic
from pipelines.jobs.detect import DetectProcessor

pytestmark = pytest.mark.spark

NOON_MS = int(NOON.timestamp() * 1000)
# Documented payloads, shortened by what is not read: docs.github.com (webhook events), argo-cd.readthedocs.io (Application), and
# kubernetes.io (Event of core/v1 and events.k8s.io/v1).
GITHUB: dict[str, Any] = {
    "action": "created",
    "deployment": {
        "url": "https://api.github.com/repos/Codertocat/Hello-World/deployments/145988746",
        "id": 145988746,
        "sha": "f95f852bd8fca8fcc58a9a2d6c842781e32a215e",
        "ref": "master",
        "task": "deploy",
        "payload": {},
        "environment": "production",
        "description": None,
        "creator": {"login": "Codertocat", "id": 21031067, "type": "User"},
        "created_at": "2019-05-15T15:20:53Z",
        "updated_at": "2019-05-15T15:20:53Z",
    },
    "repository": {"id": 186853002, "name": "Hello-World", "full_name": "Codertocat/Hello-World", "private": False},
    "sender": {"login": "Codertocat", "id": 21031067},
}
STATUS = {"state": "success", "description": "", "environment": "production", "created_at": "2019-05-15T15:21:03Z"}
APPLICATION: dict[str, Any] = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "guestbook", "namespace": "argocd", "labels": {"team": "a"}},
    "spec": {"destination": {"namespace": "default"}, "project": "default", "source": {"path": "guestbook"}},
    "status": {
        "health": {"status": "Healthy"},
        "operationState": {
            "phase": "Succeeded",
            "startedAt": "2020-10-29T14:08:28Z",
            "finishedAt": "2020-10-29T14:08:30Z",
            "syncResult": {"revision": "53e28ff20cc530b9ada2173fbbd64d48338583ba"},
        },
        "sync": {"status": "Synced", "revision": "53e28ff20cc530b9ada2173fbbd64d48338583ba"},
    },
}
EVENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "cart.17f0f9c3b1c2a5d4", "namespace": "default"},
    "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "cart", "apiVersion": "apps/v1"},
    "reason": "ScalingReplicaSet",
    "message": "Scaled up replica set cart-5d59d67564 to 3",
    "source": {"component": "deployment-controller"},
    "firstTimestamp": "2024-05-15T15:20:53Z",
    "lastTimestamp": "2024-05-15T15:20:53Z",
    "count": 1,
    "type": "Normal",
    "eventTime": None,
}
NEW_EVENT: dict[str, Any] = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "web.17f0"},
    "regarding": {"kind": "HorizontalPodAutoscaler", "name": "web"},
    "reason": "SuccessfulRescale",
    "note": "New size: 5; reason: cpu resource utilization (percentage of request) above target",
    "deprecatedLastTimestamp": None,
    "eventTime": "2024-05-15T15:20:53.123456Z",
}


def closed(spark: SparkSession, values: list[Any]) -> list[Any]:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    appended = [raw(v, i, NOON + timedelta(seconds=i / 10), topic="changes") for i, v in enumerate(texts)]
    nothing = frame(spark, [])
    return extract.closed_windows(nothing, nothing, WINDOWING, changes=frame(spark, appended)).collect()


def test_each_form_becomes_a_row_that_says_what_was_changed_and_when(spark: SparkSession) -> None:
    values: list[Any] = [
        plain(ChangeMade(change="deployment", service="a/b", version="1.8.2", at="2024-05-15T15:20:53+00:00")),
        {
            "change": "configuration",
            "host": "vm-1",
            "comment": "line 1\nline 2",
            "author": "me",
            "@timestamp": 1715786453,
        },
        GITHUB,
        GITHUB | {"deployment_status": STATUS},
        {"app": APPLICATION, "text": "deployed"},
        APPLICATION,
        EVENT,
        NEW_EVENT,
        {"change": "other", "service": "now"},
        {"change": "other", "service": "of a clock that is ahead", "at": "2199-01-01T00:00:00Z"},
    ]
    rows = sorted((row["series"], row["sample"]) for row in closed(spark, values))
    found = {name: parsed(AnnouncedChange, json.loads(text)) for name, text in rows}
    at, sha = 1_715_786_453_000, "53e28ff"
    github = 1_557_933_653_000
    wanted = [
        AnnouncedChange(at, "deployment", "a/b", "", "1.8.2"),
        AnnouncedChange(at, "configuration", "", "vm-1", "", "line 1 line 2", "me"),
        AnnouncedChange(github, "deployment", "Hello-World", "", "master", "to production", "Codertocat"),
        AnnouncedChange(
            github + 10_000, "deployment", "Hello-World", "", "master", "to production, success", "Codertocat"
        ),
        AnnouncedChange(1_603_980_508_000, "deployment", "guestbook", "", sha),
        AnnouncedChange(1_603_980_508_000, "deployment", "guestbook", "", sha),
        AnnouncedChange(at, "scaling", "cart", "", "", EVENT["message"]),
        AnnouncedChange(at + 123, "scaling", "web", "", "", NEW_EVENT["note"]),
        AnnouncedChange(NOON_MS + 800, "other", "now"),
        AnnouncedChange(NOON_MS + 900, "other", "of a clock that is ahead"),
    ]
    quoted = [quote(one.name) for one in wanted]
    assert found == {f"change/{name}/{i:020d}": one for i, (name, one) in enumerate(zip(quoted, wanted, strict=True))}
    assert len({row["window_end"] for row in closed(spark, values)}) == 1  # that in which they were appended


def test_a_call_is_a_row_and_what_is_no_change_has_none(spark: SparkSession) -> None:
    values: list[Any] = [
        plain(Topology(client="web", server="cart")),
        {"client": "web", "server": "db", "removed": True},
        {"client": "a", "server": "db", "removed": "True"},
        {"client": "b", "server": "db", "removed": "false"},
        {"client": "c", "server": "db", "removed": None},
        {"record": "heartbeat"},
        GITHUB | {"deployment_status": STATUS | {"state": "queued"}},
        EVENT | {"reason": "Pulled"},
        {"app": {"kind": "Application", "metadata": {"name": "guestbook"}, "status": {"sync": {"revision": "a"}}}},
    ]
    found = {row["series"]: row["sample"] for row in closed(spark, values)}
    assert found.pop("heartbeat", "") is not None
    assert {name: json.loads(text) for name, text in found.items()} == {
        f"change/web/{0:020d}": {"client": "web", "server": "cart", "removed": False},
        f"change/web/{1:020d}": {"client": "web", "server": "db", "removed": True},
        f"change/a/{2:020d}": {"client": "a", "server": "db", "removed": True},
        f"change/b/{3:020d}": {"client": "b", "server": "db", "removed": False},
        f"change/c/{4:020d}": {"client": "c", "server": "db", "removed": False},
    }


BAD: list[tuple[Any, str]] = [
    (b"junk", "not a change"),
    (b"", "not a change"),
    (b"[]", "not a change"),
    (b'{"change":"deployment","service":"a","service":"b"}', "not a change"),
    ({}, "no member of a known form"),
    ({"service": "cart"}, "no member of a known form"),
    ({"change": "repair", "service": "cart"}, "change is repair; wanted deployment, configuration, scaling, other"),
    ({"change": "", "service": "cart"}, "no member of a known form"),
    ({"change": "deployment"}, "a change of no service and no host"),
    ({"change": "deployment", "service": "", "host": ""}, "a change of no service and no host"),
    ({"change": "deployment", "service": "s" * 257}, "service longer than 256"),
    ({"change": "deployment", "service": "a\nb"}, "control character in service"),
    ({"change": "deployment", "service": "a", "at": "yesterday"}, "the time of a change is not a time"),
    ({"change": "deployment", "service": "a", "at": "1960-01-01T00:00:00Z"}, "outside 1970..2200"),
    ({"client": "web"}, "no server"),
    ({"client": "web", "server": ""}, "no server"),
    ({"client": "web", "server": "web"}, "a service that calls itself"),
    ({"client": "web", "server": "s" * 300}, "server longer than 256"),
    ({"client": "web", "server": "cart", "removed": 1}, "removed is neither true nor false"),
    ({"client": "web", "server": "cart", "removed": "yes"}, "removed is neither true nor false"),
    ({"client": "web", "server": {"name": "cart"}}, "server is an object or an array"),
    ({"client": ["web"], "server": "cart"}, "client is an object or an array"),
    ({"change": "deployment", "service": {"name": "cart"}}, "service is an object or an array"),
    ({"change": "deployment", "host": []}, "host is an object or an array"),
]


def test_what_is_no_change_is_a_dead_letter_with_a_reason(spark: SparkSession) -> None:
    rows = closed(spark, [value for value, _ in BAD])
    reasons = {row["refused"]["offset"]: row["refused"]["reason"] for row in rows if row["refused"] is not None}
    assert len(rows) == len(BAD)
    for offset, (_, why) in enumerate(BAD):
        assert why in reasons[offset]
    assert {(row["refused"]["destination"], row["refused"]["topic"]) for row in rows} == {("dead-letters", "changes")}


def test_texts_for_people_are_cut_and_names_are_not(spark: SparkSession) -> None:
    value = {
        "change": "deployment",
        "service": "s" * 256,
        **dict.fromkeys(("version", "comment", "author"), "\U0001f600" * 5_000),
    }
    (row,) = closed(spark, [value])
    found = parsed(AnnouncedChange, json.loads(row["sample"]))
    assert found.service == "s" * 256
    assert {len(found.version), len(found.comment), len(found.author)} == {200}
    assert len(row["sample"].encode()) < 4_096


def statistics(spark: SparkSession) -> dict[int, list[bytes]]:
    """By shard, what extract writes of a deployment and a call, and of a heartbeat in the next window."""
    deployed = {"change": "deployment", "service": "cart", "version": "1.8.2"}
    values = [deployed, {"client": "web", "server": "cart"}, {"record": "heartbeat"}]
    appended = [
        raw(json.dumps(v).encode(), i, NOON + timedelta(seconds=s), topic="changes")
        for i, (v, s) in enumerate(zip(values, (1, 1.5, 11), strict=True))
    ]
    nothing = frame(spark, [])
    found = extract.closed_windows(nothing, nothing, WINDOWING, changes=frame(spark, appended))
    topics = {"statistics": "statistics", "late": "late", "dead-letters": "dead-letters"}
    records = extract.output_records(
        found, extract.find_closed_windows(found, WINDOWING), WINDOWING, topics, 1
    ).collect()
    assert {row["topic"] for row in records} == {"statistics"}
    by_shard: dict[int, list[bytes]] = {}
    for row in records:
        by_shard.setdefault(json.loads(row["value"])["shard"], []).append(bytes(row["value"]))
    return by_shard


def novelties(by_shard: dict[int, list[bytes]], size: int) -> list[dict[str, Any]]:
    """What detect writes, reading so many records at once, and two strange services in the last window."""
    messages: list[dict[str, Any]] = []
    for shard, values in sorted(by_shard.items()):
        processor = DetectProcessor(DetectorParameters(), "live", WINDOWING.shards)
        tester = TwsTester(processor)
        for n in range(0, len(values), size):
            tester.handle.setGroupingKey(shard)
            batch = pd.DataFrame({"value": values[n : n + size]})
            for answers in processor.handleInputRows((shard,), iter([batch]), None):
                messages += [json.loads(text) for text in answers["event"].dropna()]
    last = max(message["watermark"] for message in messages)
    events = [
        EpisodeEvent(
            series=f"gauge/vm-1/{service}/latency",
            kind="anomaly",
            status="open",
            start=last - 10_000,
            window_end=last,
            score=40.0,
            evidence=40.0,
            strength=strength,
            delay=10.0,
        )
        for service, strength in (("web", 8.0), ("cart", 3.0))
    ]
    return [*(event.to_record("live") for event in events), *messages]


def test_what_is_announced_comes_through_extract_and_detect_into_the_causes_of_an_incident(spark: SparkSession) -> None:
    by_shard = statistics(spark)
    source = NoveltiesTopic("novelties", partitions=1, shards=WINDOWING.shards, window_ms=10_000, ahead_ms=0)
    names = ["everything", "value", "series", "shard", "partition", "offset", "timestamp"]
    results = []
    for size in (1, 2, 100):
        rows = [
            (0, json.dumps(one).encode(), one.get("series"), 0, 0, i, NOON_MS + 60_000)
            for i, one in enumerate(novelties(by_shard, size))
        ]
        tester, found = TwsTester(CorrelateProcessor(CorrelationParameters(), "live", source)), []
        for n in range(0, len(rows), size):
            answers = tester.testInPandas(0, pd.DataFrame(rows[n : n + size], columns=names))
            found += [json.loads(text) for text in answers["value"].dropna()] if len(answers) else []
        results.append(found)
    assert results[0] == results[1] == results[2]
    (opened,) = results[0]
    assert [(cause["kind"], cause["service"]) for cause in opened["causes"]] == [
        ("change", "cart"),
        ("episode", "cart"),
        ("episode", "web"),
    ]
    assert opened["causes"][0]["why"].startswith("began 9 s after deployment 1.8.2 of cart; chance")
