"""index: a real Kafka before it, a real Elasticsearch behind it, sometimes one that is away or overloaded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import BadRequestError, Elasticsearch
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from structlog.testing import capture_logs
from support.proxies import HalfOverload, Overload, TooLarge, proxy

from app.core.ports import free_port
from app.core.settings import ElasticsearchSettings, Settings
from app.embedded.stack_state import Addresses
from app.search import aliases, old_names
from app.search.mappings import (
    PROPERTIES,
    drop_version,
    ensure_templates,
    has_lifecycles,
    has_templates,
    versions_with_templates,
)
from app.versions import serving
from app.versions.serving import Serving, ServingInterval
from benchmarks.chaos.http_faults import CUT, FaultyProxy
from models.records.index_names import DELIVERIES, EARLY, INDEX_KINDS, LABELS, SHARED, alias_of
from pipelines.elasticsearch.bulk import BulkParameters, Elastic, Outcome, prepare_when_available, write_all
from pipelines.elasticsearch.documents import documents
from pipelines.errors import InputError, ServiceUnavailable
from pipelines.jobs.index import make_sink
from pipelines.runner import Input, Job, Kafka, start

pytestmark = [pytest.mark.spark, pytest.mark.stack]

NIGHT = 1_795_305_590_000  # 2026-11-21
DAY = "2026.11.21"
LINES = (
    "index string, id string, version long, document string, problem string, topic string, partition int, offset long, "
    "timestamp timestamp"
)
QUICK = BulkParameters(patience_seconds=0.5, first_delay_seconds=0.05, longest_delay_seconds=0.2, report_seconds=0.2)


@pytest.fixture
def url(stack: Addresses) -> str:
    assert stack.elasticsearch is not None
    return stack.elasticsearch


@pytest.fixture
def client(url: str) -> Iterator[Elasticsearch]:
    with Elasticsearch(url) as found:
        yield found


@pytest.fixture
def version(client: Elasticsearch, unique: str) -> Iterator[str]:
    """A version with templates, which is dropped after the test."""
    ensure_templates(client, unique, live=False)
    yield unique
    drop_version(client, unique)


def score(version: str, n: int, **more: Any) -> tuple[Any, ...]:
    """A score document as `documents` gives it."""
    document = {"@timestamp": NIGHT, "novelty": {"version": version, "series": f"s{n}", "score": 1.0}, **more}
    return f"kappa-scores-{version}-{DAY}", f"s{n}", None, json.dumps(document), None, "scores", 0, n, None


def frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(list(rows), LINES)


def never(seconds: float) -> bool:
    """Nobody says stop: only waits."""
    return threading.Event().wait(seconds)


def written(client: Elasticsearch, version: str, kind: str) -> dict[str, dict[str, Any]]:
    """All documents of a version by id."""
    client.indices.refresh(index=f"kappa-{kind}-{version}")
    hits = client.search(index=f"kappa-{kind}-{version}", size=1_000)["hits"]["hits"]
    return {hit["_id"]: hit["_source"] for hit in hits}


def test_an_unknown_field_is_refused_and_the_rest_is_written(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    rows = [score(version, 0), score(version, 1, surplus=1), score(version, 2)]
    outcome = write_all(frame(spark, rows), Elastic(url), QUICK, never)
    assert outcome.written == 2
    (refused,) = outcome.refused
    assert (refused.topic, refused.offset) == ("scores", 1)
    assert "surplus" in refused.reason
    assert json.loads(refused.document)["surplus"] == 1
    assert set(written(client, version, "scores")) == {"s0", "s2"}


def test_an_index_that_has_the_name_of_an_alias_holds_up_the_job_until_it_is_gone(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    taken = f"kappa-scores-{version}"
    client.indices.create(index=taken)
    waits: list[float] = []

    def stopping(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 2:
            client.indices.delete(index=taken)
        return never(seconds)

    with capture_logs() as logged:
        outcome = write_all(frame(spark, [score(version, n) for n in range(3)]), Elastic(url), QUICK, stopping)
    assert (outcome.written, outcome.refused) == (3, [])
    assert "same name as the alias" in logged[0]["why"]


def test_a_pipeline_that_is_missing_holds_up_the_job_until_it_is_there(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    index, pipeline = f"kappa-scores-{version}-{DAY}", f"gone-{version}"
    client.indices.create(index=index, settings={"index.default_pipeline": pipeline})
    waits: list[float] = []

    def stopping(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 2:
            client.ingest.put_pipeline(id=pipeline, processors=[])
        return never(seconds)

    with capture_logs() as logged:
        outcome = write_all(frame(spark, [score(version, n) for n in range(3)]), Elastic(url), QUICK, stopping)
    client.indices.put_settings(index=index, settings={"index.default_pipeline": "_none"})
    client.ingest.delete_pipeline(id=pipeline)
    assert (outcome.written, outcome.refused) == (3, [])
    assert f"pipeline with id [{pipeline}] does not exist" in logged[0]["why"]


def test_a_row_with_a_problem_is_refused_unsent(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    broken = (None, "x", None, "not json", "not a record of this topic", "scores", 0, 7, None)
    outcome = write_all(frame(spark, [score(version, 0), broken, score(version, 1)]), Elastic(url), QUICK, never)
    assert [(r.document, r.reason) for r in outcome.refused] == [("not json", "not a record of this topic")]
    assert set(written(client, version, "scores")) == {"s0", "s1"}


def test_the_same_batch_twice_gives_the_same_documents(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    rows = frame(spark, [score(version, n) for n in range(20)])
    first = write_all(rows, Elastic(url), QUICK, never)
    before = written(client, version, "scores")
    second = write_all(rows, Elastic(url), QUICK, never)
    assert (first.written, first.settled) == (20, 0)
    assert (second.written, second.settled) == (0, 20)
    assert written(client, version, "scores") == before


def test_an_older_version_never_replaces_a_newer_one(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    def novelty(number: int, score: float) -> DataFrame:
        document = json.dumps({"@timestamp": NIGHT, "novelty": {"score": score}})
        row = (f"kappa-novelties-{version}-{DAY}", "n", number, document, None, "novelties", 0, 0, None)
        return frame(spark, [row])

    found = []
    for number, value in ((8, 1.0), (16, 2.0), (8, 1.0), (16, 2.0)):
        outcome = write_all(novelty(number, value), Elastic(url), QUICK, never)
        found.append((outcome.written, outcome.settled, written(client, version, "novelties")["n"]["novelty"]["score"]))
    assert found == [(1, 0, 1.0), (1, 0, 2.0), (0, 1, 2.0), (1, 0, 2.0)]


def test_an_overloaded_server_gets_everything_in_the_end(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    rows = frame(spark, [score(version, n) for n in range(40)]).coalesce(1)
    with proxy(url, Overload(2)) as busy:
        outcome = write_all(rows, Elastic(busy), QUICK, never)
    assert (outcome.written, outcome.settled, outcome.retries) == (40, 0, 2)
    assert len(written(client, version, "scores")) == 40


def test_only_the_documents_that_an_overload_refused_are_sent_again(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    rows = frame(spark, [score(version, n) for n in range(40)]).coalesce(1)
    with proxy(url, HalfOverload(2)) as busy:
        outcome = write_all(rows, Elastic(busy), QUICK, never)
    # Sent again, a document would be there already.
    assert (outcome.written, outcome.settled, outcome.retries) == (40, 0, 2)
    assert len(written(client, version, "scores")) == 40


def test_requests_that_are_too_large_are_halved_and_a_document_that_is_too_large_is_refused(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    rows = [*(score(version, n) for n in range(40)), score(version, 40, message="x" * 5_000)]
    rule = TooLarge(2_000)
    with proxy(url, rule) as small:
        outcome = write_all(frame(spark, rows).coalesce(1), Elastic(small), QUICK, never)
    assert outcome.written == 40
    assert [r.offset for r in outcome.refused] == [40]
    assert rule.refusals > 2
    assert len(written(client, version, "scores")) == 40


def test_while_the_server_is_away_the_batch_waits_and_nothing_is_lost(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    port = free_port(0)
    rows = frame(spark, [score(version, n) for n in range(40)])
    outcomes: list[Outcome] = []
    waits = threading.Semaphore(0)

    def stopping(seconds: float) -> bool:
        waits.release()
        return never(seconds)

    elastic = Elastic(f"http://127.0.0.1:{port}")
    job = threading.Thread(target=lambda: outcomes.append(write_all(rows, elastic, QUICK, stopping)))
    job.start()
    # It has found nobody there, and waits for the second time.
    assert waits.acquire(timeout=60)
    assert waits.acquire(timeout=60)
    assert not outcomes
    with proxy(url, port=port):
        job.join(60)
    assert [(o.written, o.refused) for o in outcomes] == [(40, [])]
    assert len(written(client, version, "scores")) == 40


def test_told_to_stop_while_the_server_is_away_the_batch_fails(spark: SparkSession) -> None:
    stop = threading.Event()
    stop.set()
    elastic = Elastic(f"http://127.0.0.1:{free_port(0)}")
    with pytest.raises(ServiceUnavailable, match="the job was stopped"):
        write_all(frame(spark, [score("v", 0)]), elastic, QUICK, stop.wait)


@pytest.mark.parametrize("fault", [401, 403, 429, 503, CUT])
def test_templates_wait_for_a_server_that_refuses(url: str, client: Elasticsearch, version: str, fault: int) -> None:
    calls: list[float] = []

    def prepare(connected: Elasticsearch) -> None:
        ensure_templates(connected, version, live=False)

    with FaultyProxy(url) as faulty:
        faulty.fault = fault

        def stopping(seconds: float) -> bool:
            calls.append(seconds)
            if len(calls) == 3:
                faulty.fault = None
            return never(seconds)

        prepare_when_available(Elastic(faulty.url), prepare, QUICK, stopping)
        assert len(calls) >= 3
    found = client.indices.get_index_template(name=f"kappa-scores-{version}")
    assert [template["name"] for template in found["index_templates"]] == [f"kappa-scores-{version}"]


def test_a_cluster_that_comes_back_empty_gets_its_templates_again(
    spark: SparkSession, url: str, client: Elasticsearch, version: str
) -> None:
    def prepare(connected: Elasticsearch) -> None:
        ensure_templates(connected, version, live=False)

    topics = {"late": "late", "dead-letters": "dead-letters"}
    is_prepared = partial(has_templates, version=version)
    write = make_sink(
        topics,
        Elastic(url),
        Kafka("nowhere"),
        stopping=never,
        parameters=QUICK,
        prepare=prepare,
        is_prepared=is_prepared,
    )
    write(frame(spark, [score(version, 0)]), 0)
    drop_version(client, version)
    with capture_logs() as logged:
        write(frame(spark, [score(version, 1)]), 1)
    assert set(written(client, version, "scores")) == {"s1"}, "found under the alias"
    assert [one["event"] for one in logged if one["log_level"] == "warning"] == [
        "index templates are gone from Elasticsearch, and put again"
    ]


def test_a_template_that_the_server_refuses_holds_up_the_job_and_ends_nothing(url: str) -> None:
    waits = iter([False] * 5 + [True])

    def wrong(connected: Elasticsearch) -> None:
        connected.indices.put_index_template(name="kappa-wrong", index_patterns=[])

    with capture_logs() as logged, pytest.raises(ServiceUnavailable, match="stopped while it waited"):
        prepare_when_available(Elastic(url), wrong, QUICK, lambda seconds: next(waits))
    assert "answers 400" in logged[0]["why"]


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(Elastic("http://x", "me", password="hidden", api_key="hidden"))


def novelty(n: int, **more: Any) -> dict[str, Any]:
    return {
        "record": "episode",
        "id": f"{n:020x}",
        "series": f"gauge/vm-{n}/web/latency",
        "kind": "anomaly",
        "status": "open",
        "start": NIGHT,
        "window_end": NIGHT,
        "score": 15.0,
        "evidence": 20.0,
        "reason": "slow",
        "host": f"vm-{n}",
        "service": "web",
        "metric": "latency",
        **more,
    }


@dataclass
class IndexedVersion:
    """A version with topics of its own, and the job that indexes it."""

    spark: SparkSession
    kafka: str
    url: str
    version: str

    @property
    def topics(self) -> dict[str, str]:
        kinds = ("scores", "novelties", "incidents", "late", "dead-letters", "labels", "deliveries", "early")
        return {kind: f"{kind}.{self.version}" for kind in kinds}

    def publish(self, kind: str, values: Iterable[bytes], headers: list[tuple[str, bytes]] | None = None) -> None:
        producer = KafkaProducer(bootstrap_servers=self.kafka)
        for value in values:
            producer.send(self.topics[kind], value, headers=headers)
        producer.flush()
        producer.close()

    def dead_letters(self, number: int) -> list[Any]:
        """The first records of the topic."""
        consumer = KafkaConsumer(
            self.topics["dead-letters"],
            bootstrap_servers=self.kafka,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        try:
            return list(islice(consumer, number))
        finally:
            consumer.close()

    def index(self, checkpoint: Path) -> None:
        """Run the job over all that is in its topics now."""
        kafka = Kafka(self.kafka)
        write = make_sink(self.topics, Elastic(self.url), kafka, stopping=never, parameters=QUICK)
        inputs = (Input(tuple(self.topics.values()), headers=True),)
        job = Job("index", inputs, partial(documents, version=self.version, topics=self.topics), str(checkpoint), write)
        start(self.spark, kafka, job, {"availableNow": True}).awaitTermination()


@pytest.fixture
def deployment(spark: SparkSession, stack: Addresses, url: str, version: str) -> IndexedVersion:
    """A deployment whose topics are there and empty."""
    assert stack.kafka is not None
    found = IndexedVersion(spark, stack.kafka, url, version)
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka)
    admin.create_topics([NewTopic(name, 2, 1) for name in found.topics.values()])
    admin.close()
    return found


def test_the_job_indexes_the_log_and_a_refused_document_becomes_a_dead_letter(
    deployment: IndexedVersion, client: Elasticsearch, tmp_path: Path
) -> None:
    year_10000 = 253_402_300_800_000  # no date of an event
    watermark = {"record": "watermark", "watermark": NIGHT, "shard": 0, "shards": 8}
    values = [novelty(0), novelty(1, start=year_10000), watermark, novelty(2), novelty(0, status="close")]
    deployment.publish("novelties", [json.dumps(v).encode() for v in values])
    deployment.publish("incidents", [b"junk"])
    deployment.publish("late", [b"{}"], [("kappa.topic", b"telemetry"), ("kappa.offset", b"42")])

    deployment.index(tmp_path / "checkpoint")

    found = written(client, deployment.version, "novelties")
    assert {k: v["novelty"]["status"] for k, v in found.items()} == {f"{0:020x}": "close", f"{2:020x}": "open"}
    (late,) = written(client, deployment.version, "pipeline").values()
    assert (late["pipeline"]["topic"], late["pipeline"]["offset"]) == ("telemetry", 42)
    dead = {bytes(r.value): {k: v.decode() for k, v in r.headers} for r in deployment.dead_letters(2)}
    junk = dead.pop(b"junk")
    assert (junk["kappa.reason"], junk["kappa.topic"]) == ("not a record of this topic", deployment.topics["incidents"])
    ((document, headers),) = dead.items()
    assert json.loads(document)["start"] == year_10000
    assert headers["kappa.reason"] == "not a record of this topic"
    assert headers["kappa.stage"] == "index"

    # The dead letters are indexed in turn, and make no more of them.
    deployment.index(tmp_path / "checkpoint")
    documents = written(client, deployment.version, "pipeline").values()
    assert sorted(d["event"]["dataset"] for d in documents) == [
        "kappa.dead-letters",
        "kappa.dead-letters",
        "kappa.late",
    ]


def test_the_job_run_again_from_the_beginning_gives_the_same_documents(
    deployment: IndexedVersion, client: Elasticsearch, tmp_path: Path
) -> None:
    ends = ((0, "open"), (10_000, "close"))
    events = [novelty(n, status=status, window_end=NIGHT + later) for n in range(5) for later, status in ends]
    deployment.publish("novelties", [json.dumps(v).encode() for v in events])
    deployment.index(tmp_path / "first")
    before = written(client, deployment.version, "novelties")
    assert [d["novelty"]["status"] for d in before.values()] == ["close"] * 5
    deployment.index(tmp_path / "second")
    assert written(client, deployment.version, "novelties") == before


def test_a_label_that_is_indexed_twice_is_one_document_and_one_that_is_refused_becomes_a_dead_letter(
    deployment: IndexedVersion, client: Elasticsearch, tmp_path: Path
) -> None:
    label = {"label": "true", "series": ["host/vm-1"], "incident": deployment.version, "host": ["vm-1"]}
    values = [label, {"record": "heartbeat"}, label | {"start": "yesterday"}]
    deployment.publish("labels", [json.dumps(v).encode() for v in values])
    deployment.index(tmp_path / "first")
    deployment.index(tmp_path / "second")
    client.indices.refresh(index="kappa-labels")
    found = client.search(index="kappa-labels", query={"term": {"label.incident": deployment.version}})["hits"]["hits"]
    assert [hit["_source"]["label"]["label"] for hit in found] == ["true"]
    (letter, *_) = deployment.dead_letters(1)
    headers = {k: v.decode() for k, v in letter.headers}
    assert (headers["kappa.stage"], headers["kappa.topic"]) == ("index", deployment.topics["labels"])
    assert "failed to parse field [event.start]" in headers["kappa.reason"]


def serves(version: str) -> Serving:
    return Serving((ServingInterval(version),))


def test_a_version_is_live_when_it_is_told_so_and_its_later_indices_are_too(
    spark: SparkSession, url: str, client: Elasticsearch, unique: str
) -> None:
    old, new = f"{unique}-a", f"{unique}-b"
    try:
        for version in (old, new):
            ensure_templates(client, version, live=False)
            write_all(frame(spark, [score(version, 0)]), Elastic(url), QUICK, never)
        aliases.point_live_aliases(client, serves(old))
        assert set(client.indices.get_alias(name="kappa-scores")) == {f"kappa-scores-{old}-{DAY}"}
        aliases.point_live_aliases(client, serves(new))
        assert set(client.indices.get_alias(name="kappa-scores")) == {f"kappa-scores-{new}-{DAY}"}
        for version in (old, new):
            client.index(index=f"kappa-scores-{version}-2026.11.22", document={"@timestamp": NIGHT})
        assert set(client.indices.get_alias(name="kappa-scores")) == {
            f"kappa-scores-{new}-{DAY}",
            f"kappa-scores-{new}-2026.11.22",
        }
        assert {old, new} <= versions_with_templates(client)
    finally:
        dropped = drop_version(client, old) + drop_version(client, new)
    assert len(dropped) == 4
    assert not {old, new} & versions_with_templates(client)


def decided(kind: str, at: int, status: str) -> dict[str, Any]:
    """A document of a kind whose last event has this window end."""
    if kind in ("scores", "pipeline"):
        return {"@timestamp": at}
    return {"@timestamp": NIGHT, "novelty": {"status": status, "window_end": at}}


def test_each_moment_is_shown_of_one_version_and_of_later_indices_too(client: Elasticsearch, unique: str) -> None:
    old, new = f"{unique}-a", f"{unique}-b"
    hour = 3_600_000
    moments = [(NIGHT + n * hour // 2, status) for n in range(10) for status in ("open", "update", "close")]
    there = Serving((ServingInterval(old),)).then(new, NIGHT + hour)
    back = there.then(old, NIGHT + 3 * hour)
    try:
        for version in (old, new):
            ensure_templates(client, version, live=False)
        for day, terms in ((DAY, there), ("2026.11.22", back)):  # the second day's indices come from the templates
            for version in (old, new):
                for kind in INDEX_KINDS:
                    for n, (at, status) in enumerate(moments):
                        client.index(
                            index=f"kappa-{kind}-{version}-{day}", id=f"{n}", document=decided(kind, at, status)
                        )
            aliases.point_live_aliases(client, terms)
            client.indices.refresh(index=f"*-{unique}-*")
            for kind in INDEX_KINDS:
                hits = client.search(index=f"kappa-{kind}", size=1_000)["hits"]["hits"]
                own = [
                    hit for hit in hits if hit["_index"].startswith(f"kappa-{kind}-{unique}") and day in hit["_index"]
                ]
                assert sorted(int(hit["_id"]) for hit in own) == list(range(len(moments))), kind
                assert {hit["_index"].split("-")[3] for hit in own} == {"a", "b"}
        assert aliases.point_live_aliases(client, back) == 16
        alone = Serving((ServingInterval(new),))
        aliases.point_live_aliases(client, alone)
        shown = client.indices.get_alias(name="kappa-novelties")
        assert {name: found["aliases"]["kappa-novelties"] for name, found in shown.items()} == {
            f"kappa-novelties-{new}-{day}": {} for day in (DAY, "2026.11.22")
        }, "an alias that was filtered is not any more"
    finally:
        drop_version(client, old)
        drop_version(client, new)


def test_who_comes_after_a_promotion_that_was_broken_off_lets_the_aliases_follow(
    client: Elasticsearch, unique: str, tmp_path: Path
) -> None:
    old, new = f"{unique}-a", f"{unique}-b"
    settings = Settings(home=tmp_path, version=new)
    try:
        for version in (old, new):
            ensure_templates(client, version, live=False)
            client.index(index=f"kappa-scores-{version}-{DAY}", document=decided("scores", NIGHT, ""))
        aliases.point_live_aliases(client, Serving((ServingInterval(old),)))
        serving.write(tmp_path, Serving((ServingInterval(old),)).then(new, NIGHT - 1))  # and then it was killed
        aliases.prepare_indices(client, settings)
        assert serving.read(tmp_path).aliased
        client.indices.refresh(index=f"kappa-scores-{unique}-*")
        hits = client.search(index="kappa-scores", size=1_000)["hits"]["hits"]
        assert [h["_index"] for h in hits if unique in h["_index"]] == [f"kappa-scores-{new}-{DAY}"]
        client.indices.put_alias(
            index=f"kappa-scores-{old}-{DAY}", name="kappa-scores"
        )  # what has followed is left alone
        aliases.prepare_indices(client, settings)
        assert (
            client.indices.get_alias(index=f"kappa-scores-{old}-{DAY}")[f"kappa-scores-{old}-{DAY}"]["aliases"][
                "kappa-scores"
            ]
            == {}
        )
    finally:
        drop_version(client, old)
        drop_version(client, new)


def test_a_version_whose_name_begins_like_another_has_its_own_templates(client: Elasticsearch, unique: str) -> None:
    short, long = unique, f"{unique}-2"
    try:
        for version in (short, long):
            ensure_templates(client, version, live=False)
            client.index(index=f"kappa-novelties-{version}-{DAY}", document={"@timestamp": NIGHT})
        assert set(client.indices.get_alias(name=f"kappa-novelties-{short}")) == {f"kappa-novelties-{short}-{DAY}"}
        assert set(client.indices.get_alias(name=f"kappa-novelties-{long}")) == {f"kappa-novelties-{long}-{DAY}"}
    finally:
        drop_version(client, short)
        drop_version(client, long)


@pytest.mark.parametrize(
    ("kind", "group", "field"),
    [
        ("scores", "novelty", "template"),
        (LABELS, "label", "author"),
        (DELIVERIES, "delivery", "why"),
        (EARLY, "alarm", "template"),
    ],
)
def test_an_index_of_a_release_with_fewer_fields_gets_those_it_lacks(
    client: Elasticsearch, unique: str, kind: str, group: str, field: str
) -> None:
    fields = {name: of for name, of in PROPERTIES[kind][group]["properties"].items() if name != field}
    fewer = {**PROPERTIES[kind], group: {**PROPERTIES[kind][group], "properties": fields}}
    alias = alias_of(kind) if kind in SHARED else alias_of(kind, unique)
    # No template is for this name, and no other test writes to it.
    index, document = f"odd-{unique}-{kind}", {"@timestamp": NIGHT, group: {field: "worker <*> lost"}}
    client.indices.create(index=index, mappings={"dynamic": "strict", "properties": fewer}, aliases={alias: {}})
    try:
        with pytest.raises(BadRequestError, match="strict_dynamic_mapping"):
            client.index(index=index, document=document)
        ensure_templates(client, unique, live=False)
        assert client.index(index=index, document=document)["result"] == "created"
    finally:
        client.indices.delete(index=index)
        drop_version(client, unique)


def test_new_indices_have_the_copies_and_shards_of_the_settings(client: Elasticsearch, unique: str) -> None:
    wanted = ElasticsearchSettings(replicas=2, score_shards=3)
    ensure_templates(client, unique, live=False, settings=wanted)
    try:
        for kind, shards in (("scores", "3"), ("novelties", "1")):
            index = f"kappa-{kind}-{unique}-{DAY}"
            client.indices.create(index=index, wait_for_active_shards="0")
            found = client.indices.get_settings(index=index)[index]["settings"]["index"]
            assert (found["number_of_shards"], found["number_of_replicas"]) == (shards, "2")
    finally:
        drop_version(client, unique)


def test_templates_do_without_lifecycles_where_the_server_has_none(client: Elasticsearch, unique: str) -> None:
    assert not has_lifecycles(client)
    ensure_templates(client, unique, live=False, settings=ElasticsearchSettings(retention_days=7))
    ensure_templates(client, unique, live=False, settings=ElasticsearchSettings(retention_days=7))
    assert unique in versions_with_templates(client)
    drop_version(client, unique)


def test_a_server_that_is_away_is_an_error_of_one_line() -> None:
    with Elasticsearch(f"http://127.0.0.1:{free_port(0)}", max_retries=0) as nobody:
        for does in (
            lambda: ensure_templates(nobody, "v", live=False),
            lambda: aliases.point_live_aliases(nobody, serves("v")),
        ):
            with pytest.raises(ServiceUnavailable) as error:
                does()
            assert "\n" not in str(error.value)


def test_indices_of_a_release_without_the_prefix_are_found_and_copied_once(
    tmp_path: Path, client: Elasticsearch, unique: str
) -> None:
    version, settings = f"old{unique}", Settings(home=tmp_path)
    old, foreign = f"novelties-{version}-{DAY}", f"scores-{unique}-{DAY}"
    new, lines = f"kappa-{old}", list[str]()
    client.indices.create(index=foreign, aliases={f"scores-{unique}": {}})  # another program's
    client.indices.create(
        index=old,
        mappings={"dynamic": "strict", "properties": PROPERTIES["novelties"]},
        aliases={f"novelties-{version}": {}},
    )
    try:
        assert old_names.old_indices(client) == [old]
        with pytest.raises(InputError, match=rf"1 indices .*{old}.*kappa indices rename"):
            old_names.refuse_old_names(client)
        for n in range(3):
            document = {"@timestamp": NIGHT, "message": f"old {n}"}
            client.index(index=old, id=f"{n}", document=document, version=40 + n, version_type="external")
        client.indices.refresh(index=old)
        ensure_templates(client, version, live=False)
        newer = {"@timestamp": NIGHT, "message": "newer"}  # what the job has written meanwhile
        client.index(index=new, id="1", document=newer, version=50, version_type="external")
        assert old_names.count_old_documents(client) == {new: 3} and client.indices.exists(index=old)
        assert old_names.rename_indices(client, settings, lines.append) == {new: 3}
        client.indices.refresh(index=new)
        hits = client.search(index=f"kappa-novelties-{version}", version=True)["hits"]["hits"]
        assert {(h["_id"], h["_version"], h["_source"]["message"]) for h in hits} == {
            ("0", 40, "old 0"),
            ("1", 50, "newer"),
            ("2", 42, "old 2"),
        }
        assert client.indices.exists(index=foreign) and not client.indices.exists(index=old)
        assert (
            old_names.rename_indices(client, settings, lines.append) == old_names.count_old_documents(client) == {}
            and len(lines) == 1
        )
        old_names.refuse_old_names(client)
    finally:
        client.options(ignore_status=404).indices.delete(index=f"{old},{new},{foreign}", ignore_unavailable=True)
        drop_version(client, version)
