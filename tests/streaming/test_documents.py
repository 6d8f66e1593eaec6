"""Records of the log as documents: what a document says, and that equal records give equal documents."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from app.search.mappings import PROPERTIES
from pipelines.elasticsearch.bulk import bulk_lines
from pipelines.elasticsearch.documents import ECS_VERSION, documents, newest

pytestmark = pytest.mark.spark

NIGHT = 1_795_305_595_000  # 2026-11-21T23:59:55Z
APPENDED = datetime(2026, 11, 22, 0, 0, 7, tzinfo=UTC)
TOPICS = {
    name: name for name in ("scores", "novelties", "incidents", "late", "dead-letters", "labels", "deliveries", "early")
}
KAFKA = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)

SCORE = {
    "record": "score",
    "series": "gauge/vm%2F1/web/system.disk.io{device=%2Fsda}",
    "window_end": NIGHT,
    "score": 15.25,
    "value": 93.1,
    "typical": 30.0,
    "lower": 21.4,
    "upper": 38.0,
    "kind": "anomaly",
}
NOVELTY = {
    "record": "episode",
    "id": "0a1b",
    "version": "live",
    "series": "template/vm-1/web/error/4f",
    "kind": "new",
    "status": "close",
    "start": NIGHT,
    "window_end": NIGHT + 10_000,
    "score": 15.9,
    "evidence": 21.5,
    "value": 3.0,
    "typical": 0.0,
    "lower": 0.0,
    "upper": 0.5,
    "unit": "lines",
    "part": "new template",
    "certainty": 0.999,
    "provisional": False,
    "before": None,
    "after": 3.5,
    "reason": 'never seen: "lost <*>"',
    "template": "lost <*>",
    "sample": "lost 17",
    "host": "vm-1",
    "service": "web",
    "metric": "",
    "level": "ERROR",
}
CAUSE = {
    "kind": "episode",
    "host": "vm-1",
    "service": "web",
    "metric": "cpu",
    "series": "gauge/vm-1/web/cpu",
    "score": 3.5,
    "why": "it went far",
}
INCIDENT = {
    "record": "incident",
    "id": "ff00",
    "version": "live",
    "status": "open",
    "kind": "anomaly",
    "start": NIGHT,
    "end": None,
    "window_end": NIGHT,
    "score": 15.9,
    "hosts": ["vm-1", "vm-2"],
    "services": ["web"],
    "templates": ["lost <*>"],
    "scope": "fleet",
    "affected": 2,
    "population": 8,
    "share": 0.25,
    "false_alarms_per_day": 0.5,
    "severity": "major",
    "severity_points": 62,
    "series": [{"series": "logs/vm-1/web/error", "share": 1.0, "score": 15.9, "kind": "anomaly", "reason": "many"}],
    "novelties": 3,
    "episodes": ["e1", "e2"],
    "episodes_omitted": 1,
    "reason": "many",
    "causes": [CAUSE | {"onset": NIGHT}],
}
DELIVERY = {
    "record": "delivery",
    "channel": "ops",
    "incident": "ff00",
    "version": "live",
    "status": "open",
    "severity": "major",
    "outcome": "failed",
    "why": "route 1",
    "answer": "403 no",
    "title": "[major] new: anomaly on vm-1",
    "attempts": 3,
    "at": NIGHT + 10_000,
    "topic": "incidents",
    "partition": 1,
    "offset": 7,
}
LABEL = {
    "@timestamp": "2026-11-22T00:00:06.500Z",
    "label": "false-alarm",
    "incident": "ff00",
    "version": "live",
    "series": ["gauge/vm-1/web/cpu"],
    "host": ["vm-1"],
    "start": "2026-11-21T23:00:00.000Z",
    "end": "2026-11-21T23:30:00.000Z",
    "comment": "the backup ran twice",
    "author": "Ada",
}


def records(spark: SparkSession, rows: Iterable[tuple[str, Any]], headers: dict[str, str] | None = None) -> DataFrame:
    """Records as Kafka gives them: topic and value, which is JSON unless it is bytes."""
    given = None if headers is None else [(name, text.encode()) for name, text in headers.items()]
    found = [
        (topic, 1, n, APPENDED, None, v if v is None or isinstance(v, bytes) else json.dumps(v).encode(), given)
        for n, (topic, v) in enumerate(rows)
    ]
    return spark.createDataFrame(found, KAFKA)


def indexed(spark: SparkSession, *rows: tuple[str, Any], headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Documents with their index, id and version."""
    found = documents(records(spark, rows, headers), "live", TOPICS).collect()
    return [{**row.asDict(), "document": json.loads(row["document"])} for row in found]


def fields_of(properties: dict[str, Any], prefix: str = "") -> set[str]:
    """The full names of a mapping's fields."""
    found: set[str] = set()
    for name, mapping in properties.items():
        inner = mapping.get("properties")
        found |= fields_of(inner, f"{prefix}{name}.") if inner else {prefix + name}
    return found


def names_in(value: Any, prefix: str = "") -> set[str]:
    """The full names of a document's fields."""
    if isinstance(value, list):
        return {name for v in value for name in names_in(v, prefix)}
    if isinstance(value, dict):
        return {name for k, v in value.items() for name in names_in(v, f"{prefix}.{k}" if prefix else k)}
    return {prefix}


def test_a_score_is_a_metric_of_its_host_at_the_end_of_its_window(spark: SparkSession) -> None:
    (found,) = indexed(spark, ("scores", SCORE))
    assert found["index"] == "kappa-scores-live-2026.11.21"
    assert found["version"] is None
    assert found["document"] == {
        "@timestamp": "2026-11-21T23:59:55.000Z",
        "ecs": {"version": ECS_VERSION},
        "event": {"kind": "metric", "dataset": "kappa.scores"},
        "host": {"name": "vm/1"},
        "service": {"name": "web"},
        "novelty": {
            "version": "live",
            "series": SCORE["series"],
            "kind": "anomaly",
            "score": 15.25,
            "value": 93.1,
            "typical": 30.0,
            "lower": 21.4,
            "upper": 38.0,
            "metric": "system.disk.io{device=/sda}",
        },
    }


def test_a_score_of_log_lines_has_the_text_of_its_template(spark: SparkSession) -> None:
    lines = {**SCORE, "series": "template/vm-1/web/error/4f", "template": "lost <*>"}
    (found,) = indexed(spark, ("scores", lines))
    assert found["document"]["novelty"]["template"] == "lost <*>"
    assert "metric" not in found["document"]["novelty"]
    assert names_in(found["document"]) <= fields_of(PROPERTIES["scores"])


def test_scores_of_windows_before_a_time_are_left_out_and_nothing_else_is(spark: SparkSession) -> None:
    ends = [{**SCORE, "window_end": NIGHT + k} for k in (-1, 0, 1)]
    rows: list[tuple[str, Any]] = [("scores", score) for score in ends]
    rows += [("scores", b"none"), ("novelties", {**NOVELTY, "window_end": 7})]
    found = documents(records(spark, rows), "live", TOPICS, NIGHT).select("problem", "document").collect()
    times = sorted(json.loads(row["document"])["@timestamp"] for row in found if row["problem"] is None)
    assert times == ["2026-11-21T23:59:55.000Z", "2026-11-21T23:59:55.000Z", "2026-11-21T23:59:55.001Z"]
    assert [row["document"] for row in found if row["problem"] is not None] == ["none"]


def test_a_novelty_is_an_alert_that_keeps_its_start(spark: SparkSession) -> None:
    (found,) = indexed(spark, ("novelties", NOVELTY))
    assert (found["index"], found["id"]) == ("kappa-novelties-live-2026.11.21", "0a1b")
    assert found["document"] == {
        "@timestamp": "2026-11-21T23:59:55.000Z",
        "ecs": {"version": ECS_VERSION},
        "event": {
            "kind": "alert",
            "category": ["host"],
            "type": ["info"],
            "module": "kappa",
            "dataset": "kappa.novelties",
            "id": "0a1b",
            "start": "2026-11-21T23:59:55.000Z",
            "end": "2026-11-22T00:00:05.000Z",
            "reason": 'never seen: "lost <*>"',
            "severity": 15,
        },
        "host": {"name": "vm-1"},
        "service": {"name": "web"},
        "log": {"level": "ERROR"},
        "rule": {"id": "new/new template", "name": "new template", "category": "new", "ruleset": "kappa"},
        "observer": {"name": "kappa"},
        "tags": ["new"],
        "message": 'never seen: "lost <*>"',
        "novelty": {
            "version": "live",
            "kind": "new",
            "status": "close",
            "window_end": "2026-11-22T00:00:05.000Z",
            "score": 15.9,
            "series": "template/vm-1/web/error/4f",
            "evidence": 21.5,
            "value": 3.0,
            "typical": 0.0,
            "lower": 0.0,
            "upper": 0.5,
            "part": "new template",
            "provisional": False,
            "certainty": 0.999,
            "after": 3.5,
            "unit": "lines",
            "template": "lost <*>",
            "sample": "lost 17",
        },
    }


def test_an_incident_names_all_its_hosts_and_what_contributes(spark: SparkSession) -> None:
    (found,) = indexed(spark, ("incidents", INCIDENT))
    assert (found["index"], found["id"]) == ("kappa-incidents-live-2026.11.21", "ff00")
    document = found["document"]
    assert document["host"] == {"name": ["vm-1", "vm-2"]}
    assert document["novelty"]["contributions"] == INCIDENT["series"]
    assert document["novelty"]["template"] == ["lost <*>"]
    named = ("scope", "affected", "population", "share", "false_alarms_per_day")
    assert {name: document["novelty"][name] for name in named} == {name: INCIDENT[name] for name in named}
    assert document["novelty"]["causes"] == [{**CAUSE, "onset": "2026-11-21T23:59:55.000Z"}]
    assert "end" not in document["event"]
    assert (document["event"]["severity"], document["event"]["id"]) == (62, "ff00")
    assert document["rule"] == {"id": "anomaly", "name": "anomaly", "category": "anomaly", "ruleset": "kappa"}
    assert document["tags"] == ["anomaly", "major", "fleet"]


def test_categories_are_those_that_ecs_allows(spark: SparkSession) -> None:
    """Allowed values of ECS 9.4; an alert of the category `host` may have the types access, change, end, info and start."""
    kinds = ("anomaly", "change", "new", "silence")
    rows = [("incidents", {**INCIDENT, "id": f"{n}", "kind": kind}) for n, kind in enumerate(kinds)]
    found = [one["document"]["event"] for one in indexed(spark, *rows)]
    assert [(event["category"], event["type"]) for event in found] == [
        (["host"], ["change" if kind == "change" else "info"]) for kind in kinds
    ]
    others = [("scores", SCORE), ("labels", LABEL), ("late", b"{}")]
    given = {one["document"]["event"]["kind"] for one in indexed(spark, *rows, *others)}
    assert given <= {"alert", "asset", "enrichment", "event", "metric", "state", "pipeline_error", "signal"}


def test_the_end_of_an_incident_is_that_of_its_last_episode(spark: SparkSession) -> None:
    (found,) = indexed(
        spark, ("incidents", {**INCIDENT, "status": "close", "end": NIGHT, "window_end": NIGHT + 60_000})
    )
    assert found["document"]["event"]["end"] == "2026-11-21T23:59:55.000Z"


def test_all_events_of_an_episode_are_one_document_whose_version_grows(spark: SparkSession) -> None:
    later = NIGHT + 10_000
    events = [("open", NIGHT), ("update", NIGHT), ("close", NIGHT), ("update", later), ("close", later)]
    found = indexed(spark, *(("novelties", {**NOVELTY, "status": s, "window_end": w}) for s, w in events))
    assert {(d["index"], d["id"]) for d in found} == {("kappa-novelties-live-2026.11.21", "0a1b")}
    versions = [d["version"] for d in found]
    assert versions == sorted(set(versions))


def test_the_newest_event_of_a_batch_is_kept(spark: SparkSession) -> None:
    rows = [("novelties", {**NOVELTY, "window_end": NIGHT + 10_000 * w, "score": float(w)}) for w in (1, 3, 2)]
    kept = newest(documents(records(spark, [*rows, ("scores", SCORE), ("scores", SCORE)]), "live", TOPICS)).collect()
    scores = sorted(json.loads(row["document"])["novelty"]["score"] for row in kept)
    assert scores == [3.0, 15.25]


def test_a_score_has_the_same_id_every_time_and_no_other_has_it(spark: SparkSession) -> None:
    others = [
        {**SCORE, "window_end": NIGHT + 10_000},
        {**SCORE, "series": "gauge/b/web/m"},
        {**SCORE, "kind": "normal"},
    ]
    ids = [d["id"] for d in indexed(spark, *(("scores", s) for s in (SCORE, SCORE, *others)))]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_versions_have_documents_of_their_own(spark: SparkSession) -> None:
    (row,) = documents(records(spark, [("scores", SCORE)]), "trial", TOPICS).collect()
    (live,) = indexed(spark, ("scores", SCORE))
    assert row["index"] == "kappa-scores-trial-2026.11.21"
    assert row["id"] != live["id"]


@pytest.mark.parametrize("missing", [None, "NaN", "Infinity"])
def test_a_number_that_is_none_is_left_out(spark: SparkSession, missing: Any) -> None:
    (found,) = indexed(spark, ("scores", {**SCORE, "score": missing}))
    assert "score" not in found["document"]["novelty"]


def test_ticks_are_no_documents(spark: SparkSession) -> None:
    assert indexed(spark, ("novelties", {"record": "watermark", "watermark": NIGHT, "shard": 1, "shards": 64})) == []


HEADERS = {
    "kappa.reason": "not JSON",
    "kappa.topic": "telemetry",
    "kappa.partition": "1",
    "kappa.offset": "42",
    "kappa.timestamp": str(NIGHT),
    "kappa.stage": "extract",
    "kappa.length": "70000",
    "kappa.sha256": "ab" * 32,
}


def test_a_dead_letter_is_a_document_without_its_raw_bytes(spark: SparkSession) -> None:
    raw = b"\x00\xff{\n" + "ä".encode() + b"x" * 2_000
    (found,) = indexed(spark, ("dead-letters", raw), headers=HEADERS)
    assert (found["index"], found["version"]) == ("kappa-pipeline-live-2026.11.21", None)
    document = found["document"]
    message = document.pop("message")
    assert message.startswith("?\ufffd{?äxxx")
    assert len(message) == 512
    assert document == {
        "@timestamp": "2026-11-21T23:59:55.000Z",
        "ecs": {"version": ECS_VERSION},
        "event": {"kind": "pipeline_error", "dataset": "kappa.dead-letters", "reason": "not JSON"},
        "pipeline": {
            "version": "live",
            "topic": "telemetry",
            "partition": 1,
            "offset": 42,
            "stage": "extract",
            "length": 70_000,
            "sha256": "ab" * 32,
        },
    }


def test_a_late_record_that_was_written_twice_is_one_document(spark: SparkSession) -> None:
    found = indexed(spark, ("late", b"{}"), ("late", b"{}"), headers=HEADERS)
    assert len({d["id"] for d in found}) == 1
    assert {d["document"]["event"]["dataset"] for d in found} == {"kappa.late"}


def test_letters_about_losses_of_one_partition_are_a_document_for_each_loss(spark: SparkSession) -> None:
    lost = HEADERS | {"kappa.offset": "None"}
    first, again, later, other = (
        indexed(spark, ("dead-letters", b""), headers=lost | more)[0]["id"]
        for more in ({}, {}, {"kappa.timestamp": str(NIGHT + 1)}, {"kappa.reason": "another loss"})
    )
    assert first == again and len({first, later, other}) == 3


JUNK_HEADERS = [
    {"kappa.timestamp": "soon", "kappa.partition": "x", "kappa.offset": "None", "kappa.length": "many"},
    {"kappa.timestamp": "9" * 18, "kappa.partition": "9" * 400, "kappa.offset": "-1", "kappa.length": "1e9"},
    {"kappa.timestamp": "-62135596800000", "kappa.topic": "\x00" * 10_000, "kappa.stage": "\x01" * 9_000},
    {"kappa.reason": "\U0001f600" * 100_000, "kappa.topic": "\ud7ff" * 30_000, "": "", "kappa.": "x"},
]


@pytest.mark.parametrize("headers", JUNK_HEADERS, ids=range(len(JUNK_HEADERS)))
def test_whatever_the_headers_of_a_letter_it_is_a_document_of_a_known_date(
    spark: SparkSession, headers: dict[str, str]
) -> None:
    (found,) = indexed(spark, ("dead-letters", b"\xff" * 100), headers=headers)
    assert found["index"] == "kappa-pipeline-live-2026.11.22"
    assert len(json.dumps(found["document"])) < 200_000
    assert all(len(str(text).encode()) < 32_766 for text in found["document"]["pipeline"].values())


JUNK = [
    NOVELTY | {"window_end": 2**63 - 1},
    NOVELTY | {"start": -(2**63)},
    NOVELTY | {"start": 253_402_300_800_000},
    NOVELTY | {"id": "x" * 600},
    NOVELTY | {"id": ""},
    NOVELTY | {"reason": "x" * 1_100_000},
    INCIDENT | {"window_end": 9 * 10**15},
    INCIDENT | {"record": "score"},
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"1" * 500_000,
    None,
    b"{" + b'"window_end":1,' * 1_000 + b"}",
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_what_nobody_should_write_has_a_problem_and_harms_no_other_record(spark: SparkSession, junk: Any) -> None:
    topic = "incidents" if isinstance(junk, dict) and "hosts" in junk else "novelties"
    good = NOVELTY if topic == "novelties" else INCIDENT
    found = documents(records(spark, [(topic, good), (topic, junk)]), "live", TOPICS).collect()
    assert [one["problem"] for one in found] == [None, "not a record of this topic"]
    assert all(one[name] is not None for one in found for name in ("index", "id", "document"))


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), 9_300_000_000_000_000, -1])
def test_a_time_beyond_all_events_is_left_out_and_ends_nothing(spark: SparkSession, time: int) -> None:
    (incident,) = indexed(spark, ("incidents", INCIDENT | {"end": time, "causes": [CAUSE | {"onset": time}]}))
    assert "end" not in incident["document"]["event"] and "onset" not in incident["document"]["novelty"]["causes"][0]
    alarm = {"record": "early", "id": "e" * 20, "version": "live", "status": "raised", "window_end": NIGHT} | {
        "series": "gauge/web//cpu", "event_time": NIGHT, "value": 1.0, "bound_window_end": time, "settled_at": time,
    }  # fmt: skip
    (early,) = indexed(spark, ("early", alarm))
    assert not {"bound_window_end", "settled_at"} & early["document"]["alarm"].keys()


def test_a_dead_letter_without_headers_is_named_for_itself(spark: SparkSession) -> None:
    found = indexed(spark, ("dead-letters", b"a"), ("dead-letters", b"b"))
    assert [d["document"]["pipeline"]["offset"] for d in found] == [0, 1]
    assert [d["document"]["pipeline"]["length"] for d in found] == [1, 1]
    assert found[0]["index"] == "kappa-pipeline-live-2026.11.22"


@pytest.mark.parametrize(
    ("topic", "value"), [("scores", b"not json"), ("novelties", b'{"id": "a"}'), ("incidents", b"")]
)
def test_what_is_no_record_of_its_topic_has_a_problem_and_keeps_its_bytes(
    spark: SparkSession, topic: str, value: bytes
) -> None:
    (row,) = documents(records(spark, [(topic, value)]), "live", TOPICS).collect()
    assert row["problem"] == "not a record of this topic"
    assert row["document"] == value.decode()
    assert row["id"]


def test_a_label_is_a_document_of_its_own_fields_that_belongs_to_no_version(spark: SparkSession) -> None:
    raw = records(spark, [("labels", LABEL)])
    (first,), (other,) = (documents(raw, version, TOPICS).collect() for version in ("live", "trial"))
    assert first.asDict() == other.asDict()
    assert (first["index"], first["version"], first["problem"]) == ("kappa-labels-2026.11", None, None)
    assert json.loads(first["document"]) == {
        "@timestamp": "2026-11-22T00:00:07.000Z",
        "ecs": {"version": ECS_VERSION},
        "event": {"kind": "event", "dataset": "kappa.labels", "start": LABEL["start"], "end": LABEL["end"]},
        "host": {"name": ["vm-1"]},
        "message": "the backup ran twice",
        "label": {name: LABEL[name] for name in ("label", "incident", "version", "author", "series")},
    }


def test_a_label_that_is_said_again_is_another_document(spark: SparkSession) -> None:
    first, second = indexed(spark, ("labels", LABEL), ("labels", LABEL))
    assert first["document"] == second["document"]
    assert first["id"] != second["id"]


def test_a_label_needs_only_what_the_models_read(spark: SparkSession) -> None:
    (found,) = indexed(spark, ("labels", {"label": "true", "series": ["host/vm-1"], "end": None}))
    assert found["document"]["label"] == {"label": "true", "series": ["host/vm-1"]}
    assert "host" not in found["document"]


def test_heartbeats_and_what_is_no_label_are_no_documents(spark: SparkSession) -> None:
    beat = {"record": "heartbeat", "@timestamp": "2026-11-22T00:00:06.500Z"}
    others = [beat, b"junk", b"", {"label": "maybe", "series": ["host/vm-1"]}, {"label": "true", "series": []}]
    others.append(
        b'{"label":"false","label":"true","series":["host/vm-1"]}'
    )  # `extract` refuses a key that comes twice
    assert indexed(spark, *(("labels", value) for value in others)) == []


def test_every_field_of_a_document_is_in_the_strict_mapping(spark: SparkSession) -> None:
    rows = [
        ("scores", {**SCORE, "template": "lost <*>"}),
        ("novelties", {**NOVELTY, "metric": "m", "before": 1.0}),
        ("incidents", {**INCIDENT, "end": NIGHT}),
        ("labels", LABEL),
    ]
    for found in [*indexed(spark, *rows), *indexed(spark, ("late", b"x"), headers=HEADERS)]:
        kind = found["index"].split("-")[1]
        assert names_in(found["document"]) == fields_of(PROPERTIES[kind])


def test_a_line_is_an_action_and_a_document_on_a_line_each(spark: SparkSession) -> None:
    found = documents(records(spark, [("novelties", NOVELTY), ("scores", SCORE)]), "live", TOPICS)
    lines = sorted(row["line"] for row in bulk_lines(found).collect())
    for line, action in zip(lines, ("create", "index"), strict=True):
        first, second = line.removesuffix("\n").split("\n")
        assert list(json.loads(first)) == [action]
        assert "novelty" in json.loads(second)
    assert '"version_type":"external_gte"' in lines[1]


def test_the_last_that_became_of_a_notification_is_one_document_and_positions_are_none(spark: SparkSession) -> None:
    later = DELIVERY | {"outcome": "delivered", "answer": "200", "at": NIGHT + 20_000}
    position = {"record": "position", "topic": "incidents", "partition": 0, "offset": 3}
    rows = [("deliveries", DELIVERY), ("deliveries", later), ("deliveries", position)]
    first, second = indexed(spark, *rows)
    assert first["index"] == "kappa-deliveries-2026.11" and first["id"] == second["id"]
    assert (first["version"], second["version"]) == (NIGHT + 10_000, NIGHT + 20_000)
    assert second["document"]["delivery"] == {
        "channel": "ops", "incident": "ff00", "version": "live", "status": "open", "severity": "major",
        "outcome": "delivered", "why": "route 1", "answer": "200", "attempts": 3,
    }  # fmt: skip
    assert names_in(second["document"]) == fields_of(PROPERTIES["deliveries"])
    for broken in ({"record": "x"}, DELIVERY | {"at": -1}, DELIVERY | {"channel": None}, [1]):
        (found,) = documents(records(spark, [("deliveries", broken)]), "live", TOPICS).collect()
        assert found["problem"] == "not a record of this topic"


def test_an_early_alarm_is_one_document_with_what_became_of_it_and_what_was_held_back_is_none(
    spark: SparkSession,
) -> None:
    raised = {"record": "early", "id": "e" * 20, "version": "live", "status": "raised", "window_end": NIGHT + 10_000} | {
        "series": "gauge/web%2F1/shop/cpu", "event_time": NIGHT + 7_000, "value": 0.97, "upper": 0.9, "typical": 0.5,
        "chance": 1e-9, "bound_window_end": NIGHT - 20_000,
    }  # fmt: skip
    settled = raised | {"status": "confirmed", "incident": "ff00", "seconds_won": 27.5, "settled_at": NIGHT + 20_000}
    held = {"record": "held", "version": "live", "window_end": NIGHT, "held": 3, "hosts": 1}
    first, second = indexed(spark, ("early", raised), ("early", settled), ("early", held))
    assert first["index"] == "kappa-early-2026.11" and first["id"] == second["id"] == "e" * 20
    assert (first["version"], second["version"]) == (1, 2)
    assert "incident" not in first["document"]["alarm"] and first["document"]["alarm"]["status"] == "raised"
    document = second["document"]
    assert (document["host"]["name"], document["service"]["name"], document["alarm"]["seconds_won"]) == (
        "web/1",
        "shop",
        27.5,
    )
    assert names_in(document) <= fields_of(PROPERTIES["early"])
    for broken in (
        {"record": "x"},
        raised | {"status": "open"},
        raised | {"event_time": -1},
        raised | {"id": "X"},
        [1],
    ):
        (found,) = documents(records(spark, [("early", broken)]), "live", TOPICS).collect()
        assert found["problem"] == "not a record of this topic"
