"""`kappa doctor`: each check by what it finds, and that none can end or hold up another."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.commands import answer, kappa

from app.core.file_lock import file_lock
from app.core.java_size import bytes_of
from app.core.settings import (
    FEW,
    INPUTS,
    EarlySettings,
    ElasticsearchSettings,
    KafkaSettings,
    SavepointSettings,
    Settings,
)
from app.doctor import deployment, early_lane, log, machine, patience, search
from app.doctor.examination import LIMIT_SECONDS, examine
from app.doctor.finding import Finding, Status, danger, ok, warning
from app.doctor.log import KafkaState, TopicState, UnreadRecords
from app.early.settlement import Settlement
from app.kafka.topics import required_topics
from app.notify.service import lock_of
from app.runtime import state_server
from app.runtime.health import Health, HealthServer
from app.versions import violations
from models.records.records import EarlyAlarm, early_id
from pipelines.errors import DeterminismViolation, InputError

NOON = 1_767_614_400_000
HOUR = 3_600_000
GIB = 2**30


def worst(found: list[Finding]) -> Status:
    return min(one.status for one in found)


# --- all together


def test_the_most_dangerous_comes_first_and_no_check_ends_another(tmp_path: Path) -> None:
    def fails(_: Settings) -> list[Finding]:
        msg = "no"
        raise InputError(msg)

    checks = {
        "fine": lambda _: [ok("fine", "yes")],
        "fails": fails,
        "so so": lambda _: [warning("so so", "a", "b", "c")],
        "bad": lambda _: [danger("bad", "a", "b", "c")],
    }
    found = examine(Settings(home=tmp_path), checks)
    assert [one.check for one in found] == ["fails", "bad", "so so", "fine"]
    assert found[0].found == "no"


def test_a_check_that_hangs_is_a_danger_and_the_others_answer(tmp_path: Path) -> None:
    never = threading.Event()
    checks = {"hangs": lambda _: [ok("never", str(never.wait()))], "fine": lambda _: [ok("fine", "yes")]}
    found = examine(Settings(home=tmp_path), checks, limit_seconds=0.3)
    assert [(one.check, one.status) for one in found] == [("hangs", Status.DANGER), ("fine", Status.OK)]
    never.set()


def test_each_job_of_this_machine_that_is_not_healthy_is_a_danger(tmp_path: Path) -> None:
    settings, health = Settings(home=tmp_path), Health(stale_seconds=0.0)
    assert deployment.jobs(settings) == [ok("jobs", "none runs on this machine")]
    health.runs(settings.version)
    with (
        HealthServer(health, "127.0.0.1", 0) as server,
        state_server.announced(settings, server.address, ["detect"]),
    ):
        health.expect("detect")
        health.on_progress("extract", {"stateOperators": [{"numRowsDroppedByWatermark": 2}]})
        found = {one.found: one.status for one in deployment.jobs(settings)}
        assert found == {
            "detect: it makes no progress": Status.DANGER,
            "extract: the watermark dropped rows": Status.DANGER,
        }
        other = settings.model_copy(update={"version": "v2"})
        assert worst(deployment.jobs(other)) is Status.OK, "they are of another version"
    health = Health(stale_seconds=60.0)
    health.expect("detect")
    with (
        HealthServer(health, "127.0.0.1", 0) as server,
        state_server.announced(settings, server.address, ["detect"]),
    ):
        assert deployment.jobs(settings) == [ok("jobs", "healthy: detect")]


def test_the_command_works_when_nothing_runs(tmp_path: Path) -> None:
    file = tmp_path / "kappa.toml"
    file.write_text(f'home = "{tmp_path / "home"}"\njar_folder = "{tmp_path}"\n')
    status, out, _ = answer(kappa("doctor", "--config", str(file), "--json"))
    assert status == 1
    found = json.loads(out)
    by_check = {one["check"]: one["status"] for one in found["findings"]}
    assert by_check["Kafka"] == by_check["Elasticsearch"] == "danger"
    assert by_check["version"] == "ok"
    assert found["dangers"] >= 2


def test_a_file_of_authorities_that_is_not_there_is_what_is_found_of_its_server(tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", security_protocol="SSL", ssl_cafile=none)
    elasticsearch = ElasticsearchSettings(url="https://127.0.0.1:1", ca_certs=none)
    settings = Settings(home=tmp_path, kafka=kafka, elasticsearch=elasticsearch)
    found = examine(settings, {"kafka": log.kafka, "elasticsearch": search.elasticsearch})
    for one, setting in zip(found, ("kafka.ssl_cafile", "elasticsearch.ca_certs"), strict=True):
        assert one.status is Status.DANGER and f"{setting} = {none} cannot be" in one.found
    assert found[0].found.endswith("kafka.ssl_key_password if it has one")


def test_checkpoints_are_checked_also_where_a_file_of_authorities_is_not_there(tmp_path: Path) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", security_protocol="SSL", ssl_cafile=tmp_path / "none.pem")
    settings = Settings(home=tmp_path, kafka=kafka)
    assert [one.status for one in deployment.checkpoints(settings)] == [Status.OK]
    torn = settings.checkpoint("detect") / "offsets" / "0"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"")
    (found,) = deployment.checkpoints(settings)
    assert found.status is Status.DANGER and str(settings.checkpoint("detect")) in found.found


# --- this machine and the settings


@pytest.mark.parametrize(
    ("free", "share", "status"),
    [
        (GIB // 2, 0.5, Status.DANGER),
        (50 * GIB, 0.03, Status.DANGER),
        (50 * GIB, 0.1, Status.WARNING),
        (50 * GIB, 0.4, Status.OK),
    ],
)
def test_disk(free: int, share: float, status: Status) -> None:
    assert machine.disk_finding("/x", free, share, "").status is status


@pytest.mark.parametrize(("heap", "status"), [("2g", Status.OK), ("6g", Status.WARNING), ("8g", Status.DANGER)])
def test_memory(heap: str, status: Status) -> None:
    assert machine.memory_finding(bytes_of(heap), 8 * GIB).status is status


@pytest.mark.parametrize(
    ("most", "status"), [(256, Status.DANGER), (1024, Status.WARNING), (65536, Status.OK), (-1, Status.OK)]
)
def test_open_files(most: int, status: Status) -> None:
    assert machine.files_finding(most).status is status


def test_cores_and_sizes() -> None:
    assert machine.cores_finding(1).status is Status.WARNING
    assert machine.cores_finding(2).status is Status.OK
    assert [bytes_of(size) for size in ("1024", "512m", "4G", "2gb")] == [1024, GIB // 2, 4 * GIB, 2 * GIB]


def test_home_that_others_can_read(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    tmp_path.chmod(0o755)
    assert worst(machine.rights(settings)) is Status.WARNING
    tmp_path.chmod(0o700)
    assert worst(machine.rights(settings)) is Status.OK
    assert worst(machine.rights(Settings(home=tmp_path / "nowhere"))) is Status.WARNING


def test_a_file_with_a_secret_that_others_can_read(tmp_path: Path) -> None:
    file = tmp_path / "kappa.toml"
    file.write_text('[kafka]\nsasl_password = "x"\n')
    settings = Settings(home=tmp_path)
    file.chmod(0o644)
    assert worst(machine.secret_files(settings, file)) is Status.DANGER
    file.chmod(0o600)
    assert worst(machine.secret_files(settings, file)) is Status.OK
    file.chmod(0o644)
    for text, found in (
        ("[kafka]\nssl_cafile = 'ca.pem'\n", Status.OK),
        ("[notify.channels.pager]\nkind = 'alertmanager'\nurl = 'http://127.0.0.1:9093'\n", Status.OK),
        ("[notify.channels.chat]\nkind = 'apprise'\n", Status.OK),  # its address is in the environment
        ("[notify.channels.chat]\nkind = 'apprise'\nurl = 'slack://a/b/c'\n", Status.DANGER),
        ("[notify.channels.w]\nkind = 'webhook'\nheaders = {Authorization = 'x'}\n", Status.DANGER),
        ("[notify.channels.ops]\nkind = 'alertmanager'\nheaders = {Authorization = 'x'}\n", Status.DANGER),
        ("[notify.channels.ops]\nkind = 'alertmanager'\nurl = 'https://ann:x@alerts.example.net'\n", Status.DANGER),
    ):
        file.write_text(text)
        assert worst(machine.secret_files(settings, file)) is found, text


def test_connections_without_encryption_to_other_machines(tmp_path: Path) -> None:
    def of(servers: str, protocol: str = "PLAINTEXT", health: str = "127.0.0.1", ops: str = "127.0.0.1") -> Status:
        kafka = KafkaSettings.model_validate({"bootstrap_servers": servers, "security_protocol": protocol})
        channels = {"ops": {"kind": "alertmanager", "url": f"http://{ops}:9093"}}
        own = {"home": tmp_path, "kafka": kafka, "notify": {"channels": channels}}
        return worst(machine.plain_text(Settings.model_validate(own | {"health": {"port": 1, "host": health}})))

    assert of("127.0.0.1:9092,localhost:9093") is Status.OK
    assert of("PLAINTEXT://127.0.0.1:9092") is Status.OK
    assert of("127.0.0.1:9092", ops="alerts.example.net") is Status.WARNING, "a channel is a connection, too"
    assert of("127.0.0.1:9092,kafka.example.net:9092") is Status.DANGER
    assert of("kafka.example.net:9093", "SSL") is Status.OK
    assert of("127.0.0.1:9092", health="0.0.0.0") is Status.WARNING


def test_channels_that_nobody_sends_to(tmp_path: Path) -> None:
    channels = {"chat": {"kind": "webhook", "url": "http://127.0.0.1:9/"}}
    assert worst(deployment.notifications(Settings(home=tmp_path))) is Status.OK
    settings = Settings.model_validate({"home": tmp_path, "notify": {"channels": channels}})
    lock = lock_of(tmp_path)
    lock.parent.mkdir(parents=True)
    assert worst(deployment.notifications(settings)) is Status.DANGER
    with file_lock(lock, 1.0) as held:
        assert held
        assert worst(deployment.notifications(settings)) is Status.OK


# --- Kafka


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def partition(**changes: Any) -> Mapping[str, Any]:
    return {"leader_id": 1, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3], **changes}


def findings_of(settings: Settings, config: dict[str, str] | None = None, **changes: Any) -> list[Finding]:
    """Findings about the topic telemetry, which is as it should be but for the changes."""
    topic = required_topics(settings)[0]
    whole = topic.config | {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "retention.bytes": "-1",
    }
    parts = changes.pop("parts", [partition()] * topic.partitions)
    return log.topic_findings(settings, topic, TopicState(tuple(parts), whole | (config or {}), **changes))


def test_a_topic_as_it_should_be(settings: Settings) -> None:
    assert worst(findings_of(settings)) is Status.OK
    assert worst(findings_of(settings, rights=frozenset({"READ", "WRITE", "DESCRIBE", "ALTER"}))) is Status.OK


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"config": {"message.timestamp.type": "CreateTime"}}, Status.DANGER),
        ({"config": {"cleanup.policy": "compact"}}, Status.DANGER),
        ({"config": {"retention.ms": "3600000"}}, Status.WARNING),
        ({"config": {"retention.ms": "-1"}}, Status.OK),
        ({"config": {"retention.ms": str(500 * HOUR)}}, Status.WARNING),
        ({"config": {"retention.bytes": "1000"}}, Status.WARNING),
        ({"config": {"max.message.bytes": "1000"}}, Status.DANGER),
        ({"config": {"compression.type": "gzip"}}, Status.WARNING),
        ({"config": {"min.insync.replicas": "1"}}, Status.WARNING),
        ({"config": {"min.insync.replicas": "4"}}, Status.DANGER),
        ({"config": {"unclean.leader.election.enable": "true"}}, Status.DANGER),
        ({"parts": [partition()]}, Status.DANGER),
        ({"parts": [partition(), partition(leader_id=-1)]}, Status.DANGER),
        ({"parts": [partition(), partition(isr_nodes=[1])]}, Status.WARNING),
        ({"rights": frozenset({"READ", "DESCRIBE"})}, Status.DANGER),
    ],
)
def test_a_topic_that_is_not(settings: Settings, changes: dict[str, Any], status: Status) -> None:
    assert worst(findings_of(settings, **changes)) is status


def test_rules_that_would_be_compacted_before_the_other_inputs_are_gone_are_a_danger(settings: Settings) -> None:
    (rules,) = (topic for topic in required_topics(settings) if topic.name == "rules")
    config = rules.config | {"min.compaction.lag.ms": "0"}
    found = log.topic_findings(settings, rules, TopicState((partition(),), config, rights=None))
    assert ("min.compaction.lag.ms 0", Status.DANGER) in [(one.found, one.status) for one in found]


def test_each_setting_that_a_topic_is_created_with_is_compared(settings: Settings) -> None:
    """Such as `segment.ms` of rules: of a segment that is written to for a year nothing is compacted for a year."""
    for topic in required_topics(settings):
        for name in topic.config:
            config = topic.config | {name: "1"}
            found = log.topic_findings(settings, topic, TopicState((partition(),), config, rights=None))
            assert any(one.found.startswith(f"{name} 1") for one in found), (topic.name, name)


@pytest.mark.parametrize("kind", INPUTS)
def test_what_people_write_in_larger_batches_than_topics_are_created_with_is_a_danger(
    settings: Settings, kind: str
) -> None:
    (topic,) = (topic for topic in required_topics(settings) if topic.name == kind)
    most = int(topic.config["max.message.bytes"])
    assert most == {"labels": 327_680, "rules": 131_072}.get(kind, 2 << 20)
    parts = (partition(replica_nodes=[1], isr_nodes=[1]),) * topic.partitions
    for size in (most, most + 1, 2**31 - 1):
        config = topic.config | {"max.message.bytes": str(size)}
        found = log.topic_findings(settings, topic, TopicState(parts, config, rights=None))
        bad = size > most and kind in FEW
        assert [one.found for one in found if one.status is Status.DANGER] == [f"max.message.bytes {size}"] * bad
        assert all(f"--entity-name {kind} --add-config max.message.bytes={most}:" in one.advice for one in found if bad)


def test_a_topic_that_is_missing(settings: Settings) -> None:
    (found,) = log.topic_findings(settings, required_topics(settings)[0], None)
    assert found.status is Status.DANGER
    assert "topics create" in found.advice
    other = settings.model_copy(update={"version": "other"})
    advice = {one.name: log.topic_findings(other, one, None)[0].advice for one in required_topics(other)}
    assert "topics create" in advice["telemetry"]
    assert advice["scores.other"].startswith(
        "`kappa run` or `kappa replay` with --version other makes it; check the name"
    )


def state(**changes: Any) -> KafkaState:
    return dataclasses.replace(KafkaState((4, 0), 3, {}, {}, {("telemetry", 0): NOON - 500}), **changes)


def test_one_broker_old_brokers_clocks_and_heartbeats(settings: Settings) -> None:
    assert worst(log.brokers(settings, state())) is Status.OK
    assert worst(log.brokers(settings, state(brokers=1))) is Status.WARNING
    assert worst(log.brokers(settings, state(version=(2, 7)))) is Status.WARNING
    for at, status in ((NOON - 500, Status.OK), (NOON - HOUR, Status.WARNING), (NOON + 20_000, Status.DANGER)):
        assert worst(log.arrivals(settings, state(newest={("telemetry", 0): at}), NOON)) is status
    busy = {"newest": {("telemetry", 0): -1}, "ends": {("telemetry", 0): 7}}
    assert worst(log.arrivals(settings, state(**busy), NOON)) is Status.OK, "its latest record is being replicated"
    assert worst(log.arrivals(settings, state(newest={("telemetry", 0): -1}), NOON)) is Status.WARNING


@pytest.mark.parametrize(
    ("hours", "status"), [(1, Status.OK), (200, Status.WARNING), (330, Status.DANGER), (999, Status.DANGER)]
)
def test_lag_is_as_bad_as_retention_is_near(settings: Settings, hours: int, status: Status) -> None:
    some = UnreadRecords(10, "statistics", 336 * HOUR)
    assert log.lag_finding(settings, "detect", some, NOON - hours * HOUR, NOON).status is status
    assert log.lag_finding(settings, "detect", UnreadRecords(0), NOON - hours * HOUR, NOON).status is Status.OK


@pytest.mark.parametrize(("hours", "status"), [(0, Status.OK), (5, Status.OK), (7, Status.DANGER)])
def test_a_job_that_keeps_up_is_in_no_danger_where_the_log_keeps_less_than_a_day(
    settings: Settings, hours: int, status: Status
) -> None:
    some = UnreadRecords(10, "statistics", 12 * HOUR)
    assert log.lag_finding(settings, "detect", some, NOON - hours * HOUR, NOON).status is status


def test_how_long_the_log_keeps_what_a_job_has_not_read_is_what_its_topics_say_and_not_the_settings(
    tmp_path: Path,
) -> None:
    settings = Settings.model_validate(
        {"home": tmp_path, "topics": {"retention_hours": 720}}
    )  # raised, the topic is not
    folder = settings.checkpoint("correlate")
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    about = json.dumps({"batchTimestampMs": NOON - 70 * HOUR})
    (folder / "offsets" / "3").write_text(
        f"v1\n{about}\n{json.dumps({'novelties': {'0': 5, '1': 5}, 'late': {'0': 9}})}"
    )
    (folder / "commits" / "3").write_text("v1\n{}")
    configs = {"novelties": 72, "late": 1}  # of the second all has been read
    found = state(
        topics={name: TopicState((), {"retention.ms": str(hours * HOUR)}) for name, hours in configs.items()},
        ends={("novelties", 0): 10, ("novelties", 1): 5, ("late", 0): 9},
    )
    [finding] = log.lags(settings, found, NOON)
    assert finding.status is Status.DANGER
    assert "5 records; 2 h until novelties deletes the oldest" in finding.found
    assert f"--entity-name novelties --add-config retention.ms={144 * HOUR}" in finding.advice
    for_ever = dataclasses.replace(found, topics={"novelties": TopicState((), {"retention.ms": "-1"})})
    assert worst(log.lags(settings, for_ever, NOON)) is Status.OK


# --- Elasticsearch


@pytest.mark.parametrize(
    ("health", "nodes", "replicas", "status"),
    [
        ("green", 1, 0, Status.OK),
        ("yellow", 1, 1, Status.WARNING),
        ("green", 3, 0, Status.WARNING),
        ("red", 3, 1, Status.DANGER),
    ],
)
def test_health_of_indices(health: str, nodes: int, replicas: int, status: Status) -> None:
    assert search.health_finding(health, nodes, replicas).status is status


@pytest.mark.parametrize(
    ("free", "apart", "status"),
    [(50, 0, Status.OK), (10, 0, Status.WARNING), (3, 0, Status.DANGER), (50, 60_000, Status.WARNING)],
)
def test_disks_and_clocks_of_nodes(free: int, apart: int, status: Status) -> None:
    node = {
        "name": "n",
        "timestamp": NOON - apart,
        "fs": {"total": {"total_in_bytes": 100, "available_in_bytes": free}},
    }
    assert worst(search.node_findings(node, NOON)) is status


def test_versions_and_blocks() -> None:
    assert search.version_finding("9.2.0").status is Status.OK
    assert search.version_finding("8.19.0").status is Status.OK
    assert {search.version_finding(one).status for one in ("7.17.0", "10.0.0")} == {Status.WARNING}
    assert search.blocked(["kappa-scores"]).status is Status.DANGER


# --- the version on its disk


def test_savepoints_are_recent_enough(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, savepoints=SavepointSettings(every="6h"))
    for hours, status in ((1, Status.OK), (11, Status.OK), (13, Status.WARNING)):
        assert deployment.savepoint_finding(settings, NOON - hours * HOUR, NOON).status is status
    assert deployment.savepoint_finding(settings, None, NOON).status is Status.WARNING
    off = Settings(home=tmp_path, savepoints=SavepointSettings(every="off"))
    assert deployment.savepoint_finding(off, NOON - 30 * HOUR, NOON).status is Status.OK
    assert worst(deployment.savepoints(settings)) is Status.OK, "a version that has not begun needs none"


def test_torn_files_and_a_recorded_violation(settings: Settings) -> None:
    assert worst(deployment.serves(settings)) is Status.OK
    assert worst(deployment.violation(settings)) is Status.OK
    file = settings.home / "versions" / "serving.json"
    file.parent.mkdir()
    file.write_text("{")
    assert worst(deployment.serves(settings)) is Status.DANGER
    violations.remember(settings, "detect", settings.checkpoint("detect"), DeterminismViolation("rows were dropped"))
    (found,) = deployment.violation(settings)
    assert found.status is Status.DANGER
    assert "rows were dropped" in found.found


# --- early alarms


def lane(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, early=EarlySettings(enabled=True))


def alarm_at(window_end: int) -> EarlyAlarm:
    series = "gauge/web-1//cpu"
    return EarlyAlarm(
        id=early_id(series, window_end), series=series, window_end=window_end, status="raised", event_time=window_end - 1,
        bound_window_end=window_end - 30_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("behind_s", "age_s", "runs", "text"),
    [
        (40, 20, True, ""),
        (40, 20, False, "no process"),
        (900, 20, True, "900 s behind"),
        (40, 400, True, "not settled in time: 1 alarm"),
    ],
)
def test_the_lane_of_early_alarms_runs_follows_and_settles(
    tmp_path: Path, behind_s: int, age_s: int, runs: bool, text: str
) -> None:
    own = Settlement(120_000)
    own.take_judged(NOON - 1000 * behind_s)
    own.take_alarm(alarm_at(NOON - 1000 * age_s), NOON)
    (found,) = early_lane.lane_findings(lane(tmp_path), own, NOON, runs=runs)
    assert found.status == (Status.WARNING if text else Status.OK) and text in found.found


def test_early_alarms_that_are_off_are_fine_and_where_spark_cannot_or_kafka_is_away_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst(early_lane.early_alarms(Settings(home=tmp_path))) == Status.OK
    assert patience.MOST_CONNECT_SECONDS < LIMIT_SECONDS / 2
    monkeypatch.setattr(patience, "MOST_CONNECT_SECONDS", 0.5)
    away = lane(tmp_path).model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:1")})
    (found,) = early_lane.early_alarms(away)
    assert found.status == Status.WARNING and "127.0.0.1:1" in found.found
    assert [one.found for one in deployment.checkpoints(away)] == [
        "whole; not compared with the log, as Kafka cannot be asked"
    ]
    monkeypatch.setattr("pipelines.jobs.early.has_real_time_mode", lambda: False)
    assert "no real-time mode" in early_lane.early_alarms(away)[0].found
