"""A golden run: today's results of a whole log, byte for byte, so that code can be rearranged without changing them.

A seeded fleet of some 90,000 events goes into topics of its own, a bounded replay makes everything of it, and digests of
what it wrote are held against `tests/golden/digests.json`. Elasticsearch is not asked: documents are made and not sent.

    python -m pytest tests/integration/test_golden_run.py                          # compare
    KAPPA_GOLDEN_UPDATE=1 python -m pytest tests/integration/test_golden_run.py    # keep what it comes to now
    KAPPA_GOLDEN_OUT=DIR ...                            # write the sorted records, to diff those of two runs
    KAPPA_GOLDEN_PARTITIONS=7 KAPPA_GOLDEN_SLICE=40000  # Spark's partitions, records of a slice: must not matter

`golden.digests.MAPPED` is where a field that is renamed on purpose gets its old name back. Topics have a fixed name, because
ids of documents are made from it: nobody else uses the prefix, and the broker is that of the test run.

It is right where numpy's and the C library's functions are right to the last bit as here: see `tests/golden/test_golden_models.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from golden import digests
from golden.digests import Record
from golden.golden_fleet import SETTINGS, GoldenFleet, is_label, moment
from jsonschema import Draft202012Validator
from pyspark.sql import DataFrame, SparkSession

from app.cli.schema_files import schema_of
from app.core.settings import INPUTS, PROJECT, Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, kafka_connection
from app.kafka.topics import DELIVERIES, EARLY, topic_names
from app.simulator.publish import Target, to_kafka
from pipelines.elasticsearch.documents import documents
from pipelines.runner import CONSUMER
from replay import run
from replay.slices import RequestedRange

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(600)]

KINDS = ("scores", "novelties", "incidents", "late", "dead-letters")
BYTES = ("late", "dead-letters")  # kinds whose values may be anything
PARTITIONS = int(os.environ.get("KAPPA_GOLDEN_PARTITIONS", "2"))
SCORES_SINCE = 3_000  # second of the simulation
SLICE = int(os.environ.get("KAPPA_GOLDEN_SLICE", str(run.SLICE_RECORDS)))


def settings_of(folder: Path, stack: Addresses) -> Settings:
    file = folder / "golden.toml"
    file.write_text(
        f"""
home = "{folder / "home"}"
jar_folder = "{PROJECT / ".kappa" / "jars"}"
version = "golden"
{SETTINGS}
[topics]
prefix = "golden-run-"
timestamps = "create"
telemetry_partitions = 2
logs_partitions = 2
partitions = 2
[kafka]
bootstrap_servers = "{stack.kafka}"
"""
    )
    return load(file)


def read(spark: SparkSession, settings: Settings, kinds: Sequence[str]) -> DataFrame:
    """All records of these topics, with their headers."""
    names = ",".join(settings.topic(kind) for kind in kinds)
    own = {"subscribe": names, "includeHeaders": "true", "minPartitions": "12"}
    return spark.read.format("kafka").options(**kafka_connection(settings).prefixed(), **CONSUMER, **own).load()


def results(spark: SparkSession, settings: Settings) -> dict[str, list[Record]]:
    """What the replay wrote, by kind."""
    found: dict[str, list[Record]] = {kind: [] for kind in KINDS}
    kind_of = {settings.topic(kind): kind for kind in KINDS}
    for row in read(spark, settings, KINDS).select("topic", "key", "value", "headers").toArrow().to_pylist():
        kind = kind_of[row["topic"]]
        key = row["key"] and row["key"].decode()
        headers = sorted((one["key"], one["value"].decode()) for one in row["headers"] or ())
        found[kind].append(Record((key, *headers), row["value"], kind not in BYTES))
    return found


def indexed(spark: SparkSession, settings: Settings) -> dict[str, list[Record]]:
    """The documents of what the replay wrote, of the last scores alone, and of labels, by kind."""
    found: dict[str, list[Record]] = {}
    raw = read(spark, settings, (*KINDS, "labels"))
    names = topic_names(settings) | {kind: settings.topic(kind) for kind in (DELIVERIES, EARLY)}
    made = documents(raw, settings.version, names, moment(SCORES_SINCE))
    for row in made.select("index", "id", "version", "problem", "document").toArrow().to_pylist():
        document = row.pop("document")
        found.setdefault(f"documents of {row['index'].split('-')[1]}", []).append(
            Record(tuple(row.values()), document.encode())
        )
    return found


def records_of(found: dict[str, list[Record]], kind: str) -> list[dict[str, Any]]:
    """The records of a kind, without watermark messages."""
    read = [json.loads(record.value) for record in found[kind]]
    return [record for record in read if record["record"] != "watermark"]


def check_schemas(found: dict[str, list[Record]]) -> None:
    """Records are valid by the published JSON Schema of their topic; of the scores, which are many, one in 200."""
    for kind, records in found.items():
        validator = Draft202012Validator(schema_of(kind))
        for record in records[:: 200 if kind == "scores" else 1]:
            headers = dict(record.beside[1:])
            validator.validate(headers if kind in BYTES else json.loads(record.value))


def check_story(found: dict[str, list[Record]], fleet: GoldenFleet) -> None:
    """The log holds what it should: a run in which nothing happens would pin nothing."""
    assert all(found.values())
    novelties, incidents, scores = (records_of(found, kind) for kind in ("novelties", "incidents", "scores"))
    assert {n["kind"] for n in novelties} == {"anomaly", "silence", "new", "change"}
    assert {n["status"] for n in novelties} == {i["status"] for i in incidents} == {"open", "update", "close"}
    assert {i["scope"] for i in incidents} >= {"host", "fleet"}
    assert any(len(i["hosts"]) > 1 for i in incidents)
    kinds = {score["kind"] for score in scores}
    assert kinds == {"normal", "warming", "anomaly", "change", "new", "silence", "muted", "planned"}
    hosts = {score["series"].split("/")[1] for score in scores}
    assert hosts >= {f"agent-{name}" for name in ("nested", "beat", "telegraf", "otlp", "prometheus", "syslog")}
    assert len(found["documents of labels"]) == sum(map(is_label, fleet.labels)) > 0
    reasons = [dict(record.beside[1:])["kappa.reason"] for record in found["dead-letters"]]
    assert sum("label is nonsense" in reason for reason in reasons) == 1
    assert sum("not a label" in reason or "a label with" in reason for reason in reasons) == 3
    assert len(set(reasons)) > 25


def test_today_s_results_of_a_whole_log_byte_for_byte(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, stack)
    topics.create(settings)
    fleet = GoldenFleet()
    inputs = {kind: settings.topic(kind) for kind in INPUTS}
    sent = to_kafka(fleet, Target(client_options(settings), inputs))
    assert sent.events > 80_000
    made = run.replay(spark, run.plan(settings, RequestedRange(), None, SLICE), PARTITIONS)
    assert made["counts"]["scores"] > 60_000
    found = results(spark, settings)
    check_schemas(found)
    found |= indexed(spark, settings)
    check_story(found, fleet)
    digests.check("run", found)
