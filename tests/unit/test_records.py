"""The records of the topics: one class each, from which every schema is derived."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import make_dataclass
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from app.cli import schema_files
from models.records.records import (
    PUBLIC,
    Bound,
    ChangeMade,
    Contribution,
    EpisodeEvent,
    Heartbeat,
    IncidentEvent,
    Label,
    RefusedRecord,
    RuleRecord,
    Score,
    StatisticsRow,
    Topology,
    Watched,
    WatermarkMessage,
)
from models.records.schema import arrow_schema, fields_of, json_schema, parsed, plain, search_type, spark_ddl

EPISODE = EpisodeEvent(
    series="gauge/vm-1/web/cpu{core=1}", kind="anomaly", status="open", start=0, window_end=10_000, score=20.5
)
INCIDENT = IncidentEvent(
    id="i", status="open", kind="anomaly", scope="host", start=0, end=None, window_end=10_000, score=20.5, hosts=["vm-1"],
    services=["web"], templates=[], series=[Contribution(EPISODE.series, 1.0, 20.5, "anomaly", "high")], novelties=1,
    episodes=[EPISODE.id], episodes_omitted=0, affected=1, population=None, share=None, false_alarms_per_day=None,
    reason="high",
)  # fmt: skip
EXAMPLES: dict[str, list[Any]] = {
    "statistics": [
        StatisticsRow(series=EPISODE.series, window_end=10_000, n=3, mean=1.5),
        WatermarkMessage(watermark=10_000, shard=1),
    ],
    "scores": [Score(series=EPISODE.series, window_end=10_000)],
    "bounds": [
        Bound(series=EPISODE.series, window_end=10_000, upper=9.0, typical=1.5, chance=1e-7),
        Bound(series="template/vm-1/web", window_end=10_000, known=["0a1b2c3d4e5f6071"]),
        Bound(series=EPISODE.series, window_end=10_000),
    ],
    "novelties": [
        EPISODE,
        WatermarkMessage(watermark=10_000, shard=1, shards=4, watched=Watched(3, 2, 10.0, {"web": 2})),
    ],
    "incidents": [INCIDENT],
    "labels": [Label(label="true", series=[EPISODE.series]), Heartbeat()],
    "changes": [ChangeMade(change="deployment", service="cart"), Topology(client="web", server="cart"), Heartbeat()],
    "rules": [RuleRecord(name="night", host="db-*", mute=True), RuleRecord(name="night", removed=True), Heartbeat()],
}


@pytest.mark.parametrize("topic", PUBLIC)
def test_published_schema_is_that_of_the_classes(topic: str) -> None:
    path = schema_files.FOLDER / f"{topic}.schema.json"
    assert path.read_text() == schema_files.files()[path], f"{path.name} is out of date: run `make docs`"


def test_no_published_schema_is_left_over() -> None:
    assert set(schema_files.FOLDER.iterdir()) == set(schema_files.files())


@pytest.mark.parametrize("topic", EXAMPLES)
def test_records_are_valid_by_the_schema_of_their_topic_alone(topic: str) -> None:
    validators = {name: Draft202012Validator(schema_files.schema_of(name)) for name in EXAMPLES}
    for record in EXAMPLES[topic]:
        value = json.loads(json.dumps(plain(record), allow_nan=False))
        validators[topic].validate(value)
        own = {name for name, records in PUBLIC.items() if type(record) in records}
        assert {name for name, validator in validators.items() if validator.is_valid(value)} == own


@pytest.mark.parametrize("record", [record for found in EXAMPLES.values() for record in found], ids=repr)
def test_a_record_is_read_as_it_was_written(record: Any) -> None:
    value = json.loads(json.dumps(plain(record)))
    assert plain(parsed(type(record), value)) == plain(record)
    assert parsed(type(record), {**value, "a field of a later release": 1})


def test_a_record_says_its_kind_and_each_kind_is_one_class() -> None:
    classes = {record for found in PUBLIC.values() for record in found}
    assert len({record.KIND for record in classes}) == len(classes)  # type: ignore[attr-defined]
    assert all(fields_of(record)["record"].default == record.KIND for record in classes)  # type: ignore[attr-defined]


def test_an_episode_has_the_same_id_in_every_version_and_another_one_for_another_start() -> None:
    other = EpisodeEvent(series=EPISODE.series, kind="change", status="open", start=10, window_end=10_000)
    assert EPISODE.to_record("live")["id"] == EPISODE.to_record("v2")["id"] != other.id
    assert (EPISODE.host, EPISODE.service, EPISODE.metric) == ("vm-1", "web", "cpu{core=1}")


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"watermark", b"[]", b'["watermark"]', b'"watermark"', b'{"watermark":1}', b"\xffwatermark"),
        *(
            b'{"record":"watermark"}',
            b'{"record":"watermark","watermark":"soon","shard":0}',
            b'{"record":["watermark"]}',
        ),
        *(b"[" * 100_000 + b"watermark", b'{"record":"episode","reason":"a watermark"}'),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_watermark_message_is_none(value: bytes | None) -> None:
    assert WatermarkMessage.from_json(value) is None


def test_a_watermark_message_is_read_from_bytes_and_from_text() -> None:
    message = EXAMPLES["novelties"][1]
    text = json.dumps(plain(message))
    assert WatermarkMessage.from_json(text) == WatermarkMessage.from_json(text.encode()) == message


def test_what_is_not_finite_is_null_and_null_is_the_default() -> None:
    value = plain(EPISODE)
    assert value["evidence"] is None
    assert math.isnan(parsed(EpisodeEvent, value).evidence)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"series": None}, "series is missing"),
        ({"window_end": "soon"}, "window_end is 'soon'"),
        ({"status": "perhaps"}, "wanted one of open, update, close"),
        ({"series": "nothing"}, "not the name of a series"),
    ],
)
def test_a_record_that_lacks_a_field_or_has_a_wrong_one_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        EpisodeEvent.from_record({**plain(EPISODE), **change})


def test_schemas_of_spark_arrow_and_elasticsearch_follow_from_the_class() -> None:
    assert spark_ddl(Contribution) == "`series` string, `share` double, `score` double, `kind` string, `reason` string"
    assert "`series` string" in spark_ddl(EpisodeEvent, IncidentEvent)  # unlike types come as JSON text
    assert arrow_schema(WatermarkMessage, ("watermark", "record")) == pa.schema(
        [("watermark", pa.int64()), ("record", pa.string())]
    )
    assert search_type(EpisodeEvent, "start") == {"type": "date"}
    assert search_type(EpisodeEvent, "value") == {"type": "double", "index": False}
    assert search_type(IncidentEvent, "series")["type"] == "nested"


def test_a_field_without_a_meaning_is_an_error() -> None:
    bare = make_dataclass("Bare", [("x", int)])
    with pytest.raises(TypeError, match=r"Bare\.x has no Doc"):
        fields_of(bare)


def test_headers_of_a_refused_record_are_its_fields_as_text() -> None:
    source = {"topic": "logs", "partition": 1, "offset": 7, "timestamp": 5, "stage": "extract"}
    refused = RefusedRecord.about(b"x" * 100_000, **source, reason="y" * 2_000)
    headers = {name: value.decode() for name, value in refused.headers()}
    Draft202012Validator(schema_files.schema_of("late")).validate(headers)
    assert headers["kappa.offset"] == "7"
    assert (headers["kappa.length"], len(headers["kappa.reason"])) == ("100000", 1_000)
    assert headers["kappa.sha256"] == hashlib.sha256(b"x" * 100_000).hexdigest()


def test_schemas_describe_every_field() -> None:
    for found in PUBLIC.values():
        for record in found:
            assert all(of["description"].endswith(".") for of in json_schema(record)["properties"].values())
